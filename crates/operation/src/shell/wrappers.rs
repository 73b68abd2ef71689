//! Programs that run other programs, and programs that are given code.

use super::parse::parse;
use super::{Atom, Script, Word};

/// Programs that run what their arguments say, behind options and this many operands.
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
const JOINING: [&str; 4] = ["eval", "watch", "ssh", "parallel"];

const SHELLS: [&str; 14] = [
    "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "oksh", "rbash", "sh", "tcsh", "yash",
    "zsh", "hush",
];

/// Programs whose options of these letters or names are followed by code in their language.
const CODE: [(&str, &str, &[&str]); 22] = [
    ("python", "c", &[]),
    ("pypy", "c", &[]),
    ("ipython", "c", &[]),
    ("perl", "eE", &[]),
    ("ruby", "e", &[]),
    ("node", "ep", &["--eval", "--print"]),
    ("nodejs", "ep", &["--eval", "--print"]),
    ("deno", "", &["eval"]),
    ("bun", "ep", &["--eval", "--print"]),
    ("php", "rBRE", &["--run"]),
    ("lua", "e", &[]),
    ("luajit", "e", &[]),
    ("osascript", "e", &[]),
    ("Rscript", "e", &[]),
    ("julia", "eE", &["--eval", "--print"]),
    ("expect", "c", &[]),
    ("emacs", "", &["--eval", "-eval", "--execute"]),
    ("ghc", "e", &[]),
    ("scala", "e", &[]),
    ("groovy", "e", &[]),
    ("pwsh", "c", &["-Command", "-EncodedCommand", "-command"]),
    (
        "gdb",
        "",
        &["-ex", "-eval-command", "--eval-command", "--ex", "-iex"],
    ),
];

/// Interpreters that read a program from standard input if they are given none.
const READING: [&str; 12] = [
    "python",
    "pypy",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "php",
    "lua",
    "luajit",
    "osascript",
    "bc-sh",
    "tclsh",
];

/// Notes what a program runs in its turn.
pub(super) fn look(
    script: &mut Script,
    program: &str,
    words: &[Word],
    here: &[String],
    depth: usize,
) {
    let base = base(program);
    let rest = &words[1..];
    let plain = base.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
    let plain = if plain.is_empty() {
        base.as_str()
    } else {
        plain
    };
    if SHELLS.contains(&plain) {
        shell(script, rest, here, depth);
        return;
    }
    if let Some((_, letters, names)) = CODE.iter().find(|(known, ..)| *known == plain) {
        code(script, plain, letters, names, rest);
    }
    if READING.contains(&plain) && reads_its_program(rest) {
        let text = here.iter().find(|text| *text != "\0").cloned();
        script.code(plain, text);
    }
    match plain {
        "eval" => line_of(script, rest, depth),
        "source" | "." => match rest.first() {
            Some(file) if is_file(file) => {}
            _ => script.unclear("the script that it runs"),
        },
        "trap" => script_of(script, rest.first(), depth),
        "alias" => {
            for word in rest {
                let text = word.text_with('\0');
                let value = text.split_once('=').map(|(_, value)| value);
                if let Some(value) = value.filter(|value| !value.is_empty()) {
                    with_any(script, value, depth);
                }
            }
        }
        "find" => find(script, rest, depth),
        "fd" | "fdfind" => {
            // What is found is added, unless `{}` says where.
            let mut rest = rest.to_vec();
            rest.push(Word::any());
            behind(
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
        "tar" | "bsdtar" | "gtar" => values(
            script,
            rest,
            &[
                "--to-command",
                "--use-compress-program",
                "--checkpoint-action",
                "--rsh-command",
                "--info-script",
                "-I",
                "-F",
            ],
            depth,
        ),
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
                script.unclear("the shell that `su` starts");
            }
        }
        "sqlite" | "psql" | "mysql" | "mariadb" | "duckdb" => {
            // Their own languages run programs, too (`.shell`, `\!`, `system`).
            let hides = |word: &Word| {
                let text = word.text_with('\0');
                [
                    ".shell", ".system", "\\!", "system ", "copy ", ".read", ".once", ".output",
                    "\0",
                ]
                .iter()
                .any(|sign| text.to_lowercase().contains(sign))
            };
            if rest.iter().any(hides) || here.iter().any(|text| hides(&Word::literal(text))) {
                script.code(plain, None);
            }
        }
        _ => {}
    }
    if plain == "env" {
        values(script, rest, &["-S", "--split-string"], depth);
    }
    let Some((_, operands)) = WRAPPERS.iter().find(|(known, _)| *known == plain) else {
        return;
    };
    if plain == "command"
        && rest
            .first()
            .and_then(Word::text)
            .is_some_and(|word| word == "-v" || word == "-V")
    {
        return;
    }
    let is_unknown = |(count, at): (usize, usize)| count >= *operands && !rest[at].is_known();
    if inner(rest, *operands).enumerate().any(is_unknown) {
        script.unclear("the name of a program is not known before it runs");
    }
    let is_list = matches!(plain, "xargs" | "parallel");
    for at in inner(rest, *operands) {
        let mut words = rest[at..].to_vec();
        if words.first().is_some_and(|word| !word.is_known()) {
            continue;
        }
        if is_list {
            words.push(Word::any());
        }
        if JOINING.contains(&plain) {
            line_of(script, &words, depth);
        }
        script.invoke(words, here, depth + 1, true);
    }
    if is_list && inner(rest, *operands).next().is_none() && plain == "parallel" {
        script.unclear("the commands that `parallel` reads");
    }
}

