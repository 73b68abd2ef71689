//! Chats of Gemini CLI: `tmp/*/chats/**/*.json`, one document, and `*.jsonl`, one line per change.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use cachalot_model::Usage;
use serde::Deserialize;

use super::answer::{Client, PaidAnswer};
use super::{FileError, SpendReader};
use crate::lines::{LineError, Lines};
use crate::log::timestamp;

/// Maximum length of a document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 256 << 20;

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
}

#[derive(Deserialize)]
struct Set {
    messages: Option<Vec<Message>>,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    timestamp: Option<String>,
    model: Option<String>,
    tokens: Option<Tokens>,
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
pub(super) struct Chat {
    /// The folder of the project, for chats without a name of it.
    folder: String,
    session: String,
    project: Option<String>,
}

impl Chat {
    pub(super) fn new(path: &Path) -> Self {
        let chats = path.ancestors().find(|it| it.ends_with("chats"));
        let folder = chats.and_then(Path::parent).and_then(Path::file_name);
        Self {
            folder: folder.unwrap_or_default().to_string_lossy().into_owned(),
            session: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            project: None,
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
        let set = line.set.and_then(|set| set.messages);
        for message in line.messages.iter().flatten().chain(set.iter().flatten()) {
            self.message(message, reader);
        }
        let message = Message {
            id: line.id,
            timestamp: line.timestamp,
            model: line.model,
            tokens: line.tokens,
        };
        self.message(&message, reader);
        true
    }

    fn message(&self, message: &Message, reader: &mut SpendReader) {
        let (Some(id), Some(tokens)) = (&message.id, &message.tokens) else {
            return;
        };
        let folder = match self.folder.is_empty() {
            true => self.project.as_deref().unwrap_or_default(),
            false => &self.folder,
        };
        let (project, session) = (reader.name(folder), reader.name(&self.session));
        let model = reader.name(message.model.as_deref().unwrap_or_default());
        let usage = tokens.usage();
        let new = || PaidAnswer {
            client: Client::GeminiCli,
            project,
            session,
            model: Arc::clone(&model),
            at: message.timestamp.as_deref().and_then(timestamp::parse),
            usage,
            cost: None,
            is_unpriced: false,
            is_partial: false,
            is_sidechain: false,
            loss: None,
        };
        // The last copy counts.
        let (answer, is_known) = reader.entry(("gemini", &self.session, &**id), new);
        if is_known {
            answer.usage = usage;
            answer.model = model;
        }
    }
}

/// Reads a chat that is one document over several lines.
pub(super) fn read_document(
    path: &Path,
    beginning: &[u8],
    mut lines: Lines<impl BufRead>,
    reader: &mut SpendReader,
) -> Result<(), FileError> {
    let mut document = beginning.to_vec();
    loop {
        match lines.next_line() {
            Ok(Some(line)) if document.len() + line.len() <= MAX_DOCUMENT_BYTES => {
                document.extend_from_slice(line);
            }
            Ok(None) => break,
            Ok(Some(_)) | Err(LineError::TooLong) => {
                return Err(FileError::Malformed { first: 1, count: 1 });
            }
            Err(LineError::Unreadable(error)) => return Err(error.into()),
        }
    }
    let is_chat = serde_json::from_slice::<super::Beginning>(&document)
        .map_err(|_| FileError::Malformed { first: 1, count: 1 })?
        .client()
        == Some(Client::GeminiCli);
    if !is_chat {
        return Err(FileError::Unknown);
    }
    match Chat::new(path).line(&document, reader) {
        true => Ok(()),
        false => Err(FileError::Malformed { first: 1, count: 1 }),
    }
}
