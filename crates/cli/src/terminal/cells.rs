//! Text in the cells of a terminal: width, wrapping and truncation.
//!
//! The only control sequences in such text are colors and styles (`ESC [ … m`), which take no cells.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The sequence that ends all colors and styles.
const RESET: &str = "\x1b[0m";
/// Number of spaces in place of a tab.
const TAB: &str = "    ";

/// A part of a text.
enum Piece<'a> {
    /// A color or style.
    Code(&'a str),
    /// A grapheme cluster: what a reader sees as one character.
    Cluster(&'a str),
}

/// Splits a text.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if let Some(code) = rest.strip_prefix("\x1b[") {
            let end = code.find(|character| ('@'..='~').contains(&character));
            let length = end.map_or(rest.len(), |end| 2 + end + 1);
            let (code, others) = rest.split_at(length);
            rest = others;
            return Some(Piece::Code(code));
        }
        let cluster = rest.graphemes(true).next()?;
        rest = &rest[cluster.len()..];
        Some(Piece::Cluster(cluster))
    })
}

/// Returns the text without colors and styles.
pub(crate) fn plain(text: &str) -> String {
    pieces(text)
        .filter_map(|piece| match piece {
            Piece::Code(_) => None,
            Piece::Cluster(cluster) => Some(cluster),
        })
        .collect()
}

/// Returns the number of cells of a text.
pub(crate) fn width(text: &str) -> usize {
    pieces(text)
        .map(|piece| match piece {
            Piece::Code(_) => 0,
            Piece::Cluster(cluster) => cluster.width(),
        })
        .sum()
}

/// Returns the largest number of cells that a terminal may use for a cluster. Terminals disagree about
/// clusters of several characters, such as families of emoji.
pub(crate) fn widest(cluster: &str) -> usize {
    let by_character: usize = cluster
        .chars()
        .filter_map(|character| character.width())
        .sum();
    cluster.width().max(by_character)
}

/// Returns true if all terminals use the same number of cells for a text.
pub(crate) fn has_certain_width(text: &str) -> bool {
    let text = plain(text);
    let mut clusters = text.graphemes(true);
    clusters.all(|cluster| cluster.width() == widest(cluster))
}

/// Returns the number of rows that a row takes after the terminal was narrowed to `columns`.
pub(crate) fn rows_at(row: &str, columns: usize) -> usize {
    let (mut rows, mut column) = (1, 0);
    for cluster in plain(row).trim_end().graphemes(true) {
        let cells = cluster.width();
        if column + cells > columns.max(1) {
            rows += 1;
            column = 0;
        }
        column += cells;
    }
    rows
}

/// Truncates a text to a number of cells, with `…` at the end if something is missing.
pub(crate) fn cut(text: &str, maximum: usize) -> String {
    let all: usize = plain(text).graphemes(true).map(widest).sum();
    if all <= maximum {
        return text.to_owned();
    }
    let (mut kept, mut cells, mut styled) = (String::new(), 0, false);
    for piece in pieces(text) {
        match piece {
            Piece::Code(code) => {
                kept.push_str(code);
                styled = code != RESET;
            }
            Piece::Cluster(cluster) => {
                cells += widest(cluster);
                if cells + 1 > maximum {
                    break;
                }
                kept.push_str(cluster);
            }
        }
    }
    if maximum > 0 {
        kept.push('…');
    }
    if styled {
        kept.push_str(RESET);
    }
    kept
}

/// Replaces tabs with spaces.
pub(crate) fn without_tabs(text: &str) -> String {
    text.replace('\t', TAB)
}

/// Row that is being filled.
#[derive(Default)]
struct Row {
    text: String,
    cells: usize,
    /// The colors and styles in effect.
    style: String,
    /// The last place where the row can be broken.
    gap: Option<Gap>,
    /// True if the row has something else than spaces.
    has_text: bool,
}

/// A place where a row can be broken.
struct Gap {
    /// Offset in the text of the row.
    at: usize,
    cells: usize,
    style: String,
}

impl Row {
    fn new(style: String) -> Self {
        Self {
            text: style.clone(),
            style,
            ..Self::default()
        }
    }

    fn code(&mut self, code: &str) {
        self.text.push_str(code);
        match code {
            RESET | "\x1b[m" => self.style.clear(),
            code => self.style.push_str(code),
        }
    }

    fn cluster(&mut self, cluster: &str, cells: usize) {
        self.text.push_str(cluster);
        self.cells += cells;
        self.has_text |= cluster != " ";
        // A line of Chinese or Japanese can be broken between any two characters.
        let is_gap = matches!(cluster, " " | "-" | "/") || cells > 1;
        // A break behind the indentation would leave an empty row.
        if is_gap && self.has_text {
            self.gap = Some(Gap {
                at: self.text.len(),
                cells: self.cells,
                style: self.style.clone(),
            });
        }
    }

    /// Ends the row at its last gap, or here if there is none or what follows the gap would not fit into the
    /// next row of `width` cells. Returns the text of the row and the next row.
    fn broken(mut self, width: usize) -> (Filled, Self) {
        let cells = self.cells;
        match self.gap.take().filter(|gap| cells - gap.cells <= width) {
            Some(gap) => {
                let rest = self.text.split_off(gap.at);
                let mut next = Self::new(gap.style.clone());
                next.text.push_str(&rest);
                next.cells = cells - gap.cells;
                next.has_text = next.cells > 0;
                next.style = self.style;
                (Filled::new(self.text, &gap.style), next)
            }
            None => {
                let next = Self::new(self.style.clone());
                (Filled::new(self.text, &self.style), next)
            }
        }
    }
}

