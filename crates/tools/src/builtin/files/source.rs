//! The content of a file: noted before it is looked at, and read from the handle that was opened
//! within the workspace.

use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cachalot_cache::{Observation, Witness};

use super::IN_MEMORY;
use crate::workspace::Stamp;

/// Of a larger file nothing is kept.
const WATCHED: u64 = 256 << 20;

/// The content of a file.
pub(super) enum Source {
    /// All of it.
    Whole(Bytes),
    /// Too long to be held: to be read once, from its beginning.
    Stream(Stream),
}

/// A long file.
pub(super) struct Stream {
    pub(super) reader: BufReader<File>,
    before: Stamp,
    asked: PathBuf,
}

impl Source {
    /// Reads an open file, and notes that what lies at `asked` was looked at. If that is not what was
    /// read, nothing that is made of it is kept.
    pub(super) fn read(mut file: File, asked: &Path, witness: &Witness) -> io::Result<Self> {
        let size = file.metadata()?.len();
        if size > IN_MEMORY {
            let before = Stamp::of(&file)?;
            if size > WATCHED {
                // To note what it holds would take longer than anybody wants to wait for a few lines.
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
    /// Called when enough was read: what changed meanwhile spoils the witness.
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
