//! Explanations for lines that are not in a file: the most similar lines.

use super::text::Line;

/// Maximum number of characters of a quoted line.
const MAX_QUOTED_CHARS: usize = 160;

/// Describes where `wanted` would match in `lines` if whitespace were ignored, and the difference; or the
/// place where the best partial match ends.
pub(super) fn describe_near_match(lines: &[Line<'_>], wanted: &[&[u8]]) -> Option<String> {
    let begin = wanted.iter().position(|line| !is_blank(line))?;
    let end = wanted.iter().rposition(|line| !is_blank(line))? + 1;
    let wanted = &wanted[begin..end];
    let best = (0..lines.len())
        .filter(|at| eq_ignoring_whitespace(lines[*at].body, wanted[0]))
        .map(|at| (matching_lines(&lines[at..], wanted), at))
        // The first of several.
        .max_by_key(|(length, at)| (*length, std::cmp::Reverse(*at)));
    let (length, at) = best?;
    if length == wanted.len() {
        return Some(whitespace_difference(lines, at, wanted));
    }
    let resolved = at + length;
    let there = match lines.get(resolved) {
        Some(line) => format!("line {} is {}", resolved + 1, quote(line.body)),
        None => "the file ends there".to_owned(),
    };
    Some(format!(
        "{} like it, but then {there} where {} is expected",
        range(at, length, "is", "are"),
        quote(wanted[length])
    ))
}

/// Describes the difference in whitespace between `wanted` and the lines at `at`.
fn whitespace_difference(lines: &[Line<'_>], at: usize, wanted: &[&[u8]]) -> String {
    let differing = lines[at..]
        .iter()
        .zip(wanted)
        .position(|(line, wanted)| line.body != *wanted);
    let said = format!(
        "{} from it in whitespace only",
        range(at, wanted.len(), "differs", "differ")
    );
    match differing {
        Some(index) => format!(
            "{said}: line {} is {}, and {} is expected",
            at + index + 1,
            quote(lines[at + index].body),
            quote(wanted[index])
        ),
        None => format!("{said}, or in the empty lines around it"),
    }
}

fn range(at: usize, length: usize, one: &str, several: &str) -> String {
    if length == 1 {
        format!("line {} {one}", at + 1)
    } else {
        format!("lines {}-{} {several}", at + 1, at + length)
    }
}

/// Number of leading wanted lines that match, ignoring whitespace.
fn matching_lines(lines: &[Line<'_>], wanted: &[&[u8]]) -> usize {
    lines
        .iter()
        .zip(wanted)
        .take_while(|(line, wanted)| eq_ignoring_whitespace(line.body, wanted))
        .count()
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// True if two lines are equal, ignoring whitespace.
fn eq_ignoring_whitespace(a: &[u8], b: &[u8]) -> bool {
    let visible = |line: &'_ [u8]| -> Vec<u8> {
        line.iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect()
    };
    a.trim_ascii() == b.trim_ascii() || visible(a) == visible(b)
}

/// Quotes a line with visible whitespace.
fn quote(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line)
        .chars()
        .take(MAX_QUOTED_CHARS)
        .collect();
    format!("{text:?}")
}
