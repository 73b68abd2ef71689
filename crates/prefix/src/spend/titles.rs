//! Titles of sessions: the name that the user or the program gave, else the beginning of the first prompt.

use std::collections::HashMap;
use std::sync::Arc;

use memchr::memmem;
use serde_json::Value;

use super::answer::Client;

/// Maximum length of a title, in characters.
const MAX_LENGTH: usize = 80;

/// Maximum length of a line or document that is parsed for a title, in bytes: a tree of values is much larger.
const MAX_BYTES: usize = 1 << 20;

/// Maximum number of lines of a file that are parsed for its first prompt.
const MAX_ATTEMPTS: u32 = 100;

/// The origin of a title. A later variant is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The first prompt.
    Prompt,
    /// A model made it.
    Generated,
    /// The user, or the program without a model, gave it.
    Given,
}

/// The best title so far.
#[derive(Debug, Default)]
pub(super) struct Title {
    best: Option<(Origin, String)>,
    /// The number of lines that were parsed for a prompt.
    attempts: u32,
}

impl Title {
    /// Reads a line, or a document, if it may have a better title.
    pub(super) fn line(&mut self, client: Client, text: &[u8]) {
        let has = |marker: &str| memmem::find(text, marker.as_bytes()).is_some();
        let may_be_title = title_markers(client).iter().any(|marker| has(marker));
        let is_sought = self.best.is_none() && self.attempts < MAX_ATTEMPTS;
        let may_be_prompt = is_sought && has("user");
        if text.len() > MAX_BYTES || !may_be_title && !may_be_prompt {
            return;
        }
        self.attempts += u32::from(may_be_prompt);
        let Ok(line) = serde_json::from_slice::<Value>(text) else {
            return;
        };
        let found = title(client, &line).or_else(|| Some((Origin::Prompt, prompt(client, &line)?)));
        if let Some((origin, text)) = found {
            self.add(origin, &text);
        }
    }

    /// Adds a title. Of several prompts the first one counts, of several titles the last one.
    pub(super) fn add(&mut self, origin: Origin, text: &str) {
        let text = excerpt(text);
        let is_better = match &self.best {
            None => true,
            Some((Origin::Prompt, _)) => origin > Origin::Prompt,
            Some((known, _)) => origin >= *known,
        };
        if is_better && !text.is_empty() {
            self.best = Some((origin, text));
        }
    }
}

/// The titles of all sessions.
#[derive(Debug, Default)]
pub(super) struct Titles(HashMap<(Client, Arc<str>), Title>);

impl Titles {
    /// Adds the title of a file or row of a session.
    pub(super) fn add(&mut self, client: Client, session: Arc<str>, title: Title) {
        if let Some((origin, text)) = title.best {
            self.0
                .entry((client, session))
                .or_default()
                .add(origin, &text);
        }
    }

    /// Returns the titles by program and session.
    pub(super) fn finish(self) -> HashMap<(Client, Arc<str>), String> {
        let titles = self.0.into_iter();
        let titles = titles.filter_map(|(session, title)| Some((session, title.best?.1)));
        titles.collect()
    }
}

/// Words of lines that have a title. The names are those of Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, pi
/// 1.6.0, Copilot CLI 1.0.102 and Cline 3.0.65.
fn title_markers(client: Client) -> &'static [&'static str] {
    match client {
        Client::ClaudeCode => &["\"custom-title\"", "\"ai-title\""],
        Client::Codex => &["\"thread_name_updated\""],
        Client::GeminiCli => &["\"summary\""],
        Client::Pi => &["\"session_info\""],
        Client::CopilotCli => &["\"session.title_changed\""],
        Client::Cline => &["\"title\""],
        Client::QwenCode | Client::KimiCode | Client::OpenCode | Client::Cachalot => &[],
    }
}

/// Returns the title in a line.
fn title(client: Client, line: &Value) -> Option<(Origin, String)> {
    let kind = line.get("type").and_then(Value::as_str);
    let (origin, text) = match (client, kind) {
        (Client::ClaudeCode, Some("custom-title")) => (Origin::Given, line.get("customTitle")),
        (Client::ClaudeCode, Some("ai-title")) => (Origin::Generated, line.get("aiTitle")),
        (Client::Codex, _) => (Origin::Given, line.pointer("/payload/thread_name")),
        (Client::GeminiCli, _) => {
            let changed = line.pointer("/$set/summary");
            (Origin::Generated, changed.or_else(|| line.get("summary")))
        }
        (Client::Pi, Some("session_info")) => (Origin::Given, line.get("name")),
        (Client::CopilotCli, Some("session.title_changed")) => {
            (Origin::Generated, line.pointer("/data/title"))
        }
        (Client::Cline, _) => (Origin::Given, line.pointer("/metadata/title")),
        _ => return None,
    };
    Some((origin, text?.as_str()?.to_owned()))
}

