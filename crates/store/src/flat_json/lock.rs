//! The lock of a flat JSON file: a file beside it, which is never deleted, because otherwise two processes
//! could hold locks on two files of that name.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Error;
use crate::private_files::{create_private_directories, open_private, with_suffix};

use super::failure::Context;

/// Maximum pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_millis(10);

/// The exclusive lock, released when it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "open as long as the lock is held")] File);

/// Takes the lock; creates the directories and the lock file if they do not exist. Blocks the thread for at
/// most `lock_timeout`, not counting the time of file system calls.
///
/// # Errors
/// [`crate::ErrorKind::Busy`] if another process held it for that long; errors of the file system.
pub(super) fn take(path: &Path, lock_timeout: Duration, context: &Context) -> Result<Lock, Error> {
    let file = open(path).map_err(|error| context.io("lock", error))?;
    let began = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::WouldBlock) if began.elapsed() >= lock_timeout => {
                return Err(context.busy(lock_timeout));
            }
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(pause.min(lock_timeout.saturating_sub(began.elapsed())));
                pause = (pause * 2).min(MAX_PAUSE);
            }
            Err(TryLockError::Error(error)) => return Err(context.io("lock", error)),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let lock = with_suffix(path, ".lock");
    match open_private(&lock, true) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(directory) = path.parent() {
                create_private_directories(directory)?;
            }
            open_private(&lock, true)
        }
        opened => opened,
    }
}
