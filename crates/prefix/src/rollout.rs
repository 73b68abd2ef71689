//! Rollouts of Codex: `sessions/**/rollout-*.jsonl`, which have answers with their usage, and no requests.
//!
//! A session states its answers in two ways: as a record with the ID of the response, and as a count, which is a change of
//! the session's totals. Older versions write counts only, newer ones both, in any order. A fork may begin with copies of
//! its parent's lines, which have new times.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use cachalot_accounting::Terms;
use cachalot_core::Millis;
use cachalot_model::Usage;
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;

use crate::hash::hash;
use crate::timestamp;

/// Kinds of lines without usage. `compacted` has one, too: a copy of the latest record.
const KINDS: [&str; 6] = [
    "dynamic_tools_updated",
    "inter_agent_communication",
    "inter_agent_communication_metadata",
    "retained_context",
    "security_risk_score",
    "world_state",
];

/// The time in which a fork copies its parent's lines. It holds only if neither the parent's file nor numbers of lines
/// nor IDs of turns say more.
const COPYING: Millis = 2_000;

/// The maximum difference of the time in a session's ID and the time of its first line.
const SAME_TIME: Millis = 60_000;

/// A line of a rollout.
#[derive(Debug, Clone)]
pub(crate) struct RolloutLine {
    envelope: Envelope,
    content: Content,
}

#[derive(Debug, Clone, Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: Option<String>,
    timestamp: Option<String>,
    ordinal: Option<u64>,
}

#[derive(Debug, Clone)]
enum Content {
    Session(Box<SessionMeta>),
    /// The settings of a turn.
    Turn(TurnContext),
    TurnStart(TurnStart),
    Settings(ThreadSettings),
    Record(UsageRecord),
    Count(TokenInfo),
    /// A search of the web.
    Search,
    /// A call of a tool.
    Call(Arc<str>),
    /// The beginning of a conversation by voice, whose usage is in no line.
    Voice,
    /// The conversation was replaced by a summary.
    Compaction,
    Other,
    Unknown,
}

#[derive(Deserialize)]
struct WithPayload<T> {
    payload: T,
}

/// The session that a file belongs to.
#[derive(Debug, Clone, Deserialize)]
struct SessionMeta {
    id: Option<String>,
    session_id: Option<String>,
    timestamp: Option<String>,
    cwd: Option<String>,
    forked_from_id: Option<String>,
    parent_thread_id: Option<String>,
    /// Its sub-agent names the parent in an object, others are a text.
    source: Option<Value>,
    subagent_history_start_ordinal: Option<u64>,
    history_base: Option<HistoryBase>,
}

#[derive(Debug, Clone, Deserialize)]
struct HistoryBase {
    end_ordinal_exclusive: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
struct TurnContext {
    turn_id: Option<String>,
    model: Option<String>,
    cwd: Option<String>,
    service_tier: Option<String>,
    effort: Option<Value>,
    collaboration_mode: Option<Value>,
}

impl TurnContext {
    fn effort(&self) -> Option<&str> {
        let collaboration = self.collaboration_mode.as_ref();
        let within = collaboration.and_then(|mode| mode.pointer("/settings/reasoning_effort"));
        let effort = self.effort.as_ref().and_then(Value::as_str);
        effort.or_else(|| within?.as_str())
    }
}

#[derive(Debug, Clone, Deserialize)]
struct UsageRecord {
    thread_id: Option<String>,
    turn_id: Option<String>,
    response_id: Option<String>,
    service_tier: Option<String>,
    usage: Option<ReportedUsage>,
}

/// The kind of an event, or of an item of a response.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct TurnStart {
    turn_id: Option<String>,
}

#[derive(Deserialize)]
struct SettingsEvent {
    thread_settings: Option<ThreadSettings>,
}

#[derive(Debug, Clone, Deserialize)]
struct ThreadSettings {
    model: Option<String>,
    service_tier: Option<String>,
}

