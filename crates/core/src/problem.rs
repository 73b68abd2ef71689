//! Problems in the user's input, with place, cause and remedy. Only the command line renders them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A place in a text. Lines and columns count from 1; `start` and `len` are in bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SourceSpan {
    /// The file as the user named it, or a word such as `--input`.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Byte offset of the first byte.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

impl SourceSpan {
    /// Returns the place of `range`, in bytes, in the text of `file`.
    #[must_use]
    pub fn new(file: impl Into<Arc<str>>, text: &str, range: Range<usize>) -> Self {
        let before = text.get(..range.start).unwrap_or(text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let line = line.trim_start_matches('\u{feff}');
        let number = |before: usize| u32::try_from(before + 1).unwrap_or(u32::MAX);
        Self {
            file: file.into(),
            line: number(before.matches('\n').count()),
            column: number(line.chars().count()),
            start: range.start,
            len: range.len(),
        }
    }
}

impl fmt::Display for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl fmt::Debug for SourceSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One problem in a file or an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable code for scripts and search engines: `unknown-key`, `duplicate-key`, …
    pub code: &'static str,
    /// A description of the problem, lower case, without a full stop.
    pub message: String,
    /// The place of the problem.
    pub place: Option<SourceSpan>,
    /// The remedy.
    pub help: Option<String>,
    /// Set if the file can be used nevertheless.
    pub is_warning: bool,
}

impl Problem {
    /// Creates a problem without a place and a remedy.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            place: None,
            help: None,
            is_warning: false,
        }
    }

    /// Creates a warning: the file can be used, but may not mean what its author expects.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_warning: true,
            ..Self::new(code, message)
        }
    }

    /// Creates the problem of a mapping that lacks `key`. `mapping` is the beginning of the mapping.
    #[must_use]
    pub fn missing_key(message: impl Into<String>, key: &str, mapping: &SourceSpan) -> Self {
        Self::new("missing-key", message)
            .at(mapping)
            .help(help_for_missing(key))
    }

    /// Removes the report that a mapping lacks `key`, because a key of the mapping is reported as a misspelling of it:
    /// one mistake is one problem. The missing key is recognized by its help, which begins as that of
    /// [`Problem::missing_key`].
    pub fn remove_missing_key(problems: &mut Vec<Self>, key: &str, mapping: &SourceSpan) {
        let help = help_for_missing(key);
        problems.retain(|problem| {
            let is_it = problem.code == "missing-key"
                && problem.place.as_ref() == Some(mapping)
                && problem
                    .help
                    .as_ref()
                    .is_some_and(|own| own.starts_with(&help));
            !is_it
        });
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, place: &SourceSpan) -> Self {
        self.place = Some(place.clone());
        self
    }

    /// Sets the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

fn help_for_missing(key: &str) -> String {
    format!("add `{key}: …`")
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        write!(f, "{} [{}]", self.message, self.code)?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
