//! Transcripts of Claude Code: `projects/**/*.jsonl`, one line per block of an answer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use cachalot_accounting::avoidable::{CacheUse, FIVE_MINUTES, ONE_HOUR};
use cachalot_core::Millis;
use cachalot_model::Usage;
use serde::Deserialize;

use super::SpendReader;
use super::answer::{Client, Loss, LossCause, PaidAnswer};
use super::totals::cache_use;
use crate::log::timestamp;

/// Maximum loss in tokens that is ignored: counts of the same prefix differ slightly.
const SLACK: u64 = 128;

/// The model name in answers that no model gave.
const SYNTHETIC: &str = "<synthetic>";

/// The differences that Anthropic's comparison of requests names.
const DIAGNOSES: [&str; 4] = [
    "messages_changed",
    "model_changed",
    "system_changed",
    "tools_changed",
];

/// Kinds of lines without usage.
const KINDS: [&str; 18] = [
    "agent-name",
    "ai-title",
    "attachment",
    "attribution-snapshot",
    "custom-title",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "saved_hook_context",
    "summary",
    "system",
    "tag",
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
struct AnswerLine {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    id: Option<String>,
    model: Option<String>,
    usage: Option<ReportedUsage>,
    stop_reason: Option<String>,
    diagnostics: Option<Diagnostics>,
}

#[derive(Deserialize, Default)]
struct ReportedUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_creation: Option<CacheCreation>,
    service_tier: Option<String>,
    speed: Option<String>,
    iterations: Option<Vec<Iteration>>,
}

#[derive(Deserialize)]
struct CacheCreation {
    ephemeral_5m_input_tokens: Option<u64>,
    ephemeral_1h_input_tokens: Option<u64>,
}

/// A request within an answer. Those of the answer's own model are part of its usage.
#[derive(Deserialize)]
struct Iteration {
    #[serde(rename = "type")]
    kind: Option<String>,
    model: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
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

impl ReportedUsage {
    fn usage(&self) -> Usage {
        let written = self.cache_creation_input_tokens.unwrap_or(0);
        let split = self.cache_creation.as_ref();
        let write_5m = split
            .and_then(|it| it.ephemeral_5m_input_tokens)
            .unwrap_or(0);
        let write_1h = split
            .and_then(|it| it.ephemeral_1h_input_tokens)
            .unwrap_or(0);
        Usage {
            uncached_input: self.input_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write_5m: write_5m,
            cache_write_1h: write_1h,
            cache_write_other: written.saturating_sub(write_5m.saturating_add(write_1h)),
            output: self.output_tokens.unwrap_or(0),
            reasoning: 0,
        }
    }

    fn is_unpriced(&self) -> bool {
        let is_other =
            |value: &Option<String>| value.as_ref().is_some_and(|value| value != "standard");
        is_other(&self.service_tier) || is_other(&self.speed)
    }
}

/// The last answer of a conversation by a model.
struct LastAnswer {
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
pub(super) struct Transcript {
    /// The name of the file, for lines without a session.
    file: String,
    /// The last known working directory.
    project: Option<Arc<str>>,
    conversations: HashMap<Option<String>, Conversation>,
    /// The ID of the answer whose lines are being read.
    current: String,
}

impl Transcript {
    pub(super) fn new(path: &Path) -> Self {
        let file = path.file_stem().unwrap_or_default();
        Self {
            file: file.to_string_lossy().into_owned(),
            project: None,
            conversations: HashMap::new(),
            current: String::new(),
        }
    }

    /// Reads a line; returns false if it is malformed.
    pub(super) fn line(&mut self, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(line) = serde_json::from_slice::<Line>(text) else {
            return false;
        };
        if let Some(cwd) = &line.cwd {
            self.project = Some(reader.name(cwd));
        }
        match line.kind.as_deref() {
            Some("assistant") => return self.answer(&line, text, reader),
            Some("system") if line.subtype.as_deref() == Some("compact_boundary") => {
                self.conversation(&line).is_summarized = true;
            }
            Some(kind) if KINDS.contains(&kind) => {}
            Some(kind) => reader.unknown(Client::ClaudeCode, kind),
            None => reader.unknown(Client::ClaudeCode, "a line without a type"),
        }
        true
    }

