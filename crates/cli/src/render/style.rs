//! Color, only on a terminal and only if the user wants it.

use std::io::IsTerminal as _;

/// Capabilities of stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// True if stderr is a terminal that is not dumb, and `NO_COLOR` is not set.
    colour: bool,
    /// True if stderr is a terminal that can overwrite its output.
    rewrites: bool,
}

impl Style {
    pub(crate) fn of_stderr() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let rewrites = std::io::stderr().is_terminal() && !dumb;
        Self {
            colour: rewrites && !set("NO_COLOR"),
            rewrites,
        }
    }

    /// Returns true if a line can be overwritten.
    pub(crate) fn rewrites(self) -> bool {
        self.rewrites
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn success(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn error(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn notable(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }
}
