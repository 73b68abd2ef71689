//! Reading of databases that other programs may have open, without any change to them.

use std::fs::File;
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cachalot_prefix::spend::{FileError, SpendReader};

use crate::regular_file::open_regular;

/// The bytes that a SQLite database begins with.
pub(super) const BEGINNING: &[u8] = b"SQLite format 3\0";

/// Maximum number of attempts to read a database that changes meanwhile.
const ATTEMPTS: u32 = 3;

/// Maximum length of a database that is copied, in bytes.
const MAX_COPY_BYTES: u64 = 4 << 30;

/// Length of the header of a write-ahead log, in bytes; it changes when the log begins anew.
const HEADER_BYTES: u64 = 32;

/// The part of a database's state that changes whenever its file does. Frames that are appended to the log change
/// nothing before them.
#[derive(PartialEq, Eq)]
struct State {
    bytes: u64,
    changed: SystemTime,
    /// The header of the write-ahead log, if there is a log.
    log: Option<Vec<u8>>,
}

impl State {
    fn read(path: &Path) -> Result<Self> {
        let metadata = path.metadata()?;
        let log = match open_regular(&log_of(path)) {
            Ok(file) => {
                let mut header = Vec::new();
                file.take(HEADER_BYTES).read_to_end(&mut header)?;
                (!header.is_empty()).then_some(header)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            bytes: metadata.len(),
            changed: metadata.modified()?,
            log,
        })
    }
}

/// Reads a database: in place if it has no write-ahead log, else a copy of both files, because SQLite would make a
/// file beside them.
pub(super) fn read(path: &Path, reader: &mut SpendReader) -> std::result::Result<(), FileError> {
    for _ in 0..ATTEMPTS {
        let before = State::read(path)?;
        let copy = match &before.log {
            Some(_) => Some(copy(path, &before)?),
            None => None,
        };
        if copy.is_some() && State::read(path)? != before {
            continue;
        }
        let read = match &copy {
            Some(folder) => return reader.read_database(&copied(folder), false),
            None => reader.read_database(path, true),
        };
        // Answers count once, also if they are read again.
        if State::read(path)? == before {
            return read;
        }
    }
    Err(Error::other("it changes while it is read: try again").into())
}

/// Copies a database and its log into a temporary folder. A checkpoint between the two copies changes the state.
fn copy(path: &Path, state: &State) -> Result<tempfile::TempDir> {
    if state.bytes > MAX_COPY_BYTES {
        return Err(Error::other(
            "it has a write-ahead log and is larger than 4 GiB: close the program that uses it",
        ));
    }
    let folder = tempfile::tempdir()?;
    let to = copied(&folder);
    for (from, to) in [(path.to_owned(), to.clone()), (log_of(path), log_of(&to))] {
        let mut from = open_regular(&from)?.take(MAX_COPY_BYTES);
        std::io::copy(&mut from, &mut File::create(to)?)?;
    }
    Ok(folder)
}

fn copied(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("copy.db")
}

fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}
