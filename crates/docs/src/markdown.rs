//! Pieces of Markdown.

/// Appends a row of a table. A bar in a cell is escaped.
pub(crate) fn row<S: AsRef<str>>(table: &mut String, cells: &[S]) {
    for cell in cells {
        table.push_str("| ");
        table.push_str(&cell.as_ref().replace('|', "\\|"));
        table.push(' ');
    }
    table.push_str("|\n");
}

/// Returns a word in code font.
pub(crate) fn code(word: &str) -> String {
    format!("`{word}`")
}

/// Returns words in code font, separated by commas.
pub(crate) fn codes<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(code).collect::<Vec<_>>().join(", ")
}
