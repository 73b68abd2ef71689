//! Constructs that the embedded Python refuses, under the names that Python users know.

/// The workaround that is always available.
pub(super) const WORKAROUND: &str = "run the block with Python: `language: python3` on the step, `settings.python.runner: python3` or `--python python3`";

/// A refused construct, with a short replacement if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsupported {
    /// The construct, in Python's terms.
    pub(super) what: String,
    /// A supported equivalent.
    pub(super) instead: Option<&'static str>,
}

impl Unsupported {
    pub(super) fn new(what: impl Into<String>, instead: Option<&'static str>) -> Self {
        Self {
            what: what.into(),
            instead,
        }
    }
}
