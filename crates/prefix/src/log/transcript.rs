//! Transcripts: answers with their usage, of Claude Code and of Codex ([`RolloutLine`]).
//!
//! Requests that are not recorded ([`Part`]) cannot be compared, so a break is detected only by usage: an answer whose
//! request wrote again what the one before it had read or written. The cause is the provider's own comparison if the answer has
//! one; otherwise a compaction in between, another model or effort, or a pause. No other cause is inferred. The
//! formats are internal to the programs and change: the members read here are those known to public parsers (ccusage,
//! issues 901 to 1617), and those that Claude Code 2.1.332 and Codex 0.171.0 write.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use cachalot_core::{Cost, Millis};
use cachalot_model::{Catalog, Format, Usage, price, wire};
use serde_json::Value;

use super::logged_break::LoggedBreak;
use super::recorded::Part;
use super::transcript_answer::{TranscriptAnswer, TranscriptConversation, moment};
use crate::diagnosis::{Diagnosis, LikelyCause, ProviderVerdict, Reason, openai_lifetime};
use crate::hash::hash;
use crate::reading::reading;
use crate::rollout::RolloutLine;

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
    Answer(Box<TranscriptAnswer>),
    /// A part of a request.
    Part(Part),
    /// A line of Codex.
    Rollout(Box<RolloutLine>),
    /// The conversation was replaced by a summary.
    Compaction(TranscriptConversation),
    /// Another line.
    Other,
}

/// Parses a line; `None` if it is not from a transcript.
pub(super) fn read(line: &[u8]) -> Option<TranscriptLine> {
    const NAMES: [&str; 5] = ["sessionId", "uuid", "leafUuid", "messageId", "snapshot"];
    let text = line;
    let mut line: Value = serde_json::from_slice(text).ok()?;
    let kind = line.get("type")?.as_str()?.to_owned();
    if line.get("payload").is_some_and(Value::is_object)
        && let Some(line) = RolloutLine::parse(text).filter(|line| line.unknown_kind().is_none())
    {
        return Some(TranscriptLine(Line::Rollout(Box::new(line))));
    }
    if !NAMES.iter().any(|name| line.get(name).is_some()) {
        return None;
    }
    let is_summary = line.get("subtype").and_then(Value::as_str) == Some("compact_boundary");
    let found = match kind.as_str() {
        "assistant" => answer(&mut line).map(|answer| Line::Answer(Box::new(answer))),
        "system" if is_summary => TranscriptConversation::read(&line).map(Line::Compaction),
        kind => Part::read(kind, &mut line).map(Line::Part),
    };
    Some(TranscriptLine(found.unwrap_or(Line::Other)))
}

fn answer(line: &mut Value) -> Option<TranscriptAnswer> {
    let content = line.pointer_mut("/message/content").map(Value::take);
    let content = match content {
        Some(Value::Array(blocks)) => blocks,
        _ => Vec::new(),
    };
    let line = &*line;
    let message = line.get("message")?.as_object()?;
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let model = text("model").filter(|model| *model != SYNTHETIC)?;
    Some(TranscriptAnswer {
        id: text("id")?.to_owned(),
        place: TranscriptConversation::read(line)?,
        // The name may end with the length of the context: `claude-opus-4-8[1m]`.
        model: model.split('[').next().unwrap_or(model).to_owned(),
        usage: wire::usage(Format::Messages, message.get("usage")?)?,
        terms: wire::messages::terms(message),
        at: moment(line),
        // The transcript does not record if a comparison was requested, so a result without a difference has
        // no meaning.
        verdict: ProviderVerdict::read(message).filter(|verdict| verdict.reason != Reason::None),
        request: line
            .get("requestRef")
            .and_then(Value::as_str)
            .map(str::to_owned),
        content,
        effort: None,
        is_cached_automatically: false,
    })
}

/// The last answer of a conversation.
struct LastAnswer {
    line: u64,
    model: String,
    usage: Usage,
    at: Option<Millis>,
    effort: Option<String>,
    /// The lifetime of the last written cache entries; `None` if it is not known.
    keeps: Option<Duration>,
}

