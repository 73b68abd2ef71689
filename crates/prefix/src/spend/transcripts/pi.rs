//! Sessions of pi: `sessions/**/*.jsonl`, one entry of a tree per line.
//!
//! A fork copies entries with their IDs. The input excludes what was read from and written to the provider's cache.

use std::path::Path;
use std::sync::Arc;

use cachalot_model::Usage;
use serde::Deserialize;

use crate::spend::SpendReader;
use crate::spend::answer::{Client, PaidAnswer};
use crate::timestamp;

/// Kinds of entries; those that a model wrote have a usage.
const KINDS: [&str; 10] = [
    "branch_summary",
    "compaction",
    "custom",
    "custom_message",
    "label",
    "message",
    "model_change",
    "session",
    "session_info",
    "thinking_level_change",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    timestamp: Option<String>,
    cwd: Option<String>,
    model_id: Option<String>,
    /// The usage of a compaction.
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct MessageLine {
    message: Message,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    model: Option<String>,
    api: Option<String>,
    response_id: Option<String>,
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportedUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    #[serde(rename = "cacheWrite1h")]
    cache_write_1h: Option<u64>,
    reasoning: Option<u64>,
}

impl ReportedUsage {
    /// `is_split` is true if what was not written for an hour was written for five minutes.
    fn usage(&self, is_split: bool) -> Usage {
        let written = self.cache_write.unwrap_or(0);
        let hour = self.cache_write_1h.unwrap_or(0).min(written);
        let (write_5m, other) = if is_split || self.cache_write_1h.is_some() {
            (written - hour, 0)
        } else {
            (0, written - hour)
        };
        Usage {
            uncached_input: self.input.unwrap_or(0),
            cache_read: self.cache_read.unwrap_or(0),
            cache_write_5m: write_5m,
            cache_write_1h: hour,
            cache_write_other: other,
            output: self.output.unwrap_or(0),
            reasoning: self.reasoning.unwrap_or(0),
            ..Usage::default()
        }
    }
}

/// The state of a session that is being read.
pub(in crate::spend) struct Session {
    /// The name of the file, until a line names the session.
    pub(super) id: Arc<str>,
    project: Option<Arc<str>>,
    /// The model that is chosen.
    model: Option<Arc<str>>,
}

impl Session {
    pub(super) fn new(path: &Path, reader: &mut SpendReader) -> Self {
        let file = path.file_stem().unwrap_or_default();
        Self {
            id: reader.name(&file.to_string_lossy()),
            project: None,
            model: None,
        }
    }

    /// Reads a line; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        match line.kind.as_deref() {
            Some("session") => {
                if let Some(id) = &line.id {
                    self.id = reader.name(id);
                }
                self.project = line.cwd.as_deref().map(|cwd| reader.name(cwd));
                return true;
            }
            Some("model_change") => {
                self.model = line.model_id.as_deref().map(|model| reader.name(model));
            }
            Some("message") => {
                let Ok(MessageLine { message }) = serde_json::from_slice(text) else {
                    return false;
                };
                if let Some(usage) = &message.usage {
                    let is_split = message.api.as_deref() == Some("anthropic-messages");
                    let model = message.model.as_deref().map(|model| reader.name(model));
                    let response = message.response_id.as_deref();
                    let usage = usage.usage(is_split);
                    let answer = self.answer(&line, model, response, usage, reader);
                    if let Some(details) = answer.and_then(|answer| answer.details.as_mut()) {
                        details.add_calls_of_message(text);
                    }
                }
                return true;
            }
            Some(kind) if KINDS.contains(&kind) => {}
            kind => reader.unknown(Client::Pi, kind.unwrap_or("a line without a type")),
        }
        if let Some(usage) = &line.usage {
            self.answer(&line, self.model.clone(), None, usage.usage(false), reader);
        }
        true
    }

    fn answer<'r>(
        &self,
        line: &Line,
        model: Option<Arc<str>>,
        response: Option<&str>,
        usage: Usage,
        reader: &'r mut SpendReader,
    ) -> Option<&'r mut PaidAnswer> {
        if usage == Usage::default() {
            return None;
        }
        let [model, project] = [&model, &self.project].map(|name| match name {
            Some(name) => Arc::clone(name),
            None => reader.name(""),
        });
        let at = line.timestamp.as_deref().and_then(timestamp::parse);
        let place = reader.place(&self.id, line.id.is_some() || response.is_some());
        let key = ("pi", &line.id, &line.timestamp, response, place);
        let (answer, _) = reader.entry(key, || PaidAnswer {
            session: Arc::clone(&self.id),
            project,
            ..PaidAnswer::new(Client::Pi, model, at, usage)
        });
        Some(answer)
    }
}
