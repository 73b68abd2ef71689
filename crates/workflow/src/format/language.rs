//! Languages of inline code, and the runners of Python.

/// The language of inline code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Python in the runner that [`PythonRunner::Auto`] stands for, or in the embedded interpreter.
    Python,
    /// Python in the user's own interpreter.
    Python3,
    /// Lua in the embedded interpreter.
    Lua,
}

/// The runner of Python code that names no other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PythonRunner {
    /// The user's own interpreter where it can be put in a sandbox, else the embedded one.
    #[default]
    Auto,
    /// The embedded interpreter.
    Embedded,
    /// The user's own interpreter.
    Python3,
}

impl PythonRunner {
    /// The names of the runners.
    pub const NAMES: [&str; 3] = ["auto", "python3", "embedded"];

    /// Returns the runner of this name, or `None` if the name is not in [`NAMES`](Self::NAMES).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "embedded" => Some(Self::Embedded),
            "python3" => Some(Self::Python3),
            _ => None,
        }
    }
}

/// The choice of the runner of Python outside of the file.
#[derive(Clone, Copy)]
pub struct PythonChoice<'a> {
    /// The runner of the command, which overrides `settings.python.runner`.
    pub runner: Option<PythonRunner>,
    /// Returns true if [`PythonRunner::Auto`] stands for the user's own interpreter on this machine. Asked only if a
    /// file has Python code that depends on it.
    pub auto_is_python3: &'a dyn Fn() -> bool,
}

impl PythonChoice<'_> {
    /// The embedded interpreter, unless a file or a block asks for another one.
    pub const EMBEDDED: Self = Self {
        runner: None,
        auto_is_python3: &|| false,
    };
}
