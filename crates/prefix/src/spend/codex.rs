//! Rollouts of Codex: `sessions/**/rollout-*.jsonl`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cachalot_core::Millis;
use cachalot_model::Usage;
use serde::Deserialize;
use serde_json::Value;

use super::SpendReader;
use super::answer::{Client, PaidAnswer};
use crate::hash::hash;
use crate::log::timestamp;

/// Kinds of lines without usage.
const KINDS: [&str; 4] = [
    "compacted",
    "response_item",
    "world_state",
    "inter_agent_communication",
];

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    timestamp: Option<String>,
    ordinal: Option<u64>,
}

#[derive(Deserialize)]
struct WithPayload<T> {
    payload: T,
}

/// The session that a file belongs to.
#[derive(Deserialize)]
struct SessionMeta {
    id: Option<String>,
    cwd: Option<String>,
    forked_from_id: Option<String>,
    parent_thread_id: Option<String>,
    /// Its sub-agent names the parent in an object, others are a text.
    source: Option<Value>,
    subagent_history_start_ordinal: Option<u64>,
    history_base: Option<HistoryBase>,
}

#[derive(Deserialize)]
struct HistoryBase {
    end_ordinal_exclusive: Option<u64>,
}

#[derive(Deserialize)]
struct TurnContext {
    model: Option<String>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
struct UsageRecord {
    response_id: Option<String>,
    usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct EventMessage {
    #[serde(rename = "type")]
    kind: Option<String>,
    info: Option<TokenInfo>,
    rate_limits: Option<RateLimits>,
}

#[derive(Deserialize)]
struct TokenInfo {
    total_token_usage: Option<ReportedUsage>,
    last_token_usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct RateLimits {
    limit_id: Option<String>,
}

/// `cached_input_tokens` and `cache_write_input_tokens` are parts of the input, reasoning is part of the output.
#[derive(Deserialize, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[serde(default)]
struct ReportedUsage {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
    reasoning_output_tokens: u64,
}

impl ReportedUsage {
    fn usage(self) -> Usage {
        let cached = self.cached_input_tokens;
        let written = self.cache_write_input_tokens;
        Usage {
            uncached_input: self
                .input_tokens
                .saturating_sub(cached)
                .saturating_sub(written),
            cache_read: cached,
            cache_write_other: written,
            output: self.output_tokens,
            reasoning: self.reasoning_output_tokens,
            ..Usage::default()
        }
    }
}

/// An answer of a session.
struct Answer {
    at: Option<Millis>,
    model: Arc<str>,
    project: Arc<str>,
    usage: Usage,
    /// The hash of the ID, or of the counts, which a replay repeats.
    hash: u64,
}

/// The state of a file that is being read, and what it contains.
#[derive(Default)]
pub(super) struct Rollout {
    session: Option<Arc<str>>,
    parent: Option<String>,
    /// Lines before it are a copy of the parent's.
    start: Option<u64>,
    project: Option<Arc<str>>,
    model: Option<Arc<str>>,
    totals: HashMap<Option<String>, ReportedUsage>,
    /// Answers by their own records.
    records: Vec<Answer>,
    /// Answers by changes of the totals, which older versions write instead.
    events: Vec<Answer>,
}

/// The sessions of all files.
#[derive(Default)]
pub(super) struct Sessions(HashMap<Arc<str>, Rollout>);

impl Rollout {
    /// Reads a line; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        match line.kind.as_deref() {
            // The first one owns the file; copies of the parent's may follow.
            Some("session_meta") if self.session.is_none() => {
                payload(text).is_some_and(|meta| self.begin(meta, reader))
            }
            Some("session_meta") => true,
            Some("turn_context") => payload(text).is_some_and(|context: TurnContext| {
                let names = [context.model, context.cwd];
                let [model, project] = names.map(|it| it.map(|name| reader.name(&name)));
                self.model = model.or(self.model.take());
                self.project = project.or(self.project.take());
                true
            }),
            Some("token_usage_record") => payload(text).is_some_and(|record: UsageRecord| {
                if let (Some(id), Some(usage)) = (record.response_id, record.usage)
                    && !self.is_copy(&line)
                {
                    let answer = self.answer(&line, usage, hash(id), reader);
                    self.records.push(answer);
                }
                true
            }),
            Some("event_msg") => payload(text).is_some_and(|event: EventMessage| {
                if event.kind.as_deref() == Some("token_count") {
                    self.count(&line, event, reader);
                }
                true
            }),
            Some(kind) if KINDS.contains(&kind) => true,
            kind => {
                reader.unknown(Client::Codex, kind.unwrap_or("a line without a type"));
                true
            }
        }
    }

