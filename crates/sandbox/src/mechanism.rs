//! The means of the operating system.

/// The way in which a machine enforces a policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// Namespaces and seccomp of Linux: all of a policy.
    #[default]
    Namespaces,
    /// Landlock and seccomp of Linux, where there are no user namespaces: programs write only below [`crate::Policy::write`],
    /// and there is no network, or all of it. What else a policy says is not enforced: read-only and denied files, hidden
    /// directories, a proxy, other processes.
    Landlock,
    /// A profile of `sandbox-exec` of macOS: programs write only below [`crate::Policy::write`], not to read-only files, do
    /// not read denied ones, and have no network, or all of it. Not tried on a Mac.
    Seatbelt,
}

impl Mechanism {
    /// Returns true if programs are kept from read-only and denied files.
    #[must_use]
    pub fn guards_files(self) -> bool {
        match self {
            Self::Namespaces => true,
            // The profile of macOS was not tried, and leaves ways to have others start programs.
            Self::Landlock | Self::Seatbelt => false,
        }
    }
}
