//! Markdown that is streaming, as styled rows: a row is finished as soon as no later text can change it.
//!
//! Each line of the source is a unit: models write one paragraph, item or row of a table per line. The
//! structure at the beginning of a line is read here, the rest of it by `pulldown-cmark`.

use super::cells;
use super::highlight::Highlighter;
use super::inline_markdown::inline;
use super::line::Line;
use super::table;
use crate::render::style::Style;

/// Begin the items of lists.
const BULLETS: [&str; 3] = ["- ", "* ", "+ "];
/// The maximum number of rows of one line that wait for the end of a style.
const MAX_WAITING_ROWS: usize = 6;
/// The longest beginning of a line that can still become a marker.
const MAX_MARKER: usize = 12;

/// Markdown that is streaming.
pub(super) struct Markdown {
    style: Style,
    /// Source that is not rendered: the rest of the current line.
    source: String,
    line: Option<BegunLine>,
    block: Block,
}

/// Line that has begun.
struct BegunLine {
    /// The part that is rendered and not finished.
    rendered: Line,
    is_heading: bool,
}

/// Block of several lines.
enum Block {
    None,
    Code {
        fence: String,
        highlighter: Highlighter,
    },
    /// Rows of a table, as they were written.
    Table(Vec<String>),
}

impl Markdown {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            source: String::new(),
            line: None,
            block: Block::None,
        }
    }

    /// Adds text. Returns the rows that are finished.
    pub(super) fn push(&mut self, text: &str, width: usize) -> Vec<Line> {
        self.source.push_str(&cells::without_tabs(text));
        let mut finished = Vec::new();
        while let Some(end) = self.source.find('\n') {
            let rest = self.source.split_off(end + 1);
            let line = std::mem::replace(&mut self.source, rest);
            self.end_line(line.trim_end(), width, &mut finished);
        }
        self.advance(width, &mut finished);
        finished
    }

    /// Ends the text. Returns the last rows.
    pub(super) fn finish(&mut self, width: usize) -> Vec<Line> {
        let mut finished = Vec::new();
        let line = std::mem::take(&mut self.source);
        if self.line.is_some() || !line.trim().is_empty() {
            self.end_line(line.trim_end(), width, &mut finished);
        }
        self.end_table(width, &mut finished);
        self.block = Block::None;
        finished
    }

    /// Returns the rows that are not finished.
    pub(super) fn live(&self, width: usize) -> Vec<String> {
        let mut rows = match &self.block {
            Block::Table(lines) => table::rows(lines, width, self.style),
            _ => Vec::new(),
        };
        match &self.line {
            Some(line) => {
                let line = self.continued(line, &self.source);
                rows.extend(line.wrap(width).iter().map(Line::row));
            }
            None if self.source.trim().is_empty() => {}
            None => rows.extend(cells::wrap(&self.source, width, 0)),
        }
        rows
    }

    /// Processes a complete line.
    fn end_line(&mut self, line: &str, width: usize, finished: &mut Vec<Line>) {
        if let Some(begun) = self.line.take() {
            finished.extend(self.ended(&begun, line).wrap(width));
            return;
        }
        if let Block::Code { fence, highlighter } = &mut self.block {
            if is_closing(line, fence) {
                self.block = Block::None;
            } else {
                let code = Line {
                    rest: "  ".to_owned(),
                    ..Line::new(highlighter.line(line, self.style))
                };
                finished.extend(code.wrap(width));
            }
            return;
        }
        if is_table_row(line) {
            match &mut self.block {
                Block::Table(lines) => lines.push(line.to_owned()),
                block => *block = Block::Table(vec![line.to_owned()]),
            }
            return;
        }
        self.end_table(width, finished);
        if let Some((fence, language)) = opening(line) {
            self.block = Block::Code {
                highlighter: Highlighter::new(language),
                fence: fence.to_owned(),
            };
            return;
        }
        if is_rule(line) {
            finished.push(Line::new(self.style.dim(&"─".repeat(width.min(40)))));
            return;
        }
        let (begun, rest) = self.begin(line);
        finished.extend(self.ended(&begun, rest).wrap(width));
    }

    /// Returns a line with more of its text.
    fn continued(&self, begun: &BegunLine, source: &str) -> Line {
        let mut line = begun.rendered.clone();
        line.text.push_str(&self.inline(source, begun.is_heading));
        line
    }

    /// Returns a line with the rest of its text.
    fn ended(&self, begun: &BegunLine, source: &str) -> Line {
        let mut line = self.continued(begun, source);
        line.text.truncate(line.text.trim_end().len());
        line
    }

    /// Finishes rows of the line that is streaming.
    fn advance(&mut self, width: usize, finished: &mut Vec<Line>) {
        if !matches!(self.block, Block::None) {
            return;
        }
        if self.line.is_none() {
            if may_be_structure(&self.source) {
                return;
            }
            let source = std::mem::take(&mut self.source);
            let (line, rest) = self.begin(&source);
            self.source = rest.to_owned();
            self.line = Some(line);
        }
        let Some(mut begun) = self.line.take() else {
            return;
        };
        let settled = settled_length(&self.source);
        let waiting = cells::width(&self.source) > width * MAX_WAITING_ROWS;
        let length = match settled {
            0 if waiting => self.source.rfind(' ').map_or(0, |at| at + 1),
            settled => settled,
        };
        if length > 0 {
            let rest = self.source.split_off(length);
            let text = std::mem::replace(&mut self.source, rest);
            begun.rendered = self.continued(&begun, &text);
            // No later word changes a row that is full.
            let mut rows = begun.rendered.clone().wrap(width);
            if rows.len() > 1
                && let Some(last) = rows.pop()
            {
                begun.rendered = last;
                finished.append(&mut rows);
            }
        }
        self.line = Some(begun);
    }

    /// Reads the structure at the beginning of a line. Returns the line and its text.
    fn begin<'a>(&self, source: &'a str) -> (BegunLine, &'a str) {
        let mut text = source.trim_start_matches(' ');
        let mut first = " ".repeat((source.len() - text.len()).min(40));
        while let Some(quoted) = text.strip_prefix('>') {
            first.push_str(&self.style.dim("│ "));
            text = quoted.strip_prefix(' ').unwrap_or(quoted);
        }
        let mut rest = first.clone();
        let level = text.bytes().take_while(|byte| *byte == b'#').count();
        let is_heading = (1..=6).contains(&level) && text[level..].starts_with(' ');
        if is_heading {
            text = text[level..].trim_start().trim_end_matches(" #");
        } else if let Some((marker, behind)) = item(text) {
            rest.push_str(&" ".repeat(cells::width(&marker)));
            first.push_str(&marker);
            text = behind;
        }
        let rendered = Line {
            first,
            rest,
            ..Line::default()
        };
        let line = BegunLine {
            rendered,
            is_heading,
        };
        (line, text)
    }

    /// Renders the text of a line.
    fn inline(&self, source: &str, is_heading: bool) -> String {
        let text = inline(source, self.style);
        if is_heading && !text.trim().is_empty() {
            // The end of a style within the heading must not end the heading.
            self.style
                .strong(&text.replace("\x1b[0m", "\x1b[0m\x1b[1m"))
        } else {
            text
        }
    }

    fn end_table(&mut self, width: usize, finished: &mut Vec<Line>) {
        match std::mem::replace(&mut self.block, Block::None) {
            Block::Table(lines) => {
                let rows = table::rows(&lines, width, self.style);
                finished.extend(rows.into_iter().map(Line::new));
            }
            block => self.block = block,
        }
    }
}

