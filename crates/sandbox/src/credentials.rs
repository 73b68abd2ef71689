//! Files of the user with credentials.

use std::path::{Path, PathBuf};

/// Files and directories of a home with credentials, as the programs that write them document.
const CREDENTIALS: &str = include_str!("../data/credentials.txt");

/// Returns the files and directories of a home that have credentials. They need not exist.
pub fn credentials(home: &Path) -> impl Iterator<Item = PathBuf> {
    let lines = CREDENTIALS
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| home.join(line))
}