    fn begin(&mut self, meta: SessionMeta, reader: &mut SpendReader) -> bool {
        self.session = meta.id.as_deref().map(|id| reader.name(id));
        self.project = meta.cwd.as_deref().map(|cwd| reader.name(cwd));
        let spawned = meta.source.as_ref().and_then(|source| {
            let parent = source.pointer("/subagent/thread_spawn/parent_thread_id")?;
            Some(parent.as_str()?.to_owned())
        });
        self.parent = meta.forked_from_id.or(meta.parent_thread_id).or(spawned);
        let base = meta
            .history_base
            .and_then(|base| base.end_ordinal_exclusive);
        self.start = meta.subagent_history_start_ordinal.max(base);
        true
    }

    fn is_copy(&self, line: &Line) -> bool {
        self.start
            .zip(line.ordinal)
            .is_some_and(|(start, ordinal)| ordinal < start)
    }

    /// Counts the usage of an event if the total has changed: the event is repeated with each update of the limits.
    fn count(&mut self, line: &Line, event: EventMessage, reader: &mut SpendReader) {
        let Some(info) = event.info else { return };
        let (Some(total), Some(last)) = (info.total_token_usage, info.last_token_usage) else {
            return;
        };
        let limit = event.rate_limits.and_then(|limits| limits.limit_id);
        // Totals of a session are those of all limits.
        let is_repeated = self.totals.insert(limit, total) == Some(total);
        if is_repeated || self.is_copy(line) || !self.records.is_empty() {
            return;
        }
        let answer = self.answer(line, last, hash((total, last)), reader);
        self.events.push(answer);
    }

    fn answer(
        &self,
        line: &Line,
        usage: ReportedUsage,
        hash: u64,
        reader: &mut SpendReader,
    ) -> Answer {
        let mut name = |name: &Option<Arc<str>>| match name {
            Some(name) => Arc::clone(name),
            None => reader.name(""),
        };
        Answer {
            at: line.timestamp.as_deref().and_then(timestamp::parse),
            model: name(&self.model),
            project: name(&self.project),
            usage: usage.usage(),
            hash,
        }
    }

    fn len(&self) -> usize {
        self.records.len() + self.events.len()
    }
}

fn payload<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    let line: WithPayload<T> = serde_json::from_slice(text).ok()?;
    Some(line.payload)
}

impl Sessions {
    /// Adds a file. Of several files of one session, such as an archived copy, the one with more answers counts.
    pub(super) fn add(&mut self, rollout: Rollout) {
        let Some(session) = rollout.session.clone() else {
            return;
        };
        let known = self.0.get(&session);
        if known.is_none_or(|known| known.len() < rollout.len()) {
            self.0.insert(session, rollout);
        }
    }

    /// Returns the answers of all sessions, each once.
    pub(super) fn finish(self) -> Vec<PaidAnswer> {
        let sessions = self.0;
        let mut answers = Vec::new();
        for (session, rollout) in &sessions {
            // A fork replays the events of its parent with new times.
            let parent = rollout.parent.as_deref().and_then(|it| sessions.get(it));
            let replayed = match (rollout.start, parent) {
                (None, Some(parent)) => {
                    let events = rollout.events.iter().zip(&parent.events);
                    events
                        .take_while(|(own, other)| own.hash == other.hash)
                        .count()
                }
                _ => 0,
            };
            let mut seen = HashSet::new();
            let records = rollout.records.iter().filter(|it| seen.insert(it.hash));
            for answer in rollout.events.iter().skip(replayed).chain(records) {
                answers.push(PaidAnswer {
                    client: Client::Codex,
                    project: Arc::clone(&answer.project),
                    session: Arc::clone(session),
                    model: Arc::clone(&answer.model),
                    at: answer.at,
                    usage: answer.usage,
                    cost: None,
                    is_unpriced: false,
                    is_partial: false,
                    is_sidechain: false,
                    loss: None,
                });
            }
        }
        answers
    }
}