    fn conversation(&mut self, line: &Line) -> &mut Conversation {
        let agent = line.agent_id.as_deref().map(str::to_owned);
        self.conversations.entry(agent).or_default()
    }

    fn answer(&mut self, line: &Line, text: &[u8], reader: &mut SpendReader) -> bool {
        let Ok(AnswerLine { message }) = serde_json::from_slice(text) else {
            return false;
        };
        let (Some(id), Some(model), Some(reported)) = (&message.id, &message.model, &message.usage)
        else {
            return true;
        };
        if model == SYNTHETIC {
            return true;
        }
        // The name may end with the length of the context: `claude-opus-4-8[1m]`.
        let model = reader.name(model.split('[').next().unwrap_or(model));
        let at = line.timestamp.as_deref().and_then(timestamp::parse);
        let session = reader.name(line.session_id.as_deref().unwrap_or(&self.file));
        let project = match &self.project {
            Some(project) => Arc::clone(project),
            None => reader.name(""),
        };
        let is_sidechain = line.is_sidechain == Some(true);
        let paid = |model: Arc<str>, usage: Usage| PaidAnswer {
            client: Client::ClaudeCode,
            project: Arc::clone(&project),
            session: Arc::clone(&session),
            model,
            at,
            usage,
            cost: None,
            is_unpriced: reported.is_unpriced(),
            is_partial: false,
            is_sidechain,
            loss: None,
        };
        let usage = reported.usage();
        // The lines of an answer follow each other.
        let loss = match self.current == **id {
            true => None,
            false => {
                self.current = id.to_string();
                self.loss(line, &model, &usage, at, &message, reader)
            }
        };
        let (answer, is_known) =
            reader.entry(("claude", &**id), || paid(Arc::clone(&model), usage));
        if is_known {
            answer.usage.output = answer.usage.output.max(usage.output);
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
            answer.loss = loss;
            // Only the lines of sub-agents may lack the final count.
            answer.is_partial = is_sidechain || line.agent_id.is_some();
        }
        if message.stop_reason.is_some() {
            answer.is_partial = false;
        }
        for (number, iteration) in reported.iterations.iter().flatten().enumerate() {
            let Some(advisor) = iteration.model.as_deref() else {
                continue;
            };
            if iteration.kind.as_deref() != Some("advisor_message") {
                continue;
            }
            let advisor = reader.name(advisor);
            let usage = ReportedUsage {
                input_tokens: iteration.input_tokens,
                output_tokens: iteration.output_tokens,
                cache_read_input_tokens: iteration.cache_read_input_tokens,
                cache_creation_input_tokens: iteration.cache_creation_input_tokens,
                ..ReportedUsage::default()
            };
            let usage = usage.usage();
            let (answer, _) = reader.entry(("advisor", &**id, number), || paid(advisor, usage));
            answer.usage.output = answer.usage.output.max(usage.output);
        }
        true
    }

    /// Returns the tokens that the request of an answer wrote again, and the cause.
    fn loss(
        &mut self,
        line: &Line,
        model: &Arc<str>,
        usage: &Usage,
        at: Option<Millis>,
        message: &Message,
        reader: &mut SpendReader,
    ) -> Option<Loss> {
        // Lines of sub-agents without names may be of several conversations.
        if line.is_sidechain == Some(true) && line.agent_id.is_none() {
            return None;
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
        let now = LastAnswer { used, at, lifetime };
        conversation.last.insert(Arc::clone(model), now);
        let last = last?;
        let tokens = used.lost_since(&last.used);
        if tokens <= SLACK {
            return None;
        }
        let pause = last.at.zip(at).map(|(before, now)| now - before);
        let diagnosis = message.diagnostics.as_ref();
        let diagnosis = diagnosis.and_then(|it| it.cache_miss_reason.as_ref()?.kind.as_deref());
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
        Some(Loss { tokens, cause })
    }
}
