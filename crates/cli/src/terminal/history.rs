//! Messages that were typed before, in a file that all chats append to.
//!
//! The first line of the file is `#V2`. Each further line is a message, with `\n` and `\\` in place of line
//! breaks and backslashes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::pastes::without_signs;

const HEADER: &str = "#V2";
/// The maximum number of messages that are kept.
const MAX_MESSAGES: usize = 1_000;

/// History of messages, and a place in it.
#[derive(Debug, Default)]
pub(crate) struct History {
    file: PathBuf,
    messages: Vec<String>,
    /// Index of the message that is shown; `None` while a new one is typed.
    place: Option<usize>,
    /// The new message, while an earlier one is shown.
    draft: String,
}

impl History {
    /// Reads the history. A file that is missing or cannot be read is ignored: the history is only a
    /// convenience.
    pub(crate) fn read(file: PathBuf) -> Self {
        let content = std::fs::read_to_string(&file).unwrap_or_default();
        let mut lines = content.lines().peekable();
        let is_escaped = lines.next_if_eq(&HEADER).is_some();
        let lines = lines.filter(|line| !line.is_empty());
        let mut messages: Vec<String> = lines
            .map(|line| {
                let message = if is_escaped {
                    unescape(line)
                } else {
                    line.to_owned()
                };
                without_signs(&message)
            })
            .collect();
        let excess = messages.len().saturating_sub(MAX_MESSAGES);
        messages.drain(..excess);
        Self {
            file,
            messages,
            place: None,
            draft: String::new(),
        }
    }

    /// Adds a message, unless it is empty, begins with a space or repeats the last one.
    pub(crate) fn add(&mut self, message: &str) {
        self.place = None;
        let is_last = self.messages.last().is_some_and(|last| last == message);
        if message.trim().is_empty() || message.starts_with(' ') || is_last {
            return;
        }
        self.messages.push(message.to_owned());
        // A failure costs only the convenience.
        let _ = append(&self.file, message);
    }

    /// Returns the message before the shown one. `draft` is the current text of the input line.
    pub(super) fn previous(&mut self, draft: &str) -> Option<String> {
        let place = match self.place {
            None => {
                draft.clone_into(&mut self.draft);
                self.messages.len().checked_sub(1)
            }
            Some(place) => place.checked_sub(1),
        }?;
        self.place = Some(place);
        self.messages.get(place).cloned()
    }

    /// Returns the message after the shown one, or the draft.
    pub(super) fn next(&mut self) -> Option<String> {
        let place = self.place? + 1;
        match self.messages.get(place) {
            Some(message) => {
                self.place = Some(place);
                Some(message.clone())
            }
            None => {
                self.place = None;
                Some(std::mem::take(&mut self.draft))
            }
        }
    }

    /// Returns the newest message before the index `before` that contains a text, with its index.
    pub(super) fn find(&self, text: &str, before: usize) -> Option<(usize, &str)> {
        let until = before.min(self.messages.len());
        let mut found = self.messages[..until].iter().enumerate().rev();
        found
            .find(|(_, message)| message.contains(text))
            .map(|(at, message)| (at, message.as_str()))
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }
}

fn append(path: &Path, message: &str) -> std::io::Result<()> {
    let mut options = std::fs::File::options();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    let header = match file.metadata()?.len() {
        0 => format!("{HEADER}\n"),
        _ => String::new(),
    };
    // One call, so that lines of several chats do not mix.
    file.write_all(format!("{header}{}\n", escape(message)).as_bytes())
}

fn escape(message: &str) -> String {
    message.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescape(line: &str) -> String {
    let mut message = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('n') => message.push('\n'),
                Some(other) => message.push(other),
                None => message.push('\\'),
            },
            character => message.push(character),
        }
    }
    message
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn history_outlives_the_process_and_keeps_line_breaks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        let mut history = History::read(file.clone());
        for message in ["one", "one", " secret", "", "two\nlines \\n", "three"] {
            history.add(message);
        }
        let mut history = History::read(file.clone());
        assert_eq!(history.len(), 3);
        assert_eq!(history.previous("draft").as_deref(), Some("three"));
        assert_eq!(history.previous("").as_deref(), Some("two\nlines \\n"));
        assert_eq!(history.next().as_deref(), Some("three"));
        assert_eq!(history.next().as_deref(), Some("draft"));
        assert_eq!(history.next(), None);
        assert_eq!(history.find("o", 3), Some((1, "two\nlines \\n")));
        assert_eq!(history.find("o", 1), Some((0, "one")));
        let content = std::fs::read_to_string(&file).unwrap();
        assert_eq!(content, "#V2\none\ntwo\\nlines \\\\n\nthree\n");
    }

    #[test]
    fn files_without_a_header_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        std::fs::write(&file, "one\na\\nb\n").unwrap();
        let mut history = History::read(file);
        assert_eq!(history.previous("").as_deref(), Some("a\\nb"));
    }
}
