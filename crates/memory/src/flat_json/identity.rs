//! Whether a file is still the one that was read.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// How far apart two changes have to be for the file system's clock to tell them apart; the coarsest
/// ones count in steps of two seconds.
const STEP: Duration = Duration::from_secs(2);

/// Which file it was, and when it was last changed. As long as the file that was read is kept open, no
/// other one can have its number: a file that was put in its place is always told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    size: u64,
    modified: Option<SystemTime>,
    #[cfg(unix)]
    number: (u64, u64),
    #[cfg(unix)]
    changed: (i64, i64),
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        use std::os::unix::fs::MetadataExt as _;
        Self {
            size: metadata.len(),
            modified: metadata.modified().ok(),
            #[cfg(unix)]
            number: (metadata.dev(), metadata.ino()),
            #[cfg(unix)]
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether a change in place, after this moment of the machine's clock, is sure to show. It does
    /// not while the file is so young that the next change may get the same times.
    pub(super) fn is_settled_at(&self, now: SystemTime) -> bool {
        let is_old = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age > STEP);
        self.modified.is_some_and(is_old) && self.changed().is_none_or(is_old)
    }

    /// Whether somebody wrote into the file before it became `later`. That it was replaced does not
    /// count: who has it open still reads a whole file.
    pub(super) fn was_written_before(&self, later: &Self) -> bool {
        (self.size, self.modified) != (later.size, later.modified)
    }

    #[cfg(unix)]
    fn changed(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.changed;
        let since = Duration::new(
            u64::try_from(seconds).unwrap_or(0),
            u32::try_from(nanoseconds).unwrap_or(0),
        );
        SystemTime::UNIX_EPOCH.checked_add(since)
    }

    #[cfg(not(unix))]
    fn changed(&self) -> Option<SystemTime> {
        None
    }

    /// When it was last written.
    pub(super) fn modified(&self) -> Option<SystemTime> {
        self.modified
    }
}
