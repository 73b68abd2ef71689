//! Subcommands of git, by what their operands name.
//!
//! The names are those of git 2.47.3 (`git help -a`), as of 2026-11-28.

/// Options before the subcommand that have no value and change no result.
pub const FLAGS: [&str; 3] = ["--no-pager", "-P", "--no-optional-locks"];

/// The operands of a subcommand before `--`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operands {
    /// Revisions or existing files; no file that an operand names is written, except by `--output`.
    Read,
    /// Revisions, remotes or existing files, which may be written.
    Revisions,
    /// Files, which need not exist and are not written.
    Files,
}

const SUBCOMMANDS: [(Operands, &[&str]); 3] = [
    (
        Operands::Read,
        &[
            "blame",
            "cat-file",
            "commit",
            "describe",
            "diff",
            "diff-files",
            "diff-index",
            "diff-tree",
            "log",
            "ls-tree",
            "merge-base",
            "name-rev",
            "rev-list",
            "rev-parse",
            "shortlog",
            "show",
            "status",
        ],
    ),
    (
        Operands::Revisions,
        &[
            "branch",
            "checkout",
            "cherry",
            "cherry-pick",
            "fetch",
            "for-each-ref",
            "merge",
            "notes",
            "pull",
            "push",
            "range-diff",
            "rebase",
            "reset",
            "restore",
            "revert",
            "show-branch",
            "show-ref",
            "switch",
            "symbolic-ref",
            "tag",
            "whatchanged",
        ],
    ),
    (Operands::Files, &["add", "ls-files"]),
];

/// Returns the operands of a subcommand; `None` if it is not known.
fn operands(subcommand: &str) -> Option<Operands> {
    let mut known = SUBCOMMANDS.iter();
    let (operands, _) = known.find(|(_, names)| names.contains(&subcommand))?;
    Some(*operands)
}

/// True if the subcommand writes to no file that its operands name, except where `--output` says.
#[must_use]
pub fn writes_no_operand(subcommand: &str) -> bool {
    matches!(operands(subcommand), Some(Operands::Read | Operands::Files))
}

/// True if the operands before `--` are revisions, remotes or existing files: the subcommand does not create the file
/// that such an operand names, except `checkout` and `restore`.
pub(crate) fn takes_revisions(subcommand: &str) -> bool {
    matches!(
        operands(subcommand),
        Some(Operands::Read | Operands::Revisions)
    )
}