/// Returns the prompt in a line.
fn prompt(client: Client, line: &Value) -> Option<String> {
    let is = |member: &str, value: &str| line.get(member).and_then(Value::as_str) == Some(value);
    let has = |member: &str| line.get(member).and_then(Value::as_bool) == Some(true);
    let content = match client {
        Client::ClaudeCode if is("type", "user") => {
            let is_own = ["isSidechain", "isMeta", "isCompactSummary"]
                .into_iter()
                .any(has);
            line.pointer("/message/content").filter(|_| !is_own)?
        }
        Client::Codex => {
            let payload = line.get("payload")?;
            // The texts of Codex itself have other kinds.
            let kinds =
                payload.pointer("/internal_chat_message_metadata_passthrough/content_item_kinds");
            let kinds = kinds.and_then(Value::as_array);
            if kinds.is_some_and(|kinds| kinds.iter().all(|kind| kind != "user.text")) {
                return None;
            }
            let is_event = payload.get("type")?.as_str()? == "user_message";
            let is_message = payload.get("role").and_then(Value::as_str) == Some("user");
            match (is_event, is_message) {
                (true, _) => payload.get("message")?,
                (_, true) => payload.get("content")?,
                _ => return None,
            }
        }
        Client::GeminiCli => {
            let messages = line.get("messages").and_then(Value::as_array);
            let user =
                |message: &&Value| message.get("type").and_then(Value::as_str) == Some("user");
            let first = messages.and_then(|messages| messages.iter().find(user));
            let message = first.or_else(|| Some(line).filter(user))?;
            message.get("content")?
        }
        Client::QwenCode if is("type", "user") => line.pointer("/message/parts")?,
        Client::Pi if line.pointer("/message/role")?.as_str()? == "user" => {
            line.pointer("/message/content")?
        }
        Client::CopilotCli if is("type", "user.message") => line.pointer("/data/content")?,
        Client::KimiCode if is("type", "turn.prompt") => line.get("input")?,
        _ => return None,
    };
    let text = match content {
        Value::String(text) => text.as_str(),
        Value::Array(parts) => parts.iter().find_map(|part| part.get("text")?.as_str())?,
        _ => return None,
    };
    // Programs send their own texts in tags, such as the environment and local commands.
    let is_own = text.trim_start().starts_with('<') || text.starts_with("# AGENTS.md");
    (!is_own).then(|| text.to_owned())
}

/// Returns the beginning of a text on one line.
fn excerpt(text: &str) -> String {
    let mut short = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        let space = usize::from(length > 0);
        let characters = word.chars().count();
        if length + space + characters > MAX_LENGTH {
            let rest = (MAX_LENGTH - 1).saturating_sub(length + space);
            if length == 0 {
                short.extend(word.chars().take(rest));
            }
            short.push('…');
            break;
        }
        if space > 0 {
            short.push(' ');
        }
        short += word;
        length += space + characters;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_short_and_on_one_line() {
        assert_eq!(excerpt("  Fix\n the\ttests "), "Fix the tests");
        let long = excerpt(&"word ".repeat(50));
        assert!(long.ends_with(" word…"), "{long}");
        assert!(long.chars().count() <= MAX_LENGTH);
        assert_eq!(excerpt(&"x".repeat(500)).chars().count(), MAX_LENGTH);
        assert_eq!(excerpt(" \n"), "");
    }

    #[test]
    fn better_origins_replace_worse_ones() {
        let mut title = Title::default();
        for (origin, text, expected) in [
            (Origin::Prompt, "first", "first"),
            (Origin::Prompt, "second", "first"),
            (Origin::Generated, "Made", "Made"),
            (Origin::Prompt, "third", "Made"),
            (Origin::Given, "Mine", "Mine"),
            (Origin::Generated, "Made again", "Mine"),
            (Origin::Given, "Mine, renamed", "Mine, renamed"),
            (Origin::Given, " ", "Mine, renamed"),
        ] {
            title.add(origin, text);
            assert_eq!(title.best.as_ref().map(|(_, text)| &**text), Some(expected));
        }
    }
}
