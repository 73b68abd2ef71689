//! Rows of the region: running work, queued messages, the question, the input line and the status.

use std::time::Duration;

use unicode_segmentation::UnicodeSegmentation as _;

use super::cells;
use super::pastes::Pastes;
use super::screen::{Region, Size};
use crate::render::long_text;
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};

const SPINNER_FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
/// The maximum number of rows of running work, and of queued messages.
const MAX_LISTED: usize = 4;
/// The maximum number of rows of the input line.
const MAX_INPUT_ROWS: usize = 10;

/// Input line as it is shown.
pub(super) struct InputView<'a> {
    pub(super) label: String,
    pub(super) text: &'a str,
    /// Byte offset of the cursor.
    pub(super) cursor: usize,
    /// The pasted texts that characters of the text stand for.
    pub(super) pastes: &'a Pastes,
}

/// Work in progress as it is shown.
pub(super) struct WorkView<'a> {
    pub(super) label: &'a str,
    pub(super) elapsed: Duration,
    /// The last lines of its output.
    pub(super) output: Vec<String>,
}

/// Content of the region.
pub(super) struct View<'a> {
    pub(super) style: Style,
    /// Rows of the answer that are not finished.
    pub(super) live: Vec<String>,
    /// Running work; `None` if the terminal waits for the user.
    pub(super) work: Option<Vec<WorkView<'a>>>,
    pub(super) queue: Vec<&'a str>,
    /// Rows of the open question.
    pub(super) question: Vec<String>,
    pub(super) input: InputView<'a>,
    /// Rows below the input line: completions, a hint or the status.
    pub(super) below: Vec<String>,
}

impl View<'_> {
    /// Lays out the rows for a terminal.
    pub(super) fn region(&self, size: Size) -> Region {
        let room = size.room();
        let budget = size.rows.saturating_sub(1).max(1);
        let mut above = self.live.clone();
        above.extend(self.work_rows(room));
        above.extend(self.queue_rows(room));
        let question = self.question.iter();
        let question = question.flat_map(|row| cells::wrap(row, room, 4));
        above.extend(question);
        let maximum = MAX_INPUT_ROWS.min(budget.saturating_sub(2).max(1));
        let (input, (row, column)) = input_rows(&self.input, room, maximum);
        let mut below: Vec<String> = self.below.iter().map(|row| cells::cut(row, room)).collect();
        below.truncate(budget - input.len());
        // On a low terminal, the rows at the top are left out.
        let excess = (above.len() + input.len() + below.len()).saturating_sub(budget);
        above.drain(..excess.min(above.len()));
        let cursor = (above.len() + row, column);
        let rows = above.into_iter().chain(input).chain(below);
        Region {
            rows: rows.map(|row| cells::cut(&row, room)).collect(),
            cursor,
        }
    }

    fn work_rows(&self, room: usize) -> Vec<String> {
        let Some(work) = &self.work else {
            return Vec::new();
        };
        let dim = |row: &str| self.style.dim(&cells::cut(row, room));
        let mut rows = Vec::new();
        let hidden = work.len().saturating_sub(MAX_LISTED);
        for work in work.iter().skip(hidden) {
            let frame = (work.elapsed.as_millis() / 100) as usize % SPINNER_FRAMES.len();
            let end = format!(" {} s", work.elapsed.as_secs());
            let label = cells::cut(work.label, room.saturating_sub(cells::width(&end) + 2));
            rows.push(dim(&format!("{} {label}{end}", SPINNER_FRAMES[frame])));
            let output = work.output.iter();
            rows.extend(output.map(|line| dim(&format!("    {}", cells::without_tabs(line)))));
        }
        if hidden > 0 {
            rows.push(dim(&format!("  … {hidden} more")));
        }
        rows.push(dim("  Esc interrupts"));
        rows
    }

    fn queue_rows(&self, room: usize) -> Vec<String> {
        let shown = self.queue.iter().take(MAX_LISTED);
        let mut rows: Vec<String> = shown
            .map(|text| cells::cut(&format!("  queued: {}", on_one_line(text)), room))
            .map(|row| self.style.dim(&row))
            .collect();
        let hidden = self.queue.len().saturating_sub(MAX_LISTED);
        if hidden > 0 {
            rows.push(self.style.dim(&format!("  … {hidden} more queued")));
        }
        rows
    }
}

