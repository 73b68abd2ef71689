//! Chat on a terminal or through a pipe: output, approvals and input.

mod agent_command;
mod approval;
mod attachments;
mod command;
mod command_output;
mod edit_diff;
pub(crate) mod event_stream;
pub(crate) mod invocation;
mod last_exchange;
mod messages;
mod mode;
mod model_names;
mod open_terminal;
mod pending_answers;
pub(crate) mod pipe;
mod prompt;
mod questions;
pub(crate) mod resumption;
mod review;
pub(crate) mod setup;
pub(crate) mod show;
mod status;
pub(crate) mod sum;
pub(crate) mod terminal;
mod terminal_session;
mod turn;
pub(crate) mod words;
