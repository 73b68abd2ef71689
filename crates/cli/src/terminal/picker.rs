//! List from which the user chooses an entry; the input line filters it.

use tokio::sync::oneshot;

use super::entries::{self, Entry, Step};
use crate::render::style::Style;

/// List that is open.
pub(super) struct Picker {
    pub(super) id: u64,
    /// Label of the input line.
    pub(super) label: &'static str,
    entries: Vec<Entry>,
    /// The input line from before.
    pub(super) typed: String,
    /// Index among the entries that match.
    selected: usize,
    reply: oneshot::Sender<Option<usize>>,
}

impl Picker {
    pub(super) fn new(
        id: u64,
        label: &'static str,
        entries: Vec<Entry>,
        typed: String,
        reply: oneshot::Sender<Option<usize>>,
    ) -> Self {
        Self {
            id,
            label,
            entries,
            typed,
            selected: 0,
            reply,
        }
    }

    /// Returns the indices of the entries that contain all words of a text.
    fn matching(&self, filter: &str) -> Vec<usize> {
        let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
        let is_match = |entry: &Entry| {
            let text = format!("{} {}", entry.text, entry.help).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let entries = self.entries.iter().enumerate();
        let matching = entries.filter(|(_, entry)| is_match(entry));
        matching.map(|(place, _)| place).collect()
    }

    /// Selects the next or the previous entry.
    pub(super) fn go(&mut self, step: Step, filter: &str) {
        self.selected = step.from(Some(self.selected), self.matching(filter).len());
    }

    /// Selects the first entry: the filter has changed.
    pub(super) fn begin(&mut self) {
        self.selected = 0;
    }

    /// Returns true if an entry is selected.
    pub(super) fn has_selection(&self, filter: &str) -> bool {
        self.selected < self.matching(filter).len()
    }

    /// Closes the list with the selected entry, and returns the input line from before.
    pub(super) fn choose(self, filter: &str) -> String {
        let chosen = self.matching(filter).get(self.selected).copied();
        self.close(chosen)
    }

    /// Closes the list without an entry, and returns the input line from before.
    pub(super) fn cancel(self) -> String {
        self.close(None)
    }

    fn close(self, chosen: Option<usize>) -> String {
        // A program that has stopped waiting needs no entry.
        let _ = self.reply.send(chosen);
        self.typed
    }

    /// Returns the rows of the entries that match, and the keys.
    pub(super) fn rows(
        &self,
        filter: &str,
        maximum: usize,
        room: usize,
        style: Style,
    ) -> Vec<String> {
        let matching = self.matching(filter);
        let shown = matching.iter().filter_map(|place| self.entries.get(*place));
        let mut rows = entries::rows(shown, Some(self.selected), maximum, room, style);
        if matching.is_empty() {
            rows.push(style.dim("  no entry has this text"));
        }
        rows.push(style.dim("  arrows select · Enter chooses · Esc closes · text filters"));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picker() -> (Picker, oneshot::Receiver<Option<usize>>) {
        let (reply, chosen) = oneshot::channel();
        let entry = |text: &str| Entry {
            text: text.to_owned(),
            help: String::new(),
        };
        let entries = ["openai/small", "other/small", "openai/large"].map(entry);
        let typed = "half".to_owned();
        (
            Picker::new(0, "model: ", entries.to_vec(), typed, reply),
            chosen,
        )
    }

    #[test]
    fn entries_are_filtered_and_chosen() {
        let (mut list, mut chosen) = picker();
        list.go(Step::Next, "openai");
        assert_eq!(
            list.rows("OpenAI", 5, 40, Style::none())[..2],
            ["  openai/small", "> openai/large"]
        );
        assert_eq!(list.choose("openai"), "half");
        assert_eq!(chosen.try_recv(), Ok(Some(2)));
        let (list, mut chosen) = picker();
        assert!(!list.has_selection("nothing"));
        assert_eq!(list.cancel(), "half");
        assert_eq!(chosen.try_recv(), Ok(None));
    }
}
