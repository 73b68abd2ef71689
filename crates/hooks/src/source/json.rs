//! Parses JSON to a tree with positions.

use cachalot_core::Problem;
use cachalot_core::json::string_end;
use cachalot_core::tree::{self, Node};

/// Parses JSON as YAML. Additionally allows indentation with tabs, and comments (`//`, `/* */`), which
/// settings of other runtimes may contain.
///
/// # Errors
/// All syntax errors of the text.
pub(super) fn parse(file: &str, text: &str) -> Result<Node, Vec<Problem>> {
    tree::parse(file, &plain(text))
}

/// Replaces tabs and comments by spaces, so that all positions stay the same.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (length, is_kept) = match first {
            '"' => (string_end(rest.as_bytes(), 0).unwrap_or(rest.len()), true),
            '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), false),
            '/' if rest.starts_with("/*") => (
                rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
                false,
            ),
            other => (other.len_utf8(), other != '\t'),
        };
        let (piece, behind) = rest.split_at(length);
        if is_kept {
            plain.push_str(piece)
        } else {
            plain.extend(
                piece
                    .bytes()
                    .map(|byte| if byte == b'\n' { '\n' } else { ' ' }),
            )
        }
        rest = behind;
    }
    plain
}
