//! The patch format that models know: sections of files between `*** Begin Patch` and `*** End Patch`.
//!
//! ```text
//! *** Begin Patch
//! *** Update File: src/main.rs
//! *** Move to: src/start.rs
//! @@ fn main() {
//!      let a = 1;
//! -    let b = 2;
//! +    let b = 3;
//! *** Add File: notes.txt
//! +one line
//! *** Delete File: old.txt
//! *** End Patch
//! ```
//!
//! A hunk begins with `@@`; what follows it is a line of the file behind which the hunk's lines are,
//! and several such headers lead inwards. The first hunk needs none. A header as in a unified diff
//! (`@@ -10,4 +10,5 @@`) says near which line. `*** End of File` ends a hunk that lies at the end.

pub(super) mod apply;
mod parse;

/// A patch of one or more files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// In the order of the text; never empty.
    pub sections: Vec<Section>,
}

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// The file.
    pub path: String,
    /// What happens to it.
    pub action: Action,
}

/// What happens to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// It is made of these lines.
    Add(Vec<String>),
    /// It goes.
    Delete,
    /// It is changed, moved, or both.
    Update {
        /// Where it goes.
        move_to: Option<String>,
        /// The changes, in the order of the file.
        hunks: Vec<Hunk>,
    },
}

/// A change within a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// Lines of the file, one behind the other, behind which it is.
    pub anchors: Vec<String>,
    /// The line of the file that it should be near, from 1.
    pub near: Option<usize>,
    /// Its lines; never empty.
    pub lines: Vec<(Mark, String)>,
    /// Whether it lies at the end of the file.
    pub at_end: bool,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// It stays.
    Context,
    /// It goes.
    Removed,
    /// It comes.
    Added,
}

/// Why a text is no patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {reason}")]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it, and what is expected.
    pub reason: String,
}

/// A text with hunks applied: all of them, in the order of the text. Lines end as they did, new ones
/// as most do; whether the last one ends with a newline stays as it is.
///
/// # Errors
/// Which hunk does not fit, and why.
pub fn patched(hunks: &[Hunk], text: &[u8]) -> Result<Vec<u8>, String> {
    apply::apply(hunks, text).map(|applied| applied.bytes)
}

impl Patch {
    /// Reads a patch.
    ///
    /// # Errors
    /// What is wrong with the text, and in which line.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        parse::patch(text)
    }
}
