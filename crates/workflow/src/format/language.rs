//! Languages of inline code.

/// The language of inline code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Python in the embedded interpreter.
    Python,
    /// Python in the user's own interpreter.
    Python3,
    /// Lua in the embedded interpreter.
    Lua,
}

impl Language {
    /// The names of the runners of Python code.
    pub const RUNNERS: [&str; 2] = ["embedded", "python3"];

    /// Returns the language that the runner of this name runs, or `None` if the name is not in
    /// [`RUNNERS`](Self::RUNNERS).
    #[must_use]
    pub fn from_runner(name: &str) -> Option<Self> {
        match name {
            "embedded" => Some(Self::Python),
            "python3" => Some(Self::Python3),
            _ => None,
        }
    }
}
