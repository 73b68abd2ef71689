//! Writer of a terminal: finished lines go into the scrollback, and the region is repainted below them.
//!
//! Invariants:
//! - Only relative movements are used: the position of the cursor is never read and no scroll region is set.
//! - Every row of the region is narrower than the terminal, so that one row is one line of the terminal until
//!   it is resized. After that, the rows that the terminal made of it are counted.
//! - Between two calls, the cursor is in the region.
//! - Lines in the scrollback are never written again. After a resize, the lines above the region that are certainly
//!   on the screen are wrapped anew.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write;

use super::cells;
use super::line::{self, Line};

/// Starts a frame: the terminal shows it when it is complete.
const BEGIN_FRAME: &str = "\x1b[?2026h\x1b[?25l";
const END_FRAME: &str = "\x1b[?25h\x1b[?2026l";
/// Erases everything below the cursor.
const ERASE_BELOW: &str = "\x1b[J";
/// Erases the rest of the line.
const ERASE_LINE: &str = "\x1b[K";
/// Erases everything on the screen.
const ERASE_ALL: &str = "\x1b[H\x1b[J";

/// Size of a terminal in cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Size {
    /// Returns the number of cells of a row: one less than the terminal has, so that no row is wrapped.
    pub(crate) fn room(self) -> usize {
        self.columns.saturating_sub(1).max(2)
    }
}

/// Rows at the bottom of the terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) rows: Vec<String>,
    /// Row and column of the cursor.
    pub(crate) cursor: (usize, usize),
}

/// Screen of a terminal.
pub(crate) struct Screen<W> {
    out: W,
    size: Size,
    region: Region,
    /// The newest lines above the region, without those that are certainly in the scrollback.
    above: VecDeque<Line>,
    /// The number of the last of these lines that are certainly on the screen, each in one row.
    certain: usize,
    /// False if the terminal does not wrap its rows anew when it is resized.
    is_reflowing: bool,
}

impl<W: Write> Screen<W> {
    /// Creates a screen. The cursor of the terminal is at the beginning of an empty line. `is_reflowing` is false if
    /// the terminal does not wrap its rows anew when it is resized.
    pub(crate) fn new(out: W, size: Size, is_reflowing: bool) -> Self {
        Self {
            out,
            size,
            region: Region::default(),
            above: VecDeque::new(),
            certain: 0,
            is_reflowing,
        }
    }

