//! Operands of git that are revisions: `HEAD` in them names a commit, not a file.

use std::path::{Component, Path};

use cachalot_core::links::without_links;

use super::wrappers::base_name;
use super::{Directories, Invocation, ParsedScript, Word};
use crate::git_subcommands::{FLAGS, takes_revisions};

/// Returns the programs of a script, without the mentions of `HEAD` that are revisions. All mentions are
/// kept if a command may run inside a git directory: `HEAD` is a file there.
pub(crate) fn without_revisions(
    script: &ParsedScript,
    directories: &Directories,
) -> Vec<Invocation> {
    let invocations = &script.invocations;
    if directories.others || directories.known.iter().any(|from| is_git_directory(from)) {
        return invocations.clone();
    }
    let reduced = |invocation: &Invocation| {
        let words = &invocation.words;
        // The arguments of `env`, `timeout` and others that are a command of their own.
        let runs = |at: &usize| {
            let is_it = |other: &Invocation| other.nested && other.words == words[*at..];
            *at == 0 || invocations.iter().any(is_it)
        };
        let is_git = |at: &usize| {
            let program = words[*at].text();
            program.is_some_and(|program| base_name(&program) == "git")
        };
        let mut kept = words.clone();
        if let Some(at) = (0..words.len()).filter(is_git).find(runs) {
            let git = remove_revisions(&words[at + 1..]);
            kept.splice(at + 1.., git);
        }
        Invocation {
            words: kept,
            nested: invocation.nested,
        }
    };
    invocations.iter().map(reduced).collect()
}

/// Returns the arguments of git without the revisions in them.
fn remove_revisions(arguments: &[Word]) -> Vec<Word> {
    let mut kept = arguments.to_vec();
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += match word {
            word if word.is_one_of(&["-C"]) => 2,
            word if word.is_one_of(&FLAGS) => 1,
            _ => break,
        };
    }
    let subcommand = arguments.get(at).and_then(Word::text).unwrap_or_default();
    if !takes_revisions(&subcommand) {
        return kept;
    }
    let only = only_revision(&subcommand, arguments, at);
    // `--output` in any abbreviation: its value is a file.
    let is_output = |word: &Word| {
        let text = word.text_with('\0');
        text.starts_with("--o") && !["--oneline", "--onto"].contains(&text.as_str())
    };
    for at in at + 1..arguments.len() {
        let word = &arguments[at];
        if word.is_one_of(&["--"]) {
            break;
        }
        if only.is_none_or(|only| only == at)
            && !is_output(word)
            && !is_output(&arguments[at - 1])
            && let Some(rest) = word.text().as_deref().and_then(after_revision)
        {
            kept[at] = Word::literal(rest);
        }
    }
    kept
}

/// Returns the only argument that may be a revision, for subcommands that create the files that others name:
/// the first operand of `checkout`, and the source of `restore`. `None`: any argument. `before` is the position
/// of the subcommand.
fn only_revision(subcommand: &str, arguments: &[Word], before: usize) -> Option<usize> {
    let none = arguments.len();
    let mut positions = before + 1..none;
    match subcommand {
        "checkout" => {
            let is_operand = |at: &usize| {
                let text = arguments[*at].text();
                // `-` is the previous branch.
                let is_option = text.is_some_and(|text| text.starts_with('-') && text != "-");
                !is_option && !arguments[at - 1].is_one_of(&["-b", "-B"])
            };
            Some(positions.find(is_operand).unwrap_or(none))
        }
        "restore" => {
            let source = positions.find_map(|at| match arguments[at].text()?.as_str() {
                "-s" | "--source" => Some(at + 1),
                text => text.starts_with("--source=").then_some(at),
            });
            Some(source.unwrap_or(none))
        }
        _ => None,
    }
}

/// Returns the part of an operand after the revision at its beginning; `None` if it begins with none.
fn after_revision(operand: &str) -> Option<&str> {
    let operand = match operand.starts_with("--") {
        true => operand.split_once('=')?.1,
        false => operand,
    };
    let operand = operand.strip_prefix('+').unwrap_or(operand);
    if let Some(rest) = operand.strip_prefix("HEAD") {
        let is_whole = rest.is_empty() || rest.starts_with(['~', '^', '@', ':', '.']);
        return is_whole.then_some(rest);
    }
    let is_remote = ["origin/HEAD", "upstream/HEAD"].contains(&operand)
        || (operand.starts_with("refs/remotes/") && operand.ends_with("/HEAD"));
    is_remote.then_some("")
}

/// True for a folder in a `.git` folder or in a bare repository.
fn is_git_directory(path: &Path) -> bool {
    let path = without_links(path);
    let is_git = |part: Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
    path.components().any(is_git)
        || path
            .ancestors()
            .any(|folder| folder.join("HEAD").exists() && folder.join("objects").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the arguments with the revisions removed.
    fn removed(line: &str) -> String {
        let words: Vec<Word> = line.split(' ').map(Word::literal).collect();
        let kept: Vec<String> = remove_revisions(&words)
            .iter()
            .map(|word| word.text().unwrap_or_default())
            .collect();
        kept.join(" ")
    }

    #[test]
    fn revisions_are_removed_from_the_operands_of_subcommands_that_take_them() {
        for (line, rest) in [
            ("diff HEAD", "diff "),
            ("push origin HEAD", "push origin "),
            ("push origin HEAD:main", "push origin :main"),
            ("push origin +HEAD:refs/x", "push origin :refs/x"),
            ("show HEAD~2:src/a.rs", "show ~2:src/a.rs"),
            ("log HEAD..origin/HEAD", "log ..origin/HEAD"),
            ("merge origin/HEAD", "merge "),
            (
                "-C x --no-pager reset --hard HEAD^",
                "-C x --no-pager reset --hard ^",
            ),
            ("restore --source=HEAD a", "restore  a"),
            ("restore --source HEAD a", "restore --source  a"),
            ("restore -q -s HEAD HEAD", "restore -q -s  HEAD"),
            ("checkout HEAD", "checkout "),
            ("checkout -q HEAD~1 HEAD", "checkout -q ~1 HEAD"),
            ("checkout -b x HEAD", "checkout -b x "),
        ] {
            assert_eq!(removed(line), rest);
        }
        for line in [
            "mv a HEAD",
            "init HEAD",
            "clone x HEAD",
            "worktree add HEAD",
            "checkout -- HEAD",
            "checkout b HEAD",
            "checkout -q b HEAD",
            "checkout - HEAD",
            "checkout -b x b HEAD",
            "restore HEAD",
            "restore --source=b HEAD",
            "restore -s b HEAD",
            "restore -s -s HEAD",
            "restore -s b --staged HEAD",
            "diff --output=HEAD",
            "diff --output HEAD",
            "diff --outp HEAD",
            "show docs/HEAD",
            "diff HEADS",
            "-c a=b diff HEAD",
        ] {
            assert_eq!(removed(line), line);
        }
    }
}
