//! Transcripts of Claude Code: `projects/**/*.jsonl`, one line per block of an answer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use cachalot_accounting::Terms;
use cachalot_accounting::avoidable::{CacheUse, FIVE_MINUTES, ONE_HOUR};
use cachalot_core::Millis;
use cachalot_model::Usage;
use cachalot_model::wire::{MESSAGES, ModelUsage, messages};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::hash::hash;
use crate::spend::SpendReader;
use crate::spend::answer::{AnswerPlace, Client, Loss, LossCause, PaidAnswer};
use crate::spend::cost_state::{CostState, SessionCosts};
use crate::spend::totals::cache_use;
use crate::timestamp;

/// Maximum loss in tokens that is ignored: counts of the same prefix differ slightly.
pub(crate) const SLACK: u64 = 128;

/// The model name in answers that no model gave.
const SYNTHETIC: &str = "<synthetic>";

/// The differences that Anthropic's comparison of requests names.
const DIAGNOSES: [&str; 4] = [
    "messages_changed",
    "model_changed",
    "system_changed",
    "tools_changed",
];

/// Kinds of lines without usage. Those that begin with `api-request` are the requests themselves.
const KINDS: [&str; 49] = [
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-resumed",
    "api-request-shape",
    "artifact-autoreact-ledger",
    "artifact-comment-monitor",
    "atis-latch",
    "attachment",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "continued-in",
    "custom-title",
    "data-flow-incomplete",
    "data-flow-records",
    "derived-from",
    "dev-mods",
    "ended-by-model",
    "file-history-delta",
    "file-history-snapshot",
    "fork-context-ref",
    "frame-link",
    "history-suppression",
    "host-row",
    "hybrid-organization",
    "isolation-latch",
    "last-prompt",
    "memory-mode",
    "mode",
    "observer-ref",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "relocated",
    "repl-mode",
    "resume-head-vouch",
    "saved_hook_context",
    "session-owner",
    "summary",
    "system",
    "tag",
    "tools-used",
    "user",
    "worktree-state",
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(rename = "type")]
    kind: Option<String>,
    subtype: Option<String>,
    session_id: Option<String>,
    agent_id: Option<String>,
    is_sidechain: Option<bool>,
    cwd: Option<String>,
    timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerLine {
    message: Message,
    /// The session that sent the request, in a copy of another session's answer.
    request_session_id: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    model: Option<String>,
    usage: Option<Value>,
    stop_reason: Option<String>,
    diagnostics: Option<Diagnostics>,
}

#[derive(Deserialize)]
struct Diagnostics {
    cache_miss_reason: Option<MissReason>,
}

