//! Lines above the region: wrapped for a width, and wrapped anew for another one.

use super::cells::{self, Filled};

/// Text behind a prefix. One that is wrapped has a row for each part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Precedes the text: indentation, the bar of a quote, the mark of an item.
    pub(crate) first: String,
    /// Precedes further rows of the text.
    pub(crate) rest: String,
    pub(crate) text: String,
    pub(crate) join: Join,
}

/// The relation of a row to the row before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Join {
    /// A text begins.
    #[default]
    None,
    /// The text continues, after a space.
    Space,
    /// The text continues within a word, or between characters that need no space.
    Direct,
}

impl Line {
    /// Returns a line that is wrapped without indentation.
    pub(crate) fn new(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    /// Returns a line whose further rows have the indentation of the first one.
    pub(crate) fn indented(line: &str) -> Self {
        let plain = cells::plain(line);
        let indent = " ".repeat(plain.len() - plain.trim_start_matches(' ').len());
        // The indentation may be within a color or a style.
        let (style, behind) = line.split_at(line.find(' ').unwrap_or(0));
        match behind.strip_prefix(&indent) {
            Some(behind) if cells::plain(style).is_empty() => Self {
                first: indent.clone(),
                rest: indent,
                text: format!("{style}{behind}"),
                join: Join::None,
            },
            _ => Self {
                rest: indent,
                ..Self::new(line.to_owned())
            },
        }
    }

    /// Returns the line as it is shown.
    pub(crate) fn row(&self) -> String {
        format!("{}{}", self.first, self.text)
    }

    /// Wraps the line into rows of at most `width` cells.
    pub(crate) fn wrap(self, width: usize) -> Vec<Self> {
        let width = width.max(2);
        let mut line = self;
        // A prefix leaves at least half of the row to the text.
        if cells::width(&line.rest) > width / 2 {
            line.rest = " ".repeat(width / 2);
        }
        if cells::width(&line.first) > width / 2 {
            line.text = line.row();
            line.first.clear();
        }
        let room = |prefix: &str| width - cells::width(prefix);
        let filled = cells::fill(&line.text, room(&line.first), room(&line.rest));
        let mut rows: Vec<Self> = Vec::with_capacity(filled.len());
        let (mut first, mut join) = (line.first, line.join);
        for Filled {
            text,
            ends_at_space,
        } in filled
        {
            rows.push(Self {
                first: std::mem::replace(&mut first, line.rest.clone()),
                rest: line.rest.clone(),
                text,
                join,
            });
            join = if ends_at_space {
                Join::Space
            } else {
                Join::Direct
            };
        }
        rows
    }
}

/// Wraps rows anew, which were wrapped for another width.
pub(crate) fn rewrap(rows: impl IntoIterator<Item = Line>, width: usize) -> Vec<Line> {
    let mut wrapped = Vec::new();
    let mut joined: Option<Line> = None;
    for row in rows {
        match (&mut joined, row.join) {
            (Some(line), Join::Space | Join::Direct) => {
                if row.join == Join::Space {
                    line.text.push(' ');
                }
                line.text.push_str(&row.text);
            }
            _ => wrapped.extend(
                joined
                    .replace(row)
                    .into_iter()
                    .flat_map(|line| line.wrap(width)),
            ),
        }
    }
    wrapped.extend(joined.into_iter().flat_map(|line| line.wrap(width)));
    wrapped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(text: &str) -> Line {
        Line {
            first: "│ • ".to_owned(),
            rest: "│   ".to_owned(),
            text: text.to_owned(),
            join: Join::None,
        }
    }

    fn shown(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::row).collect()
    }

    #[test]
    fn rows_keep_the_prefix_of_their_line() {
        let rows = quoted("one two three").wrap(11);
        assert_eq!(shown(&rows), ["│ • one two", "│   three"]);
        let rows = Line::indented("    one two").wrap(9);
        assert_eq!(shown(&rows), ["    one", "    two"]);
        let rows = Line::indented("\x1b[2m  one two\x1b[0m").wrap(6);
        assert_eq!(shown(&rows), ["  \x1b[2mone\x1b[0m", "  \x1b[2mtwo\x1b[0m"]);
        let rows = Line::indented("one two").wrap(5);
        assert_eq!(shown(&rows), ["one", "two"]);
        // A prefix that leaves no room is text.
        let rows = quoted("abcdef").wrap(6);
        assert_eq!(shown(&rows), ["│ •", "   abc", "   def"]);
    }

    #[test]
    fn words_are_whole_again_at_another_width() {
        let narrow = quoted("one twofold three").wrap(10);
        assert_eq!(
            shown(&narrow),
            ["│ • one", "│   twofol", "│   d", "│   three"]
        );
        let wide = rewrap(narrow, 40);
        assert_eq!(shown(&wide), ["│ • one twofold three"]);
        let rows = [wide, vec![Line::new("next line".to_owned())]].concat();
        assert_eq!(
            shown(&rewrap(rows, 13)),
            ["│ • one", "│   twofold", "│   three", "next line"]
        );
    }

    proptest! {
        #[test]
        fn wrapping_anew_is_wrapping_the_text(
            text in "([a-z鯨\\-]{1,12} ){0,12}[a-z]{1,6}",
            before in 10_usize..60,
            after in 10_usize..60,
        ) {
            let rows = rewrap(quoted(&text).wrap(before), after);
            prop_assert_eq!(shown(&rows), shown(&quoted(&text).wrap(after)));
        }
    }
}
