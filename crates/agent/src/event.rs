//! Events that a turn reports while it runs, and approvals that it requests. The command line renders them;
//! tests collect them.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::{Cost, Digest, Millis};
use cachalot_hooks::input::PermissionMode;
use cachalot_model::Usage;
use cachalot_prefix::diagnosis::Diagnosis;
use cachalot_tools::{LiveOutput, ToolCall, ToolCallResult};

use crate::definition::Notify;
use crate::{Provenance, ReviewReport};

/// An event of a turn. `agent` is the agent at work: sub-agents report their own events.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A model call starts.
    ModelCallStarted {
        /// The agent.
        agent: &'a str,
        /// The number of the model call in this turn, from 1; 0 for a call beside the conversation (a
        /// compaction summary).
        iteration: u32,
    },
    /// A part of the answer's text.
    Text {
        /// The agent.
        agent: &'a str,
        /// The next delta.
        text: &'a str,
    },
    /// A part of the model's reasoning.
    Reasoning {
        /// The agent.
        agent: &'a str,
        /// The next delta.
        text: &'a str,
    },
    /// A model call is complete.
    ModelCallEnded {
        /// The agent.
        agent: &'a str,
        /// The usage, if the provider reported it.
        usage: Option<&'a Usage>,
        /// The cost of the call.
        cost: Cost,
        /// The duration of the call.
        elapsed: Duration,
        /// The request of the call.
        request: AnsweredRequest<'a>,
    },
    /// A tool call starts.
    ToolStarted {
        /// The agent.
        agent: &'a str,
        /// The call.
        call: &'a ToolCall,
        /// The output of the call while it runs. Stays empty if hooks must process the result first.
        output: &'a LiveOutput,
    },
    /// A tool call has ended, or was refused.
    ToolEnded {
        /// The agent.
        agent: &'a str,
        /// The result.
        answer: &'a ToolCallResult,
    },
    /// A hook has answered in place of the model; the text was reported before.
    Synthetic {
        /// The agent.
        agent: &'a str,
        /// The origin of the answer, and the amount saved.
        provenance: &'a Provenance,
    },
    /// Another agent continues the conversation.
    AgentSwitched {
        /// The agent that continues.
        agent: &'a str,
        /// The agent in whose place it continues.
        from: &'a str,
    },
    /// The conversation was summarized and continues from the summary.
    Compacted {
        /// The agent.
        agent: &'a str,
        /// Estimated tokens of the conversation.
        tokens: u64,
        /// The summary.
        summary: &'a str,
    },
    /// A review of the conversation has ended. It ran beside the turns of the chat.
    Reviewed {
        /// The agent of the reviewed conversation.
        agent: &'a str,
        /// The result.
        report: &'a ReviewReport,
        /// The requested verbosity of the notice.
        notify: Notify,
    },
    /// A detail about model calls and prefix breaks, for verbose output.
    Note {
        /// The agent.
        agent: &'a str,
        /// The text of the note.
        message: &'a str,
    },
    /// A warning for the user; not a failure.
    Warning {
        /// The agent.
        agent: &'a str,
        /// The text of the warning.
        message: &'a str,
    },
    /// An event of a fork of the chat, which runs beside the turns: it is not part of a turn, and its text is
    /// no answer to the user. Forks of a turn (sub-agents with `fork: true`) report their events like any
    /// sub-agent.
    Fork {
        /// The holder of the fork: `the review`.
        holder: &'a str,
        /// The event.
        event: &'a Event<'a>,
    },
}

/// A request that a model has answered.
#[derive(Debug, Clone, Copy)]
pub struct AnsweredRequest<'a> {
    /// The session.
    pub session: &'a str,
    /// The provider.
    pub provider: &'a str,
    /// The model name as the provider uses it.
    pub model: &'a str,
    /// Digest of everything that was sent, as far as it is part of the session.
    pub prefix: Digest,
    /// The time when it was sent.
    pub at: Millis,
    /// The cost saved because the provider read its prefix from the cache.
    pub spared: Cost,
    /// The diagnosis of its prefix; `None` for a first request and for one beside the conversation.
    pub diagnosis: Option<&'a Diagnosis>,
}

