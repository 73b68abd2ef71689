//! Commands that write no file that they name. They may name protected files.

use cachalot_operation::git_subcommands::{FLAGS, writes_no_operand};
use cachalot_operation::resource_access::CommandText;

/// Programs that write nothing, with any arguments but [`WRITING_ARGUMENTS`].
const PROGRAMS: [&str; 36] = [
    "[",
    "basename",
    "cat",
    "cd",
    "cmp",
    "comm",
    "cut",
    "diff",
    "dirname",
    "du",
    "echo",
    "egrep",
    "false",
    "fgrep",
    "find",
    "grep",
    "head",
    "jq",
    "ls",
    "md5sum",
    "nl",
    "od",
    "printf",
    "pwd",
    "readlink",
    "realpath",
    "rg",
    "sha1sum",
    "sha256sum",
    "stat",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "wc",
];

/// Arguments with which one of these programs writes or runs something after all, as prefixes.
const WRITING_ARGUMENTS: [&str; 7] = [
    "-delete",
    "-exec",
    "-fls",
    "-fprint",
    "-ok",
    "--pre",
    "--hostname-bin",
];

/// Options of `sed` with which it reads only. Others, such as `-i` and `-f`, may write.
const SED_OPTIONS: [&str; 11] = [
    "-n", "-E", "-r", "-s", "-u", "-z", "-nE", "-En", "-nr", "--quiet", "--silent",
];

/// Options of `git push` that name no program and no repository.
const PUSH_OPTIONS: [&str; 15] = [
    "-u",
    "--set-upstream",
    "-n",
    "--dry-run",
    "-q",
    "--quiet",
    "-v",
    "--verbose",
    "-f",
    "--force",
    "--force-with-lease",
    "--tags",
    "--follow-tags",
    "--no-verify",
    "--porcelain",
];

/// Letters of options of `sort` without a value.
const SORT_LETTERS: &str = "bcdfghimnrsuzCMRV";

/// Redirections that write no file, as they are written between blanks.
const HARMLESS_REDIRECTIONS: [&str; 3] = ["2>/dev/null", ">/dev/null", "2>&1"];

/// Programs and subcommands that create no file that an operand without a `/` names: it is a test, a script, a
/// branch or a remote.
const NAME_TAKERS: [(&str, &[&str]); 5] = [
    ("cargo", &["test", "check", "clippy", "bench"]),
    ("git", &["switch", "branch", "merge", "rebase", "push"]),
    ("npm", &["run"]),
    ("pnpm", &["run"]),
    ("yarn", &["run"]),
];

/// Options of these subcommands whose value is such a name.
const NAME_OPTIONS: [&str; 7] = ["-c", "-p", "--package", "--test", "--features", "-u", "--"];

/// A word of a command, without its quotes.
#[derive(Debug, Default)]
struct ShellWord {
    text: String,
    /// True if the shell replaces it: a pattern of file names, or a home directory.
    expands: bool,
}

/// True if a command runs only programs that write no file that they name, and redirects no output.
pub(crate) fn is_read_only(text: &CommandText) -> bool {
    all_commands(text, reads)
}

/// True if a command has `name` only as the name of a test, a package, a script or a branch, beside commands that
/// only read. None of its programs creates a file with this name because of that argument.
pub(crate) fn is_only_a_name(text: &CommandText, name: &str) -> bool {
    all_commands(text, |words| reads(words) || takes_name(words, name))
}

/// True if all commands of a text are known and fulfill a condition.
fn all_commands(text: &CommandText, is_true: impl Fn(&[ShellWord]) -> bool) -> bool {
    match text {
        CommandText::Program(words) => {
            let plain = |word: &String| ShellWord {
                text: word.clone(),
                expands: false,
            };
            is_true(&words.iter().map(plain).collect::<Vec<_>>())
        }
        CommandText::Line(line) => {
            // `cmd` has other quotes, escapes and variables.
            let is_foreign = cfg!(windows) && line.contains(['\'', '%', '^']);
            !is_foreign && commands(line).is_some_and(|all| all.iter().all(|words| is_true(words)))
        }
    }
}

