//! Transcripts of Claude Code: answers with their usage, without the requests.
//!
//! Requests cannot be compared, so a break is detected only by usage: an answer whose request wrote again
//! what the one before it had read or written. The cause is the provider's own comparison if the answer has
//! one; otherwise a compaction in between, another model, or a pause. No other cause is inferred. The format
//! is internal to Claude Code and changes: the members read here are those known to public parsers (ccusage,
//! issues 901 to 1617).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use cachalot_core::{Cost, Millis};
use cachalot_model::{Catalog, Format, Usage, wire};
use serde_json::Value;

use super::logged_break::LoggedBreak;
use super::timestamp;
use crate::diagnosis::{Diagnosis, LikelyCause, ProviderVerdict, Reason};
use crate::hash::hash;

/// Maximum loss in tokens that is ignored.
const SLACK: u64 = 128;

/// Maximum number of answers that are remembered. In a longer log, a repeated answer may count twice.
const MAX_ANSWERS: usize = 1 << 18;

/// The model name in answers that no model gave.
const SYNTHETIC: &str = "<synthetic>";

/// A line of a transcript.
#[derive(Debug, Clone)]
pub struct TranscriptLine(pub(super) Line);

#[derive(Debug, Clone)]
pub(super) enum Line {
    /// An answer of a model, or a part of one.
    Answer(TranscriptAnswer),
    /// The conversation was replaced by a summary.
    Compaction(TranscriptConversation),
    /// Another line.
    Other,
}

/// The conversation that a line belongs to: a session's own, or that of a sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TranscriptConversation {
    session: String,
    agent: Option<String>,
    is_sidechain: bool,
}

/// An answer of a model.
#[derive(Debug, Clone)]
pub(super) struct TranscriptAnswer {
    /// The ID of the answer; its parts, and copies in later transcripts, have the same ID.
    id: String,
    pub(super) place: TranscriptConversation,
    pub(super) model: String,
    pub(super) usage: Usage,
    at: Option<Millis>,
    verdict: Option<ProviderVerdict>,
}

impl TranscriptConversation {
    fn read(line: &Value) -> Option<Self> {
        let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            session: text("sessionId")?,
            agent: text("agentId"),
            is_sidechain: line.get("isSidechain").and_then(Value::as_bool) == Some(true),
        })
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// False if the lines may be from several conversations: sub-agents without IDs.
    fn is_one(&self) -> bool {
        self.agent.is_some() || !self.is_sidechain
    }

    fn name(&self) -> String {
        match &self.agent {
            Some(agent) => format!("{}, agent {agent}", self.session),
            None => self.session.clone(),
        }
    }
}

/// Parses a line; `None` if it is not from a transcript.
pub(super) fn read(line: &[u8]) -> Option<TranscriptLine> {
    const NAMES: [&str; 5] = ["sessionId", "uuid", "leafUuid", "messageId", "snapshot"];
    let line: Value = serde_json::from_slice(line).ok()?;
    let kind = line.get("type")?.as_str()?;
    if !NAMES.iter().any(|name| line.get(name).is_some()) {
        return None;
    }
    let is_summary = line.get("subtype").and_then(Value::as_str) == Some("compact_boundary");
    let found = match kind {
        "assistant" => answer(&line).map(Line::Answer),
        "system" if is_summary => TranscriptConversation::read(&line).map(Line::Compaction),
        _ => None,
    };
    Some(TranscriptLine(found.unwrap_or(Line::Other)))
}

fn answer(line: &Value) -> Option<TranscriptAnswer> {
    let message = line.get("message")?.as_object()?;
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let model = text("model").filter(|model| *model != SYNTHETIC)?;
    Some(TranscriptAnswer {
        id: text("id")?.to_owned(),
        place: TranscriptConversation::read(line)?,
        // The name may end with the length of the context: `claude-opus-4-8[1m]`.
        model: model.split('[').next().unwrap_or(model).to_owned(),
        usage: wire::usage(Format::Messages, message.get("usage")?)?,
        at: line
            .get("timestamp")
            .and_then(Value::as_str)
            .and_then(timestamp::parse),
        // The transcript does not record if a comparison was requested, so a result without a difference has
        // no meaning.
        verdict: ProviderVerdict::read(message).filter(|verdict| verdict.reason != Reason::None),
    })
}

/// The last answer of a conversation.
struct LastAnswer {
    line: u64,
    model: String,
    usage: Usage,
    at: Option<Millis>,
    /// The lifetime of the last written cache entries.
    keeps: Duration,
}

