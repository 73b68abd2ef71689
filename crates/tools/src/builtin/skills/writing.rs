//! Writes and removes files of skills.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::workspace::{Directory, ResolvedPath};

/// Writes a whole file in one step, and creates missing directories: no reader sees partial content.
pub(super) fn write(resolved: &ResolvedPath, text: &str) -> io::Result<()> {
    let name = resolved
        .real
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let directory = resolved.open_parent(&mut Vec::new())?;
    let mut aside = OsStr::new(".").to_owned();
    aside.push(name);
    aside.push(format!(".{}.new", std::process::id()));
    let written = write_temporary(&directory, &aside, text).and_then(|()| {
        rustix::fs::renameat(directory.handle(), &aside, directory.handle(), name)
            .map_err(io::Error::from)
    });
    if written.is_err() {
        // A failed cleanup is ignored: the first error matters.
        let _ = rustix::fs::unlinkat(directory.handle(), &aside, AtFlags::empty());
    }
    written
}

fn write_temporary(directory: &Directory, aside: &OsStr, text: &str) -> io::Result<()> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file: OwnedFd = rustix::fs::openat(directory.handle(), aside, flags, mode)?;
    let mut file = File::from(file);
    file.write_all(text.as_bytes())?;
    file.sync_all()
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