/// Returns the commands of a line. Quotes hold a word together, and empty words are kept. `None` if the line has
/// syntax that could hide the actual words: expansions, substitutions, escapes, comments. Redirections that
/// write no file are left out; `None` if there are others.
fn commands(line: &str) -> Option<Vec<Vec<ShellWord>>> {
    let (mut commands, mut words) = (Vec::new(), Vec::new());
    let mut word: Option<ShellWord> = None;
    let mut quote: Option<char> = None;
    let mut rest = line;
    while let Some(sign) = rest.chars().next() {
        if quote.is_none()
            && word.is_none()
            && let Some(after) = after_redirection(rest)
        {
            rest = after;
            continue;
        }
        rest = &rest[sign.len_utf8()..];
        match (quote, sign) {
            (Some(open), sign) if sign == open => quote = None,
            (None | Some('"'), '$' | '`' | '\\') | (_, '\r' | '\0') => return None,
            (Some(_), sign) => word.get_or_insert_default().text.push(sign),
            (None, '\'' | '"') => {
                quote = Some(sign);
                word.get_or_insert_default();
            }
            (None, '>' | '<' | '(' | ')' | '{' | '}' | '!' | '#') => return None,
            // Some shells read `a&>/dev/null b` as two commands, others as one.
            (None, '&') if rest.starts_with('>') => return None,
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, ';' | '|' | '&' | '\n') => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            (None, sign) => {
                let expands = "*?[".contains(sign) || (sign == '~' && word.is_none());
                let word = word.get_or_insert_default();
                word.text.push(sign);
                word.expands |= expands;
            }
        }
    }
    if quote.is_some() {
        return None;
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    Some(commands)
}

fn takes_name(words: &[ShellWord], name: &str) -> bool {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    let [program, subcommand, arguments @ ..] = texts.as_slice() else {
        return false;
    };
    let takes_names = |(known, subcommands): &(&str, &[&str])| {
        known == program && subcommands.contains(subcommand)
    };
    // Further operands of a script are its own.
    let is_script = *subcommand == "run";
    let mut arguments = arguments.iter().enumerate();
    NAME_TAKERS.iter().any(takes_names)
        && words.iter().all(|word| !word.expands)
        && arguments.all(|(at, word)| {
            // The position in `texts` is two higher.
            let before = texts[at + 1];
            let may_be_name = !before.starts_with('-') || NAME_OPTIONS.contains(&before);
            !word.contains(name) || (*word == name && may_be_name && (at == 0 || !is_script))
        })
}

/// Returns the text after a redirection that writes no file, at the beginning of a text.
fn after_redirection(text: &str) -> Option<&str> {
    let ends = |rest: &&str| rest.is_empty() || rest.starts_with([' ', '\t', '\n', ';', '|', '&']);
    let mut harmless = HARMLESS_REDIRECTIONS.iter();
    if let Some(rest) = harmless.find_map(|redirection| text.strip_prefix(redirection)) {
        return Some(rest).filter(ends);
    }
    let blanks = [' ', '\t'];
    if let Some(rest) = text.strip_prefix("&>/dev/null") {
        // It must be the end of the command: some shells read `a &>/dev/null b` as two commands.
        let next = rest.trim_start_matches(blanks);
        let is_last = next.is_empty() || next.starts_with(['\n', ';', '|', '&']);
        return is_last.then_some(rest);
    }
    let file = text.strip_prefix('<')?.trim_start_matches(blanks);
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "._-/".contains(sign);
    let rest = file.trim_start_matches(is_plain);
    (rest.len() < file.len()).then_some(rest).filter(ends)
}

fn reads(words: &[ShellWord]) -> bool {
    let Some((program, arguments)) = words.split_first() else {
        return false;
    };
    // A pattern of file names may stand for an option.
    let has_pattern = arguments.iter().any(|word| word.expands);
    let arguments: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    match program.text.as_str() {
        "git" => !has_pattern && git_reads(&arguments),
        "sed" => !has_pattern && sed_reads(&arguments),
        "find" | "rg" | "sort" | "uniq" if has_pattern => false,
        "sort" => arguments.iter().all(|word| sort_reads(word)),
        // The second operand is a file to write; `-` is an operand.
        "uniq" => {
            let is_operand = |word: &&&str| **word == "-" || !word.starts_with('-');
            !arguments.contains(&"--") && arguments.iter().filter(is_operand).count() <= 1
        }
        program => {
            let writes = |word: &&str| WRITING_ARGUMENTS.iter().any(|not| word.starts_with(not));
            PROGRAMS.contains(&program) && !arguments.iter().any(writes)
        }
    }
}

/// True if git reads only, with these arguments.
fn git_reads(arguments: &[&str]) -> bool {
    match arguments {
        [flag, rest @ ..] if FLAGS.contains(flag) => git_reads(rest),
        ["-C", _, rest @ ..] => git_reads(rest),
        ["push", rest @ ..] => push_reads(rest),
        [subcommand, rest @ ..] => {
            // Git accepts the beginning of an option: `--out=FILE`.
            let is_output = |word: &&str| word.starts_with("--o") && *word != "--oneline";
            writes_no_operand(subcommand) && !rest.iter().any(is_output)
        }
        [] => false,
    }
}

