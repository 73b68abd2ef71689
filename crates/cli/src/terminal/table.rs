//! Tables of Markdown, with aligned columns. Cells are wrapped in the columns of a table that is too wide.

use pulldown_cmark::{Alignment, Event, Options, Parser, Tag, TagEnd};

use super::cells;
use super::inline_markdown::inline;
use super::line::Line;
use crate::render::style::Style;

const SEPARATOR: &str = " │ ";
/// The longest word that is not broken in a cell.
const MAX_WORD: usize = 20;
/// Break lines in a cell, in which Markdown has no other way to write it.
const LINE_BREAKS: [&str; 3] = ["<br>", "<br/>", "<br />"];

/// A table as it was read.
#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Cell>>,
}

/// The lines of a cell.
#[derive(Default)]
struct Cell(Vec<String>);

impl Cell {
    fn new(source: &str, style: Style) -> Self {
        let mut source = source.trim().to_owned();
        for line_break in LINE_BREAKS {
            source = source.replace(line_break, "\n");
        }
        Self(
            source
                .lines()
                .map(|line| inline(line.trim(), style))
                .collect(),
        )
    }

    /// Returns the width at which no line is wrapped.
    fn width(&self) -> usize {
        let lines = self.0.iter().map(|line| cells::width(line));
        lines.max().unwrap_or(0)
    }

    /// Returns the width at which no word is broken.
    fn min_width(&self) -> usize {
        let lines = self.0.iter().map(|line| cells::plain(line));
        let widest = |line: String| {
            let words = line.split_whitespace().map(cells::width);
            words.max().unwrap_or(0)
        };
        lines.map(widest).max().unwrap_or(0).min(MAX_WORD)
    }

    /// Wraps the cell.
    fn wrapped(&self, width: usize) -> Vec<String> {
        let lines = self.0.iter();
        let rows = lines.flat_map(|line| cells::fill(line, width, width));
        rows.map(|row| row.text).collect()
    }
}

/// Renders the lines of a table. A table whose columns do not fit is shown row by row, with a line for each cell; one
/// that is none, as it was written.
pub(super) fn rows(lines: &[String], width: usize, style: Style) -> Vec<String> {
    let Some(table) = read(&lines.join("\n"), style) else {
        let lines = lines.iter();
        return lines.flat_map(|line| cells::wrap(line, width, 2)).collect();
    };
    match table.widths(width) {
        Some(widths) => table.grid(&widths, style),
        None => table.records(width, style),
    }
}

impl Table {
    /// Returns the widths of the columns if words fit into them. The widest columns are narrowed first.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let of_columns = |measure: fn(&Cell) -> usize| -> Vec<usize> {
            let column = |at| self.rows.iter().filter_map(move |row| row.get(at));
            (0..columns)
                .map(|at| column(at).map(measure).max().unwrap_or(0))
                .collect()
        };
        let (natural, least) = (of_columns(Cell::width), of_columns(Cell::min_width));
        let between = cells::width(SEPARATOR) * columns.saturating_sub(1);
        let room = width.checked_sub(between)?;
        let limited = |limit: usize| -> Vec<usize> {
            let widths = natural.iter().zip(&least);
            widths
                .map(|(natural, least)| (*natural).min(limit.max(*least)))
                .collect()
        };
        let fits = |limit: usize| limited(limit).iter().sum::<usize>() <= room;
        let limit = (0..=room).rev().find(|limit| fits(*limit))?;
        Some(limited(limit))
    }

    /// Renders the table as columns. If a cell is wrapped, there is a line between rows.
    fn grid(&self, widths: &[usize], style: Style) -> Vec<String> {
        let line: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let line = style.dim(&line.join("─┼─"));
        let empty = Cell::default();
        let wrapped = |row: &Vec<Cell>| -> Vec<Vec<String>> {
            let cells = widths.iter().enumerate();
            cells
                .map(|(at, width)| row.get(at).unwrap_or(&empty).wrapped(*width))
                .collect()
        };
        let wrapped: Vec<Vec<Vec<String>>> = self.rows.iter().map(wrapped).collect();
        let has_lines = wrapped.iter().flatten().any(|cell| cell.len() > 1);
        let mut rows = Vec::new();
        for (number, cells) in wrapped.iter().enumerate() {
            if number == 1 || (number > 1 && has_lines) {
                rows.push(line.clone());
            }
            let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            rows.extend((0..height).map(|place| {
                let columns = widths.iter().zip(cells).enumerate();
                let columns = columns.map(|(at, (width, cell))| {
                    let text = cell.get(place).map_or("", String::as_str);
                    aligned(text, *width, self.alignments.get(at).copied())
                });
                let columns: Vec<String> = columns.collect();
                columns.join(&style.dim(SEPARATOR)).trim_end().to_owned()
            }));
        }
        if wrapped.len() == 1 {
            rows.push(line);
        }
        rows
    }

    /// Renders each row as lines, in which the head of the column precedes the cell.
    fn records(&self, width: usize, style: Style) -> Vec<String> {
        let (head, body) = match self.rows.split_first() {
            Some((head, [])) => (&[][..], std::slice::from_ref(head)),
            Some((head, body)) => (head.as_slice(), body),
            None => return Vec::new(),
        };
        let mut rows = Vec::new();
        for (number, cells) in body.iter().enumerate() {
            if number > 0 {
                rows.push(style.dim(&"─".repeat(width.min(10))));
            }
            for (at, cell) in cells.iter().enumerate() {
                let text = cell.0.join(", ");
                let head = head.get(at).map(|head| cells::plain(&head.0.join(" ")));
                let head = head.filter(|head| !head.is_empty());
                let line = Line {
                    rest: "  ".to_owned(),
                    ..Line::new(match head {
                        Some(head) => format!("{}: {text}", style.strong(&head)),
                        None => text,
                    })
                };
                rows.extend(line.wrap(width).iter().map(Line::row));
            }
        }
        rows
    }
}