    /// Returns the size at the last frame.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Writes finished lines above the region and paints the region anew. `size` is the current size of the
    /// terminal.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(crate) fn paint(
        &mut self,
        size: Size,
        finished: Vec<Line>,
        region: Region,
    ) -> std::io::Result<()> {
        let is_resized = size != self.size;
        if finished.is_empty() && !is_resized && region == self.region {
            return Ok(());
        }
        let mut frame = String::from(BEGIN_FRAME);
        self.to_top(&mut frame, size.columns);
        let mut lines = finished;
        if is_resized {
            let seen = self.take_lines_on_screen(&mut frame, size);
            lines = line::rewrap(seen.into_iter().chain(lines), size.room());
        }
        // After a resize, a row may take several lines, so that the rows are not overwritten one by one.
        if is_resized || !lines.is_empty() {
            frame.push_str(ERASE_BELOW);
        }
        for line in &lines {
            frame.push_str(&line.row());
            frame.push_str(ERASE_LINE);
            frame.push_str("\r\n");
        }
        for (place, row) in region.rows.iter().enumerate() {
            if place > 0 {
                frame.push_str("\r\n");
            }
            frame.push_str(row);
            frame.push_str(ERASE_LINE);
        }
        frame.push_str(ERASE_BELOW);
        let (row, column) = region.cursor;
        let below = region.rows.len().saturating_sub(row + 1);
        move_by(&mut frame, below, 'A');
        frame.push('\r');
        move_by(&mut frame, column, 'C');
        frame.push_str(END_FRAME);
        self.size = size;
        self.region = region;
        self.certain += lines.len();
        self.above.extend(lines);
        let room = size.rows.saturating_sub(self.region.rows.len());
        let scrolled = self.above.len().saturating_sub(room);
        self.above.drain(..scrolled);
        self.certain = self.certain.min(self.above.len());
        self.write(&frame)
    }

    /// Moves from the region to the first of the lines above it that are certainly on the screen, and takes them.
    ///
    /// A terminal that becomes lower gives up blank rows at its end first. When it wraps its rows anew, it keeps the
    /// last ones in view, with the blank rows that are left.
    fn take_lines_on_screen(&mut self, frame: &mut String, size: Size) -> Vec<Line> {
        let taken = self.certain + self.region.rows.len();
        let blank = self.size.rows.saturating_sub(taken);
        let blank = blank.saturating_sub(self.size.rows.saturating_sub(size.rows));
        let rows_of = |row: &str| cells::rows_at(row, size.columns);
        let region: usize = self.region.rows.iter().map(|row| rows_of(row)).sum();
        let room = size.rows.saturating_sub(region + blank);
        let (mut lines, mut rows) = (0, 0);
        let certain = self.above.iter().rev().take(self.certain);
        for line in certain.take_while(|_| self.is_reflowing) {
            let row = line.row();
            let rows_of_line = rows_of(&row);
            if rows + rows_of_line > room || !cells::has_certain_width(&row) {
                break;
            }
            lines += 1;
            rows += rows_of_line;
        }
        move_by(frame, rows, 'A');
        self.certain = 0;
        let others = self.above.len() - lines;
        self.above.split_off(others).into()
    }

    /// Erases the whole screen, on which something else may have written. Returns the lines above the region, which
    /// are to be printed again.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(crate) fn erase(&mut self) -> std::io::Result<Vec<Line>> {
        self.region = Region::default();
        self.certain = 0;
        self.write(ERASE_ALL)?;
        Ok(line::rewrap(self.above.drain(..), self.size.room()))
    }

    /// Erases the region. The cursor is then at the beginning of an empty line.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(crate) fn clear(&mut self, size: Size) -> std::io::Result<()> {
        let mut frame = String::from(BEGIN_FRAME);
        self.to_top(&mut frame, size.columns);
        frame.push_str(ERASE_BELOW);
        frame.push_str(END_FRAME);
        self.size = size;
        self.region = Region::default();
        self.write(&frame)
    }

    /// Forgets the region: something else has written to the terminal. The next frame begins on a new line.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(crate) fn forget(&mut self) -> std::io::Result<()> {
        self.region = Region::default();
        self.above.clear();
        self.certain = 0;
        self.write("\r\n")
    }

    /// Writes a control sequence.
    ///
    /// # Errors
    /// The terminal accepts no output.
    pub(crate) fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Moves to the first cell of the region, which the terminal may have wrapped for a new width.
    fn to_top(&self, frame: &mut String, columns: usize) {
        let (row, column) = self.region.cursor;
        let columns = columns.max(1);
        let above = self.region.rows.iter().take(row);
        let above: usize = above.map(|row| cells::rows_at(row, columns)).sum();
        // The cursor stays in the last of the rows that its row was wrapped into.
        let within = self.region.rows.get(row).map_or(0, |text| {
            (column / columns).min(cells::rows_at(text, columns) - 1)
        });
        frame.push('\r');
        move_by(frame, above + within, 'A');
    }
}

