//! Text helpers of the coding scenario: file names in questions, lines in results, edits.

use std::collections::HashMap;

/// Returns the file that a text names: a word with an extension, or else with a slash.
pub(super) fn find_file_name(text: &str) -> Option<String> {
    let is_edge = |character: char| "\"'`()[]<>{},;:!?*".contains(character);
    let words: Vec<&str> = text
        .split_whitespace()
        // The closing tag that a client puts around its context is not a path.
        .filter(|word| !word.starts_with("</"))
        .map(|word| {
            word.trim_matches(is_edge)
                .trim_end_matches('.')
                .trim_matches(is_edge)
        })
        .filter(|word| is_path_like(word))
        .collect();
    let named = words.iter().find(|word| has_extension(word));
    let named = named.or_else(|| words.iter().find(|word| word.contains('/')));
    named.map(|word| (*word).to_owned())
}

fn is_path_like(word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || "._-+@~/#".contains(character);
    !word.contains("//")
        && !word.starts_with("www.")
        && word.chars().all(is_part)
        && word.chars().any(char::is_alphanumeric)
}

fn has_extension(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    let is_extension = (1..=8).contains(&extension.len())
        && extension.starts_with(|first: char| first.is_ascii_alphabetic())
        && extension
            .chars()
            .all(|character| character.is_ascii_alphanumeric());
    // `e.g` is not a file.
    is_extension
        && !(stem.chars().count() == 1
            && extension.len() == 1
            && !word.contains('/')
            && stem == "e")
}

/// Returns true if a result refers to an earlier one and has no content of its own.
pub(super) fn is_marker(text: &str) -> bool {
    numbered(text).is_empty() && text.contains("unchanged")
}

/// Returns the lines of a file as `read_file` shows them: the lines with a number and a tab, without these;
/// all lines if there are none.
pub(super) fn lines_of(text: &str) -> Vec<String> {
    let numbered = numbered(text);
    if numbered.is_empty() {
        text.lines().map(str::to_owned).collect()
    } else {
        numbered
    }
}

fn numbered(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let (number, rest) = line.split_once('\t')?;
        let number = number.trim_start();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| rest.to_owned())
    };
    text.lines().filter_map(line).collect()
}

/// A replacement whose old text occurs once in the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) old_text: String,
    pub(super) new_text: String,
}

impl Edit {
    /// Creates the edit: the first line with `TODO` is marked done; if there is none, a line is added at
    /// the end. `None` for a file without text.
    pub(super) fn from_lines(lines: &[String]) -> Option<Self> {
        let todo = lines.iter().position(|line| line.contains("TODO"));
        let last = lines.iter().rposition(|line| !line.trim().is_empty());
        let at = todo.or(last)?;
        let line = &lines[at];
        let changed = if todo.is_some() {
            line.replacen("TODO", "DONE", 1)
        } else {
            format!("{line}\nReviewed by the simulator.")
        };
        let (from, to) = unique(lines, at);
        let mut new_lines = lines[from..=to].to_vec();
        new_lines[at - from] = changed;
        Some(Self {
            old_text: lines[from..=to].join("\n"),
            new_text: new_lines.join("\n"),
        })
    }
}

/// Returns the fewest lines around `at`, preferring later ones, whose text occurs once.
fn unique(lines: &[String], at: usize) -> (usize, usize) {
    let whole = lines.join("\n");
    let (mut from, mut to) = (at, at);
    while whole.matches(&lines[from..=to].join("\n")).count() > 1 {
        if to + 1 < lines.len() {
            to += 1;
        } else if from > 0 {
            from -= 1;
        } else {
            break;
        }
    }
    (from, to)
}

/// Returns the first line of `new` that occurs more often than in `old`.
pub(super) fn changed_line(old: &str, new: &str) -> Option<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in old.lines() {
        *counts.entry(line).or_default() += 1;
    }
    for line in new.lines() {
        match counts.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => return Some(line.to_owned()),
        }
    }
    None
}
