//! Arguments that are commands, scripts or files.

use super::parse::parse;
use super::{Atom, MAX_COMMANDS, ParsedScript, Word};

/// Maximum number of words of a possible command.
const MAX_COMMAND_WORDS: usize = 48;

/// Records the commands that may run if a program takes its arguments, or parts of them, as commands.
pub(super) fn guess(script: &mut ParsedScript, words: &[Word], depth: usize) {
    if script.is_guess || script.possible.len() >= MAX_COMMANDS {
        return;
    }
    let words = &words[..words.len().min(MAX_COMMAND_WORDS)];
    for (at, word) in words.iter().enumerate() {
        let Some(text) = word.text() else { continue };
        if !text.starts_with('-') && !text.is_empty() {
            let unclear = script.guess(|guessed| {
                guessed.invoke(words[at..].to_vec(), &[], depth + 1, true);
            });
            if at + 1 < words.len() {
                for why in unclear {
                    script.mark_unclear(&why);
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

pub(super) fn is_file(word: &Word) -> bool {
    word.is_known()
        && !word
            .text()
            .is_some_and(|text| text.starts_with("/dev/") || text.starts_with("/proc/"))
}

/// Analyzes an argument that is a script.
pub(super) fn analyze_script(script: &mut ParsedScript, word: Option<&Word>, depth: usize) {
    let Some(word) = word else { return };
    match word.text() {
        Some(text) if text.is_empty() || text == "-" => {}
        Some(text) => script.line(&text, depth + 1, true),
        None => {
            // The known parts run in any case.
            let text = word.text_with('\0').replace('\0', "$UNKNOWN");
            script.line(&text, depth + 1, true);
            script.mark_unclear("the commands in an argument are not known before it runs");
        }
    }
}

/// Analyzes arguments that the program joins to a command line.
pub(super) fn analyze_joined_line(script: &mut ParsedScript, words: &[Word], depth: usize) {
    let texts: Option<Vec<String>> = words.iter().map(Word::text).collect();
    match texts {
        Some(texts) => script.line(&texts.join(" "), depth + 1, true),
        None => {
            let known: Vec<String> = words.iter().map(|word| word.text_with('\0')).collect();
            analyze_line_with_arguments(script, &known.join(" "), depth);
            script.mark_unclear("the commands in an argument are not known before it runs");
        }
    }
}

/// Analyzes a command line to which the program appends arguments.
pub(super) fn analyze_line_with_arguments(script: &mut ParsedScript, line: &str, depth: usize) {
    let parsed = parse(&line.replace('\0', " "), depth + 1);
    let mut parsed = parsed;
    for simple in &mut parsed.commands {
        simple.words.push(Word::any());
    }
    if depth < super::MAX_DEPTH {
        script.take(parsed, depth + 1, true);
    }
}

/// Analyzes the values of options as command lines. Long options may be abbreviated, short ones
/// combined.
pub(super) fn values(script: &mut ParsedScript, rest: &[Word], names: &[&str], depth: usize) {
    for (at, word) in rest.iter().enumerate() {
        let text = word.text_with('\0');
        for name in names {
            let value = if name.len() > 2 {
                long_value(rest, at).filter(|_| is_long(&text, name))
            } else if text.starts_with('-') && !text.starts_with("--") {
                let glued = text.split_once(&name[1..]);
                glued.and_then(|(_, glued)| short_value(rest, at, glued))
            } else {
                None
            };
            let Some(value) = value else { continue };
            let value = value.strip_prefix("exec=").unwrap_or(&value).to_owned();
            if value.contains('\0') {
                script.mark_unclear("the commands in an argument are not known before it runs");
            }
            analyze_line_with_arguments(script, &value, depth);
        }
    }
}

/// True if an argument is the long option `name` or an abbreviation of it.
pub(super) fn is_long(text: &str, name: &str) -> bool {
    let option = text.split('=').next().unwrap_or(text);
    option == name || (option.len() > 3 && option.starts_with("--") && name.starts_with(option))
}

/// Analyzes the commands after options, up to `;`, `+` or the end.
pub(super) fn analyze_after_options(
    script: &mut ParsedScript,
    rest: &[Word],
    options: &[&str],
    depth: usize,
) {
    for (at, word) in rest.iter().enumerate() {
        if !word.is_one_of(options) {
            continue;
        }
        let words = rest[at + 1..].iter();
        let words = words.take_while(|word| !word.is_one_of(&[";", "+"]));
        let filled = |word: &Word| filled(word, "{}");
        script.invoke(words.map(filled).collect(), &[], depth + 1, true);
    }
}

/// True if the value of an option, joined or separate, may be the program on standard input.
pub(super) fn reads_program(rest: &[Word], letters: &[&str], names: &[&str]) -> bool {
    rest.iter().enumerate().any(|(at, word)| {
        let text = word.text_with('\0');
        let file = match names.iter().any(|name| is_long(&text, name)) {
            true => long_value(rest, at),
            false => {
                let mut values = letters
                    .iter()
                    .filter_map(|letter| text.strip_prefix(letter));
                values.next().and_then(|glued| short_value(rest, at, glued))
            }
        };
        file.is_some_and(|file| file == "-" || !is_file(&Word::literal(&file)))
    })
}

/// The argument at an index, with NUL for each unknown part.
pub(super) fn argument(rest: &[Word], at: usize) -> Option<String> {
    rest.get(at).map(|word| word.text_with('\0'))
}

/// The value of the long option at an index: behind `=`, or else the next argument.
pub(super) fn long_value(rest: &[Word], at: usize) -> Option<String> {
    match argument(rest, at)?.split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => argument(rest, at + 1),
    }
}

/// The value of the short option at an index: what is joined to it, or else the next argument.
fn short_value(rest: &[Word], at: usize, glued: &str) -> Option<String> {
    match glued {
        "" => argument(rest, at + 1),
        glued => Some(glued.to_owned()),
    }
}

/// Replaces a marker in a word by an unknown text.
pub(super) fn filled(word: &Word, marker: &str) -> Word {
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
