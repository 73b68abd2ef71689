//! Converts HTML pages to Markdown.

use std::io;

use crate::html;

/// Elements without text for readers: scripts, styles, and the replacement content for missing scripts.
const NON_TEXT_ELEMENTS: [&str; 7] = [
    "script", "style", "noscript", "template", "head", "svg", "iframe",
];

/// Number of bytes at the beginning of a page in which its title is searched for.
const TITLE_SEARCH_BYTES: usize = 64 << 10;

/// Converts a page to Markdown.
///
/// # Errors
/// If the elements of the page are nested too deeply.
pub(super) fn markdown(page: &str) -> io::Result<String> {
    html::to_markdown(page, &NON_TEXT_ELEMENTS)
}

/// Returns the title of a page, on one line.
pub(super) fn title(page: &str) -> Option<String> {
    let page = &page[..page.floor_char_boundary(TITLE_SEARCH_BYTES)];
    // ASCII lower-casing keeps the byte offsets.
    let lower = page.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let text = page[start..end].split_whitespace().collect::<Vec<_>>();
    let mut text = text.join(" ");
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&amp;", "&"),
    ] {
        text = text.replace(entity, character);
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn markdown_keeps_structure_and_drops_scripts() {
        let page = "<html><head><title>T</title><style>p{}</style></head><body><h1>One</h1><p>Two <b>three</b> <a href='/x'>four</a></p><script>five()</script><ul><li>six</li></ul></body></html>";
        let text = markdown(page).unwrap();
        assert!(text.contains("# One"), "{text}");
        assert!(
            text.contains("**three**") && text.contains("[four](/x)"),
            "{text}"
        );
        assert!(text.contains("six"), "{text}");
        assert!(!text.contains("five") && !text.contains("p{}"), "{text}");
    }

    #[test]
    fn nesting_of_a_page_is_bounded() {
        let error = markdown(&"<div>".repeat(3_000)).unwrap_err().to_string();
        assert!(error.contains("deeper than"), "{error}");
    }

    #[test]
    fn titles() {
        let title = |page| title(page);
        assert_eq!(
            title("<HTML><TITLE lang=en>\n A &amp; B\n c </TITLE>").unwrap(),
            "A & B c"
        );
        assert_eq!(title("<title></title>"), None);
        assert_eq!(title("<title>never closed"), None);
        assert_eq!(title("ä<titl"), None);
    }
}
