//! Agents: teams from YAML, the turn loop, permissions and delegation.
//!
//! The turn loop calls tools through [`cachalot_tools::Toolbox`] and does not know how results are produced.
//! A [`House`] holds the dependencies of a turn: models, tools, sessions, an approver.
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
mod cancel;
pub mod chat;
mod context;
mod conversation;
pub mod definition;
mod delegate;
mod desk;
mod error;
pub mod event;
mod fork;
mod herald;
pub mod house;
mod media;
mod protected;
mod provenance;
mod repetition;
mod report;
mod review;
mod roster;
mod said;
mod shared;
mod turn;
mod typed;

pub use cachalot_operation::{Permissions, permissions};
pub use cancel::Cancel;
pub use chat::Chat;
pub use context::ContextSource;
pub use definition::{AgentDefinition, Team, Written};
pub use error::{Error, ErrorKind};
pub use event::{Approval, Approver, Concern, ConcernKind, Event, Listener, Question};
pub use fork::{Difference, Fork, ForkReport, ForkSpec, Inherit, Inherited};
pub use house::{HookSetup, House, Toolboxes};
pub use provenance::Provenance;
pub use report::{Stop, Sum, TurnReport};
pub use review::ReviewReport;
pub use roster::Roster;