/// Returns the length of the beginning of a text that no later text can change: up to the last space at which
/// no style, code or link is open.
fn settled_length(source: &str) -> usize {
    let mut settled = 0;
    let (mut code, mut brackets, mut parentheses) = (0_usize, 0_usize, 0_usize);
    let mut open: Vec<(char, usize)> = Vec::new();
    let mut characters = source.char_indices().peekable();
    let mut before = ' ';
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' if code == 0 => {
                characters.next();
            }
            '`' | '*' | '_' | '~' => {
                let mut run = 1;
                while characters.next_if(|(_, next)| *next == character).is_some() {
                    run += 1;
                }
                let after = characters.peek().map_or(' ', |(_, next)| *next);
                if character == '`' {
                    code = match code {
                        0 => run,
                        open if open == run => 0,
                        open => open,
                    };
                } else if code == 0 {
                    let is_within_word = character == '_' && before.is_alphanumeric();
                    match open.iter().rposition(|style| *style == (character, run)) {
                        Some(place) if !before.is_whitespace() => open.truncate(place),
                        _ if !after.is_whitespace() && !is_within_word => {
                            open.push((character, run))
                        }
                        // Undecided until the next character arrives.
                        _ if characters.peek().is_none() => return settled,
                        _ => {}
                    }
                }
            }
            '[' if code == 0 => brackets += 1,
            ']' if code == 0 => brackets = brackets.saturating_sub(1),
            '(' if code == 0 && before == ']' => parentheses += 1,
            ')' if code == 0 => parentheses = parentheses.saturating_sub(1),
            ' ' if code + brackets + parentheses == 0 && open.is_empty() => settled = at + 1,
            _ => {}
        }
        before = character;
    }
    settled
}

