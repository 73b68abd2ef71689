//! Detection of changes of a file since it was read.

use std::fs::Metadata;
use std::time::{Duration, SystemTime};

/// Minimum time between two changes that all file systems record with different times; the coarsest
/// resolution is two seconds.
const TIME_RESOLUTION: Duration = Duration::from_secs(2);

/// The identity of a file and the time of its last change. While the file that was read is kept open, no
/// other file can get its inode number: a file that replaced it is always detected.
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
    pub(super) fn from_metadata(metadata: &Metadata) -> Self {
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

    /// True if any change in place after `now` (by the machine's clock) changes this identity. False while
    /// the file is so young that the next change may get the same times.
    pub(super) fn is_settled_at(&self, now: SystemTime) -> bool {
        let is_old = |at: SystemTime| {
            now.duration_since(at)
                .is_ok_and(|age| age > TIME_RESOLUTION)
        };
        self.modified.is_some_and(is_old) && self.changed().is_none_or(is_old)
    }

    /// True if the file was written to before its identity became `later`. A replacement does not count: a
    /// reader that has the old file open still reads all of it.
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
}
