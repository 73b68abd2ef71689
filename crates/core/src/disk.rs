//! Full disks: how they are told from other faults of a file system.

use std::fs::OpenOptions;
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
    let mut suffix = [0_u8; 8];
    if getrandom::fill(&mut suffix).is_err() {
        return false;
    }
    let probe = Probe(directory.join(format!(".room-{}", hex::encode(suffix))));
    probe.write().is_err_and(|error| is_full(&error))
}

/// A file that is removed at the end.
struct Probe(PathBuf);

impl Probe {
    fn write(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).open(&self.0)?;
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
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        std::fs::remove_dir(&directory).unwrap();
    }
}
