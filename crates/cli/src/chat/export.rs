//! `/export`: the conversation as Markdown or HTML, in a new file.

mod html;
mod markdown;

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use cachalot_agent::Chat;
use cachalot_core::SecretSet;
use cachalot_model::{Block, Message, Role};
use pulldown_cmark::{CowStr, Options};

use super::attachments::{Folders, attachment};
use super::mode::without_announcement;
use crate::command_error::{CommandError, Result};
use crate::render;
use crate::render::visible::visible;

/// The syntax that viewers of Markdown understand.
const SYNTAX: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExportFormat {
    Markdown,
    Html,
}

impl ExportFormat {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

/// A conversation, as it is shown.
struct Transcript {
    title: String,
    /// Lines about the session.
    about: Vec<String>,
    sections: Vec<Section>,
}

/// The parts of a message.
struct Section {
    is_user: bool,
    parts: Vec<Part>,
}

enum Part {
    /// Markdown.
    Text(String),
    /// Content with a title, which is shown as it is.
    Details { title: String, content: String },
}

/// Writes the conversation to a new file, and returns the message about it. Known secrets are masked.
///
/// # Errors
/// The conversation is empty, the ending of the name is not one of a known format, or the file exists or cannot be
/// written.
pub(super) fn export(
    chat: &Chat,
    file: Option<&str>,
    folders: Folders<'_>,
    secret_set: &SecretSet,
) -> Result<String> {
    let messages = chat.messages();
    if messages.is_empty() {
        return Err(CommandError::failed("the conversation is empty"));
    }
    let name = match file {
        Some(file) => file.to_owned(),
        None => format!("chat-{}.md", chat.session()),
    };
    let path = folders.resolve(&name);
    let format = ExportFormat::of(&path).ok_or_else(|| {
        CommandError::failed(format!(
            "`{name}` is not exported to: end the name with .md for Markdown, or with .html"
        ))
    })?;
    let agent = chat.agent();
    let shown = |text: &str| visible(&secret_set.redact(text)).into_owned();
    let transcript = Transcript {
        title: format!("Chat with {}", shown(&agent.name)),
        about: vec![
            format!("Model: {}", shown(&agent.model)),
            format!("Session: {}", chat.session()),
        ],
        sections: sections(messages.iter().map(|message| &**message), &shown),
    };
    let text = match format {
        ExportFormat::Markdown => markdown::document(&transcript),
        ExportFormat::Html => html::document(&transcript),
    };
    write_new(&path, &text).map_err(|error| {
        CommandError::failed(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!("`{name}` exists, and is not overwritten; name another file")
            }
            _ => format!("`{name}` cannot be written: {error}"),
        })
    })?;
    Ok(format!(
        "exported {} to {}",
        render::count(messages.len() as u64, "message", "messages"),
        path.display()
    ))
}

/// Writes a file that does not exist: all of it, or nothing.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    // Before anything is written; the end of the writing checks again.
    if path.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    temporary.persist_noclobber(path)?;
    Ok(())
}

/// Returns the sections of messages. All that is between two messages of the user is one.
fn sections<'a>(
    messages: impl Iterator<Item = &'a Message>,
    shown: &dyn Fn(&str) -> String,
) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for message in messages {
        // Results of tools have the role of the user.
        let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
        let is_user = message.role == Role::User && !message.content.iter().all(is_result);
        let parts = message.content.iter();
        let parts = parts.flat_map(|block| parts_of(block, is_user, shown));
        match sections.last_mut() {
            Some(last) if !is_user && !last.is_user => last.parts.extend(parts),
            _ => sections.push(Section {
                is_user,
                parts: parts.collect(),
            }),
        }
    }
    sections
}

fn parts_of(block: &Block, is_user: bool, shown: &dyn Fn(&str) -> String) -> Vec<Part> {
    let details = |title: String, content: &str| Part::Details {
        title: shown(&title),
        content: shown(content),
    };
    match block {
        Block::Text { text, .. } if is_user => match attachment(text) {
            Some((name, content)) => vec![details(name.to_owned(), content)],
            None => vec![Part::Text(shown(without_announcement(text)))],
        },
        Block::Text { text, .. } => vec![Part::Text(shown(text))],
        Block::ToolUse(call) => vec![details(format!("call of {}", call.name), &call.arguments)],
        Block::ToolResult(result) => {
            let texts: Vec<&str> = result.content.iter().filter_map(Block::as_text).collect();
            let title = if result.is_error { "error" } else { "result" };
            vec![details(title.to_owned(), &texts.join("\n"))]
        }
        Block::Image(_) => vec![Part::Text("(an image)".to_owned())],
        Block::Reasoning(_) | Block::Other { .. } => Vec::new(),
    }
}

/// Returns true if a link may stay one: it leads to a page or an address, and runs nothing.
fn is_harmless_link(url: &CowStr<'_>) -> bool {
    let scheme = url.split([':', '/', '?', '#']).next().unwrap_or_default();
    let has_scheme = url[scheme.len()..].starts_with(':');
    !has_scheme || ["http", "https", "mailto"].contains(&&*scheme.to_ascii_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    pub(super) const HOSTILE: &str = "Hi <script>alert(1)</script> <img src=x onerror=alert(2)>\n\n<div onclick=alert(3)>\n[in html](javascript:alert(4))\n</div>\n\n[a](javascript:alert(5)) [b](https://example.org) ![c](http://example.org/pixel)\n\n`<b>` is code\n\n## Assistant\n";

    pub(super) fn transcript(text: &str) -> Transcript {
        Transcript {
            title: "Chat with <root>".to_owned(),
            about: vec!["Model: a/b".to_owned()],
            sections: vec![
                Section {
                    is_user: true,
                    parts: vec![Part::Text(text.to_owned())],
                },
                Section {
                    is_user: false,
                    parts: vec![Part::Details {
                        title: "call of <shell>".to_owned(),
                        content: "</pre>\n````\n<script>".to_owned(),
                    }],
                },
            ],
        }
    }

    #[test]
    fn links_that_run_something_are_recognized() {
        for url in [
            "https://a.b",
            "HTTP://a.b",
            "mailto:a@b.c",
            "a/b.md",
            "#top",
            "/a:b",
        ] {
            assert!(is_harmless_link(&url.into()), "{url}");
        }
        for url in [
            "javascript:x",
            "JavaScript:x",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc",
        ] {
            assert!(!is_harmless_link(&url.into()), "{url}");
        }
    }

    #[test]
    fn existing_files_and_links_are_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.md");
        write_new(&file, "one").unwrap();
        let error = write_new(&file, "two").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
        #[cfg(unix)]
        {
            let link = place.path().join("b.md");
            std::os::unix::fs::symlink("none", &link).unwrap();
            write_new(&link, "two").unwrap_err();
        }
        assert!(!place.path().join("none").exists());
    }
}
