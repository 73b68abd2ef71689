//! Whether a text is meant as it is written.

/// Whether the text has no templates and no `${name}`.
#[must_use]
pub fn is_literal(text: &str) -> bool {
    !text.contains("${") && !super::scan::template(text).has_code
}
