//! The rule that an "always" approval adds.

use cachalot_core::Place;

use super::pattern::{SHELL_SYNTAX, escaped};
use super::rule::{self, Rule};
use super::subject::{Subjects, below, host};
use super::{Operation, Permissions};
use crate::Workspace;
use crate::shell::base;
use crate::touches::CommandText;

/// A permission that a user grants for calls like the one that needed approval. Never wider than the
/// pattern that the user sees.
#[derive(Debug, Clone)]
pub struct Remembered {
    rule: Rule,
}

impl PartialEq for Remembered {
    fn eq(&self, other: &Self) -> bool {
        self.rule() == other.rule()
    }
}

/// Programs whose first operand is a subcommand, which is part of the approval.
const SUBCOMMANDS: [&str; 34] = [
    "apt",
    "apt-get",
    "aws",
    "az",
    "brew",
    "bun",
    "cargo",
    "composer",
    "deno",
    "docker",
    "dotnet",
    "gcloud",
    "gem",
    "gh",
    "git",
    "go",
    "gradle",
    "helm",
    "just",
    "kubectl",
    "make",
    "mix",
    "mvn",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "poetry",
    "podman",
    "rustup",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];

/// Subcommands that run the rest of the line: the approval covers the exact line only.
const RUNNING: [&str; 10] = [
    "run", "exec", "x", "script", "foreach", "bisect", "config", "rebase", "eval", "sh",
];

/// Read-only programs: the approval covers all their arguments.
const READING: [&str; 22] = [
    "cat", "cut", "date", "df", "diff", "du", "echo", "file", "grep", "head", "hostname", "ls",
    "ps", "pwd", "stat", "tail", "tree", "uname", "uptime", "wc", "which", "whoami",
];

impl Permissions {
    /// Returns the permission that an "always" approval grants for calls like this one: the prefix of a
    /// command (`git push *`), the path of a file, the host of a URL, or else the tool, with its action
    /// if it has one. `None` if no pattern covers this call without also covering something that the
    /// user did not see.
    #[must_use]
    pub fn remember(operation: &Operation<'_>, workspace: &Workspace) -> Option<Remembered> {
        let call = Subjects::of(operation, workspace);
        let text = pattern(&call)?;
        let place = Place {
            file: "always".into(),
            line: 1,
            column: 1,
            start: 0,
            len: 0,
        };
        let remembered = Remembered {
            rule: rule::parse(&text, &place).ok()?,
        };
        // A pattern that does not cover its own call would cause the same question again.
        remembered.covers_call(&call).then_some(remembered)
    }
}

impl Remembered {
    /// The rule, as written under `allow`.
    #[must_use]
    pub fn rule(&self) -> &str {
        self.rule.text()
    }

    /// True if it covers a call.
    #[must_use]
    pub fn covers(&self, operation: &Operation<'_>, workspace: &Workspace) -> bool {
        self.covers_call(&Subjects::of(operation, workspace))
    }

    fn covers_call(&self, call: &Subjects<'_>) -> bool {
        self.rule.narrow(call, &|_| false)
    }
}

fn pattern(call: &Subjects<'_>) -> Option<String> {
    let operation = call.operation;
    let tool = operation.tool;
    let touches = operation.touches;
    match (call.commands.as_slice(), touches.urls.as_slice()) {
        ([taken], []) if touches.paths().next().is_none() => {
            let text = match &taken.command.text {
                CommandText::Line(line) => line.clone(),
                // Different lists of words may have the same text.
                CommandText::Program(words) => {
                    let is_plain = |word: &String| {
                        !word.is_empty()
                            && !word.contains(char::is_whitespace)
                            && !word.contains(SHELL_SYNTAX)
                    };
                    words.iter().all(is_plain).then(|| words.join(" "))?
                }
            };
            Some(format!("{tool}:command={}", of_command(call, &text)))
        }
        ([], [url]) => {
            let host = host(url)?;
            touches
                .paths()
                .next()
                .is_none()
                .then(|| format!("{tool}:host={}", escaped(&host)))
        }
        ([], []) => {
            let mut paths: Vec<String> = touches
                .paths()
                .map(|path| below(call.workspace.root(), path))
                .collect();
            paths.sort();
            paths.dedup();
            match paths.as_slice() {
                [] => {
                    let text = |name: &str| operation.arguments.get(name)?.as_str();
                    let part = ["action", "agent"]
                        .iter()
                        .find_map(|name| Some(format!(":{name}={}", escaped(text(name)?))));
                    Some(format!("{tool}{}", part.unwrap_or_default()))
                }
                [path] => Some(format!("{tool}:path={}", escaped(path))),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The pattern of a command: its program and subcommand if these determine what it does, otherwise the
/// exact command.
fn of_command(call: &Subjects<'_>, text: &str) -> String {
    let exact = escaped(text);
    let script = &call.commands[0].script;
    let [invocation] = script.invocations.as_slice() else {
        return exact;
    };
    if script.has_syntax || !script.unclear.is_empty() || !script.redirects.is_empty() {
        return exact;
    }
    let Some(words) = invocation
        .words
        .iter()
        .map(|word| word.text())
        .collect::<Option<Vec<String>>>()
    else {
        return exact;
    };
    let is_plain = |word: &str| {
        word.chars()
            .all(|sign| sign.is_ascii_alphanumeric() || "-_.".contains(sign))
            && word.starts_with(|sign: char| sign.is_ascii_alphanumeric())
    };
    let program = words[0].as_str();
    if !is_plain(program) || base(program) != program {
        return exact;
    }
    let prefix = match words.get(1) {
        _ if READING.contains(&program) => program.to_owned(),
        Some(command)
            if SUBCOMMANDS.contains(&program)
                && is_plain(command)
                && !RUNNING.contains(&command.as_str()) =>
        {
            format!("{program} {command}")
        }
        _ => return exact,
    };
    // Quotes and white space may have other spellings.
    match text.strip_prefix(&prefix) {
        Some(rest) if rest.starts_with(' ') => format!("{} *", escaped(&prefix)),
        _ => exact,
    }
}
