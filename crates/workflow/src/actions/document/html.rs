//! The text of a page, its structure as Markdown.

use htmd::HtmlToMarkdown;

/// How deep elements may be nested; browsers stop at 512.
const DEEPEST: usize = 2_000;

/// Scripts and styles are no text; nor is what is shown only where there are no scripts.
const NO_TEXT: [&str; 5] = ["script", "style", "noscript", "template", "head"];

/// The page as Markdown.
///
/// # Errors
/// A page that is nested too deeply.
pub(super) fn markdown(page: &str) -> Result<String, String> {
    let converter = HtmlToMarkdown::builder()
        .skip_tags(NO_TEXT.to_vec())
        .build();
    let tree = converter
        .html_to_tree(page)
        .map_err(|error| error.to_string())?;
    let mut open = vec![(tree.clone(), 0)];
    while let Some((node, depth)) = open.pop() {
        if depth > DEEPEST {
            return Err(format!("its elements are nested deeper than {DEEPEST}"));
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
