//! The directory of the user's data: the store, logins, and files that belong to them.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Returns `$XDG_DATA_HOME/cachalot`, or the equivalent path of the platform; `None` if the environment names no home
/// directory. A relative path in a variable is ignored, as the XDG base directory specification asks for.
#[must_use]
pub fn directory(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let directory = |name: &str| {
        environment
            .get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = if cfg!(windows) {
        directory("LOCALAPPDATA").or_else(|| directory("APPDATA"))
    } else if cfg!(target_os = "macos") {
        directory("XDG_DATA_HOME")
            .or_else(|| directory("HOME").map(|home| home.join("Library/Application Support")))
    } else {
        directory("XDG_DATA_HOME")
            .or_else(|| directory("HOME").map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("cachalot"))
}
