//! Conversion of the parser's syntax errors to messages with a remedy.

use saphyr_parser::ScanError;

use super::source::{Position, Source, quoted_length};
use super::surrogates;
use crate::Problem;

/// Converts the parser's error.
pub(super) fn problem(source: &Source<'_>, error: &ScanError) -> Problem {
    let at = source.position(*error.marker());
    if error.info().contains("recursion limit") {
        return too_deep(source, at);
    }
    if let Some(tab) = tab_in_indentation(source, at, error.info().contains("tab")) {
        return Problem::new("tab-indentation", "a line is indented with a tab")
            .at(&source.place(tab, tab.byte + 1))
            .help("indent with spaces");
    }
    if let Some(problem) = indented_too_far(source, at) {
        return problem;
    }
    let quoted = source.rest(at);
    if error.info().contains("escape code")
        && quoted.starts_with('"')
        && let Some((offset, half)) = surrogates::lone(&quoted[..quoted_length(quoted)])
    {
        let at = source.after(at, offset);
        return Problem::new(
            "yaml-syntax",
            format!(
                "`{half}` is a lone surrogate: one half of a character that is written as two escapes"
            ),
        )
        .at(&source.place(at, at.byte + half.len()))
        .help("write the character itself, or both escapes, one behind the other");
    }
    let end = source
        .rest(at)
        .chars()
        .next()
        .filter(|c| *c != '\n' && *c != '\r');
    let place = source.place(at, at.byte + end.map_or(0, char::len_utf8));
    let line = source.lines_from(at).next().map_or("", |(_, line)| line);
    Problem::new("yaml-syntax", message(error.info()))
        .at(&place)
        .help(help(error.info(), line))
}

/// The problem of a key that is indented further than the one above it, which has a value on its own
/// line. The parser complains at the key or at the colon behind it.
fn indented_too_far(source: &Source<'_>, at: Position) -> Option<Problem> {
    let (start, line) = source.lines_from(at).next()?;
    let indentation = line.len() - line.trim_start().len();
    let key = key_of(&line[indentation..])?;
    let complained = at.byte - start.byte;
    if complained != indentation && complained != indentation + key.len() {
        return None;
    }
    let mut lines = source.text[..start.byte].lines().rev();
    let above = lines.find(|line| !line.trim().is_empty() && !line.trim().starts_with('#'))?;
    let content = above.trim_start_matches(' ');
    let content = content.strip_prefix("- ").unwrap_or(content).trim_start();
    let above_key = key_of(content)?;
    let value = content[above_key.len() + 1..].trim();
    let wanted = above.len() - content.len();
    if value.is_empty() || value.starts_with(['#', '|', '>']) || indentation <= wanted {
        return None;
    }
    let place = source.after(start, indentation);
    Some(
        Problem::new(
            "yaml-syntax",
            format!("`{key}` is indented further than `{above_key}`, which has its value already"),
        )
        .at(&source.place(place, place.byte + key.len()))
        .help(format!(
            "indent `{key}` by {wanted} spaces, like `{above_key}`"
        )),
    )
}

/// The key, written without quotes, that a line begins with.
fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
    (is_key && (rest.is_empty() || rest.starts_with([' ', '\r']))).then_some(key)
}

/// The problem of nesting at `at`.
pub(super) fn too_deep(source: &Source<'_>, at: Position) -> Problem {
    Problem::new(
        "too-deep",
        format!("nested deeper than {} levels", super::MAX_DEPTH),
    )
    .at(&source.place(at, at.byte))
    .help("flatten the lists and mappings around this place")
}

/// Returns the tab in the indentation of the line of `at`; if `look_on` (the parser's error is about a tab),
/// the first such tab in that or any later line.
fn tab_in_indentation(source: &Source<'_>, at: Position, look_on: bool) -> Option<Position> {
    let lines = if look_on { usize::MAX } else { 1 };
    source.lines_from(at).take(lines).find_map(|(start, line)| {
        let indentation = line.len() - line.trim_start().len();
        let tab = line[..indentation].find('\t')?;
        (indentation < line.len()).then(|| source.after(start, tab))
    })
}

fn message(info: &str) -> String {
    let plain = match info {
        "mapping values are not allowed in this context" => {
            "a colon followed by a space begins a value, and there can be none here"
        }
        "while parsing node, found unknown anchor" => {
            "no anchor of this name stands before this alias"
        }
        "while parsing a block mapping, did not find expected key" => "expected a key here",
        "while parsing a block collection, did not find expected '-' indicator" => {
            "expected another list item (`- …`) here"
        }
        "while parsing a flow mapping, did not find expected ',' or '}'" => {
            "expected `,` or `}` here"
        }
        "while parsing a flow sequence, expected ',' or ']'" => "expected `,` or `]` here",
        "simple key expect ':'" | "simple key expected" => "expected a key and a colon here",
        other if other.starts_with("unexpected character") => {
            "a text without quotes cannot begin with this character"
        }
        other => return format!("not YAML: {}", other.replace('\'', "`")),
    };
    plain.to_owned()
}

fn help(info: &str, line: &str) -> &'static str {
    let has_template = [": {{", "- {{", ": {%"]
        .iter()
        .any(|start| line.contains(start));
    if has_template {
        "put the template in quotes: \"{{ … }}\""
    } else if info.contains("mapping values") || info.contains("unexpected character") {
        "if this belongs to a text, put the text in quotes"
    } else if info.contains("unknown anchor") {
        "define it with `&name` further up, or put the text in quotes if no alias is meant"
    } else if info.contains("valid YAML whitespace") {
        "put a space, not a tab, after it"
    } else if info.contains("escape code") {
        "write the character itself, or as \\UXXXXXXXX"
    } else if info.contains("quoted scalar") {
        "close the quotes, and double (`''`) or escape (`\\\"`) those inside the text"
    } else if info.contains("unprintable") {
        "remove the control character, or write it escaped in double quotes"
    } else {
        "check the indentation of this line and of the lines above it, and that quotes and brackets are closed"
    }
}
