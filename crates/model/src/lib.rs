//! Chat types (messages, requests, replies, usage), provider clients, and the model catalog with prices.
//! Five wire formats are supported: OpenAI Chat Completions, OpenAI Responses, Anthropic Messages, Gemini
//! and Amazon Bedrock Converse.
//!
//! The crate contains what a client of a provider needs. It knows no cache, no tool execution and no
//! session; these belong to the crates that use it.

pub mod budget;
pub mod catalog;
mod client;
mod comparison;
mod duration;
pub mod error;
pub mod marker_rules;
pub mod media;
mod message;
mod provider;
mod reply;
mod request;
pub mod routing;
mod usage;
pub mod wire;

pub use budget::{Budget, Meter, Spending};
pub use catalog::{Capabilities, Catalog, CatalogEntry, ModelLimits, Price, Rates, Thinking};
pub use client::{RetryPauses, SystemRetryPauses};
pub use comparison::ComparisonParameter;
pub use duration::{age, duration, parse_age};
pub use error::{Error, ErrorKind};
pub use marker_rules::{MarkerRules, MarkerStyle};
pub use media::MediaLimits;
pub use message::{
    Block, Extra, Image, ImageSource, Message, Reasoning, Role, ToolResult, ToolUse, needs_notes,
    prepare,
};
pub use provider::{Model, ModelConfiguration, ModelDependencies, ModelSettings, Models, Timeouts};
pub use reply::{Delta, Reply, StopReason};
pub use request::{
    OutputFormat, Parameters, Request, RequestedReasoning, ToolChoice, ToolDefinition,
};
pub use usage::Usage;

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// OpenAI Chat Completions, and servers compatible with it.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
    /// Gemini's `generateContent`.
    Gemini,
    /// Amazon Bedrock's Converse.
    Converse,
}
