//! Programs that run other programs, and programs that are given code.

use super::parse::parse;
use super::{Atom, Script, Word};

/// Programs that never run what their arguments name. The arguments of all others that are not known
/// here are looked at as commands that might run.
const PLAIN: [&str; 96] = [
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

/// Of a command that might run, as many words are looked at.
const MOST_WORDS: usize = 48;

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

/// An interpreter, and the options of its own that stand before the file that it runs.
struct Interpreter {
    name: &'static str,
    /// Letters of options that are followed by code.
    letters: &'static str,
    /// Long options, or subcommands, that are followed by code.
    names: &'static [&'static str],
    /// Short options that are followed by a value.
    valued: &'static [&'static str],
}

const fn interpreter(
    name: &'static str,
    letters: &'static str,
    names: &'static [&'static str],
    valued: &'static [&'static str],
) -> Interpreter {
    Interpreter {
        name,
        letters,
        names,
        valued,
    }
}

const INTERPRETERS: [Interpreter; 22] = [
    interpreter("python", "c", &[], &["-W", "-X"]),
    interpreter("pypy", "c", &[], &["-W", "-X"]),
    interpreter("ipython", "c", &[], &[]),
    interpreter("perl", "eE", &[], &["-I", "-M", "-m"]),
    interpreter("ruby", "e", &[], &["-r", "-I", "-C", "-E", "-F"]),
    interpreter("node", "ep", &["--eval", "--print"], &["-r", "-C"]),
    interpreter("nodejs", "ep", &["--eval", "--print"], &["-r", "-C"]),
    interpreter("deno", "", &["eval"], &[]),
    interpreter("bun", "ep", &["--eval", "--print"], &["-r", "-C"]),
    interpreter("php", "rBRE", &["--run"], &["-d", "-c", "-z", "-t"]),
    interpreter("lua", "e", &[], &["-l"]),
    interpreter("luajit", "e", &[], &["-l", "-j"]),
    interpreter("osascript", "e", &[], &["-l"]),
    interpreter("Rscript", "e", &[], &[]),
    interpreter("julia", "eE", &["--eval", "--print"], &["-L", "-p", "-t"]),
    interpreter("expect", "c", &[], &[]),
    interpreter("emacs", "", &["--eval", "-eval", "--execute"], &["-l"]),
    interpreter("ghc", "e", &[], &[]),
    interpreter("scala", "e", &[], &[]),
    interpreter("groovy", "e", &[], &[]),
    interpreter(
        "pwsh",
        "c",
        &["-Command", "-EncodedCommand", "-command"],
        &[],
    ),
    interpreter(
        "gdb",
        "",
        &["-ex", "-eval-command", "--eval-command", "--ex", "-iex"],
        &[],
    ),
];

/// Modules of Python that run code that they are given.
const RUNNING_MODULES: [&str; 6] = ["timeit", "pdb", "code", "trace", "bdb", "runpy"];