/// True if `git push` only pushes branches to a remote, with these arguments. `HEAD` is left to the check of
/// directories that may be repositories.
fn push_reads(arguments: &[&str]) -> bool {
    let (options, operands): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let is_name = |name: &str, signs: &str| {
        let is_sign = |sign: char| sign.is_ascii_alphanumeric() || signs.contains(sign);
        !name.is_empty() && name != "HEAD" && name.chars().all(is_sign)
    };
    options.iter().all(|option| PUSH_OPTIONS.contains(option))
        && match operands.as_slice() {
            [] => true,
            [remote, branches @ ..] => {
                is_name(remote, "-_") && branches.iter().all(|name| is_name(name, "-_./"))
            }
        }
}

/// True for an argument of `sort` with which it writes no file and runs no program.
fn sort_reads(word: &str) -> bool {
    match word.strip_prefix('-') {
        None => true,
        Some(long) if long.starts_with('-') => {
            // In any abbreviation: `--output`, `--temporary-directory`, `--compress-program`.
            !["--o", "--t", "--c"]
                .iter()
                .any(|start| word.starts_with(start))
        }
        Some(options) => match options.strip_prefix(['k', 't']) {
            Some(value) => value
                .chars()
                .all(|sign| ",.:;|_0123456789nr".contains(sign)),
            None => options.chars().all(|sign| SORT_LETTERS.contains(sign)),
        },
    }
}

/// True if `sed` only prints lines, with these arguments.
fn sed_reads(arguments: &[&str]) -> bool {
    let (options, operands): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let mut operands = operands.into_iter();
    options.iter().all(|option| SED_OPTIONS.contains(option))
        && operands.next().is_some_and(is_printing_script)
}

