//! Placeholders of read-only files that do not exist.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::{Error, Step as _};
use crate::{Absent, Policy, ReadOnly};

/// The pointer of a git directory to itself.
const GIT_POINTER: &str = ".";

/// The read-only files of a policy, all of which exist, because placeholders were made for the others.
///
/// Commands that run at the same time share placeholders; the last one removes them. A directory records them, each
/// before it is made, so that the next command removes those of a supervisor that was killed. It has these files:
/// `lock` is locked while placeholders are made or removed; `users` is locked, shared, as long as one is needed; and
/// `made` has the path of each, with a NUL after it.
pub(super) struct Placeholders {
    read_only: BTreeSet<PathBuf>,
    records: Option<Records>,
}

struct Records {
    directory: PathBuf,
    lock: File,
    users: File,
}

impl Placeholders {
    /// Makes the files and directories that do not exist.
    ///
    /// # Errors
    /// If one cannot be made or recorded.
    pub(super) fn make(policy: &Policy) -> Result<Self, Error> {
        let is_writable =
            |file: &&ReadOnly| policy.write.iter().any(|root| file.path.starts_with(root));
        let wanted: Vec<_> = policy.read_only.iter().filter(is_writable).collect();
        if wanted.is_empty() {
            return Ok(Self {
                read_only: BTreeSet::new(),
                records: None,
            });
        }
        let records = Records::open(&policy.records)?;
        let made = records.locked(|records| {
            records.remove_stale()?;
            // Also for those that other commands have made.
            flock(&records.users, FlockOperation::LockShared).step("the lock of placeholders")?;
            let make =
                |file: &ReadOnly| records.make(root(policy, &file.path), &file.path, file.absent);
            let made = wanted.into_iter().map(make);
            made.collect::<Result<Vec<_>, _>>()
        });
        match made {
            Ok(made) => Ok(Self {
                read_only: made.into_iter().flatten().collect(),
                records: Some(records),
            }),
            Err(error) => {
                // Each placeholder was recorded before it was made, so that those of this failed attempt are found.
                let _ = records.locked(Records::remove_stale);
                Err(error)
            }
        }
    }

    /// The files and directories that cannot be changed; all of them exist.
    pub(super) fn read_only(&self) -> &BTreeSet<PathBuf> {
        &self.read_only
    }

    /// Removes the placeholders if no other command needs them. A failure is ignored: the next command tries it again.
    pub(super) fn remove_if_last(self) {
        if let Some(records) = self.records {
            let _ = records.locked(Records::remove_stale);
        }
    }
}

/// Removes the placeholders of a directory of records, if no command needs them.
pub(crate) fn remove(directory: &Path) {
    if directory.exists() {
        let records = Records::open(directory);
        let _ = records.and_then(|records| records.locked(Records::remove_stale));
    }
}

/// Returns the outermost root below which a path can be written.
fn root<'a>(policy: &'a Policy, path: &'a Path) -> &'a Path {
    let roots = policy.write.iter().map(PathBuf::as_path);
    let above = roots.filter(|root| path.starts_with(root));
    above.min().unwrap_or(path)
}

impl Records {
    fn open(directory: &Path) -> Result<Self, Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .on("the directory", directory)?;
        let open = |name: &str| {
            let path = directory.join(name);
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            options.open(&path).on("the file", &path)
        };
        Ok(Self {
            lock: open("lock")?,
            users: open("users")?,
            directory: directory.to_owned(),
        })
    }

    fn locked<T>(&self, work: impl FnOnce(&Self) -> Result<T, Error>) -> Result<T, Error> {
        flock(&self.lock, FlockOperation::LockExclusive).step("the lock of placeholders")?;
        let done = work(self);
        let _ = flock(&self.lock, FlockOperation::Unlock);
        done
    }

    fn made(&self) -> PathBuf {
        self.directory.join("made")
    }

    /// Removes the recorded placeholders if no other command needs one. Those that have become something else stay.
    fn remove_stale(&self) -> Result<(), Error> {
        if flock(&self.users, FlockOperation::NonBlockingLockExclusive).is_err() {
            // It may have been lost by the attempt.
            return flock(&self.users, FlockOperation::LockShared).step("the lock of placeholders");
        }
        let mut recorded = Vec::new();
        match File::open(self.made()) {
            Ok(mut file) => {
                file.read_to_end(&mut recorded)
                    .on("the file", &self.made())?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).on("the file", &self.made()),
        }
        let recorded = recorded.split(|&byte| byte == 0);
        // One may be in another, which was made before.
        for path in recorded.filter(|path| !path.is_empty()).rev() {
            let path = Path::new(OsStr::from_bytes(path));
            match fs::symlink_metadata(path) {
                // It stays if anything is in it.
                Ok(found) if found.is_dir() => drop(fs::remove_dir(path)),
                Ok(found) if is_untouched(path, &found) => drop(fs::remove_file(path)),
                _ => {}
            }
        }
        fs::remove_file(self.made()).on("the file", &self.made())
    }

    /// Makes a placeholder for a path below `root`, if nothing is there: for its first ancestor that does not exist, if
    /// one does not. Returns the path of what is read-only; `None` if there is none.
    fn make(&self, root: &Path, path: &Path, absent: Absent) -> Result<Option<PathBuf>, Error> {
        let below = path.strip_prefix(root).unwrap_or(path);
        let mut there = root.to_owned();
        for name in below {
            there.push(name);
            match fs::symlink_metadata(&there) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if absent == Absent::Nothing {
                        return Ok(None);
                    }
                    let absent = if there == path {
                        absent
                    } else {
                        Absent::Directory
                    };
                    self.record(&there)?;
                    return match make(&there, absent) {
                        Ok(()) => Ok(Some(there)),
                        // The program could permit itself to write there, as the owner.
                        Err(error) if is_refused(&error) && there.parent() != Some(root) => {
                            Ok(there.parent().map(Path::to_owned))
                        }
                        Err(error) => Err(error).on("the placeholder", &there),
                    };
                }
                Err(error) => return Err(error).on("the file", &there),
            }
        }
        Ok(Some(path.to_owned()))
    }

    fn record(&self, path: &Path) -> Result<(), Error> {
        let mut options = OpenOptions::new();
        let file = options
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.made());
        let record = [path.as_os_str().as_bytes(), b"\0"].concat();
        file.and_then(|mut file| file.write_all(&record))
            .on("the file", &self.made())
    }
}

fn is_refused(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
    )
}

/// Makes a placeholder.
fn make(path: &Path, absent: Absent) -> std::io::Result<()> {
    let content = match absent {
        Absent::Directory => return fs::create_dir(path),
        Absent::Nothing => return Ok(()),
        Absent::File => "",
        Absent::GitPointer => GIT_POINTER,
    };
    let mut options = OpenOptions::new();
    // Fails if the file was made in the meantime: that one would not be a placeholder, and must not be removed as one.
    options.write(true).create_new(true).mode(0o444);
    options.open(path)?.write_all(content.as_bytes())
}

/// Returns true for a file with the content of a placeholder.
fn is_untouched(path: &Path, metadata: &fs::Metadata) -> bool {
    let is_pointer = || fs::read(path).is_ok_and(|content| content == GIT_POINTER.as_bytes());
    metadata.is_file() && (metadata.len() == 0 || (metadata.len() == 1 && is_pointer()))
}