/// Fills a column with a text.
fn aligned(text: &str, width: usize, alignment: Option<Alignment>) -> String {
    let room = width.saturating_sub(cells::width(text));
    let before = match alignment {
        Some(Alignment::Right) => room,
        Some(Alignment::Center) => room / 2,
        Some(Alignment::Left | Alignment::None) | None => 0,
    };
    format!("{}{text}{}", " ".repeat(before), " ".repeat(room - before))
}

/// Reads the cells of a table.
fn read(source: &str, style: Style) -> Option<Table> {
    let mut table = Table::default();
    let mut start = None;
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Table(alignments)) => table.alignments = alignments,
            Event::Start(Tag::TableHead | Tag::TableRow) => table.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => start = Some(range),
            Event::End(TagEnd::TableCell) => {
                let cell = start.take().and_then(|range| source.get(range));
                let cell = Cell::new(cell.unwrap_or_default(), style);
                table.rows.last_mut()?.push(cell);
            }
            _ => {}
        }
    }
    Some(table).filter(|table| !table.rows.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "| Name | Price | What it is for |
|:--|--:|:-:|
| `small` | 1.50 | questions about a file, and short answers<br>to them |
| large | 120.00 | 鯨は海に住む |";

    fn shown(source: &str, width: usize) -> Vec<String> {
        let lines: Vec<String> = source.lines().map(str::to_owned).collect();
        rows(&lines, width, Style::none())
    }

    #[test]
    fn cells_are_wrapped_where_the_table_is_too_wide() {
        assert_eq!(
            shown(TABLE, 80),
            [
                "Name  │  Price │              What it is for",
                "──────┼────────┼──────────────────────────────────────────",
                "small │   1.50 │ questions about a file, and short answers",
                "      │        │                  to them",
                "──────┼────────┼──────────────────────────────────────────",
                "large │ 120.00 │               鯨は海に住む",
            ]
        );
        assert_eq!(
            shown(TABLE, 36),
            [
                "Name  │  Price │   What it is for",
                "──────┼────────┼────────────────────",
                "small │   1.50 │  questions about a",
                "      │        │   file, and short",
                "      │        │       answers",
                "      │        │       to them",
                "──────┼────────┼────────────────────",
                "large │ 120.00 │    鯨は海に住む",
            ]
        );
    }

    #[test]
    fn columns_that_do_not_fit_become_lines() {
        assert_eq!(
            shown(TABLE, 20),
            [
                "Name: small",
                "Price: 1.50",
                "What it is for:",
                "  questions about a",
                "  file, and short",
                "  answers, to them",
                "──────────",
                "Name: large",
                "Price: 120.00",
                "What it is for: 鯨は",
                "  海に住む",
            ]
        );
        // Without its second line, it is no table.
        assert_eq!(shown("| a | b |", 80), ["| a | b |"]);
        assert_eq!(shown("| a | b |\n|--|--|", 80), ["a │ b", "──┼──"]);
        assert_eq!(shown("| aa | bb |\n|--|--|", 4), ["aa", "bb"]);
    }

    proptest! {
        #[test]
        fn no_row_is_wider_than_the_terminal(
            cells in prop::collection::vec("[a-z鯨 *`-]{0,40}", 1..12),
            columns in 1_usize..5,
            width in 4_usize..80,
        ) {
            let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
            let head: Vec<String> = (0..columns).map(|at| format!("h{at}")).collect();
            let body: String = cells.chunks(columns).map(row).collect();
            let source = format!("{}|{}\n{body}", row(&head), "--|".repeat(columns));
            for row in shown(&source, width) {
                prop_assert!(cells::width(&row) <= width, "{row:?}");
            }
        }
    }
}
