//! Reads and replaces a flat JSON file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::SystemTime;

use cachalot_core::atomic_file::{self, Access};

use crate::Error;

use super::failure::Context;
use super::identity::Identity;
use super::text::{self, Entries};

/// Maximum size in bytes of a file that is read or written.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Maximum number of attempts to read a file that changes meanwhile.
const ATTEMPTS: usize = 5;

/// The identity of a file when it was read.
#[derive(Debug, Default)]
pub(super) struct FileSnapshot {
    /// `None`: the file did not exist.
    identity: Option<Identity>,
    /// Kept open, so that no other file gets its inode number.
    _file: Option<File>,
    /// Set if any later change in place is detectable.
    is_settled: bool,
}

impl FileSnapshot {
    /// True if the file at `path` is this one, unchanged.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn is_current(&self, path: &Path) -> io::Result<bool> {
        Ok(self.is_settled && self.identity == read_identity(path)?)
    }
}

fn read_identity(path: &Path) -> io::Result<Option<Identity>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(Identity::from_metadata(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the file. A missing file has no entries.
///
/// # Errors
/// [`crate::ErrorKind::Corrupt`] if the file has another format; errors of the file system.
pub(super) fn read(path: &Path, context: &Context) -> Result<(FileSnapshot, Entries), Error> {
    for _ in 0..ATTEMPTS {
        let (snapshot, bytes) = match attempt(path, context)? {
            Attempt::Read(snapshot, bytes) => (snapshot, bytes),
            Attempt::Missing => {
                let snapshot = FileSnapshot {
                    is_settled: true,
                    ..FileSnapshot::default()
                };
                return Ok((snapshot, Entries::new()));
            }
            Attempt::Changed => continue,
        };
        let entries = text::parse(&bytes).map_err(|error| context.corrupt(error))?;
        return Ok((snapshot, entries));
    }
    Err(context.keeps_changing())
}

enum Attempt {
    Read(FileSnapshot, Vec<u8>),
    Missing,
    /// Another process wrote into the file during the read.
    Changed,
}

fn attempt(path: &Path, context: &Context) -> Result<Attempt, Error> {
    let failed = |error| context.io("read", error);
    let there = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Missing),
        looked => looked.map_err(failed)?,
    };
    // Opening a pipe would wait for a writer.
    if !there.is_file() {
        return Err(context.not_a_file());
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Changed),
        opened => opened.map_err(failed)?,
    };
    let identity = Identity::from_metadata(&file.metadata().map_err(failed)?);
    // The machine's clock, because it is compared with times of the file system, which come from that clock.
    // The result only decides if the file is read once more.
    let is_settled = identity.is_settled_at(SystemTime::now());
    let mut bytes = Vec::new();
    // One byte more shows that the file is too large.
    let limited = (&file).take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    let count = limited.map_err(failed)?;
    if count as u64 > MAX_FILE_BYTES {
        return Err(context.too_large(MAX_FILE_BYTES));
    }
    let now = Identity::from_metadata(&file.metadata().map_err(failed)?);
    if identity.was_written_before(&now) {
        return Ok(Attempt::Changed);
    }
    let snapshot = FileSnapshot {
        identity: Some(identity),
        _file: Some(file),
        is_settled,
    };
    Ok(Attempt::Read(snapshot, bytes))
}

/// Replaces the file by a new one, readable by its owner only, in one step. When this returns, the new file
/// survives a power failure. The caller holds the lock. If `path` is a link, its target is replaced.
///
/// # Errors
/// Errors of the file system; the old file then still exists.
pub(super) fn replace(path: &Path, entries: &Entries, context: &Context) -> Result<(), Error> {
    let bytes = text::print(entries).map_err(|error| context.io("write", error.into()))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(context.too_large(MAX_FILE_BYTES));
    }
    atomic_file::replace(path, &bytes, Access::Private).map_err(|error| context.io("write", error))
}
