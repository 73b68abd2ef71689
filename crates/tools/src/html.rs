//! Converts HTML pages to Markdown.

use std::io;

use htmd::HtmlToMarkdown;

/// Maximum nesting of elements; browsers stop at 512.
const MAX_DEPTH: usize = 2_000;

/// Converts a page to Markdown, without the elements named in `without`.
///
/// # Errors
/// If the elements of the page are nested too deeply.
pub fn to_markdown(page: &str, without: &[&'static str]) -> io::Result<String> {
    let converter = HtmlToMarkdown::builder()
        .skip_tags(without.to_vec())
        .build();
    let tree = converter.html_to_tree(page)?;
    let mut open = vec![(tree.clone(), 0)];
    while let Some((node, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!(
                "its elements are nested deeper than {MAX_DEPTH}"
            )));
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
