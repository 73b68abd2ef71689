//! Programs that run other programs.

use super::arguments::{
    analyze_after_options, analyze_joined_line, analyze_line_with_arguments, analyze_script,
    argument, filled, guess, is_file, values,
};
use super::git::git;
use super::interpreters::{interpret, is_shell, sets_patterns, shell};
use super::languages::{awk, database, editor, make, sed};
use super::{Atom, ParsedScript, Word};

/// Programs that never run their arguments. The arguments of programs that are not known in this module
/// are analyzed as possible commands.
const PLAIN_PROGRAMS: [&str; 96] = [
    ":",
    "[",
    "[[",
    "base32",
    "base64",
    "basename",
    "bg",
    "break",
    "cal",
    "cat",
    "cd",
    "chgrp",
    "chmod",
    "chown",
    "cksum",
    "cmp",
    "column",
    "comm",
    "continue",
    "cut",
    "date",
    "df",
    "diff",
    "dirname",
    "dirs",
    "du",
    "echo",
    "egrep",
    "exit",
    "expand",
    "expr",
    "factor",
    "false",
    "fg",
    "fgrep",
    "file",
    "fmt",
    "fold",
    "free",
    "grep",
    "groups",
    "head",
    "hexdump",
    "history",
    "hostname",
    "id",
    "jobs",
    "join",
    "jq",
    "kill",
    "killall",
    "ls",
    "md5sum",
    "mkdir",
    "nl",
    "nm",
    "nproc",
    "od",
    "paste",
    "pgrep",
    "pkill",
    "popd",
    "pr",
    "printf",
    "ps",
    "pushd",
    "pwd",
    "readlink",
    "realpath",
    "return",
    "rev",
    "rm",
    "rmdir",
    "seq",
    "set",
    "sha1sum",
    "sha256sum",
    "shift",
    "sleep",
    "stat",
    "strings",
    "sum",
    "tac",
    "tail",
    "tee",
    "test",
    "touch",
    "tr",
    "true",
    "type",
    "umask",
    "uname",
    "uniq",
    "unset",
    "wc",
    "whereis",
];

/// Programs that run their arguments, after options and this many operands.
const WRAPPERS: [(&str, usize); 58] = [
    ("watch", 0),
    ("bundle", 1),
    ("bunx", 0),
    ("busybox", 0),
    ("builtin", 0),
    ("catchsegv", 0),
    ("cgexec", 0),
    ("chpst", 0),
    ("chroot", 1),
    ("chrt", 1),
    ("command", 0),
    ("coproc", 1),
    ("cpulimit", 0),
    ("dbus-run-session", 0),
    ("direnv", 2),
    ("doas", 0),
    ("docker", 3),
    ("dotenv", 1),
    ("env", 0),
    ("exec", 0),
    ("fakeroot", 0),
    ("firejail", 0),
    ("flock", 1),
    ("gosu", 1),
    ("gtimeout", 1),
    ("ionice", 0),
    ("ltrace", 0),
    ("mise", 2),
    ("nice", 0),
    ("nocache", 0),
    ("nohup", 0),
    ("npx", 0),
    ("nsenter", 0),
    ("numactl", 0),
    ("op", 1),
    ("parallel", 0),
    ("pipenv", 1),
    ("pkexec", 0),
    ("podman", 3),
    ("poetry", 1),
    ("proot", 0),
    ("proxychains", 0),
    ("runuser", 1),
    ("setarch", 1),
    ("setpriv", 0),
    ("setsid", 0),
    ("ssh", 1),
    ("stdbuf", 0),
    ("strace", 0),
    ("sudo", 0),
    ("systemd-run", 0),
    ("taskset", 1),
    ("time", 0),
    ("timeout", 1),
    ("toybox", 0),
    ("unshare", 0),
    ("uv", 1),
    ("xargs", 0),
];

/// Wrappers that join their arguments to a line for a shell.
const JOINING_WRAPPERS: [&str; 4] = ["eval", "watch", "ssh", "parallel"];

