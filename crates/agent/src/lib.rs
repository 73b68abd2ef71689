//! Agents: teams from YAML, the turn loop, permissions and delegation.
//!
//! The turn loop sees tools through [`cachalot_tools::Toolbox`] and knows nothing of how results
//! come about. What a turn needs of the world (models, tools, sessions, somebody to ask) is handed
//! in as a [`House`].

mod cancel;
pub mod chat;
mod context;
mod conversation;
pub mod definition;
mod delegate;
mod error;
pub mod event;
pub mod house;
pub mod permissions;
mod repetition;
mod turn;

pub use cancel::Cancel;
pub use chat::Chat;
pub use context::{ContextSource, Date};
pub use definition::{AgentDefinition, Team, Written};
pub use error::{Error, ErrorKind};
pub use event::{Approval, Approver, Event, Listener, Question};
pub use house::{House, Toolboxes};
pub use permissions::Permissions;
pub use turn::{Stop, Sum, TurnReport};
