//! Text of the input line, and the cursor in it.
//!
//! Invariants: the cursor is on the boundary of a grapheme cluster, and the text has no carriage returns.

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// Text that is being typed.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: String,
    /// Byte offset of the cursor.
    cursor: usize,
    /// The text that was deleted last as a whole.
    deleted: String,
}

/// Direction of a movement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Left,
    Right,
}

/// Distance of a movement or of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Cluster,
    Word,
    /// Up to the end of the line.
    Line,
}

impl Editor {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor.
    pub(super) fn before(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Returns the byte offset of the cursor.
    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Replaces the text. The cursor is then at its end.
    pub(super) fn set(&mut self, text: String) {
        self.text.clear();
        self.cursor = 0;
        self.insert(&text);
    }

    /// Takes the text and leaves nothing.
    pub(super) fn take(&mut self) -> String {
        self.cursor = 0;
        std::mem::take(&mut self.text)
    }

    /// Deletes the text.
    pub(super) fn clear(&mut self) {
        self.take();
    }

    pub(super) fn insert(&mut self, text: &str) {
        let text = text.replace('\r', "");
        self.text.insert_str(self.cursor, &text);
        self.place(self.cursor + text.len());
    }

    /// Replaces the text from `start` to the cursor.
    pub(super) fn replace_from(&mut self, start: usize, text: &str) {
        self.text.replace_range(start..self.cursor, text);
        self.place(start + text.len());
    }

    /// Moves the cursor. Returns false if it cannot move.
    pub(super) fn go(&mut self, direction: Direction, unit: Unit) -> bool {
        let target = self.target(direction, unit);
        let moves = target != self.cursor;
        self.cursor = target;
        moves
    }

    /// Moves the cursor to the same column of the line above or below. Returns false if there is none.
    pub(super) fn go_to_line(&mut self, below: bool) -> bool {
        let start = self.line_start();
        let column = self.text[start..self.cursor].graphemes(true).count();
        let (from, to) = if below {
            let end = self.line_end();
            if end == self.text.len() {
                return false;
            }
            let rest = &self.text[end + 1..];
            let length = rest.find('\n').unwrap_or(rest.len());
            (end + 1, end + 1 + length)
        } else {
            if start == 0 {
                return false;
            }
            let from = self.text[..start - 1].rfind('\n').map_or(0, |at| at + 1);
            (from, start - 1)
        };
        let line = &self.text[from..to];
        let place = line.grapheme_indices(true).nth(column);
        self.cursor = from + place.map_or(line.len(), |(at, _)| at);
        true
    }

    /// Deletes from the cursor.
    pub(super) fn delete(&mut self, direction: Direction, unit: Unit) {
        let mut target = self.target(direction, unit);
        // At the end of a line, the line break is deleted.
        if target == self.cursor && unit == Unit::Line {
            target = self.target(direction, Unit::Cluster);
        }
        let range = target.min(self.cursor)..target.max(self.cursor);
        if unit != Unit::Cluster && !range.is_empty() {
            self.text[range.clone()].clone_into(&mut self.deleted);
        }
        let start = range.start;
        self.text.replace_range(range, "");
        self.place(start);
    }

    /// Inserts the text that was deleted last as a whole.
    pub(super) fn insert_deleted(&mut self) {
        let deleted = self.deleted.clone();
        self.insert(&deleted);
    }

    /// Forgets the text that was deleted last as a whole.
    pub(super) fn forget_deleted(&mut self) {
        self.deleted.clear();
    }

    fn target(&self, direction: Direction, unit: Unit) -> usize {
        match (direction, unit) {
            (Direction::Left, Unit::Cluster) => {
                let before = self.before().graphemes(true).next_back();
                self.cursor - before.map_or(0, str::len)
            }
            (Direction::Right, Unit::Cluster) => {
                let after = self.text[self.cursor..].graphemes(true).next();
                self.cursor + after.map_or(0, str::len)
            }
            (Direction::Left, Unit::Word) => {
                let mut words = self.before().unicode_word_indices();
                words.next_back().map_or(0, |(at, _)| at)
            }
            (Direction::Right, Unit::Word) => {
                let mut words = self.text[self.cursor..].unicode_word_indices();
                let end = words.next().map(|(at, word)| self.cursor + at + word.len());
                end.unwrap_or(self.text.len())
            }
            (Direction::Left, Unit::Line) => self.line_start(),
            (Direction::Right, Unit::Line) => self.line_end(),
        }
    }

    fn line_start(&self) -> usize {
        self.before().rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        let rest = &self.text[self.cursor..];
        self.cursor + rest.find('\n').unwrap_or(rest.len())
    }

    /// Sets the cursor, at the next boundary if the text on both sides combines.
    fn place(&mut self, at: usize) {
        let mut boundary = GraphemeCursor::new(at, self.text.len(), true);
        let is_boundary = boundary.is_boundary(&self.text, 0).unwrap_or(true);
        self.cursor = if is_boundary {
            at
        } else {
            match boundary.next_boundary(&self.text, 0) {
                Ok(Some(next)) => next,
                _ => self.text.len(),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Direction::{Left, Right};
    use super::*;

    fn editor(before: &str, after: &str) -> Editor {
        Editor {
            text: format!("{before}{after}"),
            cursor: before.len(),
            deleted: String::new(),
        }
    }

    #[test]
    fn words_and_lines_are_deleted_and_inserted_again() {
        let mut typed = editor("one two", " three");
        typed.delete(Left, Unit::Word);
        assert_eq!(typed.text(), "one  three");
        typed.go(Right, Unit::Line);
        typed.insert_deleted();
        assert_eq!(typed.text(), "one  threetwo");
        typed.delete(Left, Unit::Line);
        assert!(typed.is_empty());
        let mut lines = editor("one", "\ntwo");
        lines.delete(Right, Unit::Line);
        assert_eq!(lines.text(), "onetwo");
    }

    #[test]
    fn clusters_are_deleted_as_a_whole() {
        let mut typed = editor("a👨‍👩‍👧", "");
        typed.delete(Left, Unit::Cluster);
        assert_eq!(typed.text(), "a");
        let mut typed = editor("鯨e\u{301}", "");
        assert!(typed.go(Left, Unit::Cluster));
        assert_eq!(typed.before(), "鯨");
        assert!(typed.go(Left, Unit::Cluster));
        assert!(!typed.go(Left, Unit::Cluster));
    }

    #[test]
    fn cursor_keeps_its_column_between_lines() {
        let mut typed = editor("first\nse", "cond\nx");
        assert!(typed.go_to_line(false));
        assert_eq!(typed.before(), "fi");
        assert!(!typed.go_to_line(false));
        assert!(typed.go_to_line(true));
        assert_eq!(typed.before(), "first\nse");
        assert!(typed.go_to_line(true));
        assert_eq!(typed.before(), "first\nsecond\nx");
        assert!(!typed.go_to_line(true));
    }

    #[derive(Debug, Clone)]
    enum Edit {
        Insert(String),
        Go(Direction, Unit),
        Line(bool),
        Delete(Direction, Unit),
        Again,
    }

    fn edits() -> impl Strategy<Value = Vec<Edit>> {
        let text = prop_oneof![
            Just("a".to_owned()),
            Just(" word\n".to_owned()),
            Just("\u{301}".to_owned()),
            Just("\u{200d}👧".to_owned()),
            Just("🇫".to_owned()),
            Just("鯨".to_owned()),
            Just("\r\n".to_owned()),
        ];
        let direction = || prop_oneof![Just(Left), Just(Right)];
        let unit = || prop_oneof![Just(Unit::Cluster), Just(Unit::Word), Just(Unit::Line)];
        let edit = prop_oneof![
            3 => text.prop_map(Edit::Insert),
            2 => (direction(), unit()).prop_map(|(to, unit)| Edit::Go(to, unit)),
            1 => any::<bool>().prop_map(Edit::Line),
            1 => (direction(), unit()).prop_map(|(to, unit)| Edit::Delete(to, unit)),
            1 => Just(Edit::Again),
        ];
        prop::collection::vec(edit, 0..40)
    }

    proptest! {
        #[test]
        fn cursor_is_always_on_a_boundary(edits in edits()) {
            let mut typed = Editor::default();
            for edit in edits {
                match edit {
                    Edit::Insert(text) => typed.insert(&text),
                    Edit::Go(to, unit) => { typed.go(to, unit); }
                    Edit::Line(below) => { typed.go_to_line(below); }
                    Edit::Delete(to, unit) => typed.delete(to, unit),
                    Edit::Again => typed.insert_deleted(),
                }
                let mut boundaries: Vec<usize> =
                    typed.text().grapheme_indices(true).map(|(at, _)| at).collect();
                boundaries.push(typed.text().len());
                prop_assert!(boundaries.contains(&typed.cursor()), "{typed:?}");
            }
        }
    }
}