#[derive(Deserialize)]
struct TokenCount {
    info: Option<TokenInfo>,
}

#[derive(Debug, Clone, Deserialize)]
struct TokenInfo {
    total_token_usage: Option<ReportedUsage>,
    last_token_usage: Option<ReportedUsage>,
}

#[derive(Deserialize)]
struct SearchCall {
    #[serde(rename = "type")]
    kind: Option<String>,
    action: Option<Kind>,
}

/// An item of a response that may be a call of a tool.
#[derive(Deserialize)]
struct ItemCall {
    #[serde(rename = "type")]
    kind: String,
    name: Option<String>,
}

impl ItemCall {
    /// Returns the name of the tool: that of a function, or that of the kind (`local_shell_call`).
    fn tool(self) -> Option<Arc<str>> {
        let kind = self.kind.strip_suffix("_call")?;
        Some(self.name.as_deref().unwrap_or(kind).into())
    }
}

/// `cached_input_tokens` and `cache_write_input_tokens` are parts of the input, reasoning is part of the output.
#[derive(Debug, Deserialize, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[serde(default)]
struct ReportedUsage {
    input_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
    output_tokens: u64,
    reasoning_output_tokens: u64,
}

impl ReportedUsage {
    /// Returns the growth of a total; `None` if the one before it is in a parent's file.
    fn since(self, before: Option<Self>, has_parent: bool) -> Option<Self> {
        let before = match before {
            None if has_parent => return None,
            before => before.unwrap_or_default(),
        };
        let grown = |of: fn(&Self) -> u64| of(&self).saturating_sub(of(&before));
        Some(Self {
            input_tokens: grown(|usage| usage.input_tokens),
            cached_input_tokens: grown(|usage| usage.cached_input_tokens),
            cache_write_input_tokens: grown(|usage| usage.cache_write_input_tokens),
            output_tokens: grown(|usage| usage.output_tokens),
            reasoning_output_tokens: grown(|usage| usage.reasoning_output_tokens),
        })
    }

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

impl RolloutLine {
    /// Parses a line; `None` if it is malformed.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let envelope: Envelope = serde_json::from_slice(text).ok()?;
        let content = match envelope.kind.as_deref() {
            Some("session_meta") => Content::Session(payload(text)?),
            Some("turn_context") => Content::Turn(payload(text)?),
            Some("token_usage_record") => Content::Record(payload(text)?),
            Some("event_msg") => event(text)?,
            Some("compacted") => Content::Compaction,
            Some("response_item") if is_search(text) => Content::Search,
            Some("realtime_item") if is_kind(text, "realtime_session_started") => Content::Voice,
            Some("response_item" | "realtime_item") => Content::Other,
            Some(kind) if KINDS.contains(&kind) => Content::Other,
            _ => Content::Unknown,
        };
        Some(Self { envelope, content })
    }

    /// Parses a line, and the name of the tool that it calls; `None` if it is malformed.
    pub(crate) fn parse_with_calls(text: &[u8]) -> Option<Self> {
        let mut line = Self::parse(text)?;
        if matches!(line.content, Content::Other)
            && line.envelope.kind.as_deref() == Some("response_item")
            && let Some(tool) = payload::<ItemCall>(text).and_then(ItemCall::tool)
        {
            line.content = Content::Call(tool);
        }
        Some(line)
    }

    /// Returns the kind of the line, if it is not known.
    pub(crate) fn unknown_kind(&self) -> Option<&str> {
        let kind = self.envelope.kind.as_deref();
        matches!(self.content, Content::Unknown).then_some(kind.unwrap_or("a line without a type"))
    }
}

fn event(text: &[u8]) -> Option<Content> {
    Some(match payload::<Kind>(text)?.kind.as_deref() {
        Some("token_count") => {
            let info = payload::<TokenCount>(text)?.info;
            info.map_or(Content::Other, Content::Count)
        }
        Some("task_started" | "turn_started") => Content::TurnStart(payload(text)?),
        Some("thread_settings_applied") => {
            let settings = payload::<SettingsEvent>(text)?.thread_settings;
            settings.map_or(Content::Other, Content::Settings)
        }
        _ => Content::Other,
    })
}

