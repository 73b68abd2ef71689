//! Color, only on a terminal and only if the user wants it.

use std::io::IsTerminal as _;

/// Capabilities of stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// True if stderr is a terminal that is not dumb, and `NO_COLOR` is not set.
    color: bool,
}

impl Style {
    pub(crate) fn of_stderr() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let can_paint = std::io::stderr().is_terminal() && !dumb;
        Self {
            color: can_paint && !set("NO_COLOR"),
        }
    }

    /// Returns the sequence that begins a color or a style; empty if there is no color.
    pub(crate) fn begin(self, code: &str) -> String {
        if self.color {
            format!("\x1b[{code}m")
        } else {
            String::new()
        }
    }

    /// Returns the sequence that ends all colors and styles.
    pub(crate) fn end(self) -> String {
        self.begin("0")
    }

    /// Returns source code within a text.
    pub(crate) fn code(self, text: &str) -> String {
        self.paint("36", text)
    }

    /// Returns text in a color.
    pub(crate) fn color(self, code: &str, text: &str) -> String {
        self.paint(code, text)
    }

    /// Returns a style with color.
    #[cfg(test)]
    pub(crate) fn all() -> Self {
        Self { color: true }
    }

    /// Returns a style without color.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self { color: false }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.color {
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
