//! The sandbox of the commands of an agent.

use std::path::PathBuf;

use crate::Policy;

/// The sandbox of the commands of an agent: what holds for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSandbox {
    /// An executable whose `main` calls [`crate::run_if_helper`].
    pub helper: PathBuf,
    /// The policy, without the files of the workspace: those are looked up for each command.
    pub policy: Policy,
    /// The hosts to which the proxy of [`crate::Network::Proxy`] connects.
    pub hosts: Vec<String>,
    /// The directory for temporary files, which is one of [`Policy::write`].
    pub temporary: PathBuf,
    /// The directory for copies of files, which is one of [`Policy::denied`].
    pub copies: PathBuf,
}

impl CommandSandbox {
    /// Returns true if the system keeps commands from read-only and denied files.
    #[must_use]
    pub fn guards_files(&self) -> bool {
        self.policy.mechanism.guards_files()
    }
}
