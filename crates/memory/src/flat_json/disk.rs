//! Reading and replacing such a file.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::time::SystemTime;

use cachalot_core::Millis;

use crate::Error;

use super::failure::Context;
use super::identity::Identity;
use super::text::{self, Entries};

/// A larger file is neither read nor written.
const LARGEST_FILE: u64 = 64 << 20;

/// So often a file is read that changes meanwhile.
const ATTEMPTS: usize = 5;

/// A file as it was read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// `None`: it was not there.
    identity: Option<Identity>,
    /// Open, so that no other file gets its number.
    _file: Option<File>,
    /// Whether a change in place is sure to show.
    is_settled: bool,
}

impl Seen {
    /// Whether the file at `path` is this one, unchanged.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn is_current(&self, path: &Path) -> io::Result<bool> {
        Ok(self.is_settled && self.identity == look(path)?)
    }

    /// When it was last written; 0 if that is not known.
    pub(super) fn written(&self) -> Millis {
        self.identity
            .and_then(|identity| identity.modified())
            .and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok())
            .and_then(|since| Millis::try_from(since.as_millis()).ok())
            .unwrap_or(0)
    }
}

fn look(path: &Path) -> io::Result<Option<Identity>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(Identity::of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the file. One that is not there has no entries.
///
/// # Errors
/// [`crate::ErrorKind::Corrupt`] for what is no such file; those of the file system.
pub(super) fn read(path: &Path, context: &Context) -> Result<(Seen, Entries), Error> {
    for _ in 0..ATTEMPTS {
        let (seen, bytes) = match attempt(path, context)? {
            Attempt::Read(seen, bytes) => (seen, bytes),
            Attempt::Missing => {
                let seen = Seen {
                    is_settled: true,
                    ..Seen::default()
                };
                return Ok((seen, Entries::new()));
            }
            Attempt::Changed => continue,
        };
        let entries = text::parse(&bytes).map_err(|error| context.corrupt(error))?;
        return Ok((seen, entries));
    }
    Err(context.restless())
}

enum Attempt {
    Read(Seen, Vec<u8>),
    Missing,
    /// Somebody wrote into it meanwhile.
    Changed,
}

fn attempt(path: &Path, context: &Context) -> Result<Attempt, Error> {
    let failed = |error| context.io("read", error);
    let there = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Missing),
        looked => looked.map_err(failed)?,
    };
    // Opening a pipe would wait for somebody to write into it.
    if !there.is_file() {
        return Err(context.no_file());
    }
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Attempt::Changed),
        opened => opened.map_err(failed)?,
    };
    let identity = Identity::of(&file.metadata().map_err(failed)?);
    // It compares with the times of the file system, which are the machine's, and decides only
    // whether the file is read once more.
    let is_settled = identity.is_settled_at(SystemTime::now());
    let mut bytes = Vec::new();
    let limited = (&file).take(LARGEST_FILE + 1).read_to_end(&mut bytes);
    let count = limited.map_err(failed)?;
    if count as u64 > LARGEST_FILE {
        return Err(context.too_large(LARGEST_FILE));
    }
    let now = Identity::of(&file.metadata().map_err(failed)?);
    if identity.was_written_before(&now) {
        return Ok(Attempt::Changed);
    }
    let seen = Seen {
        identity: Some(identity),
        _file: Some(file),
        is_settled,
    };
    Ok(Attempt::Read(seen, bytes))
}

/// Puts a new file, readable by its owner only, in the place of the old one, in one step; when this
/// returns, it survives a power failure. To be called under the lock. If `path` is a link, what it
/// leads to is replaced.
///
/// # Errors
/// Those of the file system; then the old file is still there.
pub(super) fn replace(path: &Path, entries: &Entries, context: &Context) -> Result<(), Error> {
    let bytes = text::print(entries).map_err(|error| context.io("write", error.into()))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(context.too_large(LARGEST_FILE));
    }
    let write = || -> io::Result<()> {
        let target = match std::fs::canonicalize(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            real => real?,
        };
        let directory = target.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::Builder::new()
            .prefix(".answers-")
            .suffix(".tmp")
            .tempfile_in(directory)?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist(&target).map_err(|failed| failed.error)?;
        #[cfg(unix)]
        File::open(directory)?.sync_all()?;
        Ok(())
    };
    write().map_err(|error| context.io("write", error))
}