/// The name of a program without its directory, in lower case: file systems may not tell cases apart.
pub(crate) fn base(program: &str) -> String {
    let base = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let base = base.to_lowercase();
    base.strip_suffix(".exe").unwrap_or(&base).to_owned()
}

/// Where the command within a command may begin: behind options, each of which may have a value, behind
/// variables that are set, and behind so many operands.
fn inner(rest: &[Word], operands: usize) -> impl Iterator<Item = usize> {
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

/// `NAME=value`, quoted or not: what `env` takes for a variable.
fn is_assignment(word: &Word) -> bool {
    let text = word.text_with('\0');
    text.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || sign == '_')
    })
}

fn is_file(word: &Word) -> bool {
    word.is_known()
        && !word
            .text()
            .is_some_and(|text| text.starts_with("/dev/") || text.starts_with("/proc/"))
}

/// A script in an argument.
fn script_of(script: &mut Script, word: Option<&Word>, depth: usize) {
    match word.map(Word::text) {
        None => {}
        Some(Some(text)) if !text.is_empty() && text != "-" => script.line(&text, depth + 1, true),
        Some(Some(_)) => {}
        Some(None) => script.unclear("the commands in an argument are not known before it runs"),
    }
}

/// Arguments that are joined to a line.
fn line_of(script: &mut Script, words: &[Word], depth: usize) {
    let texts: Option<Vec<String>> = words.iter().map(Word::text).collect();
    match texts {
        Some(texts) => script.line(&texts.join(" "), depth + 1, true),
        None => {
            let known: Vec<String> = words.iter().map(|word| word.text_with('\0')).collect();
            with_any(script, &known.join(" "), depth);
            script.unclear("the commands in an argument are not known before it runs");
        }
    }
}

/// A line to which arguments are added.
fn with_any(script: &mut Script, line: &str, depth: usize) {
    let parsed = parse(&line.replace('\0', " "), depth + 1);
    let mut parsed = parsed;
    for simple in &mut parsed.commands {
        simple.words.push(Word::any());
    }
    if depth < super::DEEPEST {
        script.take(parsed, depth + 1, true);
    }
}

