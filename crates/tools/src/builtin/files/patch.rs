//! The patch format known to models: sections of files between `*** Begin Patch` and `*** End Patch`.
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
//! A hunk begins with `@@`, optionally followed by a line of the file after which the hunk's lines are;
//! several such headers are nested. The first hunk needs none. A header as in a unified diff
//! (`@@ -10,4 +10,5 @@`) gives an approximate line. `*** End of File` ends a hunk at the end of the file.

pub(super) mod apply;
mod parse;

/// A patch of one or more files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// In the order of the text; never empty.
    pub sections: Vec<Section>,
}

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The line of the patch where the section begins, from 1.
    pub line: usize,
    /// The path of the file.
    pub path: String,
    /// The kind of change.
    pub action: Action,
}

/// The kind of change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Creates the file with these lines.
    Add(Vec<String>),
    /// Deletes the file.
    Delete,
    /// Changes the file, moves it, or both.
    Update {
        /// The new path, if it is moved.
        move_to: Option<String>,
        /// The changes, in the order of the file.
        hunks: Vec<Hunk>,
    },
}

/// A change within a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The line of the patch where the hunk begins, from 1.
    pub line: usize,
    /// Lines of the file, in order, after which the hunk is.
    pub anchors: Vec<String>,
    /// The line of the file that it should be near, from 1.
    pub near: Option<usize>,
    /// The lines of the hunk; never empty.
    pub lines: Vec<(Mark, String)>,
    /// Set if the hunk is at the end of the file.
    pub at_end: bool,
}

/// The role of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The line stays.
    Context,
    /// The line is removed.
    Removed,
    /// The line is added.
    Added,
}

/// The error of a text that is not a patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {reason}")]
pub struct PatchError {
    /// The line, from 1.
    pub line: usize,
    /// The problem, and the expectation.
    pub reason: String,
}

/// The error of a hunk that does not fit a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("hunk {number} (line {line} of the patch) does not fit: {mismatch}")]
pub struct HunkError {
    /// The number of the hunk, from 1.
    pub number: usize,
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// The reason.
    pub mismatch: Mismatch,
}

/// The reason why a hunk does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// The anchor is not in the text after this number of lines.
    #[error("there is no line `{}`{}; what follows `@@` must be a whole line of the file", .0, behind(*.1))]
    Anchor(String, usize),
    /// The lines occur at several lines of the text, from 1.
    #[error(
        "its lines occur {} times, at lines {}; add context, or name the preceding line with `@@`",
        .0.len(),
        first_places(.0)
    )]
    Ambiguous(Vec<usize>),
    /// The lines are not in the text; with what comes near.
    #[error("its lines are not in the file{0}")]
    Missing(String),
}

fn behind(position: usize) -> String {
    match position {
        0 => String::new(),
        line => format!(" behind line {line}"),
    }
}

fn first_places(places: &[usize]) -> String {
    let first: Vec<String> = places.iter().take(10).map(usize::to_string).collect();
    first.join(", ")
}

/// Applies hunks to a text: all of them, in the order of the text. Lines keep their endings, and new lines
/// get the most frequent one. The presence of a newline at the end of the file does not change.
///
/// # Errors
/// A hunk does not fit.
pub fn apply_hunks(hunks: &[Hunk], text: &[u8]) -> Result<Vec<u8>, HunkError> {
    apply::apply(hunks, text).map(|applied| applied.bytes)
}

impl Patch {
    /// Parses a patch.
    ///
    /// # Errors
    /// The problem and its line.
    pub fn parse(text: &str) -> Result<Self, PatchError> {
        parse::patch(text)
    }
}