#[derive(Deserialize)]
struct MissReason {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The counts and terms that an answer reports.
struct Reported {
    usage: Usage,
    terms: Terms,
    /// Requests within the answer that its usage does not include.
    others: Vec<ModelUsage>,
}

impl Reported {
    fn new(mut usage: Value, model: &str) -> Self {
        complete(&mut usage);
        if let Some(Value::Array(iterations)) = usage.get_mut("iterations") {
            iterations.iter_mut().for_each(complete);
        }
        let answer = Map::from_iter([("usage".to_owned(), usage)]);
        let mut terms = messages::terms(&answer);
        // Another line of the answer may know it.
        terms.geography = terms.geography.filter(|name| name != "not_available");
        Self {
            usage: MESSAGES.usage(&answer["usage"]).unwrap_or_default(),
            terms,
            others: messages::further_usages(&answer, model),
        }
    }
}

/// Counts of an answer.
const COUNTS: [&str; 4] = [
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
];

/// Returns true for a count that is given and is no whole number.
fn is_unreadable(usage: &Value, count: &str) -> bool {
    let count = usage.get(count).filter(|count| !count.is_null());
    count.is_some_and(|count| !count.is_u64())
}

/// Corrects the counts of an answer or of one of its iterations.
fn complete(reported: &mut Value) {
    if let Some(counts) = reported.as_object_mut() {
        // Other servers leave counts out.
        counts
            .entry("input_tokens")
            .or_insert_with(|| Value::from(0_u64));
        // A copy whose counts were set to zero keeps the split of its writes.
        let written = counts.get("cache_creation_input_tokens");
        if written.and_then(Value::as_u64) == Some(0) {
            counts.remove("cache_creation");
        }
    }
}

/// Returns the name of a model without the length of its context: `claude-opus-4-8[1m]`.
fn without_suffix(model: &str) -> &str {
    model.split('[').next().unwrap_or(model)
}

/// Adds what another line of the same answer says. The larger count wins, member by member: an answer grows while it is
/// streamed, and a fork may repeat it with counts of zero.
fn merge(answer: &mut PaidAnswer, usage: &Usage, terms: &Terms) {
    answer.usage = larger(&answer.usage, usage);
    let Terms {
        tier,
        geography,
        speed,
        host: _,
        unknown,
    } = terms;
    for (known, new) in [
        (&mut answer.terms.tier, tier),
        (&mut answer.terms.geography, geography),
        (&mut answer.terms.speed, speed),
        (&mut answer.terms.unknown, unknown),
    ] {
        if new.is_some() {
            known.clone_from(new);
        }
    }
}

/// Returns the larger of each count. Writes of one lifetime, or of an unknown one, are not counted twice.
fn larger(one: &Usage, other: &Usage) -> Usage {
    let written_5m = one.cache_write_5m.max(other.cache_write_5m);
    let written_1h = one.cache_write_1h.max(other.cache_write_1h);
    let written_12h = one.cache_write_12h.max(other.cache_write_12h);
    let split = written_5m
        .saturating_add(written_1h)
        .saturating_add(written_12h);
    let written = one.cache_write().max(other.cache_write());
    Usage {
        uncached_input: one.uncached_input.max(other.uncached_input),
        cache_read: one.cache_read.max(other.cache_read),
        cache_write_5m: written_5m,
        cache_write_1h: written_1h,
        cache_write_12h: written_12h,
        cache_write_other: written.saturating_sub(split),
        output: one.output.max(other.output),
        reasoning: one.reasoning.max(other.reasoning),
        web_searches: one.web_searches.max(other.web_searches),
    }
}

/// The last answer of a conversation by a model.
struct LastAnswer {
    /// The key of the answer.
    key: u64,
    used: CacheUse,
    at: Option<Millis>,
    /// The lifetime of its entries.
    lifetime: Millis,
}

/// The conversation of a session or of one of its sub-agents.
#[derive(Default)]
struct Conversation {
    last: HashMap<Arc<str>, LastAnswer>,
    /// The model of the last answer.
    model: Option<Arc<str>>,
    is_summarized: bool,
}

/// The state of a transcript that is being read.
pub(in crate::spend) struct Transcript {
    /// The name of the file, for lines without a session.
    file: String,
    /// The session of the latest line that names one.
    session: Option<String>,
    /// The last known working directory.
    project: Option<Arc<str>>,
    conversations: HashMap<Option<String>, Conversation>,
    /// The ID of the answer whose lines are being read.
    current: String,
    /// The latest time of a line.
    latest: Option<Millis>,
    /// The sums that the session writes of its costs.
    pub(in crate::spend) costs: SessionCosts,
}

impl Transcript {
    pub(super) fn new(path: &Path) -> Self {
        let file = path.file_stem().unwrap_or_default();
        Self {
            file: file.to_string_lossy().into_owned(),
            session: None,
            project: None,
            conversations: HashMap::new(),
            current: String::new(),
            latest: None,
            costs: SessionCosts::default(),
        }
    }

    /// Returns the session that the lines so far belong to.
    pub(super) fn session(&self) -> &str {
        self.session.as_deref().unwrap_or(&self.file)
    }

