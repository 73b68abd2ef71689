//! The content of a file: recorded as a witness before it is read, and read from the handle that was opened
//! within the workspace.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cachalot_cache::{Observation, Witness};

use super::IN_MEMORY;
use crate::workspace::Stamp;

/// Maximum size of files whose content is witnessed; results from larger ones are not cached.
const WATCHED: u64 = 256 << 20;

/// The content of a file.
pub(super) enum Source {
    /// The whole content.
    Whole(Bytes),
    /// A file too long for memory: to be read once, from its beginning.
    Stream(Stream),
}

/// A long file.
pub(super) struct Stream {
    pub(super) reader: BufReader<File>,
    before: Stamp,
    asked: PathBuf,
}

impl Source {
    /// Reads an open file, and records the content at `asked` as a witness. If the two differ, the witness is
    /// marked as incomplete, so that no result from it is cached.
    pub(super) fn read(mut file: File, asked: &Path, witness: &Witness) -> io::Result<Self> {
        let size = file.metadata()?.len();
        if size > IN_MEMORY {
            let before = Stamp::of(&file)?;
            if size > WATCHED {
                // Hashing the content would take too long for a request of a few lines.
                witness.spoil(format!("{} is too large to be watched", asked.display()));
            } else {
                witness.observe(Observation::Content(asked));
            }
            return Ok(Self::Stream(Stream {
                reader: BufReader::with_capacity(256 << 10, file),
                before,
                asked: asked.to_owned(),
            }));
        }
        let noted = witness.read(asked);
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.by_ref().take(IN_MEMORY).read_to_end(&mut bytes)?;
        Ok(Self::Whole(match noted {
            Ok(noted) if noted == bytes => noted,
            _ => {
                witness.spoil(format!("{} changed while it was read", asked.display()));
                bytes.into()
            }
        }))
    }
}

impl Stream {
    /// Ends the reading: a change in the meantime marks the witness as incomplete.
    pub(super) fn end(self, witness: &Witness) {
        let after = Stamp::of(self.reader.get_ref());
        if !after.is_ok_and(|after| after == self.before) || !self.before.is_at(&self.asked) {
            witness.spoil(format!(
                "{} changed while it was read",
                self.asked.display()
            ));
        }
    }
}