fn is_kind(text: &[u8], kind: &str) -> bool {
    payload(text).is_some_and(|item: Kind| item.kind.as_deref() == Some(kind))
}

/// True for a search of the web. Opening a page that was found costs nothing.
fn is_search(text: &[u8]) -> bool {
    // Most items are long, and few are searches.
    memmem::find(text, b"web_search_call").is_some()
        && payload(text).is_some_and(|call: SearchCall| {
            let action = call.action.and_then(|action| action.kind);
            call.kind.as_deref() == Some("web_search_call") && action.as_deref() == Some("search")
        })
}

fn payload<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Option<T> {
    let line: WithPayload<T> = serde_json::from_slice(text).ok()?;
    Some(line.payload)
}

/// Returns the time in a UUID of version 7.
fn time_of_uuid(text: &str) -> Option<Millis> {
    let bytes = text.as_bytes();
    if bytes.len() != 36 || bytes[8] != b'-' || bytes[13] != b'-' || bytes[14] != b'7' {
        return None;
    }
    let digits = [text.get(..8)?, text.get(9..13)?].concat();
    i64::from_str_radix(&digits, 16).ok()
}

/// An answer as a record or a count states it.
#[derive(Clone)]
pub(crate) struct RolloutAnswer {
    /// The number of its line.
    pub(crate) line: u64,
    /// True for a record, whose key is the same in all sessions.
    pub(crate) is_record: bool,
    /// The hash of the thread and the response, or of the total: the same for each copy.
    pub(crate) key: u64,
    /// The hash of the reported usage, by which a record and a count are known to be of the same answer.
    reported: u64,
    pub(crate) at: Option<Millis>,
    /// Empty if it is not known.
    pub(crate) model: Arc<str>,
    pub(crate) project: Arc<str>,
    /// The effort of reasoning.
    pub(crate) effort: Option<Arc<str>>,
    tier: Option<String>,
    pub(crate) usage: Usage,
    /// True if it is a copy of the parent's; `None` if the line does not show it.
    is_copy: Option<bool>,
    /// For a count, the key of the record before it, if no other count is between them.
    beside: Option<u64>,
    /// The names of the tools that it calls, if they were asked for.
    pub(crate) tools: Vec<Arc<str>>,
}

impl RolloutAnswer {
    /// Returns its ID: that of a record is the same in all sessions.
    pub(crate) fn id(&self, session: &str) -> String {
        if self.is_record {
            format!("{:016x}", self.key)
        } else {
            format!("{session} {:016x}", self.key)
        }
    }

    /// The members that change its price.
    pub(crate) fn terms(&self) -> Terms {
        Terms {
            tier: self.tier.clone(),
            ..Terms::default()
        }
    }
}

/// Distinct answers, in the order of their lines.
#[derive(Default)]
struct Answers {
    list: Vec<RolloutAnswer>,
    keys: HashSet<u64>,
}

impl Answers {
    /// Adds an answer that is not known; returns false for a known one.
    fn add(&mut self, answer: RolloutAnswer) -> bool {
        let is_new = self.keys.insert(answer.key);
        if is_new {
            self.list.push(answer);
        }
        is_new
    }
}

/// The totals and the usages of answers that a fork may have copied.
pub(crate) type CopiedAnswers = HashSet<(u64, u64)>;

