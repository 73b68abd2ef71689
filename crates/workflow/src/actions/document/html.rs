//! Converts an HTML page to Markdown.

use cachalot_tools::html;

use super::DocumentError;

/// Elements without readable text: scripts, styles, and content that is shown only when scripts are
/// disabled.
const NO_TEXT: [&str; 5] = ["script", "style", "noscript", "template", "head"];

/// Returns the page as Markdown.
///
/// # Errors
/// If the page is nested too deeply.
pub(super) fn markdown(page: &str) -> Result<String, DocumentError> {
    html::to_markdown(page, &NO_TEXT).map_err(|error| DocumentError::Unreadable(error.to_string()))
}