/// Interpreters that read a program from standard input if they are given none.
const READING: [&str; 14] = [
    "gdb",
    "lldb",
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
    let interpreter = INTERPRETERS.iter().find(|known| known.name == plain);
    if let Some(interpreter) = interpreter {
        code(script, interpreter, rest);
    }
    let valued = interpreter.map_or(&[][..], |known| known.valued);
    if READING.contains(&plain) && reads_its_program(plain, rest, valued) {
        let text = here.iter().find(|text| *text != "\0").cloned();
        script.code(plain, text);
    }
    // Containers run commands by few of their subcommands.
    let is_container = matches!(plain, "docker" | "podman");
    if is_container
        && !rest.iter().any(|word| {
            word.text().is_none_or(|text| {
                matches!(text.as_str(), "run" | "exec" | "compose" | "container")
            })
        })
    {
        return;
    }
    if rest
        .iter()
        .enumerate()
        .any(|(at, word)| lists(word, rest.get(at + 1)))
    {
        script.unclear("the names that a program reads");
    }
    if interpreter.is_none() && !PLAIN.contains(&plain) && plain != "git" && plain != "find" {
        guess(script, rest, depth);
    }
    match plain {
        "eval" => line_of(script, rest, depth),
        "source" | "." => match rest.first() {
            Some(file) if is_file(file) => {}
            _ => script.unclear("the script that it runs"),
        },
        "trap" => {
            let action = rest.iter().find(|word| !word.starts_with('-'));
            script_of(script, action, depth);
        }
        "mapfile" | "readarray" => values(script, rest, &["-C"], depth),
        "compgen" | "complete" => values(script, rest, &["-C", "-F"], depth),
        "bind" => values(script, rest, &["-x"], depth),
        "hash" | "enable" if rest.iter().any(|word| word.starts_with('-')) => {
            script.unclear("which program a name means");
        }
        "shopt"
            if rest.iter().any(|word| {
                word.text()
                    .is_none_or(|text| matches!(text.as_str(), "dotglob" | "extglob"))
            }) =>
        {
            script.unclear("which files a pattern stands for")
        }
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
        "tar" | "bsdtar" | "gtar" => {
            // Options without a dash: their values follow, in order.
            let is_bundle = rest.first().is_some_and(|word| {
                !word.starts_with('-') && word.text_with('\0').contains(['I', 'F', '\0'])
            });
            if is_bundle {
                for word in &rest[1..] {
                    with_any(script, &word.text_with('\0'), depth);
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
                script.unclear("the shell that `su` starts");
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
    let marker = is_list.then(|| marker(rest)).flatten();
    let (mut has_command, mut is_read) = (false, false);
    for at in inner(rest, *operands) {
        let mut words = rest[at..].to_vec();
        // Reserved words of bash, behind `time` and `coproc`.
        while words
            .first()
            .and_then(Word::text)
            .is_some_and(|text| text == "{" || text == "!")
        {
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
        if JOINING.contains(&plain) {
            line_of(script, &words, depth);
        }
        script.invoke(words, here, depth + 1, true);
    }
    if is_read {
        script.unclear("the name of a program is not known before it runs");
    }
    if is_list && inner(rest, *operands).next().is_none() && plain == "parallel" {
        script.unclear("the commands that `parallel` reads");
    }
}

/// Whether an option names standard input as a list of files or options.
fn lists(option: &Word, value: Option<&Word>) -> bool {
    let text = option.text_with('\0');
    let is_input = |value: &str| matches!(value, "-" | "/dev/stdin");
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
        Some("") => value
            .and_then(Word::text)
            .is_some_and(|value| is_input(&value)),
        Some(value) => is_input(value.trim_start_matches('=')),
        None => false,
    })
}

/// What `xargs` and `parallel` replace by what they read.
fn marker(rest: &[Word]) -> Option<String> {
    let mut marker = Some("{}".to_owned());
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        let value = match text.as_str() {
            "-I" | "-J" | "--replace" => rest.get(at + 1).map(|word| word.text_with('\0')),
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

/// A word in which something that is not known takes the place of a marker.
fn filled(word: &Word, marker: &str) -> Word {
    let text = word.text_with('\0');
    if !text.contains(marker) && !text.contains('\0') {
        return word.clone();
    }
    let mut atoms = Vec::new();
    for (index, part) in text.split(marker).enumerate() {
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

/// `NAME=VALUE` as an argument of a program that sets variables.
pub(super) fn set(script: &mut Script, word: &Word, depth: usize) {
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

/// Notes what might run if a program takes its arguments, or parts of them, for commands.
pub(super) fn guess(script: &mut Script, words: &[Word], depth: usize) {
    if script.is_guess || script.possible.len() >= super::MOST {
        return;
    }
    let words = &words[..words.len().min(MOST_WORDS)];
    for (at, word) in words.iter().enumerate() {
        let Some(text) = word.text() else { continue };
        if !text.starts_with('-') && !text.is_empty() {
            let unclear = script.guess(|guessed| {
                guessed.invoke(words[at..].to_vec(), &[], depth + 1, true);
            });
            if at + 1 < words.len() {
                for why in unclear {
                    script.unclear(&why);
                }
            }
        }
        if !text.contains([' ', '\t', '\n', '=', '!']) || text.len() > 4_096 {
            continue;
        }
        let glued = text.get(2..).filter(|_| text.starts_with('-'));
        let parts = text.split([
            '=', '!', ':', ';', '|', '&', '\n', '(', ')', '{', '}', '"', '\'',
        ]);
        let lines = [Some(text.as_str()), glued]
            .into_iter()
            .flatten()
            .chain(parts.take(16));
        let is_mark = |sign: char| sign.is_whitespace() || sign == '-';
        for line in lines.map(|line| line.trim_start_matches(is_mark)) {
            let _ = script.guess(|guessed| guessed.line(line, depth + 1, true));
        }
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
    let Some(word) = word else { return };
    match word.text() {
        Some(text) if text.is_empty() || text == "-" => {}
        Some(text) => script.line(&text, depth + 1, true),
        None => {
            // What is known of it runs in any case.
            let text = word.text_with('\0').replace('\0', "$UNKNOWN");
            script.line(&text, depth + 1, true);
            script.unclear("the commands in an argument are not known before it runs");
        }
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
                at += 1 + values_of(&text);
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
            // The values of `o` and `O` follow the option that they stand in.
            let count = values_of(&text);
            let sets = rest.iter().skip(at + 1).take(count);
            if sets.clone().any(|word| {
                word.text()
                    .is_none_or(|name| matches!(name.as_str(), "dotglob" | "extglob"))
            }) {
                script.unclear("which files a pattern stands for");
            }
            at += count;
            has_script |= text.starts_with('-') && text.contains('c');
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

/// How many of the next arguments are values of an option of a shell, or of a cluster of them.
fn values_of(option: &str) -> usize {
    match option.starts_with("--") {
        true => 0,
        false => option
            .chars()
            .filter(|sign| matches!(sign, 'o' | 'O'))
            .count(),
    }
}

/// Code behind an option.
fn code(script: &mut Script, interpreter: &Interpreter, rest: &[Word]) {
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let text = word.text_with('\0');
        let is_named = interpreter.names.iter().any(|name| {
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
                .any(|sign| interpreter.letters.contains(sign) || sign == '\0');
        let next = rest.get(at + 1).map(|word| word.text_with(' '));
        let module = interpreter
            .name
            .starts_with("py")
            .then(|| module(&text))
            .flatten();
        let module = match module {
            Some("") => next.as_deref().or(module),
            module => module,
        };
        let is_module = module.is_some_and(|module| RUNNING_MODULES.contains(&module));
        let names_module = module.is_some();
        if is_named || is_short || is_module || text.contains("data:") {
            let code = format!("{text} {}", next.unwrap_or_default());
            script.code(interpreter.name, Some(code));
        }
        if names_module {
            // What follows is for the module.
            return;
        }
        if !text.starts_with('-') && !is_named {
            // A file, and what follows is for its program.
            return;
        }
        if text.starts_with('-')
            && rest[at + 1..]
                .first()
                .is_some_and(|next| takes(&text, next, interpreter.valued))
            && !rest[at + 1].text_with('\0').contains("data:")
        {
            at += 1;
        }
        at += 1;
    }
}

/// The module that an option of Python names, or begins to name: `-m`, also behind other letters.
fn module(option: &str) -> Option<&str> {
    let letters = option
        .strip_prefix('-')
        .filter(|letters| !letters.starts_with('-'))?;
    let at = letters.find(['m', 'W', 'X', 'c'])?;
    letters[at..].strip_prefix('m')
}

/// Whether an option, or the last one of a cluster, may be followed by a value, and the next argument
/// may be that value.
fn takes(option: &str, next: &Word, valued: &[&str]) -> bool {
    let is_long = option.starts_with("--") && !option.contains('=');
    let is_short =
        !option.starts_with("--") && valued.iter().any(|letter| option.ends_with(&letter[1..]));
    (is_long || is_short) && !next.starts_with('-')
}

/// Whether an interpreter is given no program but on standard input. `valued` are its options that are
/// followed by a value.
fn reads_its_program(program: &str, rest: &[Word], valued: &[&str]) -> bool {
    let is_one_of = |names: &[&str]| {
        rest.iter()
            .any(|word| names.contains(&word.text_with('\0').as_str()))
    };
    if is_one_of(&["-i", "--interactive"]) {
        return true;
    }
    let mut at = 0;
    while let Some(word) = rest.get(at) {
        let text = word.text_with('\0');
        if text == "-" {
            return true;
        }
        // `-v` is another option of Python.
        let is_version = text == "-v" && !program.starts_with("py");
        if is_version || ["-V", "--version", "-h", "--help"].contains(&text.as_str()) {
            return false;
        }
        if !text.starts_with('-') {
            return !is_file(word);
        }
        let is_valued = rest
            .get(at + 1)
            .is_some_and(|next| takes(&text, next, valued));
        // The last argument behind a long option is the file, or there is none.
        let is_last = rest.len() == at + 2 && text.starts_with("--");
        at += 1 + usize::from(is_valued && !is_last);
    }
    true
}

/// The values of options, as command lines. Long options may be abbreviated, letters may stand in a
/// cluster with others.
fn values(script: &mut Script, rest: &[Word], names: &[&str], depth: usize) {
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        let next = || rest.get(at + 1).map(|word| word.text_with('\0'));
        for name in names {
            let value = if name.len() > 2 {
                match is_long(&text, name) {
                    true => text
                        .split_once('=')
                        .map(|(_, value)| value.to_owned())
                        .or_else(next),
                    false => None,
                }
            } else if text.starts_with('-') && !text.starts_with("--") {
                text.split_once(&name[1..])
                    .map(|(_, value)| value.to_owned())
                    .and_then(|value| {
                        if value.is_empty() {
                            next()
                        } else {
                            Some(value)
                        }
                    })
            } else {
                None
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

/// Whether an argument is a long option of this name, or an abbreviation of it.
fn is_long(text: &str, name: &str) -> bool {
    let option = text.split('=').next().unwrap_or(text);
    option == name || (option.len() > 3 && option.starts_with("--") && name.starts_with(option))
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
        let filled = |word: &Word| filled(word, "{}");
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
            "-c" => next().filter(|setting| setting.contains(['=', '\0'])),
            text if is_long(text, "--config-env") || is_long(text, "--config") => text
                .split_once('=')
                .map(|(_, setting)| setting.to_owned())
                .or_else(next)
                .filter(|setting| setting.contains(['=', '\0'])),
            text if text.starts_with("-c") && text.contains('=') => Some(text[2..].to_owned()),
            _ => None,
        };
        if let Some(setting) = setting {
            let (key, value) = setting.split_once('=').unwrap_or((&setting, ""));
            let of_environment = text.split('=').next() == Some("--config-env");
            configured(script, key, value, of_environment, depth);
        }
        let runs = |option: &str| match option {
            "-x" => is_subcommand(&["rebase", "difftool"]),
            "-u" => is_subcommand(&["clone", "fetch-pack", "ls-remote"]),
            _ => false,
        };
        if let Some((_, line)) = text.split_once("ext::") {
            // A blank behind `%` separates no arguments.
            let words: Vec<Word> = line
                .replace("% ", "\u{1}")
                .split(' ')
                .map(|word| Word::literal(&word.replace('\u{1}', " ")))
                .chain([Word::any()])
                .collect();
            script.writes_git_settings = true;
            script.invoke(words, &[], depth + 1, true);
        }
        let is_short = match text.as_str() {
            "-x" | "-u" => runs(text.as_str()),
            _ => false,
        };
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
            (_, true) => match text.split_once('=') {
                Some((_, value)) => Some(value.to_owned()),
                // The value of this one can only be joined to it.
                None if is_long(&text, "--open-files-in-pager") => None,
                None => next(),
            },
            _ => text
                .strip_prefix("-O")
                .filter(|value| !value.is_empty() && is_subcommand(&["grep"]))
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
                if configured(script, &key, &value, false, depth) {
                    script.writes_git_settings = true;
                }
            }
        }
    }
}

/// Notes the command that a setting of git names; whether it may name one.
fn configured(
    script: &mut Script,
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
        script.unclear("a setting of git that names a command");
        return true;
    }
    match value.strip_prefix('!') {
        Some(command) => with_any(script, command, depth),
        None if key.starts_with("alias.") => {
            with_any(script, &format!("git {value}"), depth);
        }
        None => with_any(script, value, depth),
    }
    true
}

/// `awk`: its program can run others, and write files.
fn awk(script: &mut Script, program: &str, rest: &[Word]) {
    let hides = |text: &str| {
        ["system", "getline", "|", ">", "@", "ARGV", "\0"]
            .iter()
            .any(|sign| text.contains(sign))
    };
    let reads = program_files(rest, &["-f", "-E"], &["--file", "--exec"])
        .any(|file| !is_file(&Word::literal(&file)) || file == "-");
    if let Some(word) = rest.iter().find(|word| hides(&word.text_with('\0'))) {
        script.code(program, Some(word.text_with(' ')));
    } else if reads {
        script.code(program, None);
    }
}

/// The files that options name, joined to them or behind them.
fn program_files<'a>(
    rest: &'a [Word],
    letters: &'a [&str],
    names: &'a [&str],
) -> impl Iterator<Item = String> + 'a {
    rest.iter().enumerate().filter_map(move |(at, word)| {
        let text = word.text_with('\0');
        let next = || rest.get(at + 1).map(|word| word.text_with('\0'));
        if names.iter().any(|name| is_long(&text, name)) {
            return text
                .split_once('=')
                .map(|(_, file)| file.to_owned())
                .or_else(next);
        }
        let glued = letters
            .iter()
            .find_map(|letter| text.strip_prefix(letter))?;
        if glued.is_empty() {
            next()
        } else {
            Some(glued.to_owned())
        }
    })
}

/// A client of a database: its language runs programs and opens files, too (`.shell`, `\!`, `system`).
fn database(script: &mut Script, program: &str, rest: &[Word], here: &[String]) {
    let hides = |text: &str| {
        [
            ".shell",
            ".system",
            "\\!",
            "system ",
            "copy ",
            ".read",
            ".once",
            ".output",
            ".import",
            ".load",
            ".open",
            "readfile",
            "writefile",
            "edit(",
            "load_extension",
            "fsdir",
            "\0",
        ]
        .iter()
        .any(|sign| text.to_lowercase().contains(sign))
    };
    let mut texts = rest.iter().map(|word| word.text_with('\0'));
    if let Some(text) = texts.find(|text| hides(text)) {
        script.code(program, Some(text.replace('\0', " ")));
    }
    // Without a statement as an argument, statements are read.
    let operands = rest.iter().filter(|word| !word.starts_with('-')).count();
    let is_given = match program {
        "sqlite" | "duckdb" => operands >= 2,
        _ => rest.iter().any(|word| {
            let text = word.text_with('\0');
            [
                "-c",
                "-e",
                "-f",
                "--command",
                "--execute",
                "--file",
                "--version",
                "--help",
                "-l",
            ]
            .iter()
            .any(|option| text.starts_with(option))
        }),
    };
    let is_information = rest.iter().any(|word| {
        matches!(
            word.text().as_deref(),
            Some("--version" | "-version" | "--help" | "-help")
        )
    });
    if !is_given && !is_information {
        script.code(program, here.iter().find(|text| *text != "\0").cloned());
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
                Some(option) if is_long(option, "--expression")
                    || (option.starts_with('-') && !option.starts_with("--") && option.ends_with('e'))
            );
        let is_value =
            at > 0 && matches!(rest[at - 1].text().as_deref(), Some("-l" | "--line-length"));
        if text.starts_with('-') && !is_behind {
            if let Some((option, expression)) = text.split_once('=')
                && is_long(option, "--expression")
                && !is_plain(expression)
            {
                script.unclear("the commands that `sed` runs");
            }
            if let Some(expression) = text.strip_prefix("-e").filter(|text| !text.is_empty())
                && !is_plain(expression)
            {
                script.unclear("the commands that `sed` runs");
            }
            if is_long(&text, "--file") || (!text.starts_with("--") && text.ends_with('f')) {
                is_script = false;
            }
            continue;
        }
        if is_value {
            continue;
        }
        if (is_behind || is_script) && !is_plain(&text) {
            // Code that edits only is more than is looked at here.
            match runs_programs(&text) {
                true => script.unclear("the commands that `sed` runs"),
                false => script.code("sed", Some(text.clone())),
            }
        }
        is_script = false;
    }
    if program_files(rest, &["-f"], &["--file"])
        .any(|file| file == "-" || !is_file(&Word::literal(&file)))
    {
        script.unclear("the commands that `sed` reads");
    }
}

/// Whether a script of sed that is no plain one may run programs or write files: it has the command
/// `e`, `w` or `W`, or a flag of that name.
fn runs_programs(text: &str) -> bool {
    let text = unescaped(text);
    let begins =
        text.trim_start_matches(|sign: char| sign.is_ascii_digit() || ",$ /!~+{}".contains(sign));
    begins.starts_with(['e', 'w', 'W', 'r', 'R'])
        || text
            .split([';', '\n', '{', '}'])
            .map(|part| {
                part.rsplit(['/', '|', '#', ',', '@', '!'])
                    .next()
                    .unwrap_or_default()
            })
            .any(|flags| {
                flags
                    .trim_start_matches(|sign: char| "gpiIm0123456789 ".contains(sign))
                    .starts_with(['e', 'w', 'W'])
            })
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
    }
    if program_files(rest, &["-f"], &["--file", "--makefile"])
        .any(|file| file == "-" || !is_file(&Word::literal(&file)))
    {
        script.code("make", None);
    }
}