/// The state of a file that is being read, and what it contains.
#[derive(Default)]
pub(crate) struct Rollout {
    pub(crate) session: Arc<str>,
    /// The file, if the details of answers are asked for.
    pub(crate) file: Option<Arc<Path>>,
    /// True if the file has named its session.
    has_begun: bool,
    pub(crate) parent: Option<String>,
    /// True if the file has copies of its parent's lines, or may have them.
    has_copies: bool,
    /// Lines before it are a copy of the parent's.
    start: Option<u64>,
    /// The time of the first line.
    pub(crate) written: Option<Millis>,
    /// The time at which the session began; turns of its own began later.
    begun: Option<Millis>,
    project: Option<Arc<str>>,
    model: Option<Arc<str>>,
    effort: Option<Arc<str>>,
    tier: Option<String>,
    /// The time at which the turn began.
    turn: Option<Millis>,
    /// Searches of the web since the last answer of the turn.
    searches: u64,
    /// The tools that were called since the last record, and since the last count: the two are in any order, and results
    /// of tools may be between them.
    called: [Vec<Arc<str>>; 2],
    /// The last total of the session.
    total: Option<ReportedUsage>,
    /// The key of the record since the last count.
    last_record: Option<u64>,
    /// Answers by their own records.
    records: Answers,
    /// Answers by changes of the totals.
    counts: Answers,
    /// The lines with summaries of its own.
    summaries: Vec<u64>,
    /// The number of its conversations by voice.
    pub(crate) voice_conversations: u64,
}

impl Rollout {
    /// Creates the state of a file. The session has this name until a line names it.
    pub(crate) fn new(session: Arc<str>) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    /// Takes the next line, which has a number.
    pub(crate) fn take(&mut self, number: u64, line: RolloutLine) {
        let RolloutLine { envelope, content } = line;
        match content {
            Content::Session(meta) => self.session_meta(&envelope, *meta),
            Content::Turn(context) => {
                self.effort = context.effort().map(Arc::from);
                rename(&mut self.model, context.model.as_deref());
                rename(&mut self.project, context.cwd.as_deref());
                self.tier = context.service_tier.or(self.tier.take());
                self.begin_turn(context.turn_id.as_deref());
            }
            Content::TurnStart(start) => self.begin_turn(start.turn_id.as_deref()),
            Content::Settings(settings) => {
                // The tier holds until it is changed or left out.
                self.tier = settings.service_tier;
                if self.model.is_none() {
                    rename(&mut self.model, settings.model.as_deref());
                }
            }
            Content::Record(record) => self.record(number, &envelope, record),
            Content::Count(info) => self.count(number, &envelope, &info),
            Content::Search => self.searches += 1,
            Content::Call(tool) => {
                for called in &mut self.called {
                    called.push(Arc::clone(&tool));
                }
            }
            Content::Voice if self.is_copy(&envelope, self.turn) != Some(true) => {
                self.voice_conversations += 1;
            }
            Content::Compaction if self.is_copy(&envelope, self.turn) != Some(true) => {
                self.summaries.push(number);
            }
            Content::Voice | Content::Compaction | Content::Other | Content::Unknown => {}
        }
    }

    /// Reads the description of a session. The first one owns the file; copies of its parents' may follow.
    fn session_meta(&mut self, envelope: &Envelope, meta: SessionMeta) {
        let id = meta.id.or(meta.session_id);
        if self.has_begun {
            self.has_copies |= id.is_some_and(|id| *id != *self.session);
            return;
        }
        self.has_begun = true;
        let time = |text: Option<&str>| text.and_then(timestamp::parse);
        self.written = time(envelope.timestamp.as_deref());
        self.begun = time(meta.timestamp.as_deref()).or(self.written);
        if let Some(id) = &id {
            self.session = id.as_str().into();
            // The ID is older than the line.
            let in_id = time_of_uuid(id).zip(self.begun);
            if let Some((in_id, begun)) = in_id
                && in_id.abs_diff(begun) <= SAME_TIME.unsigned_abs()
            {
                self.begun = Some(begun.min(in_id));
            }
        }
        rename(&mut self.project, meta.cwd.as_deref());
        let spawned = meta.source.as_ref().and_then(|source| {
            let parent = source.pointer("/subagent/thread_spawn/parent_thread_id")?;
            Some(parent.as_str()?.to_owned())
        });
        self.has_copies = meta.forked_from_id.is_some();
        self.parent = meta.forked_from_id.or(meta.parent_thread_id).or(spawned);
        let base = meta
            .history_base
            .and_then(|base| base.end_ordinal_exclusive);
        self.start = meta.subagent_history_start_ordinal.max(base);
    }

