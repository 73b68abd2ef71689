//! Agents: teams from YAML, the turn loop, permissions and delegation.
//!
//! The turn loop sees tools through [`cachalot_tools::Toolbox`] and knows nothing of how results
//! come about. What a turn needs of the world (models, tools, sessions, somebody to ask) is handed
//! in as a [`House`].
//!
//! Hooks are told of what happens in a turn, and what they return is honoured: the loop asks nobody
//! else whether a message may be said, a call made or a model asked, or what is to be answered
//! instead. What they are there for it does not know.
//!
//! Whatever happens in a turn (a failure, an interruption, a budget that is used up), its session
//! stays one that every provider accepts: calls have results, user and model take turns, and nothing
//! that was sent is changed.
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
