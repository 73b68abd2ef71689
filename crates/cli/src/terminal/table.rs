//! Tables of Markdown, with aligned columns.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::cells;
use super::inline_markdown::inline;
use crate::render::style::Style;

const SEPARATOR: &str = " │ ";

/// Renders the lines of a table. A table that is too wide, or is none, is shown as it was written.
pub(super) fn rows(lines: &[String], width: usize, style: Style) -> Vec<String> {
    let as_written = || {
        let lines = lines.iter();
        lines.flat_map(|line| cells::wrap(line, width, 2)).collect()
    };
    let Some(table) = read(&lines.join("\n"), style) else {
        return as_written();
    };
    let columns = table.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = table.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cells::width(cell)).max().unwrap_or(0)
        })
        .collect();
    let between = cells::width(SEPARATOR) * columns.saturating_sub(1);
    if widths.iter().sum::<usize>() + between > width {
        return as_written();
    }
    let mut rows = Vec::new();
    for (number, row) in table.iter().enumerate() {
        let padded: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| {
                let cell = row.get(column).map_or("", String::as_str);
                format!(
                    "{cell}{}",
                    " ".repeat(width.saturating_sub(cells::width(cell)))
                )
            })
            .collect();
        rows.push(padded.join(&style.dim(SEPARATOR)).trim_end().to_owned());
        if number == 0 {
            let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            rows.push(style.dim(&lines.join("─┼─")));
        }
    }
    rows
}

/// Reads the cells of a table.
fn read(source: &str, style: Style) -> Option<Vec<Vec<String>>> {
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut start = None;
    for (event, range) in Parser::new_ext(source, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => table.push(Vec::new()),
            Event::Start(Tag::TableCell) => start = Some(range),
            Event::End(TagEnd::TableCell) => {
                let cell = start.take().and_then(|range| source.get(range));
                let cell = inline(cell.unwrap_or_default().trim(), style);
                table.last_mut()?.push(cell);
            }
            _ => {}
        }
    }
    Some(table).filter(|table| !table.is_empty())
}
