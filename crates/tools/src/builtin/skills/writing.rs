//! Writes and removes files of skills.

use std::ffi::OsStr;
use std::io;

use crate::builtin::files::TemporaryFile;
use crate::workspace::{Directory, ResolvedPath};

/// Writes a whole file in one step, and creates missing directories: no reader sees partial content.
pub(super) fn write(resolved: &ResolvedPath, text: &str) -> io::Result<()> {
    let (directory, name) = open(resolved)?;
    let mut file = TemporaryFile::write(&directory, name, text.as_bytes(), None)?;
    file.rename(&directory, name, false)
}

/// Removes a file.
pub(super) fn remove(resolved: &ResolvedPath) -> io::Result<()> {
    let (directory, name) = open(resolved)?;
    directory.remove_file(name)
}

/// Opens the directory of a file, and creates missing directories. Also returns the file's name.
fn open(resolved: &ResolvedPath) -> io::Result<(Directory, &OsStr)> {
    let name = resolved.real.file_name();
    let name = name.ok_or(io::ErrorKind::InvalidInput)?;
    Ok((resolved.open_parent(&mut Vec::new())?, name))
}
