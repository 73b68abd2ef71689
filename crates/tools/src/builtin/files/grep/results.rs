//! Formatting of search results.

use std::io;

use cachalot_core::text::window;
use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::OutputMode;
use crate::builtin::files::{MAX_RESULT_BYTES, format_count};

/// Maximum number of characters of a line that are shown, around the match.
const MAX_LINE_CHARS: usize = 400;

/// Number of characters before the match that are shown of a longer line.
const MAX_CHARS_BEFORE_MATCH: usize = 100;

/// The results so far, of all files.
pub(super) struct GrepResults {
    shape: OutputMode,
    text: String,
    left: usize,
    /// The reason why the results are incomplete.
    full: Option<String>,
    limit: usize,
}

impl GrepResults {
    pub(super) fn new(shape: OutputMode, limit: usize) -> Self {
        Self {
            shape,
            text: String::new(),
            left: limit,
            full: None,
            limit,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn text(mut self) -> String {
        if let Some(why) = self.full {
            self.text.push_str(&format!("[{why}]\n"));
        }
        self.text
    }

    /// Takes one of the remaining results; if none is left, returns false and marks the results as
    /// incomplete.
    fn take(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                let what = match self.shape {
                    OutputMode::Content => "matching line",
                    OutputMode::Files | OutputMode::Count => "file",
                };
                self.full = Some(format!(
                    "there is more than {}; narrow the search or raise `limit`",
                    format_count(self.limit, what)
                ));
                false
            }
        }
    }

    fn push(&mut self, line: &str) -> bool {
        if self.text.len() + line.len() > MAX_RESULT_BYTES && !self.text.is_empty() {
            self.full = Some("there is more than fits here; narrow the search".to_owned());
            return false;
        }
        self.text.push_str(line);
        true
    }
}

/// The results in one file.
pub(super) struct FileMatches<'a> {
    found: &'a mut GrepResults,
    matcher: &'a RegexMatcher,
    name: &'a str,
    /// Number of matching lines so far.
    count: usize,
    has_heading: bool,
    /// Set if lines were skipped since the last one shown.
    broken: bool,
    binary: bool,
}

impl<'a> FileMatches<'a> {
    pub(super) fn new(
        found: &'a mut GrepResults,
        matcher: &'a RegexMatcher,
        name: &'a str,
    ) -> Self {
        Self {
            found,
            matcher,
            name,
            count: 0,
            has_heading: false,
            broken: false,
            binary: false,
        }
    }

    /// True if the file turned out to be binary.
    pub(super) fn is_binary(&self) -> bool {
        self.binary
    }

    /// Shows a line, preceded by the file's name before the first one; returns false if it does not fit.
    fn show(&mut self, number: Option<u64>, mark: char, bytes: &[u8], matches: bool) -> bool {
        let number = number.unwrap_or(0);
        let line = self.cut(bytes, matches);
        let mut shown = String::new();
        if !self.has_heading {
            if !self.found.is_empty() {
                shown.push('\n');
            }
            shown.push_str(self.name);
            shown.push('\n');
        } else if self.broken {
            shown.push_str("--\n");
        }
        shown.push_str(&format!("{number}{mark}{line}\n"));
        self.has_heading = true;
        self.broken = false;
        self.found.push(&shown)
    }

    /// Returns a line without its ending; of a long line, the part around the match.
    fn cut(&self, bytes: &[u8], matches: bool) -> String {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.chars().nth(MAX_LINE_CHARS).is_none() {
            return text.to_owned();
        }
        let at = matches
            .then(|| self.matcher.find(text.as_bytes()).ok().flatten())
            .flatten()
            .map_or(0, |found| found.start());
        // Converts the start of the match to characters, because cutting at a byte could split a character.
        let begin = text
            .char_indices()
            .take_while(|(byte, _)| *byte < at)
            .count()
            .saturating_sub(MAX_CHARS_BEFORE_MATCH);
        window(text, begin, MAX_LINE_CHARS)
    }
}

impl Sink for FileMatches<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        match self.found.shape {
            OutputMode::Content => {
                Ok(self.found.take() && self.show(found.line_number(), ':', found.bytes(), true))
            }
            OutputMode::Files => {
                let line = format!("{}\n", self.name);
                let _ = self.found.take() && self.found.push(&line);
                Ok(false)
            }
            OutputMode::Count => Ok(true),
        }
    }

    fn context(&mut self, _: &Searcher, around: &SinkContext<'_>) -> io::Result<bool> {
        if self.found.shape != OutputMode::Content {
            return Ok(true);
        }
        Ok(self.show(around.line_number(), '-', around.bytes(), false))
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.broken = true;
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, _: &SinkFinish) -> io::Result<()> {
        if self.found.shape == OutputMode::Count && self.count > 0 && self.found.take() {
            let line = format!("{}: {}\n", self.name, self.count);
            self.found.push(&line);
        }
        Ok(())
    }
}
