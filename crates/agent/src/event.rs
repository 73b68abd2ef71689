//! What a turn tells while it runs, and whom it asks. The command line shows it; tests collect it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{Cost, Digest, Millis};
use cachalot_hooks::input::PermissionMode;
use cachalot_model::Usage;
use cachalot_prefix::diagnosis::Diagnosis;
use cachalot_tools::{Answer, Call};

use crate::definition::Notify;
use crate::{Provenance, ReviewReport};

/// Something that happened in a turn. `agent` is the agent at work: sub-agents tell of themselves.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A model is asked.
    Asked {
        /// The agent.
        agent: &'a str,
        /// Which model call of this turn, from 1.
        iteration: u32,
    },
    /// The answer goes on.
    Text {
        /// The agent.
        agent: &'a str,
        /// The next piece.
        text: &'a str,
    },
    /// The model thinks.
    Reasoning {
        /// The agent.
        agent: &'a str,
        /// The next piece.
        text: &'a str,
    },
    /// A model has answered.
    Answered {
        /// The agent.
        agent: &'a str,
        /// What that used, if the provider said so.
        usage: Option<&'a Usage>,
        /// What that cost.
        cost: Cost,
        /// How long it took.
        elapsed: Duration,
        /// What was asked.
        request: Request<'a>,
    },
    /// A tool begins.
    ToolBegan {
        /// The agent.
        agent: &'a str,
        /// The call.
        call: &'a Call,
    },
    /// A tool has answered, or the call was refused.
    ToolEnded {
        /// The agent.
        agent: &'a str,
        /// The result.
        answer: &'a Answer,
    },
    /// A hook has answered in place of the model; its text was told before.
    Synthetic {
        /// The agent.
        agent: &'a str,
        /// Where the answer comes from, and what was saved.
        provenance: &'a Provenance,
    },
    /// What was said so far was summarized, and the conversation goes on from the summary.
    Compacted {
        /// The agent.
        agent: &'a str,
        /// How many tokens the conversation had, as far as is known.
        tokens: u64,
        /// The summary.
        summary: &'a str,
    },
    /// A review of the conversation has ended, beside whatever the chat does.
    Reviewed {
        /// The agent whose conversation it was.
        agent: &'a str,
        /// What it came to.
        report: &'a ReviewReport,
        /// How much the user wants to be told of it.
        notify: Notify,
    },
    /// Something about how the provider is asked, or what it could not read again, for whoever wants
    /// to know everything.
    Note {
        /// The agent.
        agent: &'a str,
        /// What.
        message: &'a str,
    },
    /// Something that the user should know, and that is no failure.
    Warning {
        /// The agent.
        agent: &'a str,
        /// What.
        message: &'a str,
    },
    /// Something happened in a fork of the chat, which goes on beside it: none of that is part of a
    /// turn, and no text of it is an answer to the user. Forks of a turn (sub-agents with
    /// `fork: true`) tell of themselves like any sub-agent.
    Fork {
        /// Whose it is: `the review`.
        holder: &'a str,
        /// What happened.
        event: &'a Event<'a>,
    },
}

/// A request that a model has answered.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The session.
    pub session: &'a str,
    /// The provider.
    pub provider: &'a str,
    /// The model, as its provider calls it.
    pub model: &'a str,
    /// The name of everything that was sent, as far as it is part of the session.
    pub prefix: Digest,
    /// When it was sent.
    pub at: Millis,
    /// What was spared because the provider had read its beginning before.
    pub spared: Cost,
    /// What became of its beginning; `None` of a first request, and of one beside the conversation.
    pub diagnosis: Option<&'a Diagnosis>,
}

