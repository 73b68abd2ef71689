//! The means of the operating system.

use std::path::Path;
use std::process::Stdio;

use crate::Policy;

/// The way in which this machine enforces a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Namespaces and seccomp of Linux: all of a policy.
    Namespaces,
    /// None: nothing is enforced.
    None,
}

impl Mechanism {
    /// Returns what this machine can enforce. Tries it with an empty policy and a command that does nothing, which takes
    /// a few milliseconds.
    #[must_use]
    pub fn available(helper: &Path) -> Self {
        let mut command = Policy::default().command(helper, "/bin/sh");
        command.args(["-c", ":"]).current_dir("/");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let is_made = cfg!(target_os = "linux") && command.status().is_ok_and(|it| it.success());
        if is_made {
            Self::Namespaces
        } else {
            Self::None
        }
    }
}
