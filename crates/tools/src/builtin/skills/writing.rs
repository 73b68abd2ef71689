//! Writes and removes files of skills.

use std::io;

use rustix::fs::AtFlags;

use crate::builtin::files::TemporaryFile;
use crate::workspace::ResolvedPath;

/// Writes a whole file in one step, and creates missing directories: no reader sees partial content.
pub(super) fn write(resolved: &ResolvedPath, text: &str) -> io::Result<()> {
    let name = resolved
        .real
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let directory = resolved.open_parent(&mut Vec::new())?;
    let mut file = TemporaryFile::write(&directory, name, text.as_bytes(), None)?;
    file.rename(&directory, name, false)
}

/// Removes a file.
pub(super) fn remove(resolved: &ResolvedPath) -> io::Result<()> {
    let name = resolved
        .real
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let directory = resolved.open_parent(&mut Vec::new())?;
    Ok(rustix::fs::unlinkat(
        directory.handle(),
        name,
        AtFlags::empty(),
    )?)
}
