//! The conversation as a file: scripts of other runtimes receive its path.

use std::fmt;
use std::io::{self, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_model::Message;
use parking_lot::Mutex;
use tempfile::NamedTempFile;

/// The messages of a session. The file is created when a handler first asks for its path; it then
/// contains all messages and is readable by its owner only. It is deleted with the last clone.
#[derive(Clone, Default)]
pub struct Transcript(Arc<Mutex<TranscriptState>>);

#[derive(Default)]
struct TranscriptState {
    messages: Vec<Arc<Message>>,
    /// The number of messages in the file.
    written: usize,
    file: Option<NamedTempFile>,
}

impl Transcript {
    /// Appends a message.
    pub fn add(&self, message: &Arc<Message>) {
        self.0.lock().messages.push(Arc::clone(message));
    }

    /// Clears the transcript, for a conversation that was rewritten.
    pub fn clear(&self) {
        let mut state = self.0.lock();
        state.messages.clear();
        state.written = 0;
        // The old file is obsolete: deletes it.
        state.file = None;
    }

    /// Updates the file and returns its path. `line` formats a message and its index as a line, without
    /// a newline.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn file(&self, line: impl Fn(&Message, usize) -> String) -> io::Result<PathBuf> {
        let mut state = self.0.lock();
        let TranscriptState {
            messages,
            written,
            file,
        } = &mut *state;
        let file = match file {
            Some(file) => file,
            None => {
                *written = 0;
                let made = tempfile::Builder::new()
                    .prefix("cachalot-session-")
                    .suffix(".jsonl")
                    .tempfile()?;
                file.insert(made)
            }
        };
        let lines: String = messages
            .iter()
            .enumerate()
            .skip(*written)
            .map(|(number, message)| line(message, number) + "\n")
            .collect();
        let end = file.as_file_mut().seek(io::SeekFrom::End(0))?;
        if let Err(error) = file.write_all(lines.as_bytes()) {
            // Removes a partial line, which would corrupt the following ones.
            file.as_file_mut().set_len(end)?;
            return Err(error);
        }
        *written = messages.len();
        Ok(file.path().to_owned())
    }

    /// Returns the path of the file, if it exists.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let state = self.0.lock();
        state.file.as_ref().map(|file| file.path().to_owned())
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transcript({})", self.0.lock().messages.len())
    }
}
