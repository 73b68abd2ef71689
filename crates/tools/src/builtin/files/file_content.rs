//! The content of a file: recorded as a witness before it is read, and read from the handle that was opened
//! within the workspace.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cachalot_cache::{Observation, Witness};

use super::MAX_IN_MEMORY_BYTES;
use crate::workspace::FileStamp;

/// Maximum size of files whose content is witnessed; results from larger ones are not cached.
const MAX_WITNESSED_BYTES: u64 = 256 << 20;

/// The content of a file.
pub(super) enum FileContent {
    /// The whole content.
    Whole(Bytes),
    /// A file too long for memory: to be read once, from its beginning.
    FileStream(FileStream),
}

/// A long file.
pub(super) struct FileStream {
    pub(super) reader: BufReader<File>,
    before: FileStamp,
    requested: PathBuf,
}

impl FileContent {
    /// Reads an open file, and records the content at `requested` as a witness. If the two differ, the witness is
    /// marked as incomplete, so that no result from it is cached.
    pub(super) fn read(mut file: File, requested: &Path, witness: &Witness) -> io::Result<Self> {
        let size = file.metadata()?.len();
        if size > MAX_IN_MEMORY_BYTES {
            let before = FileStamp::new(&file)?;
            if size > MAX_WITNESSED_BYTES {
                // Hashing the content would take too long for a request of a few lines.
                witness.mark_incomplete(format!(
                    "{} is too large to be watched",
                    requested.display()
                ));
            } else {
                witness.observe(Observation::Content(requested));
            }
            return Ok(Self::FileStream(FileStream {
                reader: BufReader::with_capacity(256 << 10, file),
                before,
                requested: requested.to_owned(),
            }));
        }
        let noted = witness.read(requested);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.by_ref()
            .take(MAX_IN_MEMORY_BYTES)
            .read_to_end(&mut bytes)?;
        Ok(Self::Whole(match noted {
            Ok(noted) if noted == bytes => noted,
            _ => {
                witness
                    .mark_incomplete(format!("{} changed while it was read", requested.display()));
                bytes.into()
            }
        }))
    }
}

impl FileStream {
    /// Ends the reading: a change in the meantime marks the witness as incomplete.
    pub(super) fn end(self, witness: &Witness) {
        let after = FileStamp::new(self.reader.get_ref());
        if !after.is_ok_and(|after| after == self.before) || !self.before.is_at(&self.requested) {
            witness.mark_incomplete(format!(
                "{} changed while it was read",
                self.requested.display()
            ));
        }
    }
}
