//! Output streams of programs.

use std::fmt;

/// The outputs of a program that are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Stdout and stderr, each in a pipe of its own.
    Separate,
    /// Stdout and stderr in one pipe, in the order of writing; reported as [`Stream::Stdout`].
    Merged,
    /// Stdout only; stderr is discarded.
    StdoutOnly,
}

/// An output of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The standard output.
    Stdout,
    /// The standard error output.
    Stderr,
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        })
    }
}
