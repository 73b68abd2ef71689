//! Truncation of long texts.

use std::fmt::Write as _;
use std::path::Path;

/// Limits: a longer result is truncated.
const MAX_LINES: usize = 2_000;
const MAX_BYTES: usize = 50 << 10;

/// Size of the kept part. With the notice, it stays within the limits.
const KEPT_LINES: usize = MAX_LINES - 10;
const KEPT_BYTES: usize = MAX_BYTES - (2 << 10);

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
    End,
}

/// Truncates a text and adds a notice: how much is missing, and the path of the full text.
pub(super) fn cut(text: &str, kept: KeptPart, whole: Option<&Path>) -> String {
    let part = match kept {
        KeptPart::Beginning => beginning(text),
        KeptPart::End => end(text),
    };
    let mut notice = format!(
        "[this result was cut: it has {} lines and {} bytes, of which the {} {} bytes are shown",
        text.lines().count(),
        text.len(),
        match kept {
            KeptPart::Beginning => "first",
            KeptPart::End => "last",
        },
        part.len(),
    );
    let _ = match whole {
        Some(path) => write!(
            notice,
            "; until the session ends, all of it is in the file {}, for a shell to look at",
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
        KeptPart::End => format!("{notice}]\n{part}"),
    }
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

/// The last lines; the end of the line if the last line alone is too long.
fn end(text: &str) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(KEPT_BYTES));
    let part = &text[from..];
    let body = part.strip_suffix('\n').unwrap_or(part);
    if let Some((at, _)) = body.rmatch_indices('\n').nth(KEPT_LINES - 1) {
        return &part[at + 1..];
    }
    match body.find('\n') {
        Some(at) if from > 0 && at <= MAX_DROPPED_LINE_BYTES => &part[at + 1..],
        _ => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize, length: usize) -> String {
        let line = |number| format!("{number:0width$}\n", width = length - 1);
        (1..=count).map(line).collect()
    }

    #[test]
    fn is_large_checks_lines_and_bytes() {
        for (text, large) in [
            (String::new(), false),
            (lines(2_000, 6), false),
            (lines(2_001, 6), true),
            ("x".repeat(MAX_BYTES), false),
            ("x".repeat(MAX_BYTES + 1), true),
        ] {
            assert_eq!(is_large(&text), large);
        }
    }

    #[test]
    fn cut_keeps_whole_lines() {
        let text = lines(5_000, 6);
        assert_eq!(end(&text).lines().count(), KEPT_LINES);
        assert!(end(&text).starts_with("03011\n") && end(&text).ends_with("05000\n"));
        assert_eq!(beginning(&text).lines().count(), KEPT_LINES);
        assert!(beginning(&text).ends_with("01990\n"));
        let wide = lines(100, 1_000);
        for part in [beginning(&wide), end(&wide)] {
            assert!(part.len() > KEPT_BYTES - 1_000 && part.len() <= KEPT_BYTES);
            assert_eq!(part.len() % 1_000, 0);
        }
    }

    #[test]
    fn too_long_line_is_cut_between_characters() {
        let text = format!("x{}", "🐳".repeat(20_000));
        for part in [beginning(&text), end(&text)] {
            assert!(part.len() <= KEPT_BYTES && part.len() > KEPT_BYTES - 4);
            assert!(part.ends_with('🐳'));
        }
    }

    #[test]
    fn cut_fills_the_limit_with_a_part_of_a_long_line() {
        let long = "x".repeat(60_000);
        assert_eq!(end(&format!("{long}\nlast\n")).len(), KEPT_BYTES);
        assert_eq!(beginning(&format!("first\n{long}")).len(), KEPT_BYTES);
    }

    #[test]
    fn cut_text_is_not_large() {
        let path = Path::new("/tmp/cachalot-results-abcdef/shell-abcdef.txt");
        for text in [lines(5_000, 2), lines(5_000, 100), "ä".repeat(90_000)] {
            for kept in [KeptPart::Beginning, KeptPart::End] {
                assert!(!is_large(&cut(&text, kept, Some(path))));
                assert!(!is_large(&cut(&text, kept, None)));
            }
        }
    }
}