/// Who is told what happens. Never blocks for long; called from any thread.
pub trait Listener: Send + Sync {
    /// Told.
    fn tell(&self, event: &Event<'_>);
}

/// Nobody is told.
impl Listener for () {
    fn tell(&self, _: &Event<'_>) {}
}

/// May this call be made?
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The agent that wants to.
    pub agent: &'a str,
    /// The call as the model made it.
    pub call: &'a Call,
    /// Its arguments, cast and checked.
    pub arguments: &'a cachalot_tools::Arguments,
    /// The rule under `permissions.ask` that wants it asked about; `None` if no rule speaks of it.
    pub rule: Option<&'a str>,
    /// Why a hook wants it asked about, if one does.
    pub why: Option<&'a str>,
    /// What the call could do that is asked about unless a rule names it.
    pub concern: Option<&'a Concern>,
    /// Why it cannot be told whether `rule`, which denies calls, denies this one. An approver that asks
    /// no person must not let it.
    pub doubt: Option<&'a str>,
    /// The calls that [`Approval::Always`] approves, as a rule under `permissions.allow`; `None` if it
    /// approves this one only.
    pub pattern: Option<&'a str>,
    /// Names and values that hooks have for whoever is asked.
    pub notes: &'a BTreeMap<String, String>,
}

impl Question<'_> {
    /// Why the call is refused where no user can be asked, and what lets it, for a message. `flag` is an
    /// option of the command line that answers questions with yes, but for doubtful calls and writes of
    /// protected files.
    #[must_use]
    pub fn unasked(&self, flag: Option<&str>) -> String {
        let tool = &self.call.name;
        let lets = flag.map_or_else(String::new, |flag| format!("; `{flag}` lets it"));
        let or = flag.map_or_else(String::new, |flag| format!("`{flag}`, or "));
        match (self.rule, self.doubt, self.why, self.concern) {
            (Some(rule), Some(doubt), ..) => {
                format!("the rule `{rule}` under permissions.deny may deny it: {doubt}")
            }
            (.., Some(concern)) if concern.kind == ConcernKind::WritesProtected => {
                format!("it {concern}; {}", concern.remedy(tool))
            }
            // It beats a rule that allows.
            (Some(rule), ..) => format!(
                "the rule `{rule}` under permissions.ask wants it asked about, whatever permissions.allow says{lets}"
            ),
            (None, _, Some(why), _) => format!("a hook wants it asked about: {why}{lets}"),
            (.., Some(concern)) => format!("it {concern}; {or}{}", concern.remedy(tool)),
            (.., None) => format!("{or}`{tool}` under `permissions.allow` lets it"),
        }
    }
}

/// Something that a call could do, for which it is asked about whatever else lets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    /// Of which kind.
    pub kind: ConcernKind,
    /// What it could do, as in `sends data to docs.example`.
    pub text: String,
}

/// A kind of [`Concern`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcernKind {
    /// It changes nothing here, and can carry data to another machine.
    SendsData,
    /// It writes a file that decides what agents and hooks do. Nobody but the user, for this call, or a
    /// rule that names the file allows it.
    WritesProtected,
}

impl Concern {
    /// What lets the call be made, for a message.
    #[must_use]
    pub fn remedy(&self, tool: &str) -> String {
        match self.kind {
            ConcernKind::SendsData => format!(
                "`{tool}` under `permissions.allow`, best with the address (`{tool}:url=https://docs.example/*`), or `allowed_hosts` of its toolset lets it"
            ),
            ConcernKind::WritesProtected => {
                "a rule under `permissions.allow` that names the file lets it".to_owned()
            }
        }
    }
}

impl std::fmt::Display for Concern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// What somebody answered to a [`Question`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// This once.
    Yes,
    /// For the rest of the chat this agent may make calls that [`Question::pattern`] covers and that
    /// would be asked about for the same reason: the same rule, or that no rule is about them.
    Always,
    /// No; with a reason for the model, if there is one.
    No(Option<String>),
}

/// Somebody who can be asked.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Asks. Calls of one turn are asked about one after the other.
    async fn approve(&self, question: &Question<'_>) -> Approval;

    /// How much is asked, in the words that hooks are told it in.
    fn mode(&self) -> PermissionMode {
        PermissionMode::Default
    }
}

/// Nobody is there to ask: what would have to be asked about is refused, saying so.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

#[async_trait]
impl Approver for Nobody {
    async fn approve(&self, question: &Question<'_>) -> Approval {
        let remedy = question.unasked(None);
        Approval::No(Some(format!("nobody can be asked here; {remedy}")))
    }

    fn mode(&self) -> PermissionMode {
        PermissionMode::DontAsk
    }
}
