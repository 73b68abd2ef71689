//! The status of a file, and the decision if it can be trusted to reveal changes.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::sync::{Mutex, lock};

/// The coarsest time stamp resolution of file systems in use (FAT, two seconds): two writes within that time
/// may leave the same status.
const GRANULARITY: Duration = Duration::from_secs(2);

/// The same for file systems whose time stamps have fractions of a second. They have the resolution of the kernel's
/// clock, which is at most 10 milliseconds.
const FINE_GRANULARITY: Duration = Duration::from_millis(50);

/// The reason why nothing exists at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Absence {
    /// The path does not exist.
    NotFound,
    /// A parent of the path is not a directory.
    NotADirectory,
}

impl Absence {
    /// The reason if the error means that nothing exists at the path.
    pub(super) fn from_error(error: &io::Error) -> Option<Self> {
        match error.kind() {
            io::ErrorKind::NotFound => Some(Self::NotFound),
            io::ErrorKind::NotADirectory => Some(Self::NotADirectory),
            _ => None,
        }
    }
}

/// The fields of `stat` that are compared. Times are nanoseconds since the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStatus {
    pub(super) directory: bool,
    pub(super) size: u64,
    modified: i128,
    /// Time of the last status change: unlike `modified`, programs cannot set it.
    changed: i128,
    inode: u64,
    device: u64,
    /// Set if the file was old enough, by its file system's clock, that any later write changes the status.
    pub(super) trusted: bool,
    /// Set if the file was so old, by its file system's clock, that a write after the reading of the status changes it.
    /// A stored status is only compared with later ones, which `trusted` decides about.
    #[serde(skip)]
    pub(super) settled: bool,
}

impl FileStatus {
    /// Returns the status at `path` (links followed), or the reason why nothing exists there.
    pub(super) fn read(path: &Path) -> io::Result<Result<Self, Absence>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Ok(Self::from(&metadata))),
            Err(error) => Absence::from_error(&error).map(Err).ok_or(error),
        }
    }

    /// True if both are statuses of the same file in the same state.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        let Self {
            directory,
            size,
            modified,
            changed,
            inode,
            device,
            trusted: _,
            settled: _,
        } = self;
        (*directory, *size, *modified, *changed, *inode, *device)
            == (
                other.directory,
                other.size,
                other.modified,
                other.changed,
                other.inode,
                other.device,
            )
    }

    /// True if this status proves that a file with the status `now` still has the same content.
    pub(super) fn proves_unchanged(&self, now: &Self) -> bool {
        self.trusted && now.same_as(self)
    }

    /// Sets `trusted` if this status of `path` was old enough when it was read, by the clock of the file
    /// system that `directory` is on.
    pub(super) fn with_trust(
        mut self,
        path: &Path,
        directory: &Path,
        times: &FileSystemTimes,
    ) -> Self {
        let newest = self.modified.max(self.changed);
        let now = times.now(self.device, path, directory);
        let is_older =
            |than: Duration| now.is_some_and(|now| newest.saturating_add(nanoseconds(than)) < now);
        self.trusted = is_older(GRANULARITY);
        let has_fractions = self.changed % 1_000_000_000 != 0;
        self.settled = self.trusted || (has_fractions && is_older(FINE_GRANULARITY));
        self
    }

    #[cfg(unix)]
    pub(super) fn from(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let stamp =
            |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            directory: metadata.is_dir(),
            size: if metadata.is_dir() { 0 } else { metadata.len() },
            modified: stamp(metadata.mtime(), metadata.mtime_nsec()),
            changed: stamp(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            device: metadata.dev(),
            trusted: false,
            settled: false,
        }
    }

    #[cfg(not(unix))]
    pub(super) fn from(metadata: &std::fs::Metadata) -> Self {
        let modified = metadata.modified().map_or(0, since_epoch);
        Self {
            directory: metadata.is_dir(),
            size: if metadata.is_dir() { 0 } else { metadata.len() },
            modified,
            changed: modified,
            inode: 0,
            device: 0,
            trusted: false,
            settled: false,
        }
    }
}

/// The time of each file system when it was first read: kept for one piece of work, so that observing a
/// thousand files does not read it a thousand times. A time that is older than the real one makes a status
/// less trusted than it could be, never more.
#[derive(Default)]
pub(super) struct FileSystemTimes(Mutex<Vec<(u64, Option<i128>)>>);

impl FileSystemTimes {
    fn now(&self, device: u64, path: &Path, directory: &Path) -> Option<i128> {
        let mut known = lock(&self.0);
        if let Some((_, time)) = known.iter().find(|(of, _)| *of == device) {
            return *time;
        }
        let time = if reports_changes(path) {
            file_system_time(directory)
        } else {
            None
        };
        known.push((device, time));
        time
    }
}

fn nanoseconds(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

fn since_epoch(time: SystemTime) -> i128 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => nanoseconds(after),
        Err(before) => -nanoseconds(before.duration()),
    }
}

/// Types of file systems (`f_type` of `statfs`, from `linux/magic.h`) whose files are generated by the kernel
/// when they are read: their status stays the same while their content changes.
#[cfg(target_os = "linux")]
const GENERATED: [i128; 13] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0xcafe_4a11, // bpf
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
];

/// True if the status of `path` changes with its content. Also true if the type of the file system cannot
/// be read.
#[cfg(target_os = "linux")]
fn reports_changes(path: &Path) -> bool {
    let Ok(system) = rustix::fs::statfs(path) else {
        return true;
    };
    let kind = i128::from(system.f_type);
    // `f_type` is a signed 32-bit integer on some architectures.
    !GENERATED
        .iter()
        .any(|generated| (kind ^ generated) & 0xffff_ffff == 0)
}

#[cfg(not(target_os = "linux"))]
fn reports_changes(_path: &Path) -> bool {
    true
}

/// The current time of the file system of `directory`: that of an unnamed file (`O_TMPFILE`) created there,
/// which leaves no trace in the directory. `None` if it cannot be read; statuses are then never trusted, and
/// contents are compared.
#[cfg(target_os = "linux")]
fn file_system_time(directory: &Path) -> Option<i128> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let probe = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR).ok();
    match probe {
        Some(probe) => std::fs::File::from(probe)
            .metadata()
            .and_then(|m| m.modified())
            .ok()
            .map(since_epoch),
        None => clock_precision_margin(),
    }
}

#[cfg(not(target_os = "linux"))]
fn file_system_time(_directory: &Path) -> Option<i128> {
    clock_precision_margin()
}

/// The machine's time minus one hour: a substitute where the file system's time cannot be read (a directory
/// without write permission), with a margin for the clock of a file server.
fn clock_precision_margin() -> Option<i128> {
    Some(since_epoch(SystemTime::now()).saturating_sub(nanoseconds(Duration::from_secs(3_600))))
}