/// The conversations of transcripts.
#[derive(Default)]
pub(super) struct Transcripts {
    seen: HashSet<u64>,
    last: HashMap<TranscriptConversation, LastAnswer>,
    /// Conversations of which requests are known by their answers only.
    unrecorded: HashSet<TranscriptConversation>,
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

    /// Returns the number of conversations that are known by their answers only.
    pub(super) fn count(&self, is_recorded: impl Fn(&TranscriptConversation) -> bool) -> u64 {
        let others = self.unrecorded.iter();
        others.filter(|place| !is_recorded(place)).count() as u64
    }

    /// Adds an answer whose request was compared.
    pub(super) fn follow(&mut self, line: u64, answer: TranscriptAnswer) {
        self.summarized.remove(&answer.place);
        self.put(line, answer);
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
                answer: Some(answer.id.clone()),
                model: answer.model.clone(),
                diagnosis,
            });
        self.unrecorded.insert(answer.place.clone());
        self.put(line, answer);
        broken
    }

    fn put(&mut self, line: u64, answer: TranscriptAnswer) {
        let usage = answer.usage;
        let keeps = match self.last.get(&answer.place) {
            _ if answer.is_cached_automatically => openai_lifetime(&answer.model),
            Some(before) if usage.cache_write() == 0 => before.keeps,
            _ if usage.cache_write_1h > 0 && usage.cache_write_5m == 0 => {
                Some(Duration::from_secs(3_600))
            }
            _ => Some(Duration::from_secs(300)),
        };
        let last = LastAnswer {
            line,
            model: answer.model,
            usage,
            at: answer.at,
            effort: answer.effort,
            keeps,
        };
        self.last.insert(answer.place, last);
    }
}

/// Diagnoses an answer whose request read less than the one before it had read and written.
fn diagnose(
    before: &LastAnswer,
    answer: &TranscriptAnswer,
    is_summarized: bool,
    catalog: &Catalog,
) -> Option<Diagnosis> {
    let cached = before.usage.cache_read;
    let expected = cached.saturating_add(before.usage.cache_write());
    let unread = expected.saturating_sub(answer.usage.cache_read);
    // Tokens that were not written again were not sent. Where the provider caches without markers, writes may not be
    // counted.
    let sent = if answer.is_cached_automatically {
        (answer.usage.cache_write()).saturating_add(answer.usage.uncached_input)
    } else {
        answer.usage.cache_write()
    };
    let lost = unread.min(sent);
    if lost <= SLACK {
        return None;
    }
    let pause = before.at.zip(answer.at).map(|(before, now)| now - before);
    let is_over = pause.is_some_and(|pause| {
        let pause = u64::try_from(pause).ok().map(Duration::from_millis);
        pause
            .zip(before.keeps)
            .is_some_and(|(pause, keeps)| pause > keeps)
    });
    let (reason, cause) = match answer.verdict {
        Some(verdict) => (verdict.reason, verdict.cause),
        None if is_summarized => (Reason::MessagesChanged, Some(LikelyCause::Compaction)),
        None if before.model != answer.model => {
            (Reason::ModelChanged, Some(LikelyCause::ModelSwitched))
        }
        None if before.effort != answer.effort => (
            Reason::ParametersChanged,
            Some(LikelyCause::ReasoningSetting),
        ),
        None if is_over && answer.is_cached_automatically => {
            (Reason::Expired, Some(LikelyCause::RetentionExpired))
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
        lost_cost: cost(answer, lost, catalog),
        by_provider: answer.verdict.is_some(),
    })
}

/// Returns the additional cost of writing the lost tokens compared with reading them.
fn cost(answer: &TranscriptAnswer, lost: u64, catalog: &Catalog) -> Option<Cost> {
    let (model, at) = (&answer.model, answer.at.unwrap_or_default());
    let listed = catalog.find_by_name(model)?.price.as_ref();
    let read = reading(&answer.usage, lost);
    let price = |usage| price(usage, model, listed, at, &answer.terms).ok();
    let (paid, otherwise) = (price(&answer.usage)?, price(&read)?);
    let cost = paid.picodollars.saturating_sub(otherwise.picodollars);
    Some(Cost::from_picodollars(cost))
}