    fn begin_turn(&mut self, id: Option<&str>) {
        if let Some(id) = id {
            self.turn = time_of_uuid(id);
        }
        self.searches = 0;
        self.called = Default::default();
    }

    fn record(&mut self, number: u64, envelope: &Envelope, record: UsageRecord) {
        let (Some(id), Some(usage)) = (record.response_id, record.usage) else {
            return;
        };
        let turn = record.turn_id.as_deref().and_then(time_of_uuid);
        let is_copy = self.is_copy(envelope, turn.or(self.turn));
        let key = hash((record.thread_id, id));
        let answer = self.answer(number, envelope, usage, key, is_copy);
        let is_new = self.records.add(RolloutAnswer {
            is_record: true,
            tools: self.called[0].clone(),
            tier: record.service_tier.or_else(|| answer.tier.clone()),
            ..answer
        });
        if is_new {
            self.searches = 0;
            self.called[0].clear();
            self.last_record = Some(key);
        }
    }

    /// Counts the usage of an event if the total is new: the event is repeated with each update of the limits.
    fn count(&mut self, number: u64, envelope: &Envelope, info: &TokenInfo) {
        let Some(total) = info.total_token_usage else {
            return;
        };
        // Some versions state the total alone.
        let before = self.total.replace(total);
        let Some(last) = info
            .last_token_usage
            .or_else(|| total.since(before, self.parent.is_some()))
        else {
            return;
        };
        // After a summary, the length of the context is reported without an answer.
        if last == ReportedUsage::default() {
            return;
        }
        let is_copy = self.is_copy(envelope, self.turn);
        let answer = self.answer(number, envelope, last, hash(total), is_copy);
        let is_new = self.counts.add(RolloutAnswer {
            beside: self.last_record,
            tools: self.called[1].clone(),
            ..answer
        });
        if is_new {
            self.searches = 0;
            self.called[1].clear();
            self.last_record = None;
        }
    }

    /// True if the line is a copy of the parent's; `None` if neither its number nor its turn shows it.
    fn is_copy(&self, envelope: &Envelope, turn: Option<Millis>) -> Option<bool> {
        if let Some((start, ordinal)) = self.start.zip(envelope.ordinal) {
            return Some(ordinal < start);
        }
        self.parent.as_ref()?;
        let (turn, begun) = turn.zip(self.begun)?;
        Some(turn < begun)
    }

    fn answer(
        &self,
        line: u64,
        envelope: &Envelope,
        reported: ReportedUsage,
        key: u64,
        is_copy: Option<bool>,
    ) -> RolloutAnswer {
        RolloutAnswer {
            line,
            is_record: false,
            key,
            reported: hash(reported),
            at: envelope.timestamp.as_deref().and_then(timestamp::parse),
            model: self.model.clone().unwrap_or_default(),
            project: self.project.clone().unwrap_or_default(),
            effort: self.effort.clone(),
            tier: self.tier.clone(),
            usage: Usage {
                web_searches: self.searches,
                ..reported.usage()
            },
            is_copy,
            beside: None,
            tools: Vec::new(),
        }
    }