/// Returns true if the beginning of a line does not tell yet if it is a marker, a fence, a rule or a table.
fn may_be_structure(source: &str) -> bool {
    let text = source.trim_start();
    if text.is_empty() || text.starts_with("```") || text.starts_with("~~~") {
        return true;
    }
    if text.starts_with('|') {
        return true;
    }
    let behind_mark = BULLETS.iter().find_map(|mark| text.strip_prefix(mark));
    if let Some(rest) = behind_mark
        && rest.len() < 4
        && ["[ ] ", "[x] ", "[X] "]
            .iter()
            .any(|start| start.starts_with(rest))
    {
        return true;
    }
    let is_marker =
        |character: char| "#>-*+_`~.) ".contains(character) || character.is_ascii_digit();
    text.len() < MAX_MARKER && text.chars().all(is_marker)
}

/// Returns the marker of a list item as it is shown, and the text behind it.
fn item(text: &str) -> Option<(String, &str)> {
    if let Some(rest) = BULLETS.iter().find_map(|mark| text.strip_prefix(mark)) {
        return Some(match rest.get(..4) {
            Some("[ ] ") => ("☐ ".to_owned(), &rest[4..]),
            Some("[x] " | "[X] ") => ("☑ ".to_owned(), &rest[4..]),
            _ => ("• ".to_owned(), rest.trim_start()),
        });
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[digits..];
    let is_item = (1..=9).contains(&digits) && (rest.starts_with(". ") || rest.starts_with(") "));
    is_item.then(|| (text[..digits + 2].to_owned(), rest[2..].trim_start()))
}

fn is_table_row(line: &str) -> bool {
    let line = line.trim();
    line.len() > 1 && line.starts_with('|') && line.ends_with('|')
}

fn is_rule(line: &str) -> bool {
    let line: String = line.split_whitespace().collect();
    line.len() >= 3
        && ['-', '*', '_']
            .iter()
            .any(|mark| line.chars().all(|character| character == *mark))
}

/// Returns the fence and the language of a line that begins a block of code.
fn opening(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let mark = line
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let length = line
        .chars()
        .take_while(|character| *character == mark)
        .count();
    let language = line[length..].trim();
    let is_fence = length >= 3 && !(mark == '`' && language.contains('`'));
    is_fence.then(|| (&line[..length], language))
}

fn is_closing(line: &str, fence: &str) -> bool {
    let line = line.trim();
    line.starts_with(fence) && line.trim_start_matches(&fence[..1]).is_empty()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "# A *title*

Some **bold and `code` text** that is long enough to be wrapped, 2 * 3 = 6, snake_case_name.
- one
  - [link](https://example.com/x) two
10. ten
> quoted
- [x] done

| a | bb |
|---|----|
| 1 | **2** |

```rust
fn main() {} // ok
```
---
end";

    fn rendered(text: &str, width: usize, chunk: usize, style: Style) -> Vec<String> {
        let mut markdown = Markdown::new(style);
        let mut rows = Vec::new();
        let characters: Vec<char> = text.chars().collect();
        for part in characters.chunks(chunk) {
            rows.extend(markdown.push(&part.iter().collect::<String>(), width));
            markdown.live(width);
        }
        rows.extend(markdown.finish(width));
        assert!(markdown.live(width).is_empty());
        rows.iter().map(Line::row).collect()
    }

    #[test]
    fn markdown_becomes_rows() {
        let rows = rendered(TEXT, 40, 1, Style::none());
        assert_eq!(
            rows,
            [
                "A title",
                "",
                "Some bold and code text that is long",
                "enough to be wrapped, 2 * 3 = 6,",
                "snake_case_name.",
                "• one",
                "  • link (https://example.com/x) two",
                "10. ten",
                "│ quoted",
                "☑ done",
                "",
                "a │ bb",
                "──┼───",
                "1 │ 2",
                "",
                "fn main() {} // ok",
                &"─".repeat(40),
                "end",
            ]
        );
    }

    #[test]
    fn wrapped_rows_keep_the_bar_of_a_quote_and_the_indentation_of_an_item() {
        let text = "> A quote that is wrapped.\n> - an item in a quote\n\n10. a long item\n- https://example.com/a\n";
        for chunk in [1, 5, 100] {
            assert_eq!(
                rendered(text, 14, chunk, Style::none()),
                [
                    "│ A quote that",
                    "│ is wrapped.",
                    "│ • an item in",
                    "│   a quote",
                    "",
                    "10. a long",
                    "    item",
                    "• https://",
                    "  example.com/",
                    "  a",
                ]
            );
        }
    }

    #[test]
    fn table_is_shown_in_columns_while_it_streams() {
        let mut markdown = Markdown::new(Style::none());
        let text = "| one | two |\n|---|---|\n| a | a cell that is wrapped |\n";
        assert!(markdown.push(text, 20).is_empty());
        assert_eq!(
            markdown.live(20),
            [
                "one │ two",
                "────┼───────────────",
                "a   │ a cell that is",
                "    │ wrapped",
            ]
        );
    }

    #[test]
    fn fenced_differences_are_in_color() {
        let text = "```diff\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n```";
        assert_eq!(
            rendered(text, 40, 3, Style::all()),
            [
                "\x1b[1m---\x1b[0m\x1b[1m a\x1b[0m",
                "\x1b[1m+++\x1b[0m\x1b[1m b\x1b[0m",
                "\x1b[36m@@\x1b[0m \x1b[36m-1 +1\x1b[0m \x1b[36m@@\x1b[0m",
                "\x1b[31m-\x1b[0m\x1b[31mold\x1b[0m",
                "\x1b[32m+\x1b[0m\x1b[32mnew\x1b[0m",
                " same",
            ]
        );
    }

    #[test]
    fn styles_are_colors_of_the_terminal() {
        let style = Style::all();
        assert_eq!(
            inline("a **b *c* d** e", style),
            "a \x1b[1mb \x1b[3mc\x1b[0m\x1b[1m d\x1b[0m e"
        );
        assert_eq!(
            rendered("## *A* b\n", 40, 20, style),
            ["\x1b[1m\x1b[3mA\x1b[0m\x1b[1m b\x1b[0m"]
        );
        let code = rendered("```rust\nfn main() {}\n```", 40, 3, style);
        assert!(code[0].contains("\x1b["), "{code:?}");
        assert_eq!(cells::plain(&code[0]), "fn main() {}");
    }

    #[test]
    fn long_lines_are_finished_while_they_stream() {
        let mut markdown = Markdown::new(Style::none());
        let mut finished = Vec::new();
        for word in 0..100 {
            finished.extend(markdown.push(&format!("word{word} "), 40));
            assert!(markdown.live(40).len() <= 2);
        }
        assert!(finished.len() > 15, "{finished:?}");
        // A style that never ends does not hold back the text.
        let mut markdown = Markdown::new(Style::none());
        finished = markdown.push("some **bold ", 40);
        for word in 0..100 {
            finished.extend(markdown.push(&format!("word{word} "), 40));
            assert!(markdown.live(40).len() <= MAX_WAITING_ROWS + 2);
        }
        assert!(finished.len() > 10, "{finished:?}");
    }

    proptest! {
        /// The rows do not depend on the parts in which the text arrives.
        #[test]
        fn rows_are_independent_of_the_parts(chunk in 1_usize..60, width in 20_usize..90) {
            let all = rendered(TEXT, width, 10_000, Style::all());
            let all: Vec<String> = all.iter().map(|row| cells::plain(row)).collect();
            let parts = rendered(TEXT, width, chunk, Style::all());
            let parts: Vec<String> = parts.iter().map(|row| cells::plain(row)).collect();
            prop_assert_eq!(all, parts);
        }

        #[test]
        fn any_text_is_shown(text in "([a-z *_`#>|~\\-\\[\\]().0-9鯨\n]){0,200}", chunk in 1_usize..9) {
            let rows = rendered(&text, 30, chunk, Style::all());
            for row in rows {
                prop_assert!(cells::width(&row) <= 40, "{row:?}");
            }
        }
    }
}
