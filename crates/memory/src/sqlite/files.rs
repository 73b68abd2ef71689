//! The files of a memory: made for their owner only, set aside when damaged, never deleted.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use cachalot_core::Millis;

use crate::Error;

use super::failure::Context;

/// What SQLite and we append to the name of the database.
const COMPANIONS: [&str; 4] = ["-wal", "-shm", "-journal", "-stamp"];

/// The files that a database at this path consists of: itself, and what is kept beside it. They need
/// not be there.
pub fn files_of(path: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let endings = [""].into_iter().chain(COMPANIONS);
    endings.map(|ending| beside(path, ending))
}

/// Makes the directories and an empty file if they are not there. SQLite gives its other files the
/// mode of this one. The path that comes back is the file's own, without symbolic links: whoever reaches
/// the database by another name finds the same files beside it.
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

/// Opens a file for reading and writing; what is created is readable by its owner only.
pub(super) fn open_private(path: &Path, create: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn create_private_directories(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)
}

/// The file of that ending beside the database.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Renames a damaged database, with its companions, to `<name>.corrupt-<now>` and returns the new path
/// of the database. Never deletes and never overwrites: if the name is taken, a number is added. A symbolic
/// link is followed and stays: what is renamed is what it leads to. Does not check that the database is
/// damaged; nobody should have it open.
///
/// # Errors
/// The file system's. What had been renamed before it failed stays renamed.
pub fn set_aside(path: &Path, now: Millis) -> io::Result<PathBuf> {
    let path = match std::fs::canonicalize(path) {
        // Only what stands beside it may be left.
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path)?,
        found => found?,
    };
    // The database last: while it is in place, a second attempt finds what is left to do.
    let there = COMPANIONS
        .into_iter()
        .chain([""])
        .filter(|ending| beside(&path, ending).exists())
        .collect::<Vec<_>>();
    if there.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "there is no database to set aside",
        ));
    }
    let aside = claim(&path, now)?;
    for ending in there {
        match std::fs::rename(beside(&path, ending), beside(&aside, ending)) {
            // SQLite removes some of them itself.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// Takes a free name by creating a file under it that nobody else can have created; the rename then
/// replaces that empty file of ours.
fn claim(path: &Path, now: Millis) -> io::Result<PathBuf> {
    for number in 0u32.. {
        let ending = if number == 0 {
            format!(".corrupt-{now}")
        } else {
            format!(".corrupt-{now}-{number}")
        };
        let aside = beside(path, &ending);
        let taken = COMPANIONS
            .iter()
            .any(|companion| beside(&aside, companion).exists());
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
