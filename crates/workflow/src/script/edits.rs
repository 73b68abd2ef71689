//! Edits of the text of a block.

/// An edit of the text: `start..end` becomes `text`.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) text: String,
}

/// Returns the text of `start..end` with the edits applied.
pub(super) fn apply(source: &str, start: usize, end: usize, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.start);
    let mut text = String::with_capacity(end - start + 16 * edits.len());
    let mut at = start;
    for edit in edits {
        text.push_str(source.get(at..edit.start).unwrap_or_default());
        text.push_str(&edit.text);
        at = edit.end.max(at);
    }
    text.push_str(source.get(at..end).unwrap_or_default());
    text
}
