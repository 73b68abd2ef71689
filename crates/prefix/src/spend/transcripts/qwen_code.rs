//! Chats of Qwen Code: `projects/*/chats/*.jsonl`, and those of sub-agents beside them.
//!
//! An answer is in two lines: an event of the telemetry, also for those of sub-agents, and a message. The messages
//! count only where there is no event for them. The input includes what was cached, the output includes thoughts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use cachalot_model::Usage;
use serde::Deserialize;

use crate::hash::hash;
use crate::spend::SpendReader;
use crate::spend::answer::{Client, PaidAnswer};
use crate::timestamp;

/// Kinds of lines without usage.
const KINDS: [&str; 3] = ["system", "tool_result", "user"];

/// The members that Claude Code's lines do not have.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    provenance: Option<serde::de::IgnoredAny>,
    system_payload: Option<serde::de::IgnoredAny>,
    message: Option<Parts>,
}

#[derive(Deserialize)]
struct Parts {
    parts: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    subtype: Option<String>,
    uuid: Option<String>,
    session_id: Option<String>,
    /// A number in `usage_record.jsonl`.
    timestamp: Option<serde_json::Value>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TelemetryLine {
    system_payload: Payload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    ui_event: Option<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "event.name")]
    name: Option<String>,
    #[serde(rename = "event.timestamp")]
    timestamp: Option<String>,
    response_id: Option<String>,
    model: Option<String>,
    input_token_count: Option<u64>,
    output_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    total_token_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageLine {
    model: Option<String>,
    usage_metadata: Option<Metadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names of the API")]
struct Metadata {
    prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    total_token_count: Option<u64>,
}

/// The counts of an answer, equal in both of its lines.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Counts {
    input: u64,
    output: u64,
    cached: u64,
    thoughts: u64,
    total: u64,
}

impl Counts {
    fn usage(self) -> Usage {
        let cached = self.cached.min(self.input);
        // The sum shows output that excludes thoughts, as Gemini's does.
        let all = self.input.saturating_add(self.output);
        let apart = if self.thoughts > 0 && self.total == all.saturating_add(self.thoughts) {
            self.thoughts
        } else {
            0
        };
        Usage {
            uncached_input: self.input - cached,
            cache_read: cached,
            output: self.output.saturating_add(apart),
            reasoning: self.thoughts,
            ..Usage::default()
        }
    }
}

impl Event {
    fn counts(&self) -> Counts {
        Counts {
            input: self.input_token_count.unwrap_or(0),
            output: self.output_token_count.unwrap_or(0),
            cached: self.cached_content_token_count.unwrap_or(0),
            thoughts: self.thoughts_token_count.unwrap_or(0),
            total: self.total_token_count.unwrap_or(0),
        }
    }
}

impl Metadata {
    fn counts(&self) -> Counts {
        Counts {
            input: self.prompt_token_count.unwrap_or(0),
            output: self.candidates_token_count.unwrap_or(0),
            cached: self.cached_content_token_count.unwrap_or(0),
            thoughts: self.thoughts_token_count.unwrap_or(0),
            total: self.total_token_count.unwrap_or(0),
        }
    }
}

/// The content of the files of a session.
#[derive(Default)]
struct Session {
    /// The hashes of the events that were seen.
    seen: HashSet<u64>,
    /// The number of events by their counts.
    events: HashMap<Counts, u64>,
    /// The messages with usage, each once.
    messages: Vec<(PaidAnswer, Counts, u64)>,
}

/// The sessions of all files.
#[derive(Default)]
pub(in crate::spend) struct Sessions(BTreeMap<Arc<str>, Session>);

impl Sessions {
    /// Adds the messages without an event.
    pub(in crate::spend) fn finish(self, reader: &mut SpendReader) {
        for mut session in self.0.into_values() {
            for (answer, counts, key) in session.messages {
                match session.events.get_mut(&counts) {
                    Some(events) if *events > 0 => *events -= 1,
                    _ => {
                        reader.entry(("qwen message", key), || answer);
                    }
                }
            }
        }
    }
}

