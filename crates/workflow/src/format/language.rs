//! Languages of inline code, and the runners of Python.

use cachalot_core::config::Settings;

/// The language of inline code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Python in the runner that [`PythonRunner::Auto`] stands for, or in the embedded interpreter.
    Python,
    /// Python in the user's own interpreter.
    Python3,
    /// Lua in the embedded interpreter.
    Lua,
}

/// The runner of Python code that names no other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
pub enum PythonRunner {
    /// The user's own interpreter where it can be put in a sandbox, else the embedded one.
    #[default]
    Auto,
    /// The user's own interpreter.
    Python3,
    /// The embedded interpreter.
    Embedded,
}

/// The choice of the runner of Python outside of the file.
#[derive(Clone, Copy)]
pub struct PythonChoice<'a> {
    /// The runner of the command, which overrides `settings.python.runner`.
    pub runner: Option<PythonRunner>,
    /// Returns true if [`PythonRunner::Auto`] stands for the user's own interpreter on this machine. Asked only if a
    /// file has Python code that depends on it.
    pub auto_is_python3: &'a dyn Fn() -> bool,
}

impl PythonChoice<'_> {
    /// The embedded interpreter, unless a file or a block asks for another one.
    pub const EMBEDDED: Self = Self {
        runner: None,
        auto_is_python3: &|| false,
    };
}
