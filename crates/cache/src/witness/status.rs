//! The status of a file, and whether it can be trusted to tell a change.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::sync::{Mutex, lock};

/// The coarsest time stamps of file systems in use (FAT) are two seconds apart: two writes within
/// that time may leave the same status.
const GRANULARITY: Duration = Duration::from_secs(2);

/// Why nothing is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Absence {
    /// There is no such name.
    NotFound,
    /// Something on the way is not a directory.
    NotADirectory,
}

impl Absence {
    /// Whether an error says that nothing is there, and why.
    pub(super) fn of(error: &io::Error) -> Option<Self> {
        match error.kind() {
            io::ErrorKind::NotFound => Some(Self::NotFound),
            io::ErrorKind::NotADirectory => Some(Self::NotADirectory),
            _ => None,
        }
    }
}

/// What `stat` tells of a file. Nanoseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Status {
    pub(super) directory: bool,
    pub(super) size: u64,
    modified: i128,
    /// When the status last changed: unlike `modified`, no program can set it back.
    changed: i128,
    inode: u64,
    device: u64,
    /// Whether the file was old enough, by its file system's own time, that a later write must show.
    pub(super) trusted: bool,
}

impl Status {
    /// The status of what is at `path` (links followed), or why nothing is.
    pub(super) fn of(path: &Path) -> io::Result<Result<Self, Absence>> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Ok(Self::from(&metadata))),
            Err(error) => Absence::of(&error).map(Err).ok_or(error),
        }
    }

    /// Whether it is the same file in the same state, as far as a status tells.
    pub(super) fn same_as(&self, other: &Self) -> bool {
        let Self {
            directory,
            size,
            modified,
            changed,
            inode,
            device,
            trusted: _,
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

    /// Whether a file with the status `now` has the content that it had with this one.
    pub(super) fn vouches_for(&self, now: &Self) -> bool {
        self.trusted && now.same_as(self)
    }

    /// Notes whether this status of `path` was old enough to trust when it was taken, by the time of the
    /// file system that `directory` is on.
    pub(super) fn judge(mut self, path: &Path, directory: &Path, times: &Times) -> Self {
        let newest = self.modified.max(self.changed);
        self.trusted = times
            .of(self.device, path, directory)
            .is_some_and(|now| newest.saturating_add(nanoseconds(GRANULARITY)) < now);
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
        }
    }
}

/// What time it was on each file system when it was first asked: for as long as one piece of work
/// takes, so that looking at a thousand files does not ask a thousand times. A time that has passed
/// since makes a status less trustworthy than it is, never more.
#[derive(Default)]
pub(super) struct Times(Mutex<Vec<(u64, Option<i128>)>>);

impl Times {
    fn of(&self, device: u64, path: &Path, directory: &Path) -> Option<i128> {
        let mut known = lock(&self.0);
        if let Some((_, time)) = known.iter().find(|(of, _)| *of == device) {
            return *time;
        }
        let time = match tells_of_changes(path) {
            true => file_system_time(directory),
            false => None,
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

/// Types of file systems (`f_type` of `statfs`, as `linux/magic.h` has them) whose files are made up by
/// the kernel when they are read: their status stays while their content changes.
#[cfg(target_os = "linux")]
const MADE_UP: [i128; 13] = [
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

/// Whether the status of what is at `path` tells of changes of its content. Where the file system cannot
/// be asked, it is taken to.
#[cfg(target_os = "linux")]
fn tells_of_changes(path: &Path) -> bool {
    let Ok(system) = rustix::fs::statfs(path) else {
        return true;
    };
    let kind = i128::from(system.f_type);
    // Some architectures have 32 bits with a sign here.
    !MADE_UP
        .iter()
        .any(|made_up| (kind ^ made_up) & 0xffff_ffff == 0)
}

#[cfg(not(target_os = "linux"))]
fn tells_of_changes(_path: &Path) -> bool {
    true
}

/// What time it is on the file system of `directory`: that of a nameless file made there just now,
/// which leaves no trace in the directory. `None` where that cannot be told; statuses are then never
/// trusted, and contents are compared.
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
        None => cautious_time(),
    }
}

#[cfg(not(target_os = "linux"))]
fn file_system_time(_directory: &Path) -> Option<i128> {
    cautious_time()
}

/// The machine's time less an hour: a stand-in where the file system cannot be asked (a directory
/// that is not ours to write to), with room for a server's clock that is off.
fn cautious_time() -> Option<i128> {
    Some(since_epoch(SystemTime::now()).saturating_sub(nanoseconds(Duration::from_secs(3_600))))
}