/// Returns true for a line of this program, whose lines have members of the same names as Claude Code's.
pub(in crate::spend) fn is_line(text: &[u8]) -> bool {
    serde_json::from_slice::<Mark>(text).is_ok_and(|mark| {
        let parts = mark.message.and_then(|message| message.parts);
        mark.provenance.is_some() || mark.system_payload.is_some() || parts.is_some()
    })
}

/// The state of a chat that is being read.
pub(in crate::spend) struct Chat {
    pub(super) session: String,
    project: Option<Arc<str>>,
}

impl Chat {
    pub(in crate::spend) fn new(path: &Path) -> Self {
        let file = path.file_stem().unwrap_or_default();
        Self {
            session: file.to_string_lossy().into_owned(),
            project: None,
        }
    }

    /// Reads a line; returns false if it is malformed.
    pub(in crate::spend) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        if let Some(session) = &line.session_id {
            self.session.clone_from(session);
        }
        if let Some(cwd) = &line.cwd {
            self.project = Some(reader.name(cwd));
        }
        match (line.kind.as_deref(), line.subtype.as_deref()) {
            (Some("system"), Some("ui_telemetry")) => return self.event(text, reader),
            (Some("assistant"), _) => return self.message(&line, text, reader),
            (Some(kind), _) if KINDS.contains(&kind) => {}
            (Some(kind), _) => reader.unknown(Client::QwenCode, kind),
            // `usage_record.jsonl` has sums of whole sessions.
            (None, _) if line.uuid.is_none() => {}
            (None, _) => reader.unknown(Client::QwenCode, "a line without a type"),
        }
        true
    }

    fn event(&self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<TelemetryLine>(text) else {
            return false;
        };
        let Some(event) = line.system_payload.ui_event else {
            return true;
        };
        if event.name.as_deref() != Some("qwen-code.api_response") {
            return true;
        }
        let counts = event.counts();
        let has_id = event.response_id.is_some() || event.timestamp.is_some();
        let place = reader.place(&self.session, has_id);
        let key = hash((&event.response_id, &event.timestamp, counts, place));
        let at = event.timestamp.as_deref().and_then(timestamp::parse);
        let answer = self.answer(event.model.as_deref(), at, counts, reader);
        let session = reader
            .qwen
            .0
            .entry(Arc::clone(&answer.session))
            .or_default();
        // A copy of a session has copies of both lines.
        if session.seen.insert(key) {
            *session.events.entry(counts).or_default() += 1;
        }
        reader.entry(("qwen event", key), || answer);
        true
    }

    fn message(&self, line: &Line, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(message) = serde_json::from_slice::<MessageLine>(text) else {
            return false;
        };
        let Some(counts) = message.usage_metadata.map(|metadata| metadata.counts()) else {
            return true;
        };
        let time = line.timestamp.as_ref().and_then(serde_json::Value::as_str);
        let place = reader.place(&self.session, line.uuid.is_some() || time.is_some());
        let key = hash((&line.uuid, time, counts, place));
        let at = time.and_then(timestamp::parse);
        let answer = self.answer(message.model.as_deref(), at, counts, reader);
        let session = reader
            .qwen
            .0
            .entry(Arc::clone(&answer.session))
            .or_default();
        if session.seen.insert(key) {
            session.messages.push((answer, counts, key));
        }
        true
    }

    fn answer(
        &self,
        model: Option<&str>,
        at: Option<cachalot_core::Millis>,
        counts: Counts,
        reader: &mut SpendReader,
    ) -> PaidAnswer {
        let model = reader.name(model.unwrap_or_default());
        let project = match &self.project {
            Some(project) => Arc::clone(project),
            None => reader.name(""),
        };
        PaidAnswer {
            session: reader.name(&self.session),
            project,
            ..PaidAnswer::new(Client::QwenCode, model, at, counts.usage())
        }
    }
}
