//! Text tables.

use std::borrow::Cow;
use std::io::IsTerminal as _;

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Minimum width of a column whose text is cut or wrapped.
const MIN_TEXT_WIDTH: usize = 12;

/// Width to which text is cut or wrapped before an optional column is left out.
const READABLE_WIDTH: usize = 32;

/// The space between two columns.
const GAP: usize = 2;

/// A column of a [`table`].
pub(crate) struct Column {
    title: Cow<'static, str>,
    fit: Fit,
    is_optional: bool,
}

/// The treatment of the cells of a column if the table is too wide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    /// The beginning is cut.
    Cut,
    /// The text continues on the next line, at a word.
    Wrap,
    /// The cell stays as it is, also if the line is then longer than the terminal is wide.
    Whole,
    /// The same, aligned at the right.
    Number,
}

impl Column {
    /// A column of paths or names. Their beginning is cut if the table is too wide: the end says more.
    pub(crate) fn text(title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            title: title.into(),
            fit: Fit::Cut,
            is_optional: false,
        }
    }

    /// A column of sentences, which are wrapped at words if the table is too wide.
    pub(crate) fn wrapped(title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fit: Fit::Wrap,
            ..Self::text(title)
        }
    }

    /// A column of handles and IDs, which users copy: they are never cut.
    pub(crate) fn whole(title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fit: Fit::Whole,
            ..Self::text(title)
        }
    }

    /// A column of numbers, aligned at the right.
    pub(crate) fn number(title: impl Into<Cow<'static, str>>) -> Self {
        Self {
            fit: Fit::Number,
            ..Self::text(title)
        }
    }

    /// Leaves the column out if the table is too wide.
    pub(crate) fn optional(self) -> Self {
        Self {
            is_optional: true,
            ..self
        }
    }

    fn is_flexible(&self) -> bool {
        matches!(self.fit, Fit::Cut | Fit::Wrap)
    }
}

/// The stream that a table is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Errors,
}

/// Formats rows under titles, as wide as the terminal at most, and as wide as needed elsewhere. Without any
/// title, there is no line of titles. Ends with a line break.
pub(crate) fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    table_on(Stream::Output, columns, rows)
}

/// The same for a stream.
pub(crate) fn table_on(stream: Stream, columns: &[Column], rows: &[Vec<String>]) -> String {
    fit(columns, rows, width(stream), true)
}

/// Formats a list for scripts and for readers: where standard output is not a terminal, only the rows.
pub(crate) fn list(sentence: &str, columns: &[Column], rows: &[Vec<String>]) -> String {
    if std::io::stdout().is_terminal() {
        format!("{}\n{}", headline(sentence), table(columns, rows))
    } else {
        fit(columns, rows, width(Stream::Output), false)
    }
}

/// The width of the terminal: that of `COLUMNS` or of the stream. `usize::MAX` without a terminal.
fn width(stream: Stream) -> usize {
    let set = std::env::var("COLUMNS").ok();
    let set = set.and_then(|columns| columns.parse().ok());
    let width = set.filter(|columns| *columns > 0);
    let width = width.or_else(|| terminal_width(stream));
    width.unwrap_or(usize::MAX)
}

fn terminal_width(stream: Stream) -> Option<usize> {
    #[cfg(unix)]
    {
        let size = match stream {
            Stream::Output => rustix::termios::tcgetwinsize(std::io::stdout()),
            Stream::Errors => rustix::termios::tcgetwinsize(std::io::stderr()),
        };
        let size = size.ok()?;
        (size.ws_col > 0).then_some(size.ws_col.into())
    }
    #[cfg(not(unix))]
    {
        let _ = stream;
        None
    }
}

