//! Truncation of long texts.

use std::fmt::Write as _;
use std::path::Path;

use cachalot_core::text::{is_omission, truncate};

/// Limits: a longer result is truncated.
const MAX_LINES: usize = 2_000;
const MAX_BYTES: usize = 50 << 10;

/// Size of the kept part. With the notice, it stays within the limits.
const KEPT_LINES: usize = MAX_LINES - 10;
const KEPT_BYTES: usize = MAX_BYTES - (2 << 10);

/// Size of the first lines that precede the end.
const FIRST_LINES: usize = 5;
const FIRST_BYTES: usize = 1 << 10;

/// Maximum characters of a notice of the tool that are repeated.
const MAX_REPEATED_CHARS: usize = 200;

/// Maximum bytes of a partial line to drop in order to keep whole lines only.
const MAX_DROPPED_LINE_BYTES: usize = 4 << 10;

/// True if a result exceeds the limits.
pub(super) fn is_large(text: &str) -> bool {
    text.len() > MAX_BYTES || text.lines().take(MAX_LINES + 1).count() > MAX_LINES
}

/// The part of a text to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptPart {
    Beginning,
    /// The end, after the first few lines.
    End,
}

/// Truncates a text and adds a notice: how much is missing, and the path of the text as the tool gave it. The tool may
/// have left out a part itself.
pub(super) fn cut(text: &str, kept: KeptPart, whole: Option<&Path>) -> String {
    let first = match kept {
        KeptPart::Beginning => "",
        KeptPart::End => first_lines(text),
    };
    let part = match kept {
        KeptPart::Beginning => beginning(text),
        KeptPart::End => end(&text[first.len()..], first.len()),
    };
    let mut notice = format!(
        "[this result was cut: the tool gave {} lines and {} bytes, of which ",
        text.lines().count(),
        text.len(),
    );
    let _ = match (kept, first.lines().count()) {
        (KeptPart::Beginning, _) => write!(notice, "the first {} bytes are shown", part.len()),
        (KeptPart::End, 0) => write!(notice, "the last {} bytes are shown", part.len()),
        (KeptPart::End, lines) => write!(
            notice,
            "the first {lines} lines and the last {} bytes are shown",
            part.len()
        ),
    };
    if let Some(omission) = text.lines().find(|line| is_omission(line)) {
        let omission = truncate(omission, MAX_REPEATED_CHARS);
        let _ = write!(
            notice,
            "; it had left out a part itself, which is kept nowhere: {omission}"
        );
    }
    let _ = match whole {
        Some(path) => write!(
            notice,
            "; until the session ends, what it gave is in the file {}, for a shell to look at",
            path.display()
        ),
        None => write!(notice, "; the rest is lost, so ask for less at once"),
    };
    match kept {
        KeptPart::Beginning => {
            notice.push_str("; request the following lines to continue]");
            let gap = if part.ends_with('\n') { "" } else { "\n" };
            format!("{part}{gap}{notice}\n")
        }
        KeptPart::End => format!("{first}{notice}]\n{part}"),
    }
}

/// The first few lines; nothing if they are too long.
fn first_lines(text: &str) -> &str {
    let lines = text.match_indices('\n').take(FIRST_LINES);
    let ends = lines.map(|(at, _)| at + 1);
    let end = ends.take_while(|end| *end <= FIRST_BYTES).last();
    &text[..end.unwrap_or(0)]
}

/// The first lines; the beginning of the line if the first line alone is too long.
fn beginning(text: &str) -> &str {
    let bytes = text.floor_char_boundary(KEPT_BYTES);
    let mut part = &text[..bytes];
    if let Some((at, _)) = part.match_indices('\n').nth(KEPT_LINES - 1) {
        return &part[..=at];
    }
    if bytes < text.len()
        && let Some(at) = part.rfind('\n')
        && part.len() - at <= MAX_DROPPED_LINE_BYTES
    {
        part = &part[..=at];
    }
    part
}

/// The last lines; the end of the line if the last line alone is too long. `shown` is the size of the first lines.
fn end(text: &str, shown: usize) -> &str {
    let from = text.len().saturating_sub(KEPT_BYTES - shown);
    let from = text.ceil_char_boundary(from);
    let part = &text[from..];
    let body = part.strip_suffix('\n').unwrap_or(part);
    let lines = KEPT_LINES - FIRST_LINES;
    if let Some((at, _)) = body.rmatch_indices('\n').nth(lines - 1) {
        return &part[at + 1..];
    }
    match body.find('\n') {
        Some(at) if from > 0 && at <= MAX_DROPPED_LINE_BYTES => &part[at + 1..],
        _ => part,
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/builtin/limit_large_tool_results/cut.rs"]
mod tests;