/// A row that is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) text: String,
    /// True if the text was broken at a space, which no row has.
    pub(crate) ends_at_space: bool,
}

impl Filled {
    /// Ends a row and its colors and styles.
    fn new(mut text: String, style: &str) -> Self {
        let length = text.trim_end_matches(' ').len();
        let ends_at_space = length < text.len();
        text.truncate(length);
        if !style.is_empty() {
            text.push_str(RESET);
        }
        Self {
            text,
            ends_at_space,
        }
    }
}

/// Breaks a text without line breaks into rows, between words if possible: the first one of at most `first` cells,
/// others of at most `rest` cells.
pub(crate) fn fill(text: &str, first: usize, rest: usize) -> Vec<Filled> {
    let (first, rest) = (first.max(1), rest.max(1));
    let mut rows: Vec<Filled> = Vec::new();
    let mut row = Row::default();
    for piece in pieces(text) {
        let cluster = match piece {
            Piece::Code(code) => {
                row.code(code);
                continue;
            }
            Piece::Cluster(cluster) => cluster,
        };
        let cells = widest(cluster);
        loop {
            let width = if rows.is_empty() { first } else { rest };
            if row.cells + cells <= width || row.cells == 0 {
                break;
            }
            if cluster == " " {
                row.gap = None;
            }
            let (full, next) = row.broken(rest);
            rows.push(full);
            row = next;
        }
        // A space at which the text was broken.
        if cluster == " "
            && row.cells == 0
            && let Some(before) = rows.last_mut()
        {
            before.ends_at_space = true;
            continue;
        }
        row.cluster(cluster, cells);
    }
    let open = !row.style.is_empty();
    rows.push(Filled {
        text: if open { row.text + RESET } else { row.text },
        ends_at_space: false,
    });
    rows
}

/// Wraps a text without line breaks into rows of at most `width` cells, between words if possible. Rows after
/// the first one are indented.
pub(crate) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let width = width.max(2);
    let indent = " ".repeat(indent.min(width / 2));
    let rows = fill(text, width, width - indent.len()).into_iter();
    rows.enumerate()
        .map(|(place, row)| match place {
            0 => row.text,
            _ => format!("{indent}{}", row.text),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_break_between_words_and_keep_their_style() {
        assert_eq!(wrap("one two three", 8, 0), ["one two", "three"]);
        assert_eq!(wrap("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrap("abcdefghij", 4, 0), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("  indented text", 10, 0), ["  indented", "text"]);
        assert_eq!(wrap("鯨は海に住む", 5, 0), ["鯨は", "海に", "住む"]);
        assert_eq!(
            wrap("\x1b[1mone two\x1b[0m three", 4, 0),
            ["\x1b[1mone\x1b[0m", "\x1b[1mtwo\x1b[0m", "thre", "e"]
        );
        // What follows the space would not fit into the next row with its indentation.
        assert_eq!(wrap(" abcdefgh", 7, 3), [" abcdef", "   gh"]);
        assert_eq!(wrap("", 10, 0), [""]);
        // A word that is too long stays behind its indentation.
        assert_eq!(wrap("  abcdefgh", 7, 2), ["  abcde", "  fgh"]);
    }

    #[test]
    fn texts_are_cut_to_cells() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer", 5), "long…");
        assert_eq!(cut("鯨は海に", 5), "鯨は…");
        assert_eq!(cut("\x1b[2mlonger\x1b[0m", 5), "\x1b[2mlong…\x1b[0m");
        assert_eq!(width("\x1b[2m鯨a\x1b[0m"), 3);
    }

    #[test]
    fn rows_are_counted_as_a_narrower_terminal_shows_them() {
        assert_eq!(rows_at("abcdef", 6), 1);
        assert_eq!(rows_at("abcdefg", 6), 2);
        assert_eq!(rows_at("abcdef   ", 6), 1);
        // A wide character does not fit in the last cell.
        assert_eq!(rows_at("a鯨鯨", 4), 2);
        assert_eq!(rows_at("", 4), 1);
        assert!(has_certain_width("\x1b[1m鯨 a\x1b[0m"));
        assert!(!has_certain_width("a 👨‍👩‍👧"));
    }

    proptest! {
        #[test]
        fn no_row_is_too_wide_and_no_word_is_lost(
            text in "([a-z鯨é👨‍👩‍👧 ]|\x1b\\[1m|\x1b\\[0m){0,80}",
            width in 4_usize..40,
            indent in 0_usize..4,
        ) {
            let rows = wrap(&text, width, indent);
            for row in &rows {
                let row = plain(row);
                let cells: usize = row.graphemes(true).map(widest).sum();
                let only_cluster = row.trim_start().graphemes(true).filter(|part| widest(part) > 0).count() == 1;
                prop_assert!(cells <= width || only_cluster, "{row:?}");
            }
            let words = |text: &str| plain(text).replace(' ', "");
            prop_assert_eq!(words(&rows.concat()), words(&text));
        }
    }
}
