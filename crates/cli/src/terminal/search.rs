//! Search in the history of messages.

use super::editor::{Direction, Unit};
use super::history::History;
use super::keys::Key;

/// A search in progress.
pub(super) struct Search {
    text: String,
    /// Index of the message that is shown.
    place: usize,
    /// The input line from before.
    typed: String,
}

/// The effect of a key.
pub(super) enum SearchStep {
    /// Show this message.
    Show(String),
    /// Nothing is found.
    Wait,
    /// The search ends, and the input line is as before.
    GiveUp(String),
    /// The search ends, and the message stays in the input line. `is_used` is false if the key means something
    /// else there.
    Accept { is_used: bool },
}

impl Search {
    /// Begins a search. `typed` is the input line, and `messages` the number of messages.
    pub(super) fn new(typed: String, messages: usize) -> Self {
        Self {
            text: String::new(),
            place: messages,
            typed,
        }
    }

    /// Returns the label of the input line.
    pub(super) fn label(&self) -> String {
        format!("search `{}`: ", self.text)
    }

    /// Processes a key.
    pub(super) fn key(&mut self, key: Key, history: &History) -> SearchStep {
        let before = match key {
            Key::Sign(character) => {
                self.text.push(character);
                // The message that is shown may still match.
                self.place + 1
            }
            Key::Delete(Direction::Left, Unit::Cluster) => {
                self.text.pop();
                history.len()
            }
            Key::Search => self.place,
            Key::Escape => return SearchStep::GiveUp(std::mem::take(&mut self.typed)),
            // A second Enter sends the message.
            key => {
                return SearchStep::Accept {
                    is_used: key == Key::Enter,
                };
            }
        };
        match history.find(&self.text, before) {
            Some((place, message)) if !self.text.is_empty() => {
                self.place = place;
                SearchStep::Show(message.to_owned())
            }
            _ => SearchStep::Wait,
        }
    }
}
