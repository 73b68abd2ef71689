//! Sessions of Copilot CLI: `session-state/*/events.jsonl`.
//!
//! Each request has a `session.usage_record`; its input includes what was read from and written to the provider's
//! cache. `session.shutdown` has sums of the whole session, which show requests without a record.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use cachalot_model::Usage;
use serde::Deserialize;

use crate::hash::hash;
use crate::spend::SpendReader;
use crate::spend::answer::{Client, PaidAnswer, inclusive_usage};
use crate::timestamp;

/// The beginnings of the kinds of events.
const TOPICS: [&str; 9] = [
    "assistant",
    "hook",
    "permission",
    "session",
    "skill",
    "subagent",
    "system",
    "tool",
    "user",
];

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    id: Option<String>,
    timestamp: Option<String>,
}

#[derive(Deserialize)]
struct WithData<T> {
    data: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Start {
    session_id: Option<String>,
    context: Option<Context>,
}

#[derive(Deserialize)]
struct Context {
    cwd: Option<String>,
}

#[derive(Deserialize)]
struct Record {
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportedUsage {
    model: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    accounting: Option<Accounting>,
}

/// The names of a record, which a copy in another session keeps.
#[derive(Deserialize, Hash)]
#[serde(rename_all = "camelCase")]
struct Accounting {
    source_session_id: Option<String>,
    sequence: Option<u64>,
    usage_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shutdown {
    model_metrics: Option<HashMap<String, ModelMetrics>>,
}

#[derive(Deserialize)]
struct ModelMetrics {
    requests: Option<Requests>,
}

#[derive(Deserialize)]
struct Requests {
    count: Option<u64>,
}

impl ReportedUsage {
    fn usage(&self) -> Usage {
        inclusive_usage(
            self.input_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.output_tokens,
        )
    }
}

/// The state of a session that is being read.
pub(in crate::spend) struct Session {
    pub(super) id: String,
    project: Option<Arc<str>>,
    /// The hashes of its records.
    records: HashSet<u64>,
    /// The number of its requests by its own sums.
    requests: u64,
}

impl Session {
    pub(super) fn new(path: &Path) -> Self {
        let folder = path.parent().and_then(Path::file_name);
        Self {
            id: folder.unwrap_or_default().to_string_lossy().into_owned(),
            project: None,
            records: HashSet::new(),
            requests: 0,
        }
    }

    /// Reads a line; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        let kind = line.kind.as_deref().unwrap_or("a line without a type");
        match kind {
            "session.start" | "session.resume" => data(text).is_some_and(|start: Start| {
                if let Some(id) = start.session_id {
                    self.id = id;
                }
                if let Some(cwd) = start.context.and_then(|context| context.cwd) {
                    self.project = Some(reader.name(&cwd));
                }
                true
            }),
            "session.usage_record" => data(text).is_some_and(|record: Record| {
                if let Some(usage) = record.usage {
                    self.answer(&line, &usage, reader);
                }
                true
            }),
            "session.shutdown" => data(text).is_some_and(|shutdown: Shutdown| {
                let metrics = shutdown.model_metrics.unwrap_or_default();
                let requests = metrics
                    .values()
                    .filter_map(|model| model.requests.as_ref()?.count);
                self.requests = self.requests.max(requests.fold(0, u64::saturating_add));
                true
            }),
            kind => {
                let topic = kind.split('.').next().unwrap_or(kind);
                if !TOPICS.contains(&topic) {
                    reader.unknown(Client::CopilotCli, kind);
                }
                true
            }
        }
    }

    fn answer(&mut self, line: &Line, reported: &ReportedUsage, reader: &mut SpendReader) {
        let named = reported.accounting.as_ref();
        let key = match named.filter(|accounting| accounting.usage_id.is_some()) {
            Some(accounting) => hash(accounting),
            None => {
                let place = reader.place(&self.id, line.id.is_some());
                hash((&self.id, &line.id, &line.timestamp, place))
            }
        };
        self.records.insert(key);
        let project = match &self.project {
            Some(project) => Arc::clone(project),
            None => reader.name(""),
        };
        let session = reader.name(&self.id);
        let model = reader.name(reported.model.as_deref().unwrap_or_default());
        let at = line.timestamp.as_deref().and_then(timestamp::parse);
        reader.entry(("copilot", key), || PaidAnswer {
            session,
            project,
            ..PaidAnswer::new(Client::CopilotCli, model, at, reported.usage())
        });
    }

    /// Counts the requests that have no record.
    pub(in crate::spend) fn end(self, reader: &mut SpendReader) {
        let missing = self.requests.saturating_sub(self.records.len() as u64);
        reader.count_untraced(
            Client::CopilotCli,
            "requests without a record",
            &self.id,
            missing,
        );
    }
}

fn data<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    let line: WithData<T> = serde_json::from_slice(text).ok()?;
    Some(line.data)
}
