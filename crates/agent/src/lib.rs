//! Agents: teams from YAML, the turn loop, permissions and delegation.
//!
//! The turn loop calls tools through [`cachalot_tools::Toolbox`] and does not know how results are produced.
//! A [`Dependencies`] holds the dependencies of a turn: models, tools, sessions, an approver.
//!
//! Hooks receive the events of a turn, and the loop obeys their verdicts: a hook can reject a message, a call
//! or a request, or answer in place of the model. The loop knows no purpose of any hook.
//!
//! After any turn (failed, interrupted, over budget), the session is one that every provider accepts: calls
//! have results, user and model alternate, and sent bytes are unchanged.
#![allow(
    clippy::result_large_err,
    reason = "a failure carries the model's own, and there is at most one in a turn"
)]

mod account;
mod active_session;
mod agent_directory;
pub mod chat;
mod chat_state;
mod context;
mod conversation;
pub mod definition;
mod delegate;
pub mod dependencies;
mod error;
pub mod event;
mod fork;
mod fork_limits;
mod fork_point;
mod handoff;
mod hook_emitter;
mod inherit;
mod media;
mod normalized_reply;
mod prefix_rewrite;
mod prefix_warmup;
mod protected;
mod provenance;
mod reading_call;
mod repetition;
mod report;
mod review;
mod review_report;
mod sub_agents;
mod turn;
mod typed_urls;

pub use agent_directory::AgentDirectory;
pub use cachalot_operation::{
    AnswerField, AnswerKind, Permissions, UserAnswer, UserPrompter, UserQuestion, choice_label,
    permissions,
};
pub use chat::Chat;
pub use context::ContextSource;
pub use definition::{AgentDefinition, SourceFile, Team};
pub use dependencies::{Dependencies, HookSetup, Toolboxes};
pub use error::{Error, ErrorKind};
pub use event::{
    Approval, ApprovalRequest, Approver, CommandPlace, Concern, ConcernKind, Event, Listener,
};
pub use fork::{Fork, ForkDifference, ForkReport, ForkSpec};
pub use inherit::{Inherit, InheritedPart};
pub use prefix_rewrite::PrefixRewrite;
pub use provenance::Provenance;
pub use report::{Stop, TurnReport, UsageTotals};
pub use review_report::ReviewReport;
pub use tokio_util::sync::CancellationToken;