/// The conversations of transcripts.
#[derive(Default)]
pub(super) struct Transcripts {
    seen: HashSet<u64>,
    last: HashMap<TranscriptConversation, LastAnswer>,
    summarized: HashSet<TranscriptConversation>,
}

impl Transcripts {
    /// Records that the conversation continues with a summary.
    pub(super) fn summarize(&mut self, place: TranscriptConversation) {
        self.summarized.insert(place);
    }

    /// Returns false if an answer, or a part of it, was seen before.
    pub(super) fn is_new(&mut self, answer: &TranscriptAnswer) -> bool {
        if self.seen.len() == MAX_ANSWERS {
            self.seen.clear();
        }
        self.seen.insert(hash(&answer.id))
    }

    /// Returns the number of conversations.
    pub(super) fn count(&self) -> u64 {
        self.last.len() as u64
    }

    /// Adds the answer of a line; returns the break that its usage shows.
    pub(super) fn take(
        &mut self,
        line: u64,
        answer: TranscriptAnswer,
        catalog: &Catalog,
    ) -> Option<LoggedBreak> {
        let is_summarized = self.summarized.remove(&answer.place);
        let before = self.last.get(&answer.place);
        let diagnosis = before
            .filter(|_| answer.place.is_one())
            .and_then(|before| diagnose(before, &answer, is_summarized, catalog));
        let broken = before
            .zip(diagnosis)
            .map(|(before, diagnosis)| LoggedBreak {
                line,
                previous_line: before.line,
                session: answer.place.name(),
                model: answer.model.clone(),
                diagnosis,
            });
        let usage = answer.usage;
        let keeps = match before {
            Some(before) if usage.cache_write() == 0 => before.keeps,
            _ if usage.cache_write_1h > 0 && usage.cache_write_5m == 0 => {
                Duration::from_secs(3_600)
            }
            _ => Duration::from_secs(300),
        };
        let last = LastAnswer {
            line,
            model: answer.model,
            usage,
            at: answer.at,
            keeps,
        };
        self.last.insert(answer.place, last);
        broken
    }
}

/// Diagnoses an answer whose request read less than the one before it had read and written.
fn diagnose(
    before: &LastAnswer,
    answer: &TranscriptAnswer,
    is_summarized: bool,
    catalog: &Catalog,
) -> Option<Diagnosis> {
    let expected = before.usage.cache_read + before.usage.cache_write();
    let unread = expected.saturating_sub(answer.usage.cache_read);
    // Tokens that were not written again were not sent.
    let lost = unread.min(answer.usage.cache_write());
    if lost <= SLACK {
        return None;
    }
    let pause = before.at.zip(answer.at).map(|(before, now)| now - before);
    let is_over = pause.is_some_and(|pause| {
        u64::try_from(pause).is_ok_and(|pause| Duration::from_millis(pause) > before.keeps)
    });
    let (reason, cause) = match answer.verdict {
        Some(verdict) => (verdict.reason, verdict.cause),
        None if is_summarized => (Reason::MessagesChanged, Some(LikelyCause::Compaction)),
        None if before.model != answer.model => {
            (Reason::ModelChanged, Some(LikelyCause::ModelSwitched))
        }
        None if is_over => (Reason::Expired, Some(LikelyCause::Expired)),
        None => (Reason::EvictedOrUnknown, None),
    };
    Some(Diagnosis {
        reason,
        at: None,
        cause,
        change: None,
        expected_read_tokens: expected,
        actual_read: Some(answer.usage.cache_read),
        lost_tokens: lost,
        lost_cost: cost(&answer.usage, lost, &answer.model, catalog),
        by_provider: answer.verdict.is_some(),
    })
}

/// Returns the additional cost of writing the lost tokens compared with reading them.
fn cost(usage: &Usage, lost: u64, model: &str, catalog: &Catalog) -> Option<Cost> {
    let price = catalog.find_by_name(model)?.price.as_ref()?;
    let mut read = *usage;
    let mut left = lost;
    for written in [
        &mut read.cache_write_5m,
        &mut read.cache_write_1h,
        &mut read.cache_write_other,
    ] {
        let part = left.min(*written);
        *written -= part;
        left -= part;
    }
    read.cache_read += lost;
    let [paid, otherwise] = [usage, &read].map(|usage| price.cost(usage).picodollars);
    Some(Cost::from_picodollars(paid.saturating_sub(otherwise)))
}