/// `sh`, with a script in an argument, in a file, or on standard input.
fn shell(script: &mut Script, rest: &[Word], here: &[String], depth: usize) {
    let mut has_script = false;
    let mut has_file = false;
    let mut at = 0;
    while at < rest.len() {
        let word = &rest[at];
        let text = word.text_with('\0');
        let is_option = text.len() > 1 && (text.starts_with('-') || text.starts_with('+'));
        if has_script {
            if is_option {
                at += if takes_a_value(&text) { 2 } else { 1 };
                continue;
            }
            script_of(script, Some(word), depth);
            return;
        }
        if text == "--command" || text == "--init-command" {
            has_script = true;
        } else if text.starts_with("--command=") || text.starts_with("--init-command=") {
            let value = text.split_once('=').map(|(_, value)| Word::literal(value));
            script_of(script, value.as_ref(), depth);
            return;
        } else if text.starts_with("--rcfile") || text.starts_with("--init-file") {
            script.unclear("the file that a shell reads at start");
        } else if text.starts_with("--") {
            // Another long option.
        } else if is_option {
            if takes_a_value(&text) {
                at += 1;
            } else if text.starts_with('-') && text.contains('c') {
                has_script = true;
            }
        } else if is_file(word) {
            has_file = true;
            break;
        } else {
            script.unclear("the script that a shell runs");
            return;
        }
        at += 1;
    }
    if has_script {
        script.unclear("the script that a shell runs");
        return;
    }
    if has_file {
        return;
    }
    match here.split_last() {
        Some((text, _)) if text != "\0" => script.line(text, depth + 1, true),
        _ => script.unclear("the script that a shell reads"),
    }
}

fn takes_a_value(option: &str) -> bool {
    matches!(option, "-o" | "+o" | "-O" | "+O")
}

/// Code behind an option.
fn code(script: &mut Script, program: &str, letters: &str, names: &[&str], rest: &[Word]) {
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        let is_named = names.iter().any(|name| {
            text == *name
                || text
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with('='))
        });
        let is_short = text.starts_with('-')
            && !text.starts_with("--")
            && text
                .chars()
                .skip(1)
                .take(6)
                .any(|sign| letters.contains(sign) || sign == '\0');
        if is_named || is_short {
            let next = rest.get(at + 1).map(|word| word.text_with(' '));
            script.code(
                program,
                Some(format!("{text} {}", next.unwrap_or_default())),
            );
        }
        if !text.starts_with('-') && !is_named {
            // A file, and what follows is for its program.
            return;
        }
    }
}

/// Whether an interpreter is given no program but on standard input.
fn reads_its_program(rest: &[Word]) -> bool {
    let is_version = |word: &Word| {
        let text = word.text_with('\0');
        [
            "-V",
            "-v",
            "--version",
            "-h",
            "--help",
            "-c",
            "-e",
            "-m",
            "-E",
            "-r",
        ]
        .contains(&text.as_str())
    };
    if rest.iter().any(is_version) {
        return false;
    }
    rest.iter()
        .find(|word| !word.starts_with('-') || word.text().as_deref() == Some("-"))
        .is_none_or(|word| word.text().as_deref() == Some("-") || !is_file(word))
}

/// The values of options, as command lines.
fn values(script: &mut Script, rest: &[Word], names: &[&str], depth: usize) {
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        for name in names {
            let value = match text.strip_prefix(name) {
                Some("") => rest.get(at + 1).map(|word| word.text_with('\0')),
                Some(value) if name.starts_with("--") => value.strip_prefix('=').map(str::to_owned),
                Some(value) => Some(value.to_owned()),
                None => {
                    // A letter in a cluster: `-lc`.
                    let is_cluster = name.len() == 2
                        && text.len() > 2
                        && text.starts_with('-')
                        && !text.starts_with("--")
                        && text.ends_with(&name[1..]);
                    is_cluster
                        .then(|| rest.get(at + 1).map(|word| word.text_with('\0')))
                        .flatten()
                }
            };
            let Some(value) = value else { continue };
            let value = value.strip_prefix("exec=").unwrap_or(&value).to_owned();
            if value.contains('\0') {
                script.unclear("the commands in an argument are not known before it runs");
            }
            with_any(script, &value, depth);
        }
    }
}

