//! Git in directories whose configuration is not trusted.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::process::Command;

/// The `GIT_*` variables that are passed on: the locations of git's programs and of the user's
/// configuration. The others (`GIT_DIR`, `GIT_EXTERNAL_DIFF`, `GIT_CONFIG_COUNT`, …) would select
/// another repository or another program than those of the working directory.
const INHERITED_VARIABLES: [&str; 6] = [
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
];

/// Returns a git command that runs no program from the repository's configuration, except filters of files, and writes
/// nothing. Arguments can be added to it.
#[must_use]
pub fn untrusting_git(directory: &Path, environment: &BTreeMap<String, String>) -> Command {
    let is_passed = |name: &str| !name.starts_with("GIT_") || INHERITED_VARIABLES.contains(&name);
    let passed = environment.iter().filter(|(name, _)| is_passed(name));
    let mut command = Command::new("git");
    command
        .arg("--no-pager")
        .args(["-c", "core.fsmonitor=false"])
        .args(["-c", "core.hooksPath=/dev/null"])
        .args(["-c", "safe.bareRepository=explicit"])
        .current_dir(directory)
        .env_clear()
        .envs(passed)
        // Writes nothing, so that no other git process waits for a lock and no hook runs.
        .env("GIT_OPTIONAL_LOCKS", "0")
        // Does not fetch missing objects: the remote that has them may be a program.
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_TERMINAL_PROMPT", "0");
    command
}
