//! Places of parts of a template in the agent file.

use std::ops::Range;

use cachalot_core::SourceSpan;

/// Returns the place of `source[range]`, where `source` is (part of) the text that is written at `whole`
/// in `file`. The YAML notation of the text (quoted, block, escaped) is not known, so this searches the
/// file for the piece and falls back to `whole` if it is not found verbatim.
pub(super) fn span_of_part(
    file: &str,
    whole: &SourceSpan,
    source: &str,
    range: Range<usize>,
) -> SourceSpan {
    find(file, whole, source, range).unwrap_or_else(|| whole.clone())
}

fn find(file: &str, whole: &SourceSpan, source: &str, range: Range<usize>) -> Option<SourceSpan> {
    let piece = source.get(range.clone())?;
    let piece_start = range.start + (piece.len() - piece.trim_start().len());
    let piece = piece
        .trim()
        .lines()
        .next()
        .filter(|piece| !piece.is_empty())?;
    let earlier = source.get(..piece_start)?.matches(piece).count();
    let written = file.get(whole.start..whole.start + whole.len)?;
    let (offset, _) = written.match_indices(piece).nth(earlier)?;
    Some(span_within(whole, written, offset, piece.len()))
}

/// Returns the place `offset` bytes into `whole`, whose text is `written`.
fn span_within(whole: &SourceSpan, written: &str, offset: usize, len: usize) -> SourceSpan {
    let before = &written[..offset];
    let columns = |text: &str| u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let breaks = u32::try_from(before.matches('\n').count()).unwrap_or(u32::MAX);
    SourceSpan {
        file: whole.file.clone(),
        line: whole.line.saturating_add(breaks),
        column: match before.rfind('\n') {
            None => whole.column.saturating_add(columns(before)),
            Some(line_break) => columns(&before[line_break + 1..]).saturating_add(1),
        },
        start: whole.start + offset,
        len,
    }
}

/// Returns the place of the text of a line of `file`, without surrounding blanks.
pub(super) fn span_of_line(
    file: &str,
    name: &std::sync::Arc<str>,
    line: u32,
) -> Option<SourceSpan> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let text = file.split('\n').nth(index)?;
    let start: usize = file.split_inclusive('\n').take(index).map(str::len).sum();
    let indentation = text.len() - text.trim_start().len();
    let column = u32::try_from(indentation + 1).unwrap_or(u32::MAX);
    Some(SourceSpan {
        file: name.clone(),
        line,
        column,
        start: start + indentation,
        len: text.trim().len(),
    })
}
