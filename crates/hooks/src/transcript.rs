//! A conversation as a file: scripts of other runtimes are told a path, and read what was said there.

use std::fmt;
use std::io::{self, Seek as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cachalot_model::Message;
use tempfile::NamedTempFile;

/// What was said in a session. Nothing is written before a handler is told where it lies; then the file
/// holds all of it, readable by its owner only. It is gone with the last clone.
#[derive(Clone, Default)]
pub struct Transcript(Arc<Mutex<Said>>);

#[derive(Default)]
struct Said {
    messages: Vec<Arc<Message>>,
    /// How many of them are in the file.
    written: usize,
    file: Option<NamedTempFile>,
}

impl Transcript {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was said.
    pub fn add(&self, message: &Arc<Message>) {
        self.said().messages.push(Arc::clone(message));
    }

    /// What was said is told anew: it is not what it was.
    pub fn forget(&self) {
        let mut said = self.said();
        said.messages.clear();
        said.written = 0;
        // What is in it is not true any more.
        said.file = None;
    }

    /// The file, up to date. `line` makes a line of a message and its number, without a line end.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn file(&self, line: impl Fn(&Message, usize) -> String) -> io::Result<PathBuf> {
        let mut said = self.said();
        let Said {
            messages,
            written,
            file,
        } = &mut *said;
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
            // Half a line would spoil all that follow.
            file.as_file_mut().set_len(end)?;
            return Err(error);
        }
        *written = messages.len();
        Ok(file.path().to_owned())
    }
}

impl fmt::Debug for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transcript({})", self.said().messages.len())
    }
}
