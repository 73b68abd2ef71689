//! Places of parts of a template in the agent file.

use std::ops::Range;
use std::sync::Arc;

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
    let start = whole.start + offset;
    let name = Arc::clone(&whole.file);
    Some(SourceSpan::new(name, file, start..start + piece.len()))
}

/// Returns the place of the text of a line of `file`, without surrounding blanks.
pub(super) fn span_of_line(file: &str, name: &Arc<str>, line: u32) -> Option<SourceSpan> {
    let index = usize::try_from(line).ok()?.checked_sub(1)?;
    let text = file.split('\n').nth(index)?;
    let start: usize = file.split_inclusive('\n').take(index).map(str::len).sum();
    let start = start + text.len() - text.trim_start().len();
    let range = start..start + text.trim().len();
    Some(SourceSpan::new(Arc::clone(name), file, range))
}
