//! Environment variables that programs of a workflow see without being named.

/// Returns true for a variable that every program gets: for the search path, the user's home, the language and temporary
/// files.
pub(crate) fn is_passed(name: &str) -> bool {
    ["PATH", "HOME", "LANG", "TMPDIR"].contains(&name) || name.starts_with("LC_")
}
