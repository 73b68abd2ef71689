//! The formats of transcripts, one file for each program, and how they are recognized.
//!
//! The formats are those that public parsers know (ccusage, issues 901 to 1617; `codex-rs/rollout`; Gemini CLI's
//! `chatRecordingService.ts`).

mod claude_code;
mod cline;
pub(super) mod codex;
mod copilot;
pub(super) mod document;
mod gemini_cli;
mod kimi_code;
pub(super) mod opencode;
mod pi;
pub(super) mod qwen_code;

use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use super::{Client, SpendReader};
use crate::rollout::Rollout;
pub(crate) use claude_code::SLACK;

/// The members that tell one format from another.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Beginning {
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
    payload: Option<serde::de::IgnoredAny>,
    session_id: Option<serde::de::IgnoredAny>,
    uuid: Option<serde::de::IgnoredAny>,
    leaf_uuid: Option<serde::de::IgnoredAny>,
    message_id: Option<serde::de::IgnoredAny>,
    project_hash: Option<serde::de::IgnoredAny>,
    start_time: Option<serde::de::IgnoredAny>,
    models: Option<serde::de::IgnoredAny>,
    data: Option<serde::de::IgnoredAny>,
    version: Option<serde::de::IgnoredAny>,
    cwd: Option<serde::de::IgnoredAny>,
    origin: Option<serde::de::IgnoredAny>,
    messages: Option<serde::de::IgnoredAny>,
    #[serde(rename = "messages_path")]
    messages_path: Option<serde::de::IgnoredAny>,
    #[serde(rename = "protocol_version")]
    protocol_version: Option<serde::de::IgnoredAny>,
}

impl Beginning {
    fn client(&self) -> Option<Client> {
        // Lines of Claude Code have both members, too.
        if self.kind.is_none() && (self.project_hash.is_some() || self.start_time.is_some()) {
            return self.session_id.as_ref().map(|_| match &self.models {
                Some(_) => Client::QwenCode,
                None => Client::GeminiCli,
            });
        }
        let has_messages =
            self.session_id.is_some() && self.origin.is_some() && self.messages.is_some();
        if has_messages || self.messages_path.is_some() {
            return Some(Client::Cline);
        }
        let kind = self.kind.as_ref()?.as_str();
        if self.payload.is_some() {
            return Some(Client::Codex);
        }
        match kind {
            Some("session") if self.version.is_some() && self.cwd.is_some() => {
                return Some(Client::Pi);
            }
            Some("metadata") if self.protocol_version.is_some() => return Some(Client::KimiCode),
            Some(kind) if kind.contains('.') && self.data.is_some() => {
                return Some(Client::CopilotCli);
            }
            _ => {}
        }
        let names = [
            &self.session_id,
            &self.uuid,
            &self.leaf_uuid,
            &self.message_id,
        ];
        names
            .iter()
            .any(|name| name.is_some())
            .then_some(Client::ClaudeCode)
    }
}

/// Returns the program that wrote a line or a document.
pub(super) fn client_of(text: &[u8]) -> Option<Client> {
    let beginning: Beginning = serde_json::from_slice(text).ok()?;
    match beginning.client()? {
        Client::ClaudeCode if qwen_code::is_line(text) => Some(Client::QwenCode),
        client => Some(client),
    }
}

/// The state of a file that is being read.
pub(super) enum File {
    ClaudeCode(Box<claude_code::Transcript>),
    Codex(Box<Rollout>),
    GeminiCli(Box<gemini_cli::Chat>),
    QwenCode(Box<qwen_code::Chat>),
    Pi(Box<pi::Session>),
    CopilotCli(Box<copilot::Session>),
    /// A document, with its session.
    Cline(Arc<str>),
    KimiCode(Box<kimi_code::Wire>),
}

impl File {
    pub(super) fn new(client: Client, path: &Path, reader: &mut SpendReader) -> Self {
        match client {
            Client::Codex => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let session = reader.name(name.split('.').next().unwrap_or_default());
                let mut rollout = Rollout::new(session);
                rollout.file.clone_from(&reader.file);
                Self::Codex(Box::new(rollout))
            }
            Client::GeminiCli => Self::GeminiCli(Box::new(gemini_cli::Chat::new(path))),
            Client::QwenCode => Self::QwenCode(Box::new(qwen_code::Chat::new(path))),
            Client::Pi => Self::Pi(Box::new(pi::Session::new(path, reader))),
            Client::CopilotCli => Self::CopilotCli(Box::new(copilot::Session::new(path))),
            Client::Cline => Self::Cline("".into()),
            Client::KimiCode => Self::KimiCode(Box::new(kimi_code::Wire::new(path))),
            // The last two have no files of lines.
            Client::ClaudeCode | Client::OpenCode | Client::Cachalot => {
                Self::ClaudeCode(Box::new(claude_code::Transcript::new(path)))
            }
        }
    }

    /// Reads a line, or a document; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        match self {
            Self::ClaudeCode(file) => file.line(text, reader),
            Self::Codex(file) => codex::line(file, text, reader),
            Self::GeminiCli(file) => file.line(text, reader),
            Self::QwenCode(file) => file.line(text, reader),
            Self::Pi(file) => file.line(text, reader),
            Self::CopilotCli(file) => file.line(text, reader),
            Self::Cline(session) => match cline::document(text, reader) {
                Some(named) => {
                    *session = named;
                    true
                }
                None => false,
            },
            Self::KimiCode(file) => file.line(text, reader),
        }
    }

    /// Returns the program that wrote it.
    pub(super) fn client(&self) -> Client {
        match self {
            Self::ClaudeCode(_) => Client::ClaudeCode,
            Self::Codex(_) => Client::Codex,
            Self::GeminiCli(_) => Client::GeminiCli,
            Self::QwenCode(_) => Client::QwenCode,
            Self::Pi(_) => Client::Pi,
            Self::CopilotCli(_) => Client::CopilotCli,
            Self::Cline(_) => Client::Cline,
            Self::KimiCode(_) => Client::KimiCode,
        }
    }

    /// Returns the session that the lines so far belong to.
    pub(super) fn session(&self, reader: &mut SpendReader) -> Arc<str> {
        match self {
            Self::ClaudeCode(file) => reader.name(file.session()),
            Self::Codex(file) => Arc::clone(&file.session),
            Self::GeminiCli(file) => reader.name(&file.session),
            Self::QwenCode(file) => reader.name(&file.session),
            Self::Pi(file) => Arc::clone(&file.id),
            Self::CopilotCli(file) => reader.name(&file.id),
            Self::Cline(session) => Arc::clone(session),
            Self::KimiCode(file) => reader.name(&file.session),
        }
    }
}
