//! The resources outside of this program that a call accesses.

mod declared;

pub use declared::file_url_path;

use std::path::{Path, PathBuf};

/// The resources outside of this program that a call accesses: files, commands, URLs.
///
/// A tool computes them from the arguments alone, before the call runs. They contain everything that the
/// arguments name. Rules, hook conditions and approvals are matched against them.
///
/// Paths are as the call gives them: relative to the workspace, or absolute. `..`, links and letter case
/// are not resolved; [`crate::Workspace::resolve`] resolves them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceAccess {
    /// The files and directories that are read.
    pub reads: Vec<PathBuf>,
    /// The files and directories that are created, changed, moved or deleted. The call may read them,
    /// too; they are not repeated in `reads`.
    pub writes: Vec<PathBuf>,
    /// The directories (or single files) that are searched: names or contents of everything below them
    /// may be read. They are not repeated in `reads`.
    pub searches: Vec<PathBuf>,
    /// The commands that are run.
    pub commands: Vec<Command>,
    /// The URLs that are requested, as the call gives them.
    pub urls: Vec<String>,
    /// True if the call itself sends its arguments to another machine: an HTTP request, a remote MCP
    /// server. False for commands, which are in `commands`: the network use of a program is unknown.
    pub remote: bool,
    /// True if the user listed all machines that the call may send them to (`allowed_hosts`), and the
    /// tool enforces the list, including redirects.
    pub hosts_listed: bool,
}

/// A command that a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The command as the call gives it.
    pub text: CommandText,
    /// The working directory, relative to the workspace or absolute; `None`: the workspace.
    pub directory: Option<PathBuf>,
}

/// A command as a call gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandText {
    /// A command line for a shell.
    Line(String),
    /// A program and its arguments, without a shell.
    Program(Vec<String>),
}

impl ResourceAccess {
    /// The resources of a call that reads these files.
    pub fn reading<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            reads: paths.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// The resources of a call that writes these files.
    pub fn writing<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            writes: paths.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// The resources of a call that searches this file, or below this directory.
    pub fn searching(path: impl Into<PathBuf>) -> Self {
        Self {
            searches: vec![path.into()],
            ..Self::default()
        }
    }

    /// Adds the resources of another call, or of the same call with other arguments.
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

    /// True if the call may send data to a machine that the user has not listed.
    #[must_use]
    pub fn sends_data(&self) -> bool {
        self.remote && !self.hosts_listed
    }

    /// All paths that are read, written or searched, without those that commands name.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.reads, &self.writes, &self.searches]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }
}