/// Commands behind options, up to `;` or the end.
fn behind(script: &mut Script, rest: &[Word], options: &[&str], depth: usize) {
    for (at, word) in rest.iter().enumerate() {
        if !word
            .text()
            .is_some_and(|text| options.contains(&text.as_str()))
        {
            continue;
        }
        let end = |word: &Word| word.text().is_some_and(|text| text == ";" || text == "+");
        let words = rest[at + 1..].iter().take_while(|word| !end(word));
        let filled = |word: &Word| {
            let text = word.text_with('\0');
            match text.contains("{}") || text.contains('\0') {
                true => {
                    let mut atoms = Vec::new();
                    for (index, part) in text.split("{}").enumerate() {
                        if index > 0 {
                            atoms.push(Atom::Any);
                        }
                        atoms.extend(Word::literal(part).0.into_iter().map(|atom| match atom {
                            Atom::Char { sign: '\0', .. } => Atom::Any,
                            other => other,
                        }));
                    }
                    Word(atoms)
                }
                false => word.clone(),
            }
        };
        script.invoke(words.map(filled).collect(), &[], depth + 1, true);
    }
}

fn find(script: &mut Script, rest: &[Word], depth: usize) {
    behind(script, rest, &["-exec", "-execdir", "-ok", "-okdir"], depth);
    let is_delete = |word: &Word| word.text().as_deref() == Some("-delete");
    if rest.iter().any(is_delete) {
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
        script.unclear("the command that `find` runs");
    }
}

/// Options of git whose value is a command, and keys of its configuration that name one.
fn git(script: &mut Script, rest: &[Word], depth: usize) {
    let is_subcommand = |names: &[&str]| {
        let is_one = |word: &Word| {
            word.text()
                .is_some_and(|text| names.contains(&text.as_str()))
        };
        rest.iter().any(is_one)
    };
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        let next = || rest.get(at + 1).map(|word| word.text_with('\0'));
        let setting = match text.as_str() {
            "-c" | "--config" | "--config-env" => {
                next().filter(|setting| setting.contains(['=', '\0']))
            }
            text if text.starts_with("--config-env=") || text.starts_with("--config=") => {
                text.split_once('=').map(|(_, setting)| setting.to_owned())
            }
            text if text.starts_with("-c") && text.contains('=') => Some(text[2..].to_owned()),
            _ => None,
        };
        if let Some(setting) = setting {
            let (key, value) = setting.split_once('=').unwrap_or((&setting, ""));
            configured(script, key, value, text.starts_with("--config-env"), depth);
        }
        let runs = |option: &str| match option {
            "-x" => is_subcommand(&["rebase", "difftool"]),
            "-u" => is_subcommand(&["clone", "fetch-pack", "ls-remote"]),
            _ => true,
        };
        if let Some(line) = text.strip_prefix("ext::") {
            with_any(script, line, depth);
        }
        let command = match text.as_str() {
            "-x" | "--exec" | "--upload-pack" | "--receive-pack" | "-u" | "--tree-filter"
            | "--index-filter" | "--msg-filter" | "--env-filter" | "--commit-filter"
            | "--parent-filter" | "--tag-name-filter" | "--extcmd"
                if runs(text.as_str()) =>
            {
                next()
            }
            text => [
                "--exec=",
                "--upload-pack=",
                "--receive-pack=",
                "--extcmd=",
                "--open-files-in-pager=",
                "-O",
            ]
            .iter()
            .filter(|option| **option != "-O" || is_subcommand(&["grep"]))
            .find_map(|option| text.strip_prefix(option))
            .filter(|value| !value.is_empty())
            .map(str::to_owned),
        };
        if let Some(command) = command {
            with_any(script, &command, depth);
        }
        if text.starts_with("--exec-path=") {
            script.unclear("the directory of git's programs");
        }
        if text == "run" && at > 0 && rest[at - 1].text().as_deref() == Some("bisect")
            || text == "foreach"
        {
            let words: Vec<Word> = rest[at + 1..].to_vec();
            let start = words
                .iter()
                .position(|word| !word.starts_with('-'))
                .unwrap_or(0);
            let words = words[start.min(words.len())..].to_vec();
            line_of(script, &words, depth);
        }
        if text == "config" {
            let operands: Vec<&Word> = rest[at + 1..]
                .iter()
                .filter(|word| !word.starts_with('-'))
                .collect();
            for pair in operands.windows(2) {
                let (key, value) = (pair[0].text_with('\0'), pair[1].text_with('\0'));
                configured(script, &key, &value, false, depth);
            }
        }
    }
}