/// Returns the number of lines of output that each of the running works may show: together a third of the
/// terminal, if they are not too many.
pub(super) fn output_lines(size: Size, works: usize) -> usize {
    let listed = works.clamp(1, MAX_LISTED);
    (size.rows / 3 / listed).clamp(1, long_text::RUNNING_OUTPUT)
}

/// Lays out the input line. Returns its rows and the place of the cursor.
fn input_rows(input: &InputView<'_>, room: usize, maximum: usize) -> (Vec<String>, (usize, usize)) {
    let indent = cells::width(&input.label).min(room / 2);
    let label = cells::cut(&input.label, indent);
    let mut rows = vec![label];
    let mut column = indent;
    let mut cursor = None;
    let next_row = |rows: &mut Vec<String>, column: &mut usize| {
        rows.push(" ".repeat(indent));
        *column = indent;
    };
    for (at, cluster) in input.text.grapheme_indices(true) {
        if cluster == "\n" {
            if at == input.cursor {
                cursor = Some((rows.len() - 1, column));
            }
            next_row(&mut rows, &mut column);
            continue;
        }
        let shown = cells::without_tabs(&visible(&input.pastes.shown(cluster)));
        // One cell is left for the cursor behind the last character.
        if column + cells::widest(&shown) >= room && column > indent {
            next_row(&mut rows, &mut column);
        }
        if at == input.cursor {
            cursor = Some((rows.len() - 1, column));
        }
        if let Some(row) = rows.last_mut() {
            row.push_str(&shown);
        }
        column += cells::width(&shown);
    }
    let (row, column) = cursor.unwrap_or((rows.len() - 1, column));
    // The rows around the cursor are shown.
    let first = (row + 1).saturating_sub(maximum);
    let rows: Vec<String> = rows.into_iter().skip(first).take(maximum).collect();
    (rows, (row - first, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PASTES: &Pastes = &Pastes::new();

    fn input<'a>(text: &'a str, cursor: usize) -> InputView<'a> {
        InputView {
            label: "> ".to_owned(),
            text,
            cursor,
            pastes: NO_PASTES,
        }
    }

    #[test]
    fn input_is_wrapped_and_the_cursor_is_in_view() {
        let (rows, cursor) = input_rows(&input("abcdefgh", 8), 8, 5);
        assert_eq!(rows, ["> abcde", "  fgh"]);
        assert_eq!(cursor, (1, 5));
        let (rows, cursor) = input_rows(&input("one\ntwo", 3), 20, 5);
        assert_eq!(rows, ["> one", "  two"]);
        assert_eq!(cursor, (0, 5));
        let (rows, cursor) = input_rows(&input("鯨鯨鯨", 6), 8, 5);
        assert_eq!(rows, ["> 鯨鯨", "  鯨"]);
        assert_eq!(cursor, (1, 2));
        let text = "1\n2\n3\n4\n5\n6";
        let (rows, cursor) = input_rows(&input(text, text.len()), 20, 3);
        assert_eq!(rows, ["  4", "  5", "  6"]);
        assert_eq!(cursor, (2, 3));
        let (rows, cursor) = input_rows(&input(text, 0), 20, 3);
        assert_eq!(rows, ["> 1", "  2", "  3"]);
        assert_eq!(cursor, (0, 2));
    }

    #[test]
    fn long_pasted_text_is_one_character_of_the_input() {
        let mut pastes = Pastes::new();
        let typed = format!("see {}!", pastes.fold(&"line\n".repeat(100)));
        let view = InputView {
            pastes: &pastes,
            ..input(&typed, typed.len())
        };
        let (rows, cursor) = input_rows(&view, 40, 5);
        assert_eq!(rows, ["> see [pasted 100 lines]!"]);
        assert_eq!(cursor, (0, 25));
        let (rows, _) = input_rows(&view, 21, 5);
        assert_eq!(rows, ["> see ", "  [pasted 100 lines]", "  !"]);
    }
}
