//! Environment variables that hooks set: shell lines that they add to a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::process::{SandboxedRun, ShellCommand};
use super::{MAX_OUTPUT_BYTES, expand};
use crate::dependencies::HookSandbox;
use crate::output::Fault;

/// The timeout of the shell that evaluates the lines.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A script that evaluates the lines and prints all variables. Uses `bash` if present, because it
/// understands the output of its own `export -p`.
const PRINT_VARIABLES_SCRIPT: &str = r#"tell='set -a; . "$CLAUDE_ENV_FILE" >&2; exec env -0'
if command -v bash >/dev/null 2>&1; then exec bash -c "$tell"; else eval "$tell"; fi"#;

/// Variables that shells set for themselves.
const SHELL_VARIABLES: [&str; 6] = ["_", "SHLVL", "PWD", "OLDPWD", "CLAUDE_ENV_FILE", "BASHOPTS"];

/// Returns the variables that a file sets or changes. Plain assignments are parsed here; for anything
/// else, a shell in `directory`, and in the sandbox of the hooks, evaluates the file.
///
/// # Errors
/// The file cannot be read, or the shell fails.
pub(crate) async fn read(
    file: &Path,
    environment: &BTreeMap<String, String>,
    directory: &Path,
    sandbox: Option<Arc<dyn HookSandbox>>,
) -> Result<BTreeMap<String, String>, Fault> {
    let failed = |why: &str| {
        Fault::new(format!(
            "the variables in `CLAUDE_ENV_FILE` cannot be read: {why}"
        ))
    };
    let lines = std::fs::read(file).map_err(|error| failed(&error.to_string()))?;
    if lines.len() > MAX_OUTPUT_BYTES {
        return Err(failed("they are longer than 1 MiB"));
    }
    if let Some(set) = std::str::from_utf8(&lines)
        .ok()
        .and_then(|lines| plain(lines, environment))
    {
        return Ok(set);
    }
    let mut around = environment.clone();
    around.insert(
        "CLAUDE_ENV_FILE".to_owned(),
        file.to_string_lossy().into_owned(),
    );
    let job = ShellCommand {
        line: PRINT_VARIABLES_SCRIPT.to_owned(),
        directory: directory.to_owned(),
        environment: around,
        input: Vec::new(),
        sandbox: sandbox.map(|sandbox| SandboxedRun {
            sandbox,
            read: Some(file.to_owned()),
            written: None,
        }),
    };
    let ended = timeout(TIMEOUT, job.run())
        .await
        .map_err(|_| failed("a shell took too long for them"))?
        .map_err(|fault| failed(&fault.message))?;
    if ended.code != 0 {
        return Err(failed(&format!(
            "a shell ended with exit code {}",
            ended.code
        )));
    }
    // A part of the variables could be worse than none: the last value may end in its middle.
    if ended.stdout_cut_at.is_some() {
        return Err(failed("they are longer than 1 MiB"));
    }
    Ok(changed_variables(&ended.stdout, environment))
}

/// The variables in the shell's output that differ from `environment`.
fn changed_variables(
    said: &[u8],
    environment: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let variables = said.split(|byte| *byte == 0).filter_map(|variable| {
        let (name, value) = std::str::from_utf8(variable).ok()?.split_once('=')?;
        // Exported shell functions are not variables for other programs.
        let is_new = expand::is_name(name)
            && !SHELL_VARIABLES.contains(&name)
            && environment.get(name).map(String::as_str) != Some(value);
        is_new.then(|| (name.to_owned(), value.to_owned()))
    });
    variables.collect()
}

/// Parses lines that are plain assignments; `None` if a shell is needed.
fn plain(lines: &str, environment: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    let mut set = BTreeMap::new();
    let mut rest = lines;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', ';']);
        if rest.is_empty() {
            return Some(set);
        }
        if rest.starts_with('#') {
            rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
            continue;
        }
        for word in ["export ", "declare -x "] {
            rest = rest
                .strip_prefix(word)
                .unwrap_or(rest)
                .trim_start_matches(' ');
        }
        loop {
            let (name, behind) = rest.split_once('=')?;
            if !expand::is_name(name) {
                return None;
            }
            let value;
            (value, rest) = word(behind, |name| {
                let set = set.get(name).or_else(|| environment.get(name));
                set.map_or("", |value: &String| value)
            })?;
            set.insert(name.to_owned(), value);
            let behind = rest.trim_start_matches([' ', '\t']);
            // Several assignments on one line.
            match behind.chars().next() {
                None | Some('\n' | '\r' | ';' | '#') => break,
                Some(_) => rest = behind,
            }
        }
    }
}

/// Parses the shell word at the start of a text; returns its value and the rest. `None` if a shell is
/// needed.
fn word<'a, 'b>(text: &'a str, value: impl Fn(&str) -> &'b str) -> Option<(String, &'a str)> {
    let mut said = String::new();
    let mut rest = text;
    let mut is_quoted = false;
    while let Some(character) = rest.chars().next() {
        let behind = &rest[character.len_utf8()..];
        rest = match character {
            '"' => {
                is_quoted = !is_quoted;
                behind
            }
            '\'' if !is_quoted => {
                let (inside, behind) = behind.split_once('\'')?;
                said.push_str(inside);
                behind
            }
            '\\' => {
                let escaped = behind.chars().next()?;
                let is_special = !is_quoted || "\"\\$`\n".contains(escaped);
                said.extend((!is_special).then_some('\\'));
                said.extend((escaped != '\n').then_some(escaped));
                &behind[escaped.len_utf8()..]
            }
            '$' => {
                let (name, length) = expand::variable(rest, expand::Spelling::Shell)?;
                if rest[..length].contains('.') {
                    return None;
                }
                said.push_str(value(name));
                &rest[length..]
            }
            '`' => return None,
            character if is_quoted || is_plain(character) => {
                said.push(character);
                behind
            }
            ' ' | '\t' | '\n' | '\r' | ';' => break,
            _ => return None,
        };
    }
    (!is_quoted).then_some((said, rest))
}

/// True if a character has no special meaning for a shell in an assigned value.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "_-./:=@%+,^".contains(character)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/handler/exports.rs"]
mod tests;
