//! Commands that git runs: from settings, options and aliases.

use super::arguments::{
    analyze_joined_line, analyze_line_with_arguments, argument, is_long, long_value,
};
use super::{ParsedScript, Word};

/// Analyzes options of git whose value is a command, and settings that name one.
pub(super) fn git(script: &mut ParsedScript, rest: &[Word], depth: usize) {
    let is_subcommand = |names: &[&str]| rest.iter().any(|word| word.is_one_of(names));
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        let next = || argument(rest, at + 1);
        let setting = match text.as_str() {
            "-c" => next().filter(|setting| setting.contains(['=', '\0'])),
            text if is_long(text, "--config-env") || is_long(text, "--config") => {
                long_value(rest, at).filter(|setting| setting.contains(['=', '\0']))
            }
            text if text.starts_with("-c") && text.contains('=') => Some(text[2..].to_owned()),
            _ => None,
        };
        if let Some(setting) = setting {
            let (key, value) = setting.split_once('=').unwrap_or((&setting, ""));
            let of_environment = text.split('=').next() == Some("--config-env");
            analyze_git_setting(script, key, value, of_environment, depth);
        }
        let is_short = match text.as_str() {
            "-x" => is_subcommand(&["rebase", "difftool"]),
            "-u" => is_subcommand(&["clone", "fetch-pack", "ls-remote"]),
            _ => false,
        };
        if let Some((_, line)) = text.split_once("ext::") {
            // A space escaped by `%` separates no arguments.
            let words: Vec<Word> = line
                .replace("% ", "\u{1}")
                .split(' ')
                .map(|word| Word::literal(&word.replace('\u{1}', " ")))
                .chain([Word::any()])
                .collect();
            script.writes_git_settings = true;
            script.invoke(words, &[], depth + 1, true);
        }
        let is_named = [
            "--exec",
            "--upload-pack",
            "--receive-pack",
            "--tree-filter",
            "--index-filter",
            "--msg-filter",
            "--env-filter",
            "--commit-filter",
            "--parent-filter",
            "--tag-name-filter",
            "--extcmd",
            "--open-files-in-pager",
        ]
        .iter()
        .any(|name| is_long(&text, name));
        let command = match (is_short, is_named) {
            (true, _) => next(),
            // The value of this option must be joined to it.
            (_, true) if is_long(&text, "--open-files-in-pager") && !text.contains('=') => None,
            (_, true) => long_value(rest, at),
            _ => text
                .strip_prefix("-O")
                .filter(|value| !value.is_empty() && is_subcommand(&["grep"]))
                .map(str::to_owned),
        };
        if let Some(command) = command {
            analyze_line_with_arguments(script, &command, depth);
        }
        if text.starts_with("--exec-path=") {
            script.mark_unclear("the directory of git's programs");
        }
        if text == "run" && at > 0 && rest[at - 1].is_one_of(&["bisect"]) || text == "foreach" {
            let words: Vec<Word> = rest[at + 1..].to_vec();
            let start = words
                .iter()
                .position(|word| !word.starts_with('-'))
                .unwrap_or(0);
            let words = words[start.min(words.len())..].to_vec();
            analyze_joined_line(script, &words, depth);
        }
        if text == "config" {
            let operands: Vec<&Word> = rest[at + 1..]
                .iter()
                .filter(|word| !word.starts_with('-'))
                .collect();
            for pair in operands.windows(2) {
                let (key, value) = (pair[0].text_with('\0'), pair[1].text_with('\0'));
                if analyze_git_setting(script, &key, &value, false, depth) {
                    script.writes_git_settings = true;
                }
            }
        }
    }
}

/// Analyzes the command in a git setting; returns true if the setting may name one.
fn analyze_git_setting(
    script: &mut ParsedScript,
    key: &str,
    value: &str,
    of_environment: bool,
    depth: usize,
) -> bool {
    let key = key.to_lowercase();
    let runs = key.starts_with("alias.")
        || [
            "core.pager",
            "core.editor",
            "core.sshcommand",
            "core.fsmonitor",
            "core.hookspath",
            "core.askpass",
            "core.gitproxy",
            "core.alternaterefscommand",
            "sequence.editor",
            "diff.external",
            "credential.helper",
            "gpg.program",
            "gpg.ssh.program",
            "ssh.variant",
            "interactive.difffilter",
            "uploadpack.packobjectshook",
            "protocol.ext.allow",
            "include.path",
            "init.templatedir",
        ]
        .contains(&key.as_str())
        || [
            ".clean",
            ".smudge",
            ".process",
            ".textconv",
            ".command",
            ".cmd",
            ".path",
            ".helper",
            ".program",
            ".driver",
            ".pager",
            ".receivepack",
            ".uploadpack",
            ".vcs",
            ".proxy",
        ]
        .iter()
        .any(|end| key.ends_with(end))
        || key.starts_with("pager.")
        || key.contains('\0');
    if !runs {
        return false;
    }
    if of_environment || value.contains('\0') || key.contains('\0') {
        script.mark_unclear("a setting of git that names a command");
        return true;
    }
    match value.strip_prefix('!') {
        Some(command) => analyze_line_with_arguments(script, command, depth),
        None if key.starts_with("alias.") => {
            analyze_line_with_arguments(script, &format!("git {value}"), depth);
        }
        None => analyze_line_with_arguments(script, value, depth),
    }
    true
}