    /// Reads a line; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        if let Some(cwd) = &line.cwd {
            self.project = Some(reader.name(cwd));
        }
        if line.session_id.is_some() && line.session_id != self.session {
            self.session.clone_from(&line.session_id);
        }
        let at = line.timestamp.as_deref().and_then(timestamp::parse);
        self.costs.goes_on(self.latest, at);
        self.latest = self.latest.max(at);
        match line.kind.as_deref() {
            Some("assistant") => return self.answer(&line, at, text, reader),
            Some("cost-state") => return self.cost_state(&line, text, reader),
            Some("system") if line.subtype.as_deref() == Some("compact_boundary") => {
                self.conversation(&line).is_summarized = true;
            }
            Some(kind) if KINDS.contains(&kind) => {}
            Some(kind) => reader.unknown(Client::ClaudeCode, kind),
            None => reader.unknown(Client::ClaudeCode, "a line without a type"),
        }
        true
    }

    fn cost_state(&mut self, line: &Line, text: &[u8], reader: &mut SpendReader) -> bool {
        let Some(state) = CostState::parse(text, self.latest, reader) else {
            return false;
        };
        let session = reader.name(line.session_id.as_deref().unwrap_or(&self.file));
        self.costs.add(session, self.project.clone(), state);
        true
    }

    fn conversation(&mut self, line: &Line) -> &mut Conversation {
        let agent = line.agent_id.as_deref().map(str::to_owned);
        self.conversations.entry(agent).or_default()
    }

    fn answer(
        &mut self,
        line: &Line,
        at: Option<Millis>,
        text: &[u8],
        reader: &mut SpendReader,
    ) -> bool {
        let Ok(AnswerLine {
            mut message,
            request_session_id: owner,
        }) = serde_json::from_slice(text)
        else {
            return false;
        };
        let reported = message.usage.take();
        let (Some(model), Some(reported)) = (&message.model, reported) else {
            return true;
        };
        if model == SYNTHETIC {
            return true;
        }
        let Some(id) = &message.id else {
            reader.unknown(Client::ClaudeCode, "an answer without an ID");
            return true;
        };
        if COUNTS.iter().any(|count| is_unreadable(&reported, count)) {
            reader.unknown(
                Client::ClaudeCode,
                "an answer whose usage has no whole numbers",
            );
            return true;
        }
        let model = reader.name(without_suffix(model));
        let Reported {
            usage,
            terms,
            others,
        } = Reported::new(reported, &model);
        let own = reader.name(line.session_id.as_deref().unwrap_or(&self.file));
        let session = match owner.map(|owner| reader.name(&owner)) {
            Some(owner) => {
                if owner != own {
                    self.costs.has_parent(&owner);
                }
                owner
            }
            None => Arc::clone(&own),
        };
        let project = match &self.project {
            Some(project) => Arc::clone(project),
            None => reader.name(""),
        };
        let is_sidechain = line.is_sidechain == Some(true);
        let paid = |model: Arc<str>, usage: Usage| PaidAnswer {
            project: Arc::clone(&project),
            session: Arc::clone(&session),
            terms: terms.clone(),
            is_sidechain,
            place: AnswerPlace::Unknown,
            ..PaidAnswer::new(Client::ClaudeCode, model, at, usage)
        };
        // The lines of an answer follow each other. Some servers report its usage in the last one only.
        let key = hash(("claude", &**id));
        let (loss, place) = if self.current == **id || usage == Usage::default() {
            (None, AnswerPlace::Unknown)
        } else {
            self.current = id.to_string();
            self.loss(line, key, &model, &usage, at, &message, reader)
        };
        self.costs.has_answer(key);
        if session != own && usage == Usage::default() {
            reader.empty_copies.insert(key);
        }
        // Its own file has the request, which a copy in another file lacks.
        let file = reader.file.clone().filter(|_| session == own);
        let (answer, is_known) = reader.entry(key, || paid(Arc::clone(&model), usage));
        if !is_known || answer.usage == Usage::default() {
            answer.loss = loss;
            answer.place = place;
        } else if answer.is_sidechain && !is_sidechain && place != AnswerPlace::Unknown {
            // A sub-agent's file may begin with copies of its parent's answers.
            answer.place = place;
        }
        if let Some(details) = &mut answer.details {
            details.id.get_or_insert_with(|| id.as_str().into());
            details.file = file.unwrap_or_else(|| Arc::clone(&details.file));
            details.add_calls_of_message(text);
            if !is_known {
                details.agent = line.agent_id.as_deref().map(Arc::from);
            } else if line.agent_id.is_none() && !is_sidechain {
                // A sub-agent's file may begin with copies of its parent's answers.
                details.agent = None;
            }
        }
        if is_known {
            merge(answer, &usage, &terms);
            answer.at = match (answer.at, at) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            if answer.is_sidechain && !is_sidechain {
                answer.is_sidechain = false;
                answer.session = Arc::clone(&session);
                answer.project = Arc::clone(&project);
            }
        } else {
            // Only the lines of sub-agents may lack the final count.
            answer.is_partial = is_sidechain || line.agent_id.is_some();
        }
        // Only the last line of an answer has its reason to stop, and the final counts.
        if message.stop_reason.is_some() {
            answer.is_partial = false;
        }
        for (number, ModelUsage { model: by, usage }) in others.into_iter().enumerate() {
            let model = match by {
                Some(by) => reader.name(without_suffix(&by)),
                None => Arc::clone(&model),
            };
            let (answer, is_known) = reader.entry((key, number), || paid(model, usage));
            if is_known {
                merge(answer, &usage, &terms);
            }
        }
        true
    }

    /// Returns the tokens that the request of an answer wrote again with the cause, and the place of the answer.
    #[expect(clippy::too_many_arguments, reason = "all parts of the answer's line")]
    fn loss(
        &mut self,
        line: &Line,
        key: u64,
        model: &Arc<str>,
        usage: &Usage,
        at: Option<Millis>,
        message: &Message,
        reader: &mut SpendReader,
    ) -> (Option<Loss>, AnswerPlace) {
        // Lines of sub-agents without names may be of several conversations.
        if line.is_sidechain == Some(true) && line.agent_id.is_none() {
            return (None, AnswerPlace::Unknown);
        }
        let conversation = self.conversation(line);
        let is_summarized = std::mem::take(&mut conversation.is_summarized);
        let before = conversation.model.replace(Arc::clone(model));
        let used = cache_use(usage);
        let last = conversation.last.remove(model);
        let lifetime = match (&last, used.written()) {
            (Some(last), 0) => last.lifetime,
            _ if used.written_1h > 0 && used.written_5m == 0 => ONE_HOUR,
            _ => FIVE_MINUTES,
        };
        let now = LastAnswer {
            key,
            used,
            at,
            lifetime,
        };
        conversation.last.insert(Arc::clone(model), now);
        let place = AnswerPlace::Recorded {
            key,
            previous: last.as_ref().map(|last| last.key),
            is_sub_agent: line.agent_id.is_some(),
        };
        let Some(last) = last else {
            return (None, place);
        };
        let tokens = used.lost_since(&last.used);
        if tokens <= SLACK {
            return (None, place);
        }
        let pause = last.at.zip(at).map(|(before, now)| now - before);
        let diagnosis = message.diagnostics.as_ref();
        let diagnosis =
            diagnosis.and_then(|diagnosis| diagnosis.cache_miss_reason.as_ref()?.kind.as_deref());
        let cause = match (diagnosis, pause) {
            (Some(reason), _) if DIAGNOSES.contains(&reason) => {
                LossCause::Diagnosed(reader.name(reason))
            }
            (Some("context_compacted"), _) => LossCause::Compaction,
            // Other results say that nothing was compared.
            _ if is_summarized => LossCause::Compaction,
            _ if before.as_ref() != Some(model) => LossCause::ModelChanged,
            (_, Some(pause)) if pause > last.lifetime => LossCause::Paused(pause),
            _ => LossCause::Unexplained,
        };
        (Some(Loss { tokens, cause }), place)
    }
}
