//! Detection of text without templates.

/// True if the text has no templates and no `${name}`.
#[must_use]
pub fn is_literal(text: &str) -> bool {
    !text.contains("${") && !super::scan::template(text).has_code
}