/// True for a script with one address or two, and a command that prints, deletes or quits: `1,5p`, `/x/p`.
fn is_printing_script(script: &str) -> bool {
    let Some(addresses) = script.strip_suffix(['p', 'd', 'q', '=']) else {
        return false;
    };
    let is_number = |text: &str| text.bytes().all(|byte| b"0123456789,+~".contains(&byte));
    let is_word = |text: &str| {
        let is_sign = |sign: char| sign.is_alphanumeric() || "_-. :=#@%^".contains(sign);
        text.chars().all(is_sign)
    };
    match addresses.split('/').collect::<Vec<_>>().as_slice() {
        [numbers] => is_number(numbers),
        ["", word, numbers] => is_word(word) && is_number(numbers),
        ["", first, ",", second, ""] => is_word(first) && is_word(second),
        _ => false,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn read_only_commands_are_recognized() {
        let reads = |line: &str| is_read_only(&CommandText::Line(line.to_owned()));
        for line in [
            "cat .git/config",
            "grep -rn 'a b' --exclude-dir=.git . | head -5",
            "cd x && find . -path './.git/*' -prune -o -name '*.rs'; ls -la .git",
            "diff a.yaml b.yaml",
            "sed -n 1p a.yaml",
            "sed -n '10,20p' a.yaml | wc -l",
            "sed -n -E '/agents:/,/x/p' a.yaml",
            "sed 5q a.yaml",
            "git diff a.yaml",
            "git --no-pager -C x log --oneline -3 -- a.yaml",
            "git show HEAD:a.yaml",
            "git blame .claude/settings.json",
            "git add AGENTS.md && git commit -m 'Add a note to AGENTS.md'",
            "git commit -m \"docs(agents): update [x] > y; CLAUDE.md\"",
            "grep -n 'a;b|c' AGENTS.md",
            "cat *.md",
            "cat ~/AGENTS.md",
            "cat AGENTS.md 2>/dev/null",
            "2>/dev/null cat AGENTS.md >/dev/null",
            "ls -la CLAUDE.md 2>&1",
            "ls -la CLAUDE.md 2>&1 | head -3; cat AGENTS.md&& pwd",
            "ls AGENTS.md &>/dev/null && cat AGENTS.md",
            "ls AGENTS.md &>/dev/null",
            "wc -l < AGENTS.md | cat",
            "git add AGENTS.md && git commit -m x && git push",
            "git add AGENTS.md; git push -u origin main",
            "sort AGENTS.md",
            "sort -u -k2,2n -t, AGENTS.md | uniq -c | sort -rn --stable",
            "uniq AGENTS.md",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "cat x > .git/config",
            "cat x | tee .git/config",
            "find .git -delete",
            "find .git -name config -exec rm {} +",
            "find .git -name config '-exec' sh",
            "rg --pre ./x y .git",
            "rg --hostname-bin ./x y .git",
            "X=1 cat .git/config",
            "cat $(rm .git/config)",
            "cat `rm .git/config`",
            "rm -rf .git",
            "/tmp/cat .git/config",
            "git config x y",
            "cat a\nrm .git/config",
            "sed -i 1d a.yaml",
            "sed -n 1p a.yaml -i",
            "sed -n 1p a.yaml --in-place",
            "sed -ni 1p a.yaml",
            "sed 1d -n a.yaml -f x",
            "sed 'w a.yaml' x",
            "sed '1w a.yaml' x",
            "sed -n '/x/w a.yaml' x",
            "sed 's/a/b/w a.yaml' x",
            "sed s/a/rm/e x",
            "sed -n 1e a.yaml",
            "sed -n wp a.yaml",
            "sed -n 1p *",
            "sed -e 1p -e 'w a.yaml' x",
            "git diff --output=a.yaml",
            "git diff --output a.yaml",
            "git log --out=a.yaml",
            "git -c diff.external=./x diff a.yaml",
            "git --exec-path=x diff a.yaml",
            "git checkout x a.yaml",
            "git show *",
            "git",
            "git -C x",
            "GIT_EXTERNAL_DIFF=./x git diff a.yaml",
            "diff a.yaml b.yaml > a.yaml",
            "sed -n 'p;stat x tw AGENTS.md' f",
            "sed -n 'p;wc ../../a.yaml' f",
            "sed -n 'p\nwc a.yaml' f",
            "sed -n \"p;wc ../../a.yaml\" f",
            "sed ~p f",
            "git -C 'w log' config core.hooksPath evil",
            "git -C '' --namespace log mv AGENTS.md B.md",
            "git -C 'w log' config -f ../CLAUDE.md a.b c",
            "git -C \"\" config a.b c",
            "'git log' x",
            "cat a #'\nrm AGENTS.md\n'",
            "cat 'a",
            "cat \"$(rm AGENTS.md)\"",
            "cat {a,b}",
            "cat a\rrm AGENTS.md",
            "find AGENTS.md *",
            "find AGENTS.md -delet[e]",
            "rg x AGENTS.md -*",
            "cat x 2> AGENTS.md",
            "cat x 2>/dev/null>AGENTS.md",
            "cat x 2>&1>AGENTS.md",
            "cat x >/dev/nullAGENTS.md",
            "cat x >/dev/null/../AGENTS.md",
            "cat x 12>/dev/null",
            "cat x '2>/dev/null' >AGENTS.md",
            "cat x &>AGENTS.md",
            "cat x &>/dev/null rm AGENTS.md",
            "cat x >/dev/null; rm AGENTS.md",
            "git log&>/dev/null cat --output=AGENTS.md",
            "git log &>/dev/null cat --output=AGENTS.md",
            "cat x <>AGENTS.md",
            "cat <(rm AGENTS.md)",
            "cat << AGENTS.md",
            "sed <1p 'w AGENTS.md'",
            "git -C 5<x config a.b c",
            "sort -o AGENTS.md x",
            "sort -uoAGENTS.md x",
            "sort x --output=AGENTS.md",
            "sort x --out AGENTS.md",
            "sort -T AGENTS.md x",
            "sort --compress-program=./x AGENTS.md",
            "sort -* AGENTS.md",
            "uniq x AGENTS.md",
            "uniq - AGENTS.md",
            "uniq -- -x AGENTS.md",
            "git push --receive-pack=./x AGENTS.md",
            "git push --exec ./x origin",
            "git push --repo=AGENTS.md",
            "git -c a.b=c push",
            "git push ext::./x AGENTS.md",
            "git push ./AGENTS.md main",
            "git push AGENTS.md main",
            "git push origin HEAD",
            "git push origin main:AGENTS.md",
            "git push -o x origin",
        ] {
            assert!(!reads(line), "{line}");
        }
    }

    #[test]
    fn names_of_tests_scripts_and_branches_are_recognized() {
        let is_name = |line: &str| is_only_a_name(&CommandText::Line(line.to_owned()), "skills");
        for line in [
            "cargo test skills",
            "cargo test -p skills --test skills -- skills 2>&1 | tail -20",
            "cd x && cargo clippy -p skills",
            "git switch skills",
            "git switch -c skills; git push -u origin skills",
            "git merge skills",
            "npm run skills",
        ] {
            assert!(is_name(line), "{line}");
        }
        for line in [
            "cargo test --target-dir skills",
            "cargo test --target-dir=skills",
            "cargo test skills > skills",
            "cargo test skills; mkdir skills",
            "cargo test skill*",
            "cargo new skills",
            "cargo run skills",
            "git clone x skills",
            "git mv a skills",
            "git worktree add skills",
            "git checkout b skills",
            "git -C skills switch b",
            "git rebase -x skills b",
            "git rebase --exec 'cp -r a skills' b",
            "npm run build skills",
            "npm run build --outdir skills",
            "cat skills | xargs mkdir",
            "X=skills npm run x",
            "skills",
            "mkdir skills",
        ] {
            assert!(!is_name(line), "{line}");
        }
    }
}
