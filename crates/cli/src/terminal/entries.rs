//! Entries to choose from, as rows below the input line.

use super::cells;
use crate::render::style::Style;
use crate::render::visible::on_one_line;

/// An entry of a list to choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) help: String,
}

/// Direction in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Next,
    Previous,
}

impl Step {
    /// Returns the place after a step in a list of `count` entries, which has no end. Without a place, the step leads
    /// to the first or the last entry.
    pub(super) fn from(self, place: Option<usize>, count: usize) -> usize {
        let last = count.saturating_sub(1);
        match (self, place) {
            (Self::Next, Some(place)) if place < last => place + 1,
            (Self::Next, _) => 0,
            (Self::Previous, Some(place)) if place > 0 => place - 1,
            (Self::Previous, _) => last,
        }
    }
}

/// Returns rows with the entries around the selected one. If there are more than `maximum`, the last row counts them.
pub(super) fn rows<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    selected: Option<usize>,
    maximum: usize,
    room: usize,
    style: Style,
) -> Vec<String> {
    let entries: Vec<&Entry> = entries.into_iter().collect();
    let widest = entries.iter().map(|entry| cells::width(&entry.text)).max();
    let widest = widest.unwrap_or_default().min(room / 2);
    let first = selected.map_or(0, |place| (place + 1).saturating_sub(maximum));
    let shown = entries.iter().enumerate().skip(first).take(maximum);
    let mut rows: Vec<String> = shown
        .map(|(place, entry)| {
            let text = on_one_line(&entry.text);
            let gap = " ".repeat(widest.saturating_sub(cells::width(&text)) + 2);
            let row = format!("  {text}{gap}{}", on_one_line(&entry.help));
            let row = cells::cut(row.trim_end(), room);
            match row.strip_prefix(' ').filter(|_| selected == Some(place)) {
                Some(row) => style.strong(&format!(">{row}")),
                None => style.dim(&row),
            }
        })
        .collect();
    if entries.len() > maximum {
        let place = selected.map_or_else(|| "…".to_owned(), |place| (place + 1).to_string());
        rows.push(style.dim(&format!("  {place} of {}", entries.len())));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_entries_are_reachable() {
        let entries: Vec<Entry> = (1..=9)
            .map(|number| Entry {
                text: format!("entry {number}"),
                help: "help".to_owned(),
            })
            .collect();
        let shown = |selected| rows(&entries, selected, 3, 40, Style::none());
        assert_eq!(
            shown(None),
            [
                "  entry 1  help",
                "  entry 2  help",
                "  entry 3  help",
                "  … of 9"
            ]
        );
        let mut place = None;
        for number in 1..=9 {
            place = Some(Step::Next.from(place, entries.len()));
            let rows = shown(place);
            assert!(
                rows.contains(&format!("> entry {number}  help")),
                "{rows:?}"
            );
            assert_eq!(
                rows.last().map(String::as_str),
                Some(&*format!("  {number} of 9"))
            );
        }
        assert_eq!(Step::Next.from(place, 9), 0);
        assert_eq!(Step::Previous.from(Some(0), 9), 8);
        assert_eq!(Step::Previous.from(None, 9), 8);
        assert_eq!(Step::Next.from(None, 0), 0);
    }
}