fn fit(columns: &[Column], rows: &[Vec<String>], maximum: usize, with_titles: bool) -> String {
    let titles: Vec<String> = columns
        .iter()
        .map(|column| column.title.to_string())
        .collect();
    let has_titles = with_titles && titles.iter().any(|title| !title.is_empty());
    let rows: Vec<&Vec<String>> = has_titles
        .then_some(&titles)
        .into_iter()
        .chain(rows)
        .collect();
    let widths = fitted(columns, &rows, maximum);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<(&Column, usize, Vec<String>)> = widths
            .iter()
            .map(|(number, width)| {
                let (column, cell) = (&columns[*number], row.get(*number));
                let cell = cell.map_or("", String::as_str);
                let lines = match column.fit {
                    Fit::Wrap => wrapped(cell, *width),
                    Fit::Cut => vec![cut(cell, *width)],
                    Fit::Whole | Fit::Number => vec![cell.to_owned()],
                };
                (column, *width, lines)
            })
            .collect();
        let height = cells.iter().map(|(_, _, lines)| lines.len()).max();
        for at in 0..height.unwrap_or(0) {
            let mut line = String::new();
            for (place, (column, width, lines)) in cells.iter().enumerate() {
                let cell = lines.get(at).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(cell.width()));
                if place > 0 {
                    line.push_str(&" ".repeat(GAP));
                }
                match column.fit {
                    Fit::Number => line.extend([padding.as_str(), cell]),
                    _ => line.extend([cell, padding.as_str()]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
}

/// Returns the columns that are shown, and their widths.
fn fitted(columns: &[Column], rows: &[&Vec<String>], maximum: usize) -> Vec<(usize, usize)> {
    let mut shown: Vec<(usize, usize)> = (0..columns.len())
        .map(|number| {
            let cells = rows.iter().filter_map(|row| row.get(number));
            (number, cells.map(|cell| cell.width()).max().unwrap_or(0))
        })
        .collect();
    let minimum = |(number, width): &(usize, usize), minimum: usize| {
        if columns[*number].is_flexible() {
            minimum.min(*width)
        } else {
            *width
        }
    };
    let total = |widths: &mut dyn Iterator<Item = usize>| {
        let sum: usize = widths.map(|width| width + GAP).sum();
        sum.saturating_sub(GAP)
    };
    while total(&mut shown.iter().map(|column| minimum(column, READABLE_WIDTH))) > maximum
        && let Some(place) = shown
            .iter()
            .rposition(|(number, _)| columns[*number].is_optional)
    {
        shown.remove(place);
    }
    let mut excess = total(&mut shown.iter().map(|(_, width)| *width)).saturating_sub(maximum);
    while excess > 0 {
        let flexible = shown
            .iter_mut()
            .filter(|(number, width)| columns[*number].is_flexible() && *width > MIN_TEXT_WIDTH);
        let Some((_, width)) = flexible.max_by_key(|(_, width)| *width) else {
            break;
        };
        *width -= 1;
        excess -= 1;
    }
    shown
}

/// Cuts the beginning of a text.
fn cut(text: &str, maximum: usize) -> String {
    if text.width() <= maximum {
        return text.to_owned();
    }
    let mut start = text.len();
    for (place, _) in text.char_indices().rev() {
        if text[place..].width() + 1 > maximum {
            break;
        }
        start = place;
    }
    format!("…{}", &text[start..])
}

/// Formats a sentence above a table: wrapped at words to the width of the terminal. Ends with a line break.
pub(crate) fn headline(sentence: &str) -> String {
    headline_on(Stream::Output, sentence)
}

/// The same for a stream.
pub(crate) fn headline_on(stream: Stream, sentence: &str) -> String {
    let width = width(stream);
    let lines = sentence.lines().flat_map(|line| wrapped(line, width));
    lines.map(|line| line + "\n").collect()
}

/// Cuts the end of a line that is wider than the terminal.
pub(crate) fn cut_end(line: &str) -> Cow<'_, str> {
    cut_end_to(line, width(Stream::Output))
}

fn cut_end_to(line: &str, maximum: usize) -> Cow<'_, str> {
    if line.width() <= maximum {
        return line.into();
    }
    let mut shown = 0;
    let end = line.char_indices().find(|(_, character)| {
        shown += character.width().unwrap_or(0);
        shown + 1 > maximum
    });
    let end = end.map_or(line.len(), |(at, _)| at);
    format!("{}…", &line[..end]).into()
}

/// Breaks a text into lines at blanks, and between characters that are two columns wide (Chinese, Japanese).
/// A longer word stays whole. All lines begin with the blanks of the text.
fn wrapped(text: &str, maximum: usize) -> Vec<String> {
    if text.width() <= maximum {
        return vec![text.to_owned()];
    }
    let rest = text.trim_start_matches(' ');
    let indent = " ".repeat(text.len() - rest.len());
    let mut lines = vec![indent.clone()];
    for word in words(rest) {
        let line = lines.len() - 1;
        let is_full = lines[line].width() + word.trim_end().width() > maximum;
        if is_full && lines[line].len() > indent.len() {
            lines.push(indent.clone());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(word);
        }
    }
    lines
        .iter()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Returns the parts of a text between which a line may end; a part has the blanks that follow it.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut characters = rest.char_indices().peekable();
        let mut end = rest.len();
        while let (Some((_, character)), Some((next_at, next))) =
            (characters.next(), characters.peek().copied())
        {
            let is_wide = |character: char| character.width() == Some(2);
            if next != ' ' && (character == ' ' || is_wide(character) || is_wide(next)) {
                end = next_at;
                break;
            }
        }
        let (word, after) = rest.split_at(end);
        rest = after;
        (!word.is_empty()).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_the_indentation_of_their_text() {
        assert_eq!(wrapped("  one two three", 9), ["  one two", "  three"]);
        assert_eq!(wrapped("  one", 3), ["  one"]);
        assert_eq!(wrapped("one two", 4), ["one", "two"]);
    }

    #[test]
    fn tables_are_as_wide_as_the_terminal_at_most() {
        let columns = [
            Column::text("project"),
            Column::number("cost"),
            Column::number("answers").optional(),
        ];
        let row = |name: &str| vec![name.to_owned(), "$1.50".to_owned(), "1,204".to_owned()];
        let rows = [row("/home/someone/a/long/path/project"), row("日本語")];
        assert_eq!(
            fit(&columns, &rows, 80, true),
            "project                             cost  answers\n\
             /home/someone/a/long/path/project  $1.50    1,204\n\
             日本語                             $1.50    1,204\n"
        );
        assert_eq!(
            fit(&columns, &rows, 20, true),
            "project         cost\n…path/project  $1.50\n日本語         $1.50\n"
        );
        // Narrower than anything useful.
        assert!(
            fit(&columns, &rows, 3, true)
                .lines()
                .all(|line| line.width() <= 19)
        );
    }

    #[test]
    fn sentences_are_wrapped_and_handles_stay_whole() {
        let columns = [Column::whole("key"), Column::wrapped("reason")];
        let handle = "cache:a:shell.run:0123456789";
        let rows = [vec![
            handle.to_owned(),
            "the input differs from that of the earlier call".to_owned(),
        ]];
        assert_eq!(
            fit(&columns, &rows, 50, true),
            "key                           reason\n\
             cache:a:shell.run:0123456789  the input differs\n\
             \u{20}                             from that of the\n\
             \u{20}                             earlier call\n"
        );
        let narrow = fit(&columns, &rows, 10, false);
        assert!(
            narrow.starts_with("cache:a:shell.run:0123456789  the input\n"),
            "{narrow}"
        );
        assert_eq!(fit(&columns, &rows, usize::MAX, false).lines().count(), 1);
        assert_eq!(fit(&columns, &[], 80, false), "");
    }

    #[test]
    fn wide_characters_are_wrapped_without_blanks() {
        assert_eq!(
            wrapped("日本語のテキスト ok", 8),
            ["日本語の", "テキスト", "ok"]
        );
        assert_eq!(wrapped("a verylongword b", 6), ["a", "verylongword", "b"]);
        assert_eq!(wrapped("", 6), [""]);
        assert_eq!(cut_end_to("日本語 text", 5), "日本…");
        assert_eq!(cut_end_to("text", 4), "text");
    }

    #[test]
    fn table_without_titles_has_no_line_of_titles() {
        let columns = [Column::text(""), Column::number("")];
        let rows = [
            vec!["a".to_owned(), "1,000".to_owned()],
            vec!["bc".to_owned()],
        ];
        assert_eq!(fit(&columns, &rows, 80, true), "a   1,000\nbc\n");
    }
}
