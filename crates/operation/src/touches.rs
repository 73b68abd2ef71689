//! What a call touches outside this program.

mod declared;

pub use declared::file_of;

use std::path::{Path, PathBuf};

/// What one call touches outside this program: files, commands, addresses.
///
/// A tool computes it from the arguments alone, before the call runs, and never leaves out anything
/// that the arguments name. Rules, hook conditions and approvals are matched on it.
///
/// Paths are as the call gives them: relative to the workspace, or absolute; `..`, links and letter
/// case are not resolved. [`crate::Workspace::resolve_readable`] resolves them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touches {
    /// Files and directories that are read.
    pub reads: Vec<PathBuf>,
    /// Files and directories that are created, changed, moved or deleted. The call may read them,
    /// too; they are not repeated in `reads`.
    pub writes: Vec<PathBuf>,
    /// Directories (or single files) that are searched: names or contents of anything below may be
    /// read. They are not repeated in `reads`.
    pub searches: Vec<PathBuf>,
    /// Commands that are run.
    pub commands: Vec<Command>,
    /// Addresses that are requested, as the call gives them.
    pub urls: Vec<String>,
    /// Whether the call itself sends its arguments to another machine: an HTTP request, a remote MCP
    /// server. False for commands, which are in `commands`: whether a program uses the network
    /// cannot be told.
    pub remote: bool,
    /// Whether the user listed every machine that the call may send them to (`allowed_hosts`), and the
    /// tool keeps to the list, redirects included.
    pub hosts_listed: bool,
}

/// A command that a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The command as the call gives it.
    pub text: CommandText,
    /// The directory that it runs in, relative to the workspace or absolute; `None`: the workspace.
    pub directory: Option<PathBuf>,
}

/// A command as a call gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandText {
    /// A command line for a shell.
    Line(String),
    /// A program and its arguments, which no shell interprets.
    Program(Vec<String>),
}

impl Touches {
    /// A call that reads these files.
    pub fn reading<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            reads: paths.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// A call that writes these files.
    pub fn writing<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            writes: paths.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// A call that searches this file, or below this directory.
    pub fn searching(path: impl Into<PathBuf>) -> Self {
        Self {
            searches: vec![path.into()],
            ..Self::default()
        }
    }

    /// Adds what another call, or the same with other arguments, touches.
    pub fn extend(&mut self, other: Self) {
        let Self {
            reads,
            writes,
            searches,
            commands,
            urls,
            remote,
            hosts_listed,
        } = other;
        self.hosts_listed = (self.hosts_listed || !self.remote)
            && (hosts_listed || !remote)
            && (self.remote || remote);
        self.reads.extend(reads);
        self.writes.extend(writes);
        self.searches.extend(searches);
        self.commands.extend(commands);
        self.urls.extend(urls);
        self.remote |= remote;
    }

    /// Whether the call can carry data to a machine that the user has not listed.
    #[must_use]
    pub fn sends_data(&self) -> bool {
        self.remote && !self.hosts_listed
    }

    /// All paths, however they are touched. Without those that commands name.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.reads, &self.writes, &self.searches]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }
}
