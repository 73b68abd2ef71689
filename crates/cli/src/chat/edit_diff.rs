//! Difference that a tool call would make to a file, for its approval.

use std::path::Path;

use cachalot_tools::{Arguments, ToolCall};
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::render::long_text::{self, first_lines};
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};

/// The maximum size in bytes of a file that is compared.
const MAX_BYTES: u64 = 1 << 20;
/// The number of unchanged lines around a change.
const CONTEXT: usize = 2;

/// Returns the difference that a call of a tool for files would make; `None` for other tools and for
/// arguments that a difference does not show. A file that cannot be read is taken as empty.
pub(super) fn edit_diff(
    call: &ToolCall,
    arguments: &Arguments,
    workspace: &Path,
    style: Style,
) -> Option<String> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let lines = match call.name.as_str() {
        "write_file" => {
            let before = read(&workspace.join(text("path")?)).unwrap_or_default();
            difference(&before, text("content")?, style)
        }
        "edit_file" => {
            let (old, new) = (text("old_text")?, text("new_text")?);
            let before = read(&workspace.join(text("path")?));
            let is_everywhere = arguments.get("replace_all") == Some(&Value::Bool(true));
            match before.filter(|before| before.contains(old)) {
                Some(before) if is_everywhere => {
                    difference(&before, &before.replace(old, new), style)
                }
                Some(before) => difference(&before, &before.replacen(old, new, 1), style),
                // The tool finds texts that differ in white space, too.
                None => difference(old, new, style),
            }
        }
        "apply_patch" => patch(text("patch")?, style),
        _ => return None,
    };
    let path = text("path").map(|path| format!("    {}", on_one_line(path)));
    let shown = path
        .into_iter()
        .chain(first_lines(lines, long_text::DIFF, "      "));
    Some(shown.map(|line| line + "\n").collect())
}

/// Reads a regular file of moderate size.
fn read(path: &Path) -> Option<String> {
    let metadata = std::fs::metadata(path).ok()?;
    let is_comparable = metadata.is_file() && metadata.len() <= MAX_BYTES;
    is_comparable.then(|| std::fs::read_to_string(path).ok())?
}

fn difference(before: &str, after: &str, style: Style) -> Vec<String> {
    let diff = TextDiff::from_lines(before, after);
    let mut lines = Vec::new();
    for (number, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if number > 0 {
            lines.push(style.dim("      ⋮"));
        }
        for change in group
            .iter()
            .flat_map(|operation| diff.iter_changes(operation))
        {
            let place = change.new_index().or(change.old_index()).unwrap_or(0) + 1;
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            let text = change.value();
            lines.push(line(&format!("{place:>5} "), sign, text, style));
        }
    }
    lines
}

fn patch(text: &str, style: Style) -> Vec<String> {
    let lines = text.lines();
    let lines = lines.map(|text| match text.chars().next() {
        Some(sign @ ('+' | '-')) => line("      ", sign, &text[1..], style),
        _ => format!("      {}", visible(text)),
    });
    lines.collect()
}

fn line(place: &str, sign: char, text: &str, style: Style) -> String {
    let text = visible(text.trim_end_matches(['\r', '\n']));
    let text = format!("{sign} {text}");
    let text = match sign {
        '+' => style.success(&text),
        '-' => style.error(&text),
        _ => text,
    };
    format!("{}{text}", style.dim(place))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(tool: &str, arguments: &Value, workspace: &Path) -> Option<String> {
        let call = ToolCall {
            id: "1".to_owned(),
            name: tool.to_owned(),
            arguments: arguments.to_string(),
        };
        let arguments: Arguments = serde_json::from_value(arguments.clone()).unwrap();
        edit_diff(&call, &arguments, workspace, Style::none())
    }

    #[test]
    fn edits_are_shown_with_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "1\n2\n3\n4\n5\n6\n7\n").unwrap();
        let edit = serde_json::json!({"path": "a.txt", "old_text": "5\n", "new_text": "five\n!\n"});
        assert_eq!(
            shown("edit_file", &edit, folder.path()).unwrap(),
            "    a.txt
    3   3
    4   4
    5 - 5
    5 + five
    6 + !
    7   6
    8   7
"
        );
        let write = serde_json::json!({"path": "b.txt", "content": "new\u{1b}[2J\n"});
        assert_eq!(
            shown("write_file", &write, folder.path()).unwrap(),
            "    b.txt\n    1 + new␛[2J\n"
        );
        let patch = serde_json::json!({"patch": "*** Begin Patch\n-a\n+b\n*** End Patch"});
        assert_eq!(
            shown("apply_patch", &patch, folder.path()).unwrap(),
            "      *** Begin Patch\n      - a\n      + b\n      *** End Patch\n"
        );
        assert_eq!(shown("shell", &write, folder.path()), None);
        let long = "x\n".repeat(200);
        let write = serde_json::json!({"path": "b.txt", "content": long});
        let text = shown("write_file", &write, folder.path()).unwrap();
        assert!(text.ends_with("      … 120 more lines\n"), "{text}");
    }
}
