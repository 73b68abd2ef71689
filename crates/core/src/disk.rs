//! Full disks, and directories in which no file can be made.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Bytes that must fit where nothing is full: more than any single file that a store begins with.
const PROBE_BYTES: usize = 128 << 10;

/// Returns true if the error says that there is no room: the disk is full, a quota is used up, or the
/// file would be larger than its file system or the limits of the process allow.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// Returns true if a small file cannot be written in this directory for want of room. For errors of
/// libraries that do not say why they failed; writes a file, and removes it.
#[must_use]
pub fn is_full_at(directory: &Path) -> bool {
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let probe = Probe::below(directory);
    probe.is_ok_and(|probe| probe.write().is_err_and(|error| is_full(&error)))
}

/// Checks that files can be made in this directory. If it does not exist, the check is of the nearest one above it that
/// does, in which it would be made. Makes an empty file, and removes it.
///
/// # Errors
/// No file can be made there, or a file stands in the place of a directory.
pub fn check_writable(directory: &Path) -> io::Result<()> {
    let directory = std::path::absolute(directory)?;
    let existing = directory
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())
        .unwrap_or(&directory);
    if !std::fs::metadata(existing)?.is_dir() {
        return Err(ErrorKind::NotADirectory.into());
    }
    Probe::below(existing)?.make().map(drop)
}

/// A file that is removed at the end.
struct Probe(PathBuf);

impl Probe {
    /// A file with a name that no other file in the directory has.
    fn below(directory: &Path) -> io::Result<Self> {
        let mut suffix = [0_u8; 8];
        getrandom::fill(&mut suffix).map_err(io::Error::other)?;
        Ok(Self(
            directory.join(format!(".room-{}", hex::encode(suffix))),
        ))
    }

    fn make(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).open(&self.0)
    }

    fn write(&self) -> io::Result<()> {
        let mut file = self.make()?;
        file.write_all(&[1; PROBE_BYTES])?;
        // Only then have all file systems found a place for it.
        file.sync_data()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_distinguished_from_other_faults() {
        for kind in [
            ErrorKind::StorageFull,
            ErrorKind::QuotaExceeded,
            ErrorKind::FileTooLarge,
        ] {
            assert!(is_full(&kind.into()), "{kind}");
        }
        for kind in [
            ErrorKind::PermissionDenied,
            ErrorKind::ReadOnlyFilesystem,
            ErrorKind::NotFound,
        ] {
            assert!(!is_full(&kind.into()), "{kind}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn dev_full_error_is_recognized_as_full() {
        let mut device = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(is_full(&device.write(b"x").unwrap_err()));
    }

    #[test]
    fn disk_probe_leaves_no_files() {
        let directory = std::env::temp_dir().join(format!("room-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        assert!(!is_full_at(&directory));
        assert!(!is_full_at(&directory.join("absent")));
        check_writable(&directory.join("absent/below")).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        let file = directory.join("file");
        std::fs::write(&file, "").unwrap();
        for below in [file.clone(), file.join("absent/below")] {
            let error = check_writable(&below).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotADirectory);
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_dir(&directory).unwrap();
    }
}
