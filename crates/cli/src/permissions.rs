//! The user's own permissions: tool calls that chats make without asking.
//!
//! `permissions.yaml` in the user's configuration directory holds rules under `allow`. Rules of an agent file
//! that deny or ask still apply.

use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use cachalot_agent::{Permissions, Team};
use cachalot_core::Problem;
use cachalot_core::atomic_file::{self, Access};
use cachalot_core::tree::{self, Node};

use crate::render;
use crate::wiring::ProcessEnvironment;

/// Beginning of a new file.
const FILE_HEADER: &str = "# Tool calls that `cachalot chat` makes without asking. The rules are those of\n# `permissions.allow` in agent files; what a file denies or asks about still is.\nallow:\n";

/// Returns the path of the file; `None` if the user has no configuration directory.
pub(crate) fn file(process_environment: &ProcessEnvironment) -> Option<PathBuf> {
    Some(
        process_environment
            .configuration()?
            .join("permissions.yaml"),
    )
}

/// Adds the user's own permissions to those of a team. A file that cannot be read permits nothing and causes
/// a warning.
pub(crate) fn add(team: &mut Team, process_environment: &ProcessEnvironment) {
    let Some(file) = file(process_environment) else {
        return;
    };
    let read = match read(&file) {
        Ok(read) => read,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => {
            render::err(&format!(
                "warning: {} permits nothing: {error}",
                file.display()
            ));
            return;
        }
    };
    team.permissions.also_allow(&read.0);
}

/// Adds a rule and replaces the file atomically. Comments stay, unless the list has to be rewritten.
///
/// # Errors
/// Errors of the file system; a file that cannot be parsed.
pub(crate) fn save(file: &Path, rule: &str) -> Result<()> {
    let (mut text, rules) = match read(file) {
        Ok((_, rules, text)) => (text, rules),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A file of comments only counts as none, and keeps them.
            let comments = std::fs::read_to_string(file).unwrap_or_default();
            let new_line = if comments.is_empty() || comments.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            (format!("{comments}{new_line}{FILE_HEADER}"), Vec::new())
        }
        // A file with a mistake has rules of the user: it is not replaced.
        Err(error) => return Err(error),
    };
    if rules.iter().any(|known| known == rule) {
        return Ok(());
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let quoted = |rule: &str| serde_json::Value::from(rule).to_string();
    let indent = text
        .lines()
        .rev()
        .find(|line| line.trim_start().starts_with("- "))
        .map_or(2, |line| line.len() - line.trim_start().len());
    let mut added = format!("{text}{:indent$}- {}\n", "", quoted(rule));
    let all: Vec<String> = rules.into_iter().chain([rule.to_owned()]).collect();
    if !parse(file, &added).is_ok_and(|(_, read)| read == all) {
        // A list in another style is rewritten, without comments.
        let lines: String = all
            .iter()
            .map(|rule| format!("  - {}\n", quoted(rule)))
            .collect();
        added = format!("{FILE_HEADER}{lines}");
    }
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    atomic_file::replace(file, added.as_bytes(), Access::Private)
}

/// Returns the permissions in the file, its rules as they are written, and its text.
fn read(file: &Path) -> Result<(Permissions, Vec<String>, String)> {
    let text = std::fs::read_to_string(file)?;
    if text
        .lines()
        .all(|line| line.trim().is_empty() || line.trim().starts_with('#'))
    {
        return Err(ErrorKind::NotFound.into());
    }
    let (permissions, rules) = parse(file, &text).map_err(|problems| {
        let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Error::new(ErrorKind::InvalidData, told.join("; "))
    })?;
    Ok((permissions, rules, text))
}

fn parse(file: &Path, text: &str) -> std::result::Result<(Permissions, Vec<String>), Vec<Problem>> {
    let node = tree::parse(&file.display().to_string(), text)?;
    let mut problems = Vec::new();
    let permissions = Permissions::read_allowed(&node, &mut problems);
    if problems.is_empty() {
        Ok((permissions, rules(&node)))
    } else {
        Err(problems)
    }
}

fn rules(node: &Node) -> Vec<String> {
    let list = node.get("allow").and_then(Node::as_list);
    let texts = list.into_iter().flatten().filter_map(Node::as_text);
    texts.map(str::to_owned).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn saved_rules_are_added_to_the_existing_ones() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cachalot/permissions.yaml");
        for rule in [
            "shell:command=git push *",
            r"shell:command=a\:b 'c' # \*",
            "shell:command=git push *",
        ] {
            save(&file, rule).unwrap();
        }
        let (_, rules, text) = read(&file).unwrap();
        assert_eq!(
            rules,
            ["shell:command=git push *", r"shell:command=a\:b 'c' # \*"]
        );
        assert!(text.starts_with("# "), "{text}");
        for (before, kept) in [
            ("allow:\n# mine\n- a\n", "# mine"),
            ("allow: [a]\n", "allow:"),
            ("allow:\n    - a", "    - \"b\""),
        ] {
            std::fs::write(&file, before).unwrap();
            save(&file, "b").unwrap();
            let (_, rules, text) = read(&file).unwrap();
            assert_eq!(rules, ["a", "b"], "{text}");
            assert!(text.contains(kept), "{text}");
        }
        std::fs::write(&file, "# only mine").unwrap();
        save(&file, "b").unwrap();
        let (_, rules, text) = read(&file).unwrap();
        assert_eq!(rules, ["b"], "{text}");
        assert!(text.starts_with("# only mine\n"), "{text}");
        // An unreadable file is not overwritten.
        std::fs::write(&file, "allow: [a\n").unwrap();
        assert!(save(&file, "b").is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "allow: [a\n");
        std::fs::write(&file, "deny: [a]\n").unwrap();
        assert!(save(&file, "b").is_err());
    }
}
