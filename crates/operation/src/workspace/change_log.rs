//! A log of the files that tools change, with their content before, so that a user can take the changes back.

use std::path::{Path, PathBuf};

use cachalot_core::Digest;
use parking_lot::Mutex;

/// Maximum size of all contents that are kept in bytes.
const MAX_BYTES: usize = 64 << 20;

/// The content and the permissions of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptFile {
    /// The content.
    pub bytes: Vec<u8>,
    /// The permissions.
    pub mode: u32,
}

/// A file that tools have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its location, without links.
    pub path: PathBuf,
    /// The content before the first change, `None` if there was no file; or the reason why it cannot be brought back.
    pub before: Result<Option<KeptFile>, &'static str>,
    /// The digest of the content after the last change; `None`: there was no file.
    pub after: Option<Digest>,
}

/// A log of changed files. A file is in it once.
#[derive(Debug, Default)]
pub struct ChangeLog(Mutex<Vec<ChangedFile>>);

impl ChangeLog {
    /// Records a change that a tool has made: the content before and after it.
    pub fn record(&self, path: &Path, before: Option<(&[u8], u32)>, after: Option<&[u8]>) {
        let mut files = self.0.lock();
        let after = after.map(Digest::sha256);
        if let Some(known) = files.iter_mut().find(|known| known.path == path) {
            if known.after != before.map(|(bytes, _)| Digest::sha256(bytes)) {
                known.before = Err("something else changed it between two changes");
            }
            known.after = after;
            return;
        }
        let kept = files.iter().flat_map(|file| file.before.iter().flatten());
        let kept: usize = kept.map(|content| content.bytes.len()).sum();
        let before = match before {
            Some((bytes, _)) if kept + bytes.len() > MAX_BYTES => {
                Err("too much was changed to keep it all")
            }
            before => Ok(before.map(|(bytes, mode)| KeptFile {
                bytes: bytes.to_vec(),
                mode,
            })),
        };
        files.push(ChangedFile {
            path: path.to_owned(),
            before,
            after,
        });
    }

    /// Returns the change of a file since the last call of [`Self::take`].
    #[must_use]
    pub fn get(&self, path: &Path) -> Option<ChangedFile> {
        let files = self.0.lock();
        files.iter().find(|file| file.path == path).cloned()
    }

    /// Takes the changes since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<ChangedFile> {
        std::mem::take(&mut self.0.lock())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_file_are_one() {
        let log = ChangeLog::default();
        let path = Path::new("/w/a");
        log.record(path, None, Some(b"1"));
        log.record(path, Some((b"1", 0o644)), Some(b"2"));
        log.record(Path::new("/w/b"), Some((b"b", 0o600)), None);
        let first = log.get(path);
        let changed = log.take();
        assert_eq!(first.as_ref(), changed.first());
        assert_eq!(log.get(path), None);
        assert_eq!(changed.len(), 2);
        assert_eq!(changed[0].before, Ok(None));
        assert_eq!(changed[0].after, Some(Digest::sha256(b"2")));
        let before = changed[1].before.as_ref().unwrap().as_ref().unwrap();
        assert_eq!((before.bytes.as_slice(), before.mode), (&b"b"[..], 0o600));
        assert_eq!(log.take(), []);
    }

    #[test]
    fn changes_of_others_between_are_noticed() {
        let log = ChangeLog::default();
        let path = Path::new("/w/a");
        log.record(path, Some((b"0", 0o644)), Some(b"1"));
        log.record(path, Some((b"theirs", 0o644)), Some(b"2"));
        assert!(log.take()[0].before.is_err());
    }

    #[test]
    fn only_so_much_is_kept() {
        let log = ChangeLog::default();
        let large = vec![0; MAX_BYTES - 1];
        for (path, bytes) in [("/w/a", large.as_slice()), ("/w/b", b"bb")] {
            log.record(Path::new(path), Some((bytes, 0o644)), None);
        }
        let changed = log.take();
        assert!(changed[0].before.is_ok() && changed[1].before.is_err());
    }
}