/// A receiver of events. Its method must not block for long and is called from any thread.
pub trait Listener: Send + Sync {
    /// Receives an event.
    fn on_event(&self, event: &Event<'_>);
}

/// Ignores all events.
impl Listener for () {
    fn on_event(&self, _: &Event<'_>) {}
}

/// A request for the approval of a tool call.
#[derive(Debug, Clone)]
pub struct ApprovalRequest<'a> {
    /// The agent that makes the call.
    pub agent: &'a str,
    /// The call as the model made it.
    pub call: &'a ToolCall,
    /// The arguments, cast and validated.
    pub arguments: &'a cachalot_tools::Arguments,
    /// The rule under `permissions.ask` that matches the call, or the deny rule to which `doubt` refers;
    /// `None` if no rule matches.
    pub rule: Option<&'a str>,
    /// The reason of a hook that requires an approval, if there is one.
    pub why: Option<&'a str>,
    /// The possible effect of the call that requires an approval unless a rule names it.
    pub concern: Option<&'a Concern>,
    /// The reason why `rule`, a deny rule, cannot be evaluated for this call. An approver that asks no human
    /// must refuse such a call.
    pub doubt: Option<&'a str>,
    /// The reason why no rule under `permissions.allow` with a wildcard matches the commands of the call; `None` if it
    /// is asked about for another reason.
    pub obstacle: Option<&'a str>,
    /// The calls that [`Approval::Always`] covers, as a rule under `permissions.allow`; `None` if it covers
    /// this call only.
    pub pattern: Option<&'a str>,
    /// The place where the commands of the call run; `None` if it runs none, or an MCP server does.
    pub place: Option<CommandPlace>,
    /// What the call touches.
    pub resource_access: &'a cachalot_tools::ResourceAccess,
    /// Names and values that hooks supply to the approver.
    pub notes: &'a BTreeMap<String, String>,
}

/// The place where commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandPlace {
    /// A sandbox of the operating system, which guards protected and denied files.
    Sandbox,
    /// A limited one, which does not guard files in the workspace.
    LimitedSandbox,
    /// The machine, with the rights of the user.
    Outside,
}

impl ApprovalRequest<'_> {
    /// The message for a call that is refused because no user can be asked: the reason, and what would allow
    /// it. `flag` is a command-line option that approves calls, except doubtful ones and writes of protected
    /// files.
    #[must_use]
    pub fn refusal_message(&self, flag: Option<&str>) -> String {
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
            (.., Some(concern)) if concern.kind == ConcernKind::LeavesSandbox => {
                concern.remedy(tool)
            }
            // An ask rule takes precedence over an allow rule.
            (Some(rule), ..) => format!(
                "the rule `{rule}` under permissions.ask requires approval, independent of permissions.allow{lets}"
            ),
            (None, _, Some(why), _) => format!("a hook wants it asked about: {why}{lets}"),
            (.., Some(concern)) => format!("it {concern}; {or}{}", concern.remedy(tool)),
            (.., None) => match self.obstacle {
                Some(why) => format!(
                    "no pattern under `permissions.allow` matches it: {why}; {or}a rule that spells the whole command without `*` lets it"
                ),
                None => format!("{or}`{tool}` under `permissions.allow` lets it"),
            },
        }
    }
}

/// A possible effect of a call that requires an approval, even if a rule allows the call in general.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    /// The kind of effect.
    pub kind: ConcernKind,
    /// A description of the effect, such as `sends data to docs.example`.
    pub text: String,
}

/// A kind of [`Concern`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcernKind {
    /// The call changes nothing locally, but can send data to another machine.
    SendsData,
    /// The call writes a file that controls agents or hooks. Only the user's approval of this call, or a rule
    /// that names the file, allows it.
    WritesProtected,
    /// The call has failed in a sandbox, and would run without one. Only the user's approval of this call allows it.
    LeavesSandbox,
    /// The commands of the call can change files in the workspace that could not be brought back.
    CannotBeUndone,
}

impl Concern {
    /// Describes what would allow the call, for a message.
    #[must_use]
    pub fn remedy(&self, tool: &str) -> String {
        match self.kind {
            ConcernKind::SendsData => format!(
                "`{tool}` under `permissions.allow`, best with the address (`{tool}:url=https://docs.example/*`), or `allowed_hosts` of its toolset lets it"
            ),
            ConcernKind::WritesProtected => {
                "a rule under `permissions.allow` that names the file, or spells the whole command, lets it, and commands run with `--sandbox`".to_owned()
            }
            ConcernKind::CannotBeUndone => format!(
                "`{tool}` under `permissions.allow` lets it, and files that git has need no copies"
            ),
            ConcernKind::LeavesSandbox => {
                "`--sandbox-write` and `--sandbox-network` permit more in the sandbox".to_owned()
            }
        }
    }
}

impl std::fmt::Display for Concern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The answer to an [`ApprovalRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// This call is approved.
    Yes,
    /// For the rest of the chat, this agent may make calls that [`ApprovalRequest::pattern`] covers and that would
    /// need an approval for the same reason: the same rule, the same concern, or neither.
    Always,
    /// The call is denied, with an optional reason for the model.
    No(Option<String>),
}

/// Answers requests for approval.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Answers a request. The calls of one turn are presented one at a time.
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval;

    /// Called before the commands of a permitted call run in a sandbox, also if nothing was asked about it.
    async fn before_commands(&self) {}

    /// The permission mode reported to hooks.
    fn mode(&self) -> PermissionMode {
        PermissionMode::Default
    }
}

/// Denies every request for approval, because no user can be asked.
#[derive(Debug, Clone, Copy)]
pub struct DenyAll;

#[async_trait]
impl Approver for DenyAll {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        let remedy = question.refusal_message(None);
        Approval::No(Some(format!("no user is present to approve it; {remedy}")))
    }

    fn mode(&self) -> PermissionMode {
        PermissionMode::DontAsk
    }
}