/// A setting of git that may name a command.
fn configured(script: &mut Script, key: &str, value: &str, of_environment: bool, depth: usize) {
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
        return;
    }
    if of_environment || value.contains('\0') || key.contains('\0') {
        script.unclear("a setting of git that names a command");
        return;
    }
    match value.strip_prefix('!') {
        Some(command) => with_any(script, command, depth),
        None if key.starts_with("alias.") => {
            with_any(script, &format!("git {value}"), depth);
        }
        None => with_any(script, value, depth),
    }
}

/// `awk`: its program can run others, and write files.
fn awk(script: &mut Script, program: &str, rest: &[Word]) {
    let hides = |text: &str| {
        ["system", "getline", "|", ">", "@", "\0"]
            .iter()
            .any(|sign| text.contains(sign))
    };
    if let Some(word) = rest.iter().find(|word| hides(&word.text_with('\0'))) {
        script.code(program, Some(word.text_with(' ')));
    }
}

/// `sed`: its script can run programs (`e`) and write files (`w`).
fn sed(script: &mut Script, rest: &[Word]) {
    let is_plain = |text: &str| {
        // `s` with flags, or addresses with a command that only edits.
        let body =
            text.trim_start_matches(|sign: char| sign.is_ascii_digit() || ",$ /!~+".contains(sign));
        match body.strip_prefix(['s', 'y']) {
            Some(rest) => rest.chars().next().is_some_and(|mark| {
                let rest = unescaped(rest);
                let parts: Vec<&str> = rest[mark.len_utf8()..].split(mark).collect();
                parts.len() == 3
                    && !rest.contains(['\n', ';', '}'])
                    && parts[2]
                        .chars()
                        .all(|flag| "gpiIm0123456789".contains(flag))
            }),
            None => body
                .chars()
                .all(|sign| "pdq=lnNDPgGhHx;{}0123456789,$ ".contains(sign)),
        }
    };
    let mut is_script = true;
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        let is_behind = at > 0
            && matches!(
                rest[at - 1].text().as_deref(),
                Some("-e" | "--expression" | "-ne" | "-ie" | "-Ee" | "-re")
            );
        if text.starts_with('-') && !is_behind {
            if let Some(expression) = text.strip_prefix("--expression=")
                && !is_plain(expression)
            {
                script.code("sed", Some(expression.to_owned()));
            }
            if text.starts_with("--file") || text == "-f" {
                is_script = false;
            }
            continue;
        }
        if (is_behind || is_script) && !is_plain(&text) {
            script.code("sed", Some(text.clone()));
        }
        is_script = false;
    }
}

/// A text without backslashes and the characters behind them.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\\' => drop(signs.next()),
            sign => plain.push(sign),
        }
    }
    plain
}

/// Editors that are given commands.
fn editor(script: &mut Script, program: &str, rest: &[Word]) {
    let is_command = |word: &Word| {
        let text = word.text_with('\0');
        text.starts_with('+')
            || text.starts_with("-c")
            || text.starts_with("--cmd")
            || text.starts_with("-s")
            || text.starts_with("-S")
    };
    if program == "ed" || program == "ex" || rest.iter().any(is_command) {
        let all: Vec<String> = rest.iter().map(|word| word.text_with(' ')).collect();
        script.code(program, Some(all.join(" ")));
    }
}

/// `make`: variables and rules on its command line.
fn make(script: &mut Script, rest: &[Word], depth: usize) {
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        if text.starts_with("--eval") || text.starts_with("-E") {
            let next = rest.get(at + 1).map(|word| word.text_with(' '));
            script.code("make", Some(format!("{text} {}", next.unwrap_or_default())));
        }
        if let Some((name, value)) = text.split_once('=')
            && ["SHELL", "CC", "CXX", "LD", "AR", "MAKE", "RM"]
                .contains(&name.trim_end_matches(':'))
        {
            with_any(script, value, depth);
        }
        let reads = matches!(text.as_str(), "-f" | "--file" | "--makefile")
            && rest
                .get(at + 1)
                .is_some_and(|file| !is_file(file) || file.text().as_deref() == Some("-"));
        if reads || text == "-f-" {
            script.code("make", None);
        }
    }
}