    /// Returns the session's own answers, each once: the records, then the counts without one. `recorded` has the keys of
    /// the records of other sessions, `copied` the answers that could be copied, `None` if no file of a parent is known.
    pub(crate) fn own_answers(
        &self,
        copied: Option<&CopiedAnswers>,
        recorded: &mut HashSet<u64>,
    ) -> Vec<RolloutAnswer> {
        let mut answers: Vec<RolloutAnswer> = Vec::new();
        // The records to which no count belongs yet.
        let mut alone: HashMap<u64, usize> = HashMap::new();
        let mut by_usage: HashMap<u64, Vec<u64>> = HashMap::new();
        for record in &self.records.list {
            // A record that the parent's file has, too, is known by its key.
            let is_copy = record
                .is_copy
                .unwrap_or_else(|| copied.is_none() && self.is_replay(record, None, true));
            if !is_copy && recorded.insert(record.key) {
                alone.insert(record.key, answers.len());
                by_usage
                    .entry(record.reported)
                    .or_default()
                    .push(record.key);
                answers.push(record.clone());
            }
        }
        let mut is_leading = true;
        let mut own = Vec::new();
        for count in &self.counts.list {
            let is_copy = count
                .is_copy
                .unwrap_or_else(|| self.is_replay(count, copied, is_leading));
            is_leading &= is_copy;
            if !is_copy {
                own.push(count);
            }
        }
        // Newer versions write both, so the last counts of a usage are those with records.
        own.reverse();
        own.retain(|count| {
            let key = by_usage.get_mut(&count.reported).and_then(Vec::pop);
            let place = key.and_then(|key| alone.remove(&key));
            if let Some(place) = place {
                let searches = &mut answers[place].usage.web_searches;
                *searches = count.usage.web_searches.max(*searches);
            }
            place.is_none()
        });
        for count in own {
            // Versions that leave parts of the usage out of the count.
            let record = count.beside.filter(|key| {
                let place = alone.get(key);
                place.is_some_and(|place| {
                    answers[*place].usage.total_input() == count.usage.total_input()
                })
            });
            match record {
                Some(key) => {
                    alone.remove(&key);
                }
                None => answers.push(count.clone()),
            }
        }
        answers
    }

    /// True if an answer without a sign of its own is a copy of the parent's. `is_leading` is true while all before it are
    /// copies.
    fn is_replay(
        &self,
        answer: &RolloutAnswer,
        copied: Option<&CopiedAnswers>,
        is_leading: bool,
    ) -> bool {
        if !self.has_copies {
            return false;
        }
        match (copied, self.written.zip(answer.at)) {
            (Some(copied), _) => is_leading && copied.contains(&(answer.key, answer.reported)),
            (None, Some((written, at))) => at <= written.saturating_add(COPYING),
            (None, None) => false,
        }
    }

    /// Adds the answers that a fork could copy.
    pub(crate) fn copy_to(&self, fork: &Self, copied: &mut CopiedAnswers) {
        let counts = self.counts.list.iter().filter(|count| {
            let times = fork.written.zip(count.at);
            times.is_none_or(|(written, at)| at <= written)
        });
        copied.extend(counts.map(|count| (count.key, count.reported)));
    }

    /// Adds the answers of another file of the same session, such as an archived copy.
    pub(crate) fn merge(&mut self, other: Self) {
        for (answers, more) in [
            (&mut self.records, other.records),
            (&mut self.counts, other.counts),
        ] {
            more.list.into_iter().for_each(|answer| {
                answers.add(answer);
            });
        }
    }

    /// The number of answers that are held, those of the parent included.
    pub(crate) fn len(&self) -> usize {
        self.records.list.len() + self.counts.list.len()
    }

    /// Removes the answers and summaries that were read; returns the session's own in the order of their lines.
    pub(crate) fn drain(&mut self) -> (Vec<RolloutAnswer>, Vec<u64>) {
        let mut answers = self.own_answers(None, &mut HashSet::new());
        answers.sort_by_key(|answer| answer.line);
        self.records = Answers::default();
        self.counts = Answers::default();
        (answers, std::mem::take(&mut self.summaries))
    }
}

/// Replaces a name by another one, if there is one.
fn rename(name: &mut Option<Arc<str>>, new: Option<&str>) {
    if let Some(new) = new
        && name.as_deref() != Some(new)
    {
        *name = Some(new.into());
    }
}
