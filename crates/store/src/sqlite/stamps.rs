//! Stamps: counters in a small file that every process maps into memory.
//!
//! The file has a header ([`MAGIC`], a *state*) and [`SLOTS`] counters; a record or counter of a space
//! belongs to the slot of its name's hash. State and slots work like a seqlock. A writer
//!
//! 1. takes the exclusive lock of the file, then the write lock of the database, and makes its changes;
//! 2. sets the state to *dirty*;
//! 3. commits;
//! 4. adds one to every slot whose record or counter changed;
//! 5. sets the state to *clean* and releases the lock.
//!
//! A reader takes a stamp, reads the record, and may use the record while the stamp is the same and the state
//! is clean. **Correctness.** Let a commit change the record after the reader's snapshot. Before that commit
//! the state became dirty (2), and it becomes clean only after the slot has changed (4, 5). A reader that
//! checks after the commit therefore either finds the state dirty, and gets no stamp, or finds the slot
//! changed: slots only grow, and this change came after the reader took its stamp, because the commit came
//! after the snapshot.
//!
//! **Crash of a writer.** A writer that dies between 2 and 5 leaves the state dirty, in which there are no
//! stamps; the operating system releases its lock. The next writer to take the lock finds the state dirty. No
//! living writer can have left it so, therefore it changes *all* slots, those of the dead writer's commit
//! included, before it sets the state to clean. If it dies meanwhile, the state stays dirty. The mapping is
//! shared memory of the operating system: writes of a process survive its death, at any instruction. When the
//! machine dies, so do all processes that hold a stamp.
//!
//! Writers exclude each other by the file's lock and not by the database's, because the commit (3) releases
//! the latter. They wait for it a limited time.
//!
//! **Without the file** there are no stamps, and writers only take the lock of the database. If the file
//! exists and this process cannot use it, other processes may hold stamps, so this process must not write. If
//! it could not be created when this process started, another process may create it later. A writer without
//! it therefore checks for it again after it has taken the write lock of the database, and a file is *new*,
//! without stamps, until a process has taken that lock since its creation. By then every writer that did not
//! see the file has ended.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

use crate::private_files::open_private;
use crate::slots::SLOTS;

/// File signature of layout 1.
const MAGIC: u64 = u64::from_le_bytes(*b"cachlt\0\x01");

/// Number of words in the header: one cache line.
const HEADER: usize = 8;
const STATE: usize = 1;
const WORDS: usize = HEADER + SLOTS;
const BYTES: usize = WORDS * size_of::<u64>();

/// Values of [`STATE`]. A file that was just created is all zeros.
const NEW: u64 = 0;
const CLEAN: u64 = 1;
const DIRTY: u64 = 2;

/// The stamp file of a database, or its absence.
#[derive(Debug)]
pub(super) struct Stamps {
    path: PathBuf,
    stamp_file: OnceLock<StampFile>,
}

impl Stamps {
    /// Opens or creates the file. A failure is not an error: there are no stamps then.
    pub(super) fn open(path: PathBuf) -> Self {
        let stamps = Self {
            path,
            stamp_file: OnceLock::new(),
        };
        if let Ok(stamp_file) = StampFile::open(&stamps.path, true) {
            stamp_file.recover();
            let _ = stamps.stamp_file.set(stamp_file);
        }
        stamps
    }

    /// Returns the stamp of a slot, unless the state is new or dirty.
    pub(super) fn read(&self, slot: usize) -> Option<u64> {
        let words = self.stamp_file.get()?.words();
        // The slot before the state. In the other order, a writer could announce and commit between the two reads, and
        // the old slot would count as valid.
        let stamp = words.get(HEADER + slot)?.load(Ordering::SeqCst);
        (words[STATE].load(Ordering::SeqCst) == CLEAN).then_some(stamp)
    }

    /// True if the file waits for [`Stamps::begin`].
    pub(super) fn is_new(&self) -> bool {
        self.stamp_file
            .get()
            .is_some_and(|stamp_file| stamp_file.words()[STATE].load(Ordering::SeqCst) == NEW)
    }

