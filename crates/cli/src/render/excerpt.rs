//! Excerpts of source text around a problem, with lines of readable length.

use cachalot_core::SourceSpan;
use miette::{MietteError, MietteSpanContents, SourceCode, SpanContents};

/// The maximum length of a line in characters; longer lines are cut.
const MAX_LINE_CHARS: usize = 160;

/// The number of characters of a cut line before the place.
const CHARS_BEFORE_PLACE: usize = 60;

/// Text of a file with long lines cut, and a place in it.
#[derive(Debug)]
pub(crate) struct Excerpt {
    place: SourceSpan,
    text: String,
    start: usize,
    length: usize,
}

impl Excerpt {
    /// Cuts long lines of `text`; the line of `place` is cut around it. Returns `None` if the place is not in
    /// the text.
    pub(crate) fn new(text: &str, place: &SourceSpan) -> Option<Self> {
        let marked = text.get(place.start..place.start.checked_add(place.len)?)?;
        // A place that spans several lines is shown by its first line.
        let marked = marked.split('\n').next().unwrap_or_default();
        let mut excerpt = Self {
            place: place.clone(),
            text: String::with_capacity(text.len().min(64 * 1024)),
            start: 0,
            length: 0,
        };
        let mut begin = 0;
        for line in text.split_inclusive('\n') {
            let ending = if line.ends_with('\n') { "\n" } else { "" };
            let line = &line[..line.len() - ending.len()];
            let end = begin + line.len();
            if (begin..=end).contains(&place.start) {
                excerpt.marked_line(line, place.start - begin, marked);
            } else {
                excerpt.push(line, 0);
            }
            excerpt.text.push_str(ending);
            begin = end + ending.len();
        }
        if place.start == text.len() && (text.is_empty() || text.ends_with('\n')) {
            excerpt.start = excerpt.text.len();
        }
        Some(excerpt)
    }

    fn marked_line(&mut self, line: &str, at: usize, marked: &str) {
        let column = line[..at].chars().count();
        let long = line.chars().nth(MAX_LINE_CHARS).is_some();
        let from = if long {
            column.saturating_sub(CHARS_BEFORE_PLACE)
        } else {
            0
        };
        let begin = self.text.len();
        let shown = self.push(line, from);
        let left_out = if from > 0 { '…'.len_utf8() } else { 0 };
        let before: usize = line
            .chars()
            .skip(from)
            .take(column - from)
            .map(char::len_utf8)
            .sum();
        self.start = begin + left_out + before;
        self.length = marked.len().min(begin + left_out + shown - self.start);
    }

    /// Appends a line from a character on, with `…` where text is left out. Returns the number of bytes of
    /// the line that are shown.
    fn push(&mut self, line: &str, from: usize) -> usize {
        let start = line
            .char_indices()
            .nth(from)
            .map_or(line.len(), |(at, _)| at);
        let rest = &line[start..];
        let length = rest
            .char_indices()
            .nth(MAX_LINE_CHARS)
            .map_or(rest.len(), |(at, _)| at);
        if from > 0 {
            self.text.push('…');
        }
        self.text.push_str(&rest[..length]);
        if length < rest.len() {
            self.text.push('…');
        }
        length
    }

    /// Returns the position of the place in the excerpt.
    pub(crate) fn span(&self) -> miette::SourceSpan {
        (self.start, self.length).into()
    }
}

impl SourceCode for Excerpt {
    fn read_span<'a>(
        &'a self,
        span: &miette::SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let contents = self.text.read_span(span, before, after)?;
        // Without context, miette asks for the position to report: that of the file, not of the excerpt.
        let column = match (before, after) {
            (0, 0) => (self.place.column as usize).saturating_sub(1),
            _ => contents.column(),
        };
        Ok(Box::new(MietteSpanContents::new_named(
            self.place.file.to_string(),
            contents.data(),
            *contents.span(),
            contents.line(),
            column,
            contents.line_count(),
        )))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn excerpt(text: &str, start: usize, len: usize) -> Excerpt {
        let place = SourceSpan {
            file: "a.yaml".into(),
            line: 1 + text[..start].matches('\n').count() as u32,
            column: 1 + text[..start]
                .chars()
                .rev()
                .take_while(|c| *c != '\n')
                .count() as u32,
            start,
            len,
        };
        Excerpt::new(text, &place).unwrap()
    }

    #[test]
    fn short_lines_are_shown_as_they_are() {
        for text in ["", "a: b", "a: é\nc: d\n", "a\r\nb", "\n\n"] {
            for start in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let excerpt = excerpt(text, start, 0);
                assert_eq!(
                    (excerpt.text.as_str(), excerpt.start),
                    (text, start),
                    "{text:?}"
                );
            }
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let long = "é".repeat(20_000);
        let text = format!("{long}\nx: {long}WRONG{long}\n{long}");
        let start = text.find("WRONG").unwrap();
        for length in [5, 10_005] {
            let shown = excerpt(&text, start, length);
            assert!(
                shown
                    .text
                    .lines()
                    .all(|line| line.chars().count() <= MAX_LINE_CHARS + 2)
            );
            assert_eq!(shown.text.lines().count(), 3);
            let label = &shown.text[shown.start..][..shown.length];
            assert!(
                label.starts_with("WRONG") && label.len() <= length,
                "{label}"
            );
            let at = shown.read_span(&shown.span(), 0, 0).unwrap();
            assert_eq!((at.line(), at.column()), (1, 20_003));
        }
    }

    #[test]
    fn span_outside_of_the_text_has_no_excerpt() {
        let place = |start, len| SourceSpan {
            file: "a".into(),
            line: 1,
            column: 1,
            start,
            len,
        };
        for (start, len) in [(3, 1), (1, 9), (usize::MAX, 2), (2, 1)] {
            assert!(
                Excerpt::new("aé", &place(start, len)).is_none(),
                "{start} {len}"
            );
        }
    }
}
