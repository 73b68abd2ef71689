//! Comparison of the output of a command with the documented one.

/// The sign that stands for what differs from run to run.
const ANYTHING: char = '…';

/// Whether `actual` is as `expected` says: line by line, blanks at the ends of lines and of the whole
/// aside, and how far columns stand apart, which depends on what is in them. A line that is `…` alone
/// stands for any number of lines, `…` in a line for any text.
pub(crate) fn matches(expected: &str, actual: &str) -> bool {
    let lines = |text: &str| {
        text.trim_end()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    lines_match(&lines(expected), &lines(actual))
}

/// The line with its columns two blanks apart.
fn columns(line: &str) -> String {
    let text = line.trim();
    let indent = line.len() - line.trim_start().len();
    let cells = text
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty());
    let cells: Vec<&str> = cells.collect();
    if cells.is_empty() {
        String::new()
    } else {
        format!("{}{}", &line[..indent], cells.join("  "))
    }
}

fn lines_match(expected: &[String], actual: &[String]) -> bool {
    let Some((first, rest)) = expected.split_first() else {
        return actual.is_empty();
    };
    if first.trim().chars().eq([ANYTHING]) {
        return (0..=actual.len()).any(|skipped| lines_match(rest, &actual[skipped..]));
    }
    match actual.split_first() {
        Some((line, below)) => {
            let is_alike =
                line_matches(first, line) || line_matches(&columns(first), &columns(line));
            is_alike && lines_match(rest, below)
        }
        None => false,
    }
}

/// Returns whether a text matches a pattern with `…`.
pub(crate) fn line_matches(expected: &str, actual: &str) -> bool {
    let mut parts = expected.split(ANYTHING);
    let Some(mut rest) = parts.next().and_then(|first| actual.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn wildcards_match_parts_of_lines_and_lines() {
    for (expected, actual) in [
        ("a\nb\n", "a  \nb"),
        ("ran …\n", "ran 12 ms"),
        ("a … c", "a  c"),
        ("x … y … z", "x 1 y 2 y 3 z"),
        ("…\nend", "end"),
        ("…\nend", "1\n2\nend"),
        ("a\n…\nb\n…", "a\nb"),
        ("a  b   c", "a    b  c"),
        ("  a  b", "  a      b"),
        ("model …  cost … about", "model          cost     about"),
    ] {
        assert!(matches(expected, actual), "{expected:?} and {actual:?}");
    }
    for (expected, actual) in [
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("a … c", "a b"),
        ("…x", "xy"),
        ("a…a", "a"),
        ("a\n…\nb", "a\nc"),
        ("a b", "a  b"),
        ("  a", " a"),
    ] {
        assert!(!matches(expected, actual), "{expected:?} and {actual:?}");
    }
}
