//! Opening of regular files only.

use std::fs::File;
use std::io::{Error, Result};
use std::path::Path;

/// Opens a regular file for reading. The check is made on the open file, and opening never waits: a pipe without a
/// writer, a device, or a file of `/proc` or `/sys` could block, or have no end.
///
/// # Errors
/// The file cannot be opened, or is no regular file.
pub(crate) fn open_regular(path: &Path) -> Result<File> {
    let file = open_without_waiting(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("it is not a regular file"));
    }
    if is_of_kernel(&file) {
        return Err(Error::other("it is a file of the kernel"));
    }
    Ok(file)
}

#[cfg(unix)]
fn open_without_waiting(path: &Path) -> Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> Result<File> {
    File::open(path)
}

/// True for a file whose content the kernel makes up when it is read.
#[cfg(target_os = "linux")]
fn is_of_kernel(file: &File) -> bool {
    /// The types of `proc`, `sysfs`, `debugfs`, `tracefs` and `cgroup2`.
    const KINDS: [rustix::fs::FsWord; 5] =
        [0x9fa0, 0x6265_6572, 0x6462_6720, 0x7472_6163, 0x6367_7270];
    rustix::fs::fstatfs(file).is_ok_and(|status| KINDS.contains(&status.f_type))
}

#[cfg(not(target_os = "linux"))]
fn is_of_kernel(_: &File) -> bool {
    false
}