/// Records the commands that a program runs.
pub(super) fn analyze(
    script: &mut ParsedScript,
    program: &str,
    words: &[Word],
    here: &[String],
    depth: usize,
) {
    let base_name = base_name(program);
    let rest = &words[1..];
    let plain = base_name.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
    let plain = if plain.is_empty() {
        base_name.as_str()
    } else {
        plain
    };
    if is_shell(plain) {
        shell(script, rest, here, depth);
        return;
    }
    let is_interpreter = interpret(script, plain, rest, here);
    // Containers run commands with only a few of their subcommands.
    let is_container = matches!(plain, "docker" | "podman");
    let runs = ["run", "exec", "compose", "container"];
    if is_container && !rest.iter().any(|word| word.may_be_one_of(&runs)) {
        return;
    }
    if rest
        .iter()
        .enumerate()
        .any(|(at, word)| lists(word, rest.get(at + 1)))
    {
        script.mark_unclear("the names that a program reads");
    }
    if !is_interpreter && !PLAIN_PROGRAMS.contains(&plain) && plain != "git" && plain != "find" {
        guess(script, rest, depth);
    }
    match plain {
        "eval" => analyze_joined_line(script, rest, depth),
        "source" | "." => match rest.first() {
            Some(file) if is_file(file) => {}
            _ => script.mark_unclear("the script that it runs"),
        },
        "trap" => {
            let action = rest.iter().find(|word| !word.starts_with('-'));
            analyze_script(script, action, depth);
        }
        "mapfile" | "readarray" => values(script, rest, &["-C"], depth),
        "compgen" | "complete" => values(script, rest, &["-C", "-F"], depth),
        "bind" => values(script, rest, &["-x"], depth),
        "hash" | "enable" if rest.iter().any(|word| word.starts_with('-')) => {
            script.mark_unclear("which program a name means");
        }
        "shopt" if rest.iter().any(sets_patterns) => {
            script.mark_unclear("which files a pattern stands for")
        }
        "alias" => {
            for word in rest {
                let text = word.text_with('\0');
                let value = text.split_once('=').map(|(_, value)| value);
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    analyze_line_with_arguments(script, value, depth);
                }
            }
        }
        "find" => find(script, rest, depth),
        "fd" | "fdfind" => {
            // The found files are appended, unless `{}` marks their place.
            let mut rest = rest.to_vec();
            rest.push(Word::any());
            analyze_after_options(
                script,
                &rest,
                &["-x", "-X", "--exec", "--exec-batch"],
                depth,
            );
        }
        "git" => git(script, rest, depth),
        "awk" | "gawk" | "mawk" | "nawk" | "busybox-awk" => awk(script, plain, rest),
        "sed" | "gsed" => sed(script, rest),
        "vi" | "vim" | "nvim" | "ex" | "view" | "vimdiff" | "ed" => editor(script, plain, rest),
        "make" | "gmake" => make(script, rest, depth),
        "tar" | "bsdtar" | "gtar" => {
            // Options without a dash: their values follow, in order.
            let is_bundle = rest.first().is_some_and(|word| {
                !word.starts_with('-') && word.text_with('\0').contains(['I', 'F', '\0'])
            });
            if is_bundle {
                for word in &rest[1..] {
                    analyze_line_with_arguments(script, &word.text_with('\0'), depth);
                }
            }
            values(
                script,
                rest,
                &[
                    "--to-command",
                    "--use-compress-program",
                    "--checkpoint-action",
                    "--rsh-command",
                    "--info-script",
                    "--new-volume-script",
                    "--rmt-command",
                    "-I",
                    "-F",
                ],
                depth,
            );
        }
        "npm" | "pnpm" | "yarn" => {
            values(
                script,
                rest,
                &["-c", "--call", "--editor", "--shell", "--script-shell"],
                depth,
            );
        }
        "gcc" | "g++" | "cc" | "c++" | "clang" => values(script, rest, &["-wrapper"], depth),
        "rsync" => values(script, rest, &["-e", "--rsh", "--rsync-path"], depth),
        "zip" => values(script, rest, &["-TT", "--unzip-command"], depth),
        "sort" => values(script, rest, &["--compress-program"], depth),
        "split" => values(script, rest, &["--filter"], depth),
        "man" => values(script, rest, &["-P", "--pager", "-H", "--html"], depth),
        "rg" | "ripgrep" => values(script, rest, &["--pre", "--hostname-bin"], depth),
        "su" | "runuser" | "script" | "nix-shell" | "flock" | "capsh" => {
            values(
                script,
                rest,
                &["-c", "--command", "--run", "--session-command"],
                depth,
            );
            if plain == "su" && !rest.iter().any(|word| word.starts_with('-')) {
                script.mark_unclear("the shell that `su` starts");
            }
        }
        "sqlite" | "psql" | "mysql" | "mariadb" | "duckdb" => database(script, plain, rest, here),
        _ => {}
    }
    if plain == "env" {
        values(script, rest, &["-S", "--split-string"], depth);
    }
    if matches!(plain, "ssh" | "scp" | "sftp") {
        values(script, rest, &["-D", "-S"], depth);
    }
    for word in rest {
        set(script, word, depth);
    }
    let Some((_, operands)) = WRAPPERS.iter().find(|(known, _)| *known == plain) else {
        return;
    };
    let is_question = |word: &Word| word.is_one_of(&["-v", "-V"]);
    if plain == "command" && rest.first().is_some_and(is_question) {
        return;
    }
    let is_unknown = |(count, at): (usize, usize)| count >= *operands && !rest[at].is_known();
    if command_positions(rest, *operands)
        .enumerate()
        .any(is_unknown)
    {
        script.mark_unclear("the name of a program is not known before it runs");
    }
    let is_list = matches!(plain, "xargs" | "parallel");
    let marker = is_list.then(|| marker(rest)).flatten();
    let (mut has_command, mut is_read) = (false, false);
    for at in command_positions(rest, *operands) {
        let mut words = rest[at..].to_vec();
        // Reserved words of bash, after `time` and `coproc`.
        let is_reserved = |word: &Word| word.is_one_of(&["{", "!"]);
        while words.first().is_some_and(is_reserved) {
            words.remove(0);
        }
        if let Some(marker) = &marker {
            words = words.iter().map(|word| filled(word, marker)).collect();
        }
        if words.first().is_none_or(|word| !word.is_known()) {
            if at == 0 || !rest[at - 1].starts_with('-') {
                is_read |= marker.is_some() && !has_command;
            }
            continue;
        }
        has_command = true;
        if is_list {
            words.push(Word::any());
        }
        if JOINING_WRAPPERS.contains(&plain) {
            analyze_joined_line(script, &words, depth);
        }
        script.invoke(words, here, depth + 1, true);
    }
    if is_read {
        script.mark_unclear("the name of a program is not known before it runs");
    }
    if is_list && command_positions(rest, *operands).next().is_none() && plain == "parallel" {
        script.mark_unclear("the commands that `parallel` reads");
    }
}

