//! Chats of Gemini CLI: `tmp/*/chats/**/*.json`, one document, and `*.jsonl`, one line per change.

use std::path::Path;
use std::sync::Arc;

use cachalot_model::Usage;
use serde::Deserialize;

use crate::spend::answer::{Client, PaidAnswer};
use crate::spend::{SpendReader, gemini_projects};
use crate::timestamp;

/// The requests that leave no trace.
const ROUTER: &str = "requests to the model that routes prompts";

/// The length of a UUID without hyphens.
const UUID_LENGTH: usize = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    session_id: Option<String>,
    project_hash: Option<String>,
    messages: Option<Vec<Message>>,
    #[serde(rename = "$set")]
    set: Option<Set>,
    id: Option<String>,
    timestamp: Option<String>,
    model: Option<String>,
    tokens: Option<Tokens>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Set {
    session_id: Option<String>,
    messages: Option<Vec<Message>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: Option<String>,
    timestamp: Option<String>,
    model: Option<String>,
    tokens: Option<Tokens>,
    tool_calls: Option<Vec<Call>>,
}

/// A call of a tool.
#[derive(Deserialize)]
struct Call {
    id: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    thoughts: Option<u64>,
    tool: Option<u64>,
}

impl Tokens {
    fn usage(&self) -> Usage {
        // `input` includes what was cached.
        let cached = self.cached.unwrap_or(0);
        let input = self.input.unwrap_or(0).max(cached);
        let thoughts = self.thoughts.unwrap_or(0);
        Usage {
            uncached_input: (input - cached).saturating_add(self.tool.unwrap_or(0)),
            cache_read: cached,
            output: self.output.unwrap_or(0).saturating_add(thoughts),
            reasoning: thoughts,
            ..Usage::default()
        }
    }
}

/// The state of a chat that is being read.
pub(in crate::spend) struct Chat {
    /// The path of the project, or the name of its folder; empty if neither is known.
    folder: String,
    pub(super) session: String,
    project: Option<String>,
    /// True for the files of newer versions, which send each prompt to a model that chooses the model.
    is_routed: bool,
}

impl Chat {
    pub(super) fn new(path: &Path) -> Self {
        let chats = path
            .ancestors()
            .find(|ancestor| ancestor.ends_with("chats"));
        let folder = chats.and_then(Path::parent);
        let name = || {
            let name = folder.and_then(Path::file_name).unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        Self {
            folder: folder
                .and_then(gemini_projects::root_of)
                .unwrap_or_else(name),
            session: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            project: None,
            is_routed: path
                .extension()
                .is_some_and(|extension| extension == "jsonl"),
        }
    }

    /// Reads a line; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        if let Some(session) = &line.session_id {
            self.session = session.to_string();
        }
        if let Some(project) = &line.project_hash {
            self.project = Some(project.to_string());
        }
        let mut set = None;
        if let Some(change) = line.set {
            if let Some(session) = change.session_id {
                self.session = session;
            }
            set = change.messages;
        }
        for message in line.messages.iter().flatten().chain(set.iter().flatten()) {
            self.message(message, reader);
        }
        let message = Message {
            id: line.id,
            timestamp: line.timestamp,
            model: line.model,
            tokens: line.tokens,
            tool_calls: line.tool_calls,
        };
        self.message(&message, reader);
        true
    }

    fn message(&self, message: &Message, reader: &mut SpendReader) {
        let Some(tokens) = &message.tokens else {
            return;
        };
        let Some(id) = &message.id else {
            return reader.unknown(Client::GeminiCli, "an answer without an ID");
        };
        let folder = if self.folder.is_empty() {
            self.project.as_deref().unwrap_or_default()
        } else {
            &self.folder
        };
        if self.is_routed {
            reader.untraced.insert(Client::GeminiCli, ROUTER);
        }
        let (project, session) = (reader.name(folder), reader.name(&self.session));
        let model = reader.name(message.model.as_deref().unwrap_or_default());
        let usage = tokens.usage();
        let at = message.timestamp.as_deref().and_then(timestamp::parse);
        let new = || PaidAnswer {
            project,
            session,
            ..PaidAnswer::new(Client::GeminiCli, Arc::clone(&model), at, usage)
        };
        // A chat that continues another one repeats its messages, perhaps under the ID of another session. Short IDs
        // are not unique across sessions.
        let session = if id.len() >= UUID_LENGTH {
            ""
        } else {
            &self.session
        };
        // The last copy counts.
        let (answer, is_known) = reader.entry(("gemini", session, &**id), new);
        if let Some(details) = &mut answer.details {
            for call in message.tool_calls.iter().flatten() {
                if let Some(name) = &call.name {
                    details.add_call(call.id.as_deref(), name);
                }
            }
        }
        if is_known {
            answer.usage = usage;
            if !model.is_empty() {
                answer.model = model;
            }
        }
    }
}
