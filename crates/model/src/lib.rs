//! Chat types (messages, requests, replies, usage), provider clients, and the model catalog with prices.
//! Five wire formats are supported: OpenAI Chat Completions, OpenAI Responses, Anthropic Messages, Gemini
//! and Amazon Bedrock Converse.
//!
//! The crate contains what a client of a provider needs. It knows no cache, no tool execution and no
//! session; these belong to the crates that use it.

mod address;
pub mod budget;
pub mod catalog;
mod cloud;
mod comparison;
mod duration;
pub mod error;
mod format;
pub mod marker_rules;
pub mod media;
mod message;
mod parameters;
mod provider;
mod provider_table;
mod reply;
mod request;
pub mod routing;
mod table;
mod usage;
pub mod wire;

pub use budget::{BUDGET, Budget, Meter, Spending};
pub use catalog::{Capabilities, Catalog, CatalogEntry, ModelLimits, Price, Rates, Thinking};
pub use comparison::ComparisonParameter;
pub use duration::{AGE, DURATION};
pub use error::{Error, ErrorKind};
pub use format::Format;
pub use marker_rules::{MarkerRules, MarkerStyle};
pub use media::MediaLimits;
pub use message::{
    Block, Extra, Image, ImageSource, Message, Reasoning, Role, ToolResult, ToolUse,
};
pub use parameters::{OutputFormat, Parameters, RequestedReasoning, ToolChoice, ToolDefinition};
pub use provider::{
    MODEL, MODEL_KEYS, Model, ModelConfiguration, ModelDependencies, ModelSettings, Models,
    PROVIDER, PROVIDER_KEYS, RetryPauses, SystemRetryPauses, Timeouts, UnsentParameter,
};
pub use reply::{Delta, Reply, StopReason};
pub use request::Request;
pub use usage::Usage;
pub use wire::notes::{needs_notes, prepare};
