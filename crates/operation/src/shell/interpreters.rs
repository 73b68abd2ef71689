//! Shells and interpreters: code in an argument or on standard input.

use super::arguments::{analyze_script, is_file};
use super::{ParsedScript, Word};

const SHELLS: [&str; 14] = [
    "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "oksh", "rbash", "sh", "tcsh", "yash",
    "zsh", "hush",
];

/// An interpreter, and its options before the file that it runs.
struct Interpreter {
    name: &'static str,
    /// The letters of options that are followed by code.
    letters: &'static str,
    /// Long options or subcommands that are followed by code.
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

/// Python modules that run code from their arguments.
const CODE_RUNNING_MODULES: [&str; 6] = ["timeit", "pdb", "code", "trace", "bdb", "runpy"];

/// Interpreters that read a program from standard input if no other is given.
const STDIN_INTERPRETERS: [&str; 14] = [
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

/// Analyzes a shell, with a script in an argument, in a file, or on standard input.
pub(super) fn shell(script: &mut ParsedScript, rest: &[Word], here: &[String], depth: usize) {
    let mut has_script = false;
    let mut has_file = false;
    let mut at = 0;
    while at < rest.len() {
        let word = &rest[at];
        let text = word.text_with('\0');
        let is_option = text.len() > 1 && (text.starts_with('-') || text.starts_with('+'));
        if has_script {
            if is_option {
                at += 1 + option_value_count(&text);
                continue;
            }
            analyze_script(script, Some(word), depth);
            return;
        }
        if text == "--command" || text == "--init-command" {
            has_script = true;
        } else if text.starts_with("--command=") || text.starts_with("--init-command=") {
            let value = text.split_once('=').map(|(_, value)| Word::literal(value));
            analyze_script(script, value.as_ref(), depth);
            return;
        } else if text.starts_with("--rcfile") || text.starts_with("--init-file") {
            script.mark_unclear("the file that a shell reads at start");
        } else if text.starts_with("--") {
            // Another long option.
        } else if is_option {
            // The values of `o` and `O` follow as separate arguments.
            let count = option_value_count(&text);
            let sets = rest.iter().skip(at + 1).take(count);
            if sets.clone().any(sets_patterns) {
                script.mark_unclear("which files a pattern stands for");
            }
            at += count;
            has_script |= text.starts_with('-') && text.contains('c');
        } else if is_file(word) {
            has_file = true;
            break;
        } else {
            script.mark_unclear("the script that a shell runs");
            return;
        }
        at += 1;
    }
    if has_script {
        script.mark_unclear("the script that a shell runs");
        return;
    }
    if has_file {
        return;
    }
    match here.split_last() {
        Some((text, _)) if text != "\0" => script.line(text, depth + 1, true),
        _ => script.mark_unclear("the script that a shell reads"),
    }
}

/// The number of following arguments that are values of a shell option, or of combined ones.
fn option_value_count(option: &str) -> usize {
    match option.starts_with("--") {
        true => 0,
        false => option
            .chars()
            .filter(|sign| matches!(sign, 'o' | 'O'))
            .count(),
    }
}

/// True if a word may name an option of bash that changes the matching of file names.
pub(super) fn sets_patterns(word: &Word) -> bool {
    word.may_be_one_of(&["dotglob", "extglob"])
}

/// True if a program is a shell.
pub(super) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

/// Records the code that an interpreter gets in an argument or on standard input. Returns true if
/// options of `program` may be code.
pub(super) fn interpret(
    script: &mut ParsedScript,
    program: &str,
    rest: &[Word],
    here: &[String],
) -> bool {
    let interpreter = INTERPRETERS.iter().find(|known| known.name == program);
    if let Some(interpreter) = interpreter {
        code(script, interpreter, rest);
    }
    let valued = interpreter.map_or(&[][..], |known| known.valued);
    let is_read = STDIN_INTERPRETERS.contains(&program) && reads_its_program(program, rest, valued)
        // Also after a subcommand: `deno run -`.
        || matches!(program, "deno" | "bun") && rest.iter().any(is_standard_input);
    if is_read {
        let text = here.iter().find(|text| *text != "\0").cloned();
        script.code(program, text);
    }
    interpreter.is_some()
}

/// Records code after an option.
fn code(script: &mut ParsedScript, interpreter: &Interpreter, rest: &[Word]) {
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
        let is_module = module.is_some_and(|module| CODE_RUNNING_MODULES.contains(&module));
        let names_module = module.is_some();
        if is_named || is_short || is_module || text.contains("data:") {
            let code = format!("{text} {}", next.unwrap_or_default());
            script.code(interpreter.name, Some(code));
        }
        if names_module {
            // The rest is for the module.
            return;
        }
        if !text.starts_with('-') && !is_named {
            // A file; the rest is for its program.
            return;
        }
        // A possible value is inspected, too, if it may be code.
        let is_code = |word: &Word| {
            let text = word.text_with('\0');
            text.contains("data:") || interpreter.names.contains(&text.as_str())
        };
        let is_valued = rest
            .get(at + 1)
            .is_some_and(|next| takes_value(&text, next, interpreter.valued) && !is_code(next));
        at += 1 + usize::from(is_valued);
    }
}

/// The module that an option of Python names, possibly incomplete: `-m`, also after other letters.
fn module(option: &str) -> Option<&str> {
    let letters = option
        .strip_prefix('-')
        .filter(|letters| !letters.starts_with('-'))?;
    let at = letters.find(['m', 'W', 'X', 'c'])?;
    letters[at..].strip_prefix('m')
}

/// True if an option, or the last of combined ones, may take a value, and `next` may be that value.
fn takes_value(option: &str, next: &Word, valued: &[&str]) -> bool {
    let is_long = option.starts_with("--") && !option.contains('=');
    // The text after a letter with a value, in the same word, is its value.
    let is_valued = |sign: char| valued.iter().any(|known| known.ends_with(sign));
    let is_short = !option.starts_with("--")
        && option
            .find(is_valued)
            .is_some_and(|at| at + 1 == option.len());
    (is_long || is_short) && !next.starts_with('-')
}

fn is_standard_input(word: &Word) -> bool {
    word.is_one_of(&["-"]) || !word.starts_with('-') && !is_file(word)
}

/// True if an interpreter gets its program only from standard input. `valued` are its options with a
/// value.
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
        // These programs continue after the option if they get a program.
        if is_version && matches!(program, "ruby" | "lua" | "luajit") {
            return rest[at + 1..].iter().any(is_standard_input);
        }
        if is_version || ["-V", "--version", "-h", "--help"].contains(&text.as_str()) {
            return false;
        }
        if !text.starts_with('-') {
            return !is_file(word);
        }
        let is_valued = rest
            .get(at + 1)
            .is_some_and(|next| takes_value(&text, next, valued));
        // The value may be the program as well.
        if is_valued && !is_file(&rest[at + 1]) {
            return true;
        }
        // The last argument after a long option is the file, or there is none.
        let is_last = rest.len() == at + 2 && text.starts_with("--");
        at += 1 + usize::from(is_valued && !is_last);
    }
    true
}
