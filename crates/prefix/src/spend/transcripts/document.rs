//! Transcripts that are one JSON document over several lines.

use std::io::BufRead;
use std::path::Path;

use super::{File, client_of};
use crate::lines::{LineError, Lines};
use crate::spend::titles::Title;
use crate::spend::{FileError, SpendReader};

/// Maximum length of a document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 256 << 20;

/// Reads a document whose first line is `beginning`.
pub(in crate::spend) fn read(
    path: &Path,
    beginning: &[u8],
    mut lines: Lines<impl BufRead>,
    reader: &mut SpendReader,
) -> Result<(), FileError> {
    const MALFORMED: FileError = FileError::Malformed { first: 1, count: 1 };
    let mut document = beginning.to_vec();
    loop {
        match lines.next_line() {
            Ok(Some(line)) if document.len() + line.len() <= MAX_DOCUMENT_BYTES => {
                document.extend_from_slice(line);
            }
            Ok(None) => break,
            Ok(Some(_)) | Err(LineError::TooLong) => return Err(MALFORMED),
            Err(LineError::Unreadable(error)) => return Err(error.into()),
        }
    }
    if serde_json::from_slice::<serde::de::IgnoredAny>(&document).is_err() {
        return Err(MALFORMED);
    }
    let client = client_of(&document).filter(|client| client.writes_documents());
    let client = client.ok_or(FileError::Unknown)?;
    let mut file = File::new(client, path, reader);
    let mut title = Title::default();
    title.line(client, &document);
    if file.line(&document, reader) {
        reader.end(Some(file), title);
        Ok(())
    } else {
        Err(MALFORMED)
    }
}