    /// Starts to provide stamps. The caller has had the write lock of the database since the file was opened.
    pub(super) fn begin(&self) {
        if let Some(stamp_file) = self.stamp_file.get() {
            // Fails if another process has done so already.
            let _ = stamp_file.words()[STATE].compare_exchange(
                NEW,
                CLEAN,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
    }

    /// True if the file was created after `hold` was taken without it. The caller has the write lock of the
    /// database, and must not use this hold.
    pub(super) fn was_created_since(&self, hold: &CommitGuard<'_>) -> bool {
        hold.stamp_file.is_none() && self.path.exists()
    }

    /// Excludes other writers, waiting at most `timeout`. Without a file there is nothing to lock.
    ///
    /// # Errors
    /// `WouldBlock` if other writers held the lock all the time; others if the file exists and cannot be
    /// used.
    pub(super) fn hold(&self, timeout: Duration) -> io::Result<CommitGuard<'_>> {
        let stamp_file = match self.stamp_file.get() {
            Some(stamp_file) => Some(stamp_file),
            None => match StampFile::open(&self.path, false) {
                Ok(stamp_file) => {
                    let _ = self.stamp_file.set(stamp_file);
                    self.stamp_file.get()
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            },
        };
        match stamp_file {
            Some(stamp_file) => stamp_file.hold(timeout),
            None => Ok(CommitGuard {
                stamp_file: None,
                announced: false,
            }),
        }
    }
}

#[derive(Debug)]
struct StampFile {
    file: File,
    map: MmapRaw,
}

impl StampFile {
    fn open(path: &Path, create: bool) -> io::Result<Self> {
        let file = open_private(path, create)?;
        fill(&file)?;
        let map = MmapOptions::new().len(BYTES).map_raw(&file)?;
        Ok(Self { file, map })
    }

    #[expect(unsafe_code, reason = "shared memory is reached through a pointer")]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has BYTES bytes, begins at a page, lives as long as `self`, and is only ever
        // accessed as atomic words, here and in other processes. The file is never truncated.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast::<AtomicU64>(), WORDS) }
    }

    /// Cleans up after a writer that died, unless a living one holds the lock and will do so.
    fn recover(&self) {
        if self.words()[STATE].load(Ordering::SeqCst) == DIRTY && self.file.try_lock().is_ok() {
            drop(self.guard());
        }
    }

    fn hold(&self, timeout: Duration) -> io::Result<CommitGuard<'_>> {
        let mut waits = Backoff::new(timeout);
        loop {
            match self.file.try_lock() {
                Ok(()) => return Ok(self.guard()),
                Err(TryLockError::WouldBlock) if waits.pause() => {}
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Creates the hold after the lock was taken: a dirty state was left by a dead writer.
    fn guard(&self) -> CommitGuard<'_> {
        let words = self.words();
        if words[STATE].load(Ordering::SeqCst) == DIRTY {
            // The slots before the state: if this process dies in between, the state stays dirty and the next writer
            // does the same.
            self.bump_all();
            words[STATE].store(CLEAN, Ordering::SeqCst);
        }
        CommitGuard {
            stamp_file: Some(self),
            announced: false,
        }
    }

    fn bump_all(&self) {
        for word in &self.words()[HEADER..] {
            word.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Extends the file to its full length. It is filled with bytes, not just extended: writing into a hole of a
/// mapped file on a full disk kills the process. Existing bytes are kept, because other processes may be
/// using them.
fn fill(file: &File) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    if file.metadata()?.len() >= BYTES as u64 {
        return Ok(());
    }
    file.lock()?;
    // Read again under the lock: another process may have filled the file, or a part of it.
    let filled = (|| {
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(BYTES);
        if length < BYTES {
            let mut file = file;
            let mut bytes = vec![0u8; BYTES];
            bytes[..8].copy_from_slice(&MAGIC.to_ne_bytes());
            file.seek(SeekFrom::Start(length as u64))?;
            file.write_all(&bytes[length..])?;
        }
        Ok(())
    })();
    file.unlock()?;
    filled
}

/// The right to commit. If it is dropped without [`CommitGuard::settle`] after [`CommitGuard::announce`], it changes every
/// slot, because it is unknown if the commit happened.
#[derive(Debug)]
pub(super) struct CommitGuard<'a> {
    stamp_file: Option<&'a StampFile>,
    announced: bool,
}

impl CommitGuard<'_> {
    /// Sets the state to dirty: from here on there are no stamps.
    pub(super) fn announce(&mut self) {
        if let Some(stamp_file) = self.stamp_file {
            stamp_file.words()[STATE].store(DIRTY, Ordering::SeqCst);
            self.announced = true;
        }
    }

    /// Changes the slots of all changes, after the commit is done or has certainly not happened.
    pub(super) fn settle(mut self, changed: &[usize]) {
        if let Some(stamp_file) = self.stamp_file.filter(|_| self.announced) {
            let words = stamp_file.words();
            for slot in changed {
                words[HEADER + slot].fetch_add(1, Ordering::SeqCst);
            }
            words[STATE].store(CLEAN, Ordering::SeqCst);
            self.announced = false;
        }
    }
}

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        let Some(stamp_file) = self.stamp_file else {
            return;
        };
        if self.announced {
            stamp_file.bump_all();
            stamp_file.words()[STATE].store(CLEAN, Ordering::SeqCst);
        }
        // If unlocking fails, closing the file releases the lock.
        let _ = stamp_file.file.unlock();
    }
}

/// Waits for a lock in pauses. The first ones are short: a commit takes tens of microseconds.
struct Backoff {
    deadline: Option<Instant>,
    pauses: u32,
}

impl Backoff {
    fn new(timeout: Duration) -> Self {
        let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
        Self {
            deadline,
            pauses: 0,
        }
    }

    /// Pauses; returns false if the time is up.
    fn pause(&mut self) -> bool {
        let Some(deadline) = self.deadline else {
            return false;
        };
        if Instant::now() >= deadline {
            return false;
        }
        self.pauses += 1;
        if self.pauses < 10 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(u64::from(self.pauses.min(50)) * 10));
        }
        true
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../../tests/unit/sqlite/stamps.rs"]
mod tests;