/// True if an option names standard input as a list of files or options.
fn lists(option: &Word, value: Option<&Word>) -> bool {
    let text = option.text_with('\0');
    let inputs = ["-", "/dev/stdin"];
    [
        "-T",
        "-K",
        "--files-from",
        "--files0-from",
        "--config",
        "--input-file",
    ]
    .iter()
    .any(|name| match text.strip_prefix(name) {
        Some("") => value.is_some_and(|value| value.is_one_of(&inputs)),
        Some(value) => inputs.contains(&value.trim_start_matches('=')),
        None => false,
    })
}

/// The marker that `xargs` and `parallel` replace by their input.
fn marker(rest: &[Word]) -> Option<String> {
    let mut marker = Some("{}".to_owned());
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        let value = match text.as_str() {
            "-I" | "-J" | "--replace" => argument(rest, at + 1),
            _ => ["-I", "-J", "--replace=", "-i"]
                .iter()
                .find_map(|option| text.strip_prefix(option))
                .filter(|value| !value.is_empty())
                .map(str::to_owned),
        };
        if value.is_some() {
            marker = value;
            break;
        }
    }
    marker
}

/// Records `NAME=VALUE` as an argument of a program that sets variables.
pub(super) fn set(script: &mut ParsedScript, word: &Word, depth: usize) {
    if !is_assignment(word) {
        return;
    }
    let at = word
        .0
        .iter()
        .position(|atom| matches!(atom, Atom::Char { sign: '=', .. }));
    let Some(at) = at else { return };
    let name = Word(word.0[..at].to_vec()).text_with('\0');
    script.assigned(&name, &Word(word.0[at + 1..].to_vec()), depth);
}

/// The name of a program without its directory, in lower case: the file system may be case-insensitive.
pub(crate) fn base_name(program: &str) -> String {
    let base_name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let base_name = base_name.to_lowercase();
    base_name
        .strip_suffix(".exe")
        .unwrap_or(&base_name)
        .to_owned()
}

/// The possible positions of the command within a command: after options, each of which may have a
/// value, after variable assignments, and after this many operands.
fn command_positions(rest: &[Word], operands: usize) -> impl Iterator<Item = usize> {
    let mut found = Vec::new();
    let mut allowed = operands;
    let mut skipped = 0;
    for (at, word) in rest.iter().enumerate() {
        if word.starts_with('-') {
            allowed += 1;
        } else if word.assignment().is_none() && !is_assignment(word) {
            if skipped > allowed || found.len() > 12 {
                break;
            }
            found.push(at);
            skipped += 1;
        }
    }
    found.into_iter()
}

/// True for `NAME=value`, quoted or not, which `env` takes as an assignment.
fn is_assignment(word: &Word) -> bool {
    let text = word.text_with('\0');
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
    })
}

fn find(script: &mut ParsedScript, rest: &[Word], depth: usize) {
    analyze_after_options(script, rest, &["-exec", "-execdir", "-ok", "-okdir"], depth);
    if rest.iter().any(|word| word.is_one_of(&["-delete"])) {
        let roots = rest.iter().take_while(|word| {
            !word.starts_with('-') && !word.starts_with('(') && !word.starts_with('!')
        });
        let mut words = vec![Word::literal("rm"), Word::literal("-rf")];
        words.extend(roots.cloned());
        if words.len() == 2 {
            words.push(Word::literal("."));
        }
        script.invoke(words, &[], depth + 1, true);
    }
    if rest
        .iter()
        .any(|word| word.text_with('\0').contains("-exec") && !word.is_known())
    {
        script.mark_unclear("the command that `find` runs");
    }
}