fn move_by(frame: &mut String, cells: usize, direction: char) {
    if cells > 0 {
        // Writing to a string does not fail.
        let _ = write!(frame, "\x1b[{cells}{direction}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use avt::Terminal;
    use proptest::prelude::*;

    use super::*;

    /// A terminal in memory.
    struct Shown {
        terminal: Terminal,
        screen: Screen<Vec<u8>>,
    }

    impl Shown {
        fn new(columns: usize, rows: usize) -> Self {
            Self {
                terminal: Terminal::with_scrollback(columns, rows, None).unwrap(),
                screen: Screen::new(Vec::new(), Size { columns, rows }, true),
            }
        }

        fn paint(&mut self, finished: &[&str], rows: &[&str], cursor: (usize, usize)) {
            let (columns, height) = self.terminal.size();
            let size = Size {
                columns,
                rows: height,
            };
            let finished = finished.iter();
            let finished = finished.flat_map(|line| Line::indented(line).wrap(size.room()));
            let region = Region {
                rows: rows
                    .iter()
                    .map(|&row| cells::cut(row, size.room()))
                    .collect(),
                cursor,
            };
            self.screen.paint(size, finished.collect(), region).unwrap();
            self.feed();
        }

        fn feed(&mut self) {
            let written = std::mem::take(&mut self.screen.out);
            self.terminal
                .feed(String::from_utf8(written).unwrap().as_str());
        }

        fn resize(&mut self, columns: usize, rows: usize) {
            self.terminal.resize(columns, rows);
        }

        /// Resizes the terminal. Returns false if rows of the region are then in the scrollback, where no
        /// program can erase them.
        ///
        /// A strong narrowing does this if the wrapped region is higher than the screen, or if the screen is
        /// nearly empty. The blank rows below the cursor are lines of the terminal: when it wraps the rows
        /// above them, it keeps the blank rows in view and moves the first rows into the scrollback, although
        /// there is room for all. `Screen` learns of the new size after that. It could only begin at the
        /// bottom of the screen, with no blank rows below, and would have to scroll away what a shell shows.
        fn resize_in_view(&mut self, columns: usize, rows: usize) -> bool {
            let cursor = self.terminal.cursor_position();
            let (row, _) = self.screen.region.cursor;
            let top = avt::Position {
                col: 0,
                row: cursor.row - isize::try_from(row).unwrap(),
                ..cursor
            };
            let top = self.terminal.anchor_at(top).unwrap();
            self.terminal.resize(columns, rows);
            self.terminal.resolve(&top).is_some_and(|top| top.row >= 0)
        }

        /// Everything in the scrollback and on the screen, without empty lines at the end.
        fn text(&self) -> Vec<String> {
            let mut text = self.terminal.screen().text();
            while text.last().is_some_and(|line| line.is_empty()) {
                text.pop();
            }
            text
        }
    }

    #[test]
    fn region_stays_below_finished_lines() {
        let mut shown = Shown::new(20, 5);
        shown.paint(&[], &["> "], (0, 2));
        shown.paint(&["one"], &["working", "> typed", "status"], (1, 7));
        assert_eq!(shown.text(), ["one", "working", "> typed", "status"]);
        let cursor = shown.terminal.cursor();
        assert_eq!((cursor.col, cursor.row), (7, 2));
        shown.paint(&["two", "three", "four", "five"], &["> "], (0, 2));
        assert_eq!(
            shown.text(),
            ["one", "two", "three", "four", "five", "> "].map(str::trim_end)
        );
        shown.screen.clear(shown.screen.size()).unwrap();
        shown.feed();
        assert_eq!(shown.text(), ["one", "two", "three", "four", "five"]);
    }

    #[test]
    fn wrapped_rows_are_erased_after_a_resize() {
        let mut shown = Shown::new(40, 20);
        let wide = "x".repeat(39);
        let printed = ["line"; 30];
        shown.paint(&printed, &[&wide, "> some input", &wide], (1, 12));
        for columns in [10, 25, 12, 40] {
            shown.resize(columns, 20);
            shown.paint(&[], &[&wide, "> some input", &wide], (1, 8));
            let rows = [&wide, "> some input", &wide].map(|row| cells::cut(row, columns - 1));
            let text = shown.text();
            let (lines, region) = text.split_at(printed.len());
            assert_eq!(lines, printed, "{columns}");
            assert_eq!(region, rows, "{columns}");
        }
    }

    #[test]
    fn words_on_the_screen_are_whole_after_a_resize() {
        const WORDS: [&str; 5] = ["baleen", "krill", "sonar", "ambergris", "spout"];
        for reflows in [true, false] {
            let mut shown = Shown::new(70, 20);
            shown.screen.is_reflowing = reflows;
            let words = || (0..30).map(|at| WORDS[at * 7 % 5]);
            let line = words().collect::<Vec<_>>().join(" ");
            for _ in 0..10 {
                shown.paint(&[&line], &["working", "> "], (1, 2));
            }
            shown.resize(33, 20);
            shown.paint(&[], &["> "], (0, 2));
            // Row by row, as the terminal breaks them.
            let rows = shown.terminal.screen().visible_lines().skip(1);
            let view: Vec<String> = rows.map(avt::Line::text).collect();
            let has_broken_word = view
                .iter()
                .flat_map(|row| row.split_whitespace())
                .any(|word| word != ">" && !WORDS.contains(&word));
            assert_eq!(has_broken_word, !reflows, "{view:#?}");
            let text: Vec<String> = shown.text();
            assert_eq!(
                text.concat().replace([' ', '>'], ""),
                words().collect::<String>().repeat(10)
            );
        }
    }

    #[test]
    fn erased_screen_is_painted_again() {
        let mut shown = Shown::new(20, 5);
        shown.paint(&["one", "two", "three", "four", "five"], &["> "], (0, 2));
        shown.terminal.feed("\x1b[2;3Hnoise\r\n\r\n\r\nnoise");
        let lines = shown.screen.erase().unwrap();
        let lines: Vec<String> = lines.iter().map(Line::row).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        shown.paint(&lines, &["> typed"], (0, 7));
        assert_eq!(
            shown.text(),
            ["one", "two", "three", "four", "five", "> typed"]
        );
        // Lines that may have left the screen are printed, too.
        let mut shown = Shown::new(40, 9);
        shown.paint(&["one two three", "four", "five"], &["> "], (0, 2));
        shown.resize(9, 9);
        shown.paint(&[], &["> "], (0, 2));
        let lines = shown.screen.erase().unwrap();
        let lines: Vec<String> = lines.iter().map(Line::row).collect();
        assert_eq!(lines, ["one two", "three", "four", "five"]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Print(Vec<String>),
        Paint(Vec<String>, usize),
        Resize(usize, usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let text = "[a-z鯨 ]{0,50}";
        let row = "[a-z鯨]{0,30}";
        let step = prop_oneof![
            prop::collection::vec(text, 1..4).prop_map(Step::Print),
            (prop::collection::vec(row, 1..4), 0_usize..3)
                .prop_map(|(rows, cursor)| Step::Paint(rows, cursor)),
            (12_usize..80, 14_usize..30).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
        ];
        prop::collection::vec(step, 1..24)
    }

    proptest! {
        /// Whatever happens, the terminal shows all finished lines once, and the region once.
        #[test]
        fn no_row_is_stale_or_missing_at_any_width(steps in steps()) {
            let mut shown = Shown::new(60, 20);
            let mut printed: Vec<String> = Vec::new();
            let mut region: Vec<String> = vec!["> ".to_owned()];
            let mut cursor = (0, 0);
            for step in steps {
                let mut finished = Vec::new();
                match step {
                    Step::Print(lines) => finished = lines,
                    Step::Paint(rows, at) => {
                        cursor = (at.min(rows.len() - 1), 0);
                        region = rows;
                    }
                    Step::Resize(columns, rows) => {
                        if !shown.resize_in_view(columns, rows) {
                            return Ok(());
                        }
                    }
                }
                printed.extend(finished.iter().cloned());
                let finished: Vec<&str> = finished.iter().map(String::as_str).collect();
                let rows: Vec<&str> = region.iter().map(String::as_str).collect();
                let room = shown.terminal.size().0 - 1;
                let at = (cursor.0, cells::width(&cells::cut(rows[cursor.0], room)));
                shown.paint(&finished, &rows, at);
                let mut expected = printed.clone();
                expected.extend(rows.iter().map(|row| cells::cut(row, room)));
                // The rows above the region may be wrapped anew, and a terminal puts a space where a wide character
                // did not fit.
                let squeezed = |lines: Vec<String>| lines.concat().replace(' ', "");
                prop_assert_eq!(squeezed(shown.text()), squeezed(expected));
            }
        }
    }
}
