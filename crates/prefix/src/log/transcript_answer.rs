//! Answers in transcripts, and the conversations that they belong to.

use cachalot_core::Millis;
use cachalot_model::{Terms, Usage};
use serde_json::Value;

use crate::diagnosis::ProviderVerdict;
use crate::rollout::RolloutAnswer;
use crate::timestamp;

/// The text between a session and its agent in the name of a conversation.
pub(super) const AGENT: &str = ", agent ";

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
    pub(super) id: String,
    pub(super) place: TranscriptConversation,
    pub(super) model: String,
    pub(super) usage: Usage,
    /// Members of the answer that change its price.
    pub(super) terms: Terms,
    pub(super) at: Option<Millis>,
    pub(super) verdict: Option<ProviderVerdict>,
    /// The ID of its request, if that is recorded.
    pub(super) request: Option<String>,
    /// The blocks of the line.
    pub(super) content: Vec<Value>,
    /// The effort of reasoning, where a line before names it.
    pub(super) effort: Option<String>,
    /// True if the provider caches without markers.
    pub(super) is_cached_automatically: bool,
}

impl TranscriptConversation {
    pub(super) fn read(line: &Value) -> Option<Self> {
        let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
        let agent = text("agentId");
        let is_marked = line.get("isSidechain").and_then(Value::as_bool) == Some(true);
        Some(Self {
            session: text("sessionId")?,
            // Lines with parts of requests name the agent only.
            is_sidechain: is_marked || agent.is_some(),
            agent,
        })
    }

    /// Creates the only conversation of a session.
    pub(super) fn of_session(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            agent: None,
            is_sidechain: false,
        }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// False if the lines may be from several conversations: sub-agents without IDs.
    pub(super) fn is_one(&self) -> bool {
        self.agent.is_some() || !self.is_sidechain
    }

    /// The name shown to users.
    pub(super) fn name(&self) -> String {
        match &self.agent {
            Some(agent) => format!("{}{AGENT}{agent}", self.session),
            None => self.session.clone(),
        }
    }
}

impl TranscriptAnswer {
    /// Creates an answer of a session of Codex.
    pub(super) fn from_rollout(session: &str, answer: &RolloutAnswer) -> Self {
        Self {
            id: answer.id(session),
            place: TranscriptConversation::of_session(session),
            model: answer.model.to_string(),
            usage: answer.usage,
            terms: answer.terms(),
            at: answer.at,
            verdict: None,
            request: None,
            content: Vec::new(),
            effort: answer.effort.as_deref().map(str::to_owned),
            is_cached_automatically: true,
        }
    }
}

/// Parses the time of a line.
pub(super) fn moment(line: &Value) -> Option<Millis> {
    timestamp::parse(line.get("timestamp")?.as_str()?)
}
