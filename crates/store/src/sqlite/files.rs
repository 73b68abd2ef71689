//! The files of a store: created for their owner only, set aside when damaged, never deleted.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use cachalot_core::Millis;

use crate::Error;
use crate::private_files::{create_private_directories, open_private, with_suffix};

use super::failure::Context;

/// Suffixes that SQLite and Cachalot append to the name of the database.
const COMPANION_SUFFIXES: [&str; 4] = ["-wal", "-shm", "-journal", "-stamp"];

/// Returns the paths of all files of a database: the database itself, and the files beside it. They need not
/// exist.
pub fn files_of(path: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let endings = [""].into_iter().chain(COMPANION_SUFFIXES);
    endings.map(|ending| with_suffix(path, ending))
}

/// Creates the directories and an empty file if they do not exist. SQLite gives its other files the mode of
/// this one. Returns the canonical path, so that processes that open the database by another name use the
/// same files beside it.
pub(super) fn prepare(path: &Path) -> Result<PathBuf, Error> {
    let context = Context::new(path);
    let make = || {
        let path = std::path::absolute(path)?;
        match open_private(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if let Some(directory) = path.parent() {
                    create_private_directories(directory)?;
                }
                open_private(&path, true)?;
            }
            opened => drop(opened?),
        }
        std::fs::canonicalize(path)
    };
    make().map_err(|error| context.file(error))
}

/// Returns true if the file begins as a database of SQLite, or is empty. A damaged database may begin differently.
#[must_use]
pub fn begins_as_database(path: &Path) -> bool {
    use io::Read as _;
    const HEADER: &[u8; 16] = b"SQLite format 3\0";
    let mut beginning = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(HEADER.len() as u64).read_to_end(&mut beginning));
    read.is_ok() && (beginning.is_empty() || beginning == HEADER)
}

/// Renames a damaged database, with its companions, to `<name>.corrupt-<now>` and returns the new path of the
/// database. Never deletes and never overwrites: if the name is taken, a number is added. A symbolic link is
/// followed and stays: its target is renamed. Does not check that the database is damaged; no process should
/// have it open.
///
/// # Errors
/// Errors of the file system. Files that were renamed before the error stay renamed.
pub fn set_aside(path: &Path, now: Millis) -> io::Result<PathBuf> {
    let path = match std::fs::canonicalize(path) {
        // Only the companions may be left.
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path)?,
        found => found?,
    };
    // The database comes last: while it is in place, a second attempt finds the remaining files.
    let there = COMPANION_SUFFIXES
        .into_iter()
        .chain([""])
        .filter(|ending| with_suffix(&path, ending).exists())
        .collect::<Vec<_>>();
    if there.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "there is no database to set aside",
        ));
    }
    let aside = claim(&path, now)?;
    for ending in there {
        match std::fs::rename(with_suffix(&path, ending), with_suffix(&aside, ending)) {
            // SQLite removes some of the files itself.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// Takes a free name by creating a file exclusively (`create_new`); the rename then replaces that empty file.
fn claim(path: &Path, now: Millis) -> io::Result<PathBuf> {
    for number in 0u32.. {
        let ending = if number == 0 {
            format!(".corrupt-{now}")
        } else {
            format!(".corrupt-{now}-{number}")
        };
        let aside = with_suffix(path, &ending);
        // A companion file that is there already would be taken for one of this database.
        let taken = COMPANION_SUFFIXES
            .iter()
            .any(|companion| with_suffix(&aside, companion).exists());
        if taken {
            continue;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&aside) {
            Ok(_) => return Ok(aside),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "no name is free to set the database aside under",
    ))
}
