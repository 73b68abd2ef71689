//! Git in directories whose configuration is not trusted.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::process::Command;

use crate::{Error, Lingering, Run, Streams};

/// Maximum bytes of filter names to read. A repository with more is not read.
const MAX_FILTER_BYTES: usize = 64 * 1024;

/// An environment variable of the child process that is set to the empty string; see [`without_filters`].
const EMPTY_VARIABLE: &str = "CACHALOT_EMPTY";

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

/// Like [`untrusting_git`], and runs no filter of files either (`filter.NAME.clean`, `filter.NAME.process`). A file with a
/// filter counts as changed once its modification time changes. `None` if git is missing, or the filters cannot be listed.
pub async fn without_filters(
    directory: &Path,
    environment: &BTreeMap<String, String>,
) -> Option<Command> {
    let mut listing = untrusting_git(directory, environment);
    listing.args([
        "config",
        "--null",
        "--name-only",
        "--get-regexp",
        "^filter[.]",
    ]);
    let (output, code) = git_output(listing, MAX_FILTER_BYTES).await?;
    // Exit code 1: no setting matches.
    if output.len() > MAX_FILTER_BYTES || !matches!(code, Some(0 | 1)) {
        return None;
    }
    // Git has no option that disables filters, and the attributes that select them are spread over several files: each
    // setting is overridden with an empty value.
    let mut command = untrusting_git(directory, environment);
    command.env(EMPTY_VARIABLE, "");
    let names = output.split(|byte| *byte == 0);
    for name in names.filter(|name| !name.is_empty()) {
        let name = std::str::from_utf8(name).ok()?;
        command.arg(format!("--config-env={name}={EMPTY_VARIABLE}"));
    }
    Some(command)
}

/// Returns the output and the exit code of git. If the output exceeds `most` bytes, returns the bytes so far without an exit
/// code, and kills it. `None` if it cannot be run.
pub async fn git_output(command: Command, maximum: usize) -> Option<(Vec<u8>, Option<i32>)> {
    let run = Run {
        command,
        input: None,
        streams: Streams::StdoutOnly,
        output_limit: Some(maximum),
        // The caller drops the future on timeout.
        timeout: None,
        lingering: Lingering::Kill,
    };
    let mut output = Vec::new();
    match run.run(|_, bytes| output.extend_from_slice(bytes)).await {
        Ok(ended) => Some((output, ended.status.code())),
        Err(Error::TooMuchOutput { .. }) => Some((output, None)),
        Err(_) => None,
    }
}
