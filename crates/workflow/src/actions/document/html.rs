//! Converts an HTML page to Markdown.

use htmd::HtmlToMarkdown;

/// The maximum nesting depth of elements; browsers stop at 512.
const MAX_DEPTH: usize = 2_000;

/// Elements without readable text: scripts, styles, and content that is shown only when scripts are
/// disabled.
const NO_TEXT: [&str; 5] = ["script", "style", "noscript", "template", "head"];

/// Returns the page as Markdown.
///
/// # Errors
/// If the page is nested too deeply.
pub(super) fn markdown(page: &str) -> Result<String, String> {
    let converter = HtmlToMarkdown::builder()
        .skip_tags(NO_TEXT.to_vec())
        .build();
    let tree = converter
        .html_to_tree(page)
        .map_err(|error| error.to_string())?;
    let mut open = vec![(tree.clone(), 0)];
    while let Some((node, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(format!("its elements are nested deeper than {MAX_DEPTH}"));
        }
        open.extend(
            node.children
                .borrow()
                .iter()
                .map(|child| (child.clone(), depth + 1)),
        );
    }
    Ok(converter.tree_to_markdown(&tree))
}
