//! The front matter of a SKILL.md: YAML between two lines of `---`.

use cachalot_core::text::{one_line, truncate};
use cachalot_core::tree;

use crate::builtin::call_error::CallError;

/// The fields of the front matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrontMatter {
    pub(super) name: Option<String>,
    pub(super) description: String,
}

/// Maximum length of a description in a list; a longer one is cut, because the list is part of prompts.
const MAX_DESCRIPTION_CHARS: usize = 1_024;

/// Parses the front matter of a SKILL.md.
///
/// # Errors
/// The problem, and the remedy.
pub(super) fn read(text: &str) -> Result<FrontMatter, CallError> {
    let yaml = split(text).ok_or_else(|| {
        CallError::Refused(
            "SKILL.md must begin with a line `---`, then `name: …` and `description: …`, then a line `---`"
                .to_owned(),
        )
    })?;
    let node = tree::parse("SKILL.md", yaml).map_err(|problems| {
        // Only the message is used, because lines count from the first one after the `---`.
        CallError::Refused(match problems.first() {
            Some(problem) => format!("the head of SKILL.md is not YAML: {}", problem.message),
            None => "the head of SKILL.md is not YAML".to_owned(),
        })
    })?;
    let field = |name: &str| node.get(name).and_then(|value| value.as_text());
    let description = field("description")
        .map(short_line)
        .filter(|description| !description.is_empty())
        .ok_or_else(|| {
            CallError::Refused(
                "the head of SKILL.md needs `description: …`: what the skill does and when to use it"
                    .to_owned(),
            )
        })?;
    Ok(FrontMatter {
        name: field("name").map(str::to_owned),
        description,
    })
}

/// Creates the text of a new SKILL.md.
pub(super) fn write(name: &str, description: &str, body: &str) -> String {
    // A JSON string is valid YAML.
    let description = serde_json::Value::from(short_line(description));
    format!(
        "---\nname: {name}\ndescription: {description}\n---\n\n{}\n",
        body.trim()
    )
}

/// True if a text has front matter, valid or not.
pub(super) fn has_front_matter(text: &str) -> bool {
    split(text).is_some()
}

/// Returns the YAML between the two lines of `---`.
fn split(text: &str) -> Option<&str> {
    let text = text.trim_start_matches('\u{feff}');
    let first = text.lines().next()?;
    if first.trim_end() != "---" {
        return None;
    }
    let start = text.find('\n')? + 1;
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some(&text[start..at]);
        }
        at += line.len();
    }
    None
}

fn short_line(description: &str) -> String {
    truncate(&one_line(description), MAX_DESCRIPTION_CHARS).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_read() {
        let head = read(
            "---\r\nname: pdf\r\ndescription: >\r\n  Two\r\n  lines\r\nlicense: MIT\r\n---\r\nBody",
        )
        .unwrap();
        assert_eq!(head.name.as_deref(), Some("pdf"));
        assert_eq!(head.description, "Two lines");
        for (text, wrong) in [
            ("Body", "must begin"),
            ("---\nname: x\n", "must begin"),
            ("---\nname: x\n---\n", "needs `description"),
            ("---\ndescription: ''\n---\n", "needs `description"),
            ("---\na: [\n---\n", "not YAML"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(wrong), "{text:?}: {error}");
        }
    }

    #[test]
    fn front_matter_round_trips() {
        for description in [
            "plain",
            "with: colon # and \"quotes\" \\ é",
            "- [x] & *y",
            "two\nlines",
        ] {
            let text = write("n", description, "Body\n");
            let head = read(&text).unwrap();
            assert_eq!(head.description, description.replace('\n', " "));
            assert_eq!(head.name.as_deref(), Some("n"));
            assert!(text.ends_with("---\n\nBody\n"), "{text}");
        }
    }
}
