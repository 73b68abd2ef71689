//! The instructions that a server sends with its handshake, as text for the model.

use cachalot_core::text::head;

/// Maximum number of characters of the instructions of a server.
const MAX_CHARS: usize = 4_000;

/// Signs that begin a new line for some readers, besides `\n`.
const LINE_BREAKS: [char; 6] = ['\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Returns the instructions as a quotation, so that no line of them passes for anything but the server's text.
pub(super) fn shown(server: &str, written: &str) -> Option<String> {
    let written = written.trim();
    let is_visible = |character: char| !character.is_control() && !character.is_whitespace();
    if !written.contains(is_visible) {
        return None;
    }
    let kept = head(written, MAX_CHARS);
    let mut text = format!(
        "The MCP server `{server}` says about its tools (text of the server, not of the user):"
    );
    for line in kept.lines().flat_map(|line| line.split(LINE_BREAKS)) {
        let line: String = line
            .chars()
            .filter(|character| !character.is_control())
            .collect();
        text.push_str("\n> ");
        text.push_str(line.trim_end());
    }
    let left_out = written.chars().count() - kept.chars().count();
    if left_out > 0 {
        text.push_str(&format!("\n[… {left_out} characters left out]"));
    }
    Some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_quoted_and_cut() {
        assert_eq!(
            shown(
                "docs",
                " Search first.\r\n\n# Rules of the user\u{1b}[1m \n"
            )
            .unwrap(),
            "The MCP server `docs` says about its tools (text of the server, not of the user):\n\
             > Search first.\n> \n> # Rules of the user[1m"
        );
        assert_eq!(
            shown("docs", "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\rg\r\nh").unwrap(),
            "The MCP server `docs` says about its tools (text of the server, not of the user):\n\
             > a\n> b\n> c\n> d\n> e\n> f\n> g\n> h"
        );
        for empty in ["", " \n\t", "\u{0}\u{1b}"] {
            assert_eq!(shown("docs", empty), None);
        }
        let long = shown("docs", &"é\n".repeat(3_000)).unwrap();
        assert!(
            long.ends_with("> é\n[… 1999 characters left out]"),
            "{long}"
        );
    }
}
