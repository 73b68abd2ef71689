//! Diagnosis of prefix breaks: reasons why a provider's prompt cache could not be read although the prefix
//! was sent before.
//!
//! - [`request`] reads the request body of any client as a chain of pieces.
//! - [`log`] reads request logs, or live traffic ([`log::LiveAnalyzer`]), and finds the conversations in them.
//! - [`diagnosis`] compares a request with the one before it, and lints one request.
//! - [`spend`] reads what coding agents leave on disk, and sums up tokens, money and avoidable cost.
//! - [`walk`] shows one session answer by answer: pauses, breaks, and where the cost jumped.
//! - [`what_if`] recomputes what the same requests would have cost with other lifetimes of the provider's cache.
//! - [`PrefixMonitor`] does the same for a conversation that is running.

pub mod diagnosis;
mod hash;
mod lines;
pub mod log;
mod monitor;
mod reading;
pub mod record;
pub mod request;
mod request_view;
mod rollout;
pub mod spend;
mod timestamp;
pub mod walk;
pub mod what_if;

pub use monitor::{PrefixMonitor, SentRequest};
