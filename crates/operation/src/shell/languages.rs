//! Programs with languages of their own that can run programs or write files.

use super::arguments::{analyze_line_with_arguments, is_long, reads_program};
use super::{ParsedScript, Word};

/// Analyzes `awk`, whose programs can run commands and write files.
pub(super) fn awk(script: &mut ParsedScript, program: &str, rest: &[Word]) {
    let hides = |text: &str| {
        ["system", "getline", "|", ">", "@", "ARGV", "\0"]
            .iter()
            .any(|sign| text.contains(sign))
    };
    let reads = reads_program(rest, &["-f", "-E"], &["--file", "--exec"]);
    if let Some(word) = rest.iter().find(|word| hides(&word.text_with('\0'))) {
        script.code(program, Some(word.text_with(' ')));
    } else if reads {
        script.code(program, None);
    }
}

/// Analyzes a database client, whose language can run commands and open files (`.shell`, `\!`,
/// `system`).
pub(super) fn database(script: &mut ParsedScript, program: &str, rest: &[Word], here: &[String]) {
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
    // Without a statement in an argument, statements are read from standard input.
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
    let information = ["--version", "-version", "--help", "-help"];
    if !is_given && !rest.iter().any(|word| word.is_one_of(&information)) {
        script.code(program, here.iter().find(|text| *text != "\0").cloned());
    }
}

/// Analyzes `sed`, whose scripts can run commands (`e`) and write files (`w`).
pub(super) fn sed(script: &mut ParsedScript, rest: &[Word]) {
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
        let is_value = at > 0 && rest[at - 1].is_one_of(&["-l", "--line-length"]);
        if text.starts_with('-') && !is_behind {
            if let Some((option, expression)) = text.split_once('=')
                && is_long(option, "--expression")
                && !is_plain(expression)
            {
                script.mark_unclear("the commands that `sed` runs");
            }
            if let Some(expression) = text.strip_prefix("-e").filter(|text| !text.is_empty())
                && !is_plain(expression)
            {
                script.mark_unclear("the commands that `sed` runs");
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
            // Other code that only edits is not analyzed here.
            match runs_programs(&text) {
                true => script.mark_unclear("the commands that `sed` runs"),
                false => script.code("sed", Some(text.clone())),
            }
        }
        is_script = false;
    }
    if reads_program(rest, &["-f"], &["--file"]) {
        script.mark_unclear("the commands that `sed` reads");
    }
}

/// True if a `sed` script that is not plain may run commands or write files: it has the command or the
/// flag `e`, `w` or `W`.
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

/// Removes backslashes and the characters after them.
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

/// Analyzes editors with commands in their arguments.
pub(super) fn editor(script: &mut ParsedScript, program: &str, rest: &[Word]) {
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

/// Analyzes `make`: variables and rules on its command line.
pub(super) fn make(script: &mut ParsedScript, rest: &[Word], depth: usize) {
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
            analyze_line_with_arguments(script, value, depth);
        }
    }
    if reads_program(rest, &["-f"], &["--file", "--makefile"]) {
        script.code("make", None);
    }
}
