//! Text tables.

use unicode_width::UnicodeWidthStr as _;

/// The width of a table that is not shown in a terminal, in columns of text.
const DEFAULT_WIDTH: usize = 120;

/// Minimum width to which a column of text is cut.
const MIN_TEXT_WIDTH: usize = 12;

/// A column of a [`table`].
pub(crate) struct Column {
    title: &'static str,
    is_number: bool,
    is_optional: bool,
}

impl Column {
    /// A column of text, aligned at the left. It is cut if the table is too wide.
    pub(crate) fn text(title: &'static str) -> Self {
        Self {
            title,
            is_number: false,
            is_optional: false,
        }
    }

    /// A column of numbers, aligned at the right.
    pub(crate) fn number(title: &'static str) -> Self {
        Self {
            is_number: true,
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
}

/// Formats rows under titles, as wide as the terminal at most. Ends with a line break.
pub(crate) fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    fit(columns, rows, terminal_width().unwrap_or(DEFAULT_WIDTH))
}

fn terminal_width() -> Option<usize> {
    #[cfg(unix)]
    {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(size.ws_col.into())
    }
    #[cfg(not(unix))]
    None
}

fn fit(columns: &[Column], rows: &[Vec<String>], most: usize) -> String {
    let cells = |column: usize| rows.iter().filter_map(move |row| row.get(column));
    let mut shown: Vec<(usize, usize)> = (columns.iter().enumerate())
        .map(|(number, column)| {
            let widths = cells(number).map(|cell| cell.width());
            (number, widths.max().unwrap_or(0).max(column.title.width()))
        })
        .collect();
    let width = |shown: &[(usize, usize)]| {
        shown
            .iter()
            .map(|(_, width)| width + 2)
            .sum::<usize>()
            .saturating_sub(2)
    };
    while width(&shown) > most
        && let Some(place) = shown
            .iter()
            .rposition(|(number, _)| columns[*number].is_optional)
    {
        shown.remove(place);
    }
    let excess = width(&shown).saturating_sub(most);
    if let Some((_, width)) = shown
        .iter_mut()
        .find(|(number, _)| !columns[*number].is_number)
    {
        *width = width.saturating_sub(excess).max(MIN_TEXT_WIDTH.min(*width));
    }
    let titles: Vec<String> = columns
        .iter()
        .map(|column| column.title.to_owned())
        .collect();
    let mut text = String::new();
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for (number, width) in &shown {
            let cell = row.get(*number).map_or("", String::as_str);
            let cell = cut(cell, *width);
            let padding = " ".repeat(width - cell.width());
            if !line.is_empty() {
                line.push_str("  ");
            }
            match columns[*number].is_number {
                true => line.extend([padding.as_str(), &cell]),
                false => line.extend([&cell, padding.as_str()]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Cuts the beginning of a text, because the end of a path or a name says more.
fn cut(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut start = text.len();
    for (place, _) in text.char_indices().rev() {
        if text[place..].width() + 1 > most {
            break;
        }
        start = place;
    }
    format!("…{}", &text[start..])
}

/// Formats rows with aligned columns; the last column is not padded. Ends with a line break.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..).map_while(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < row.len() {
                let padding = widths[column] - cell.chars().count() + 2;
                text.extend(std::iter::repeat_n(' ', padding));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

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
            fit(&columns, &rows, 80),
            "project                             cost  answers\n\
             /home/someone/a/long/path/project  $1.50    1,204\n\
             日本語                             $1.50    1,204\n"
        );
        assert_eq!(
            fit(&columns, &rows, 20),
            "project         cost\n…path/project  $1.50\n日本語         $1.50\n"
        );
        // Narrower than anything useful.
        assert!(
            fit(&columns, &rows, 3)
                .lines()
                .all(|line| line.width() <= 19)
        );
    }
}
