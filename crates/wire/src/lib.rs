//! Chat types (messages, parameters, replies, usage), and the formats of provider APIs, one folder each: OpenAI Chat
//! Completions, OpenAI Responses, Anthropic Messages, Gemini's `generateContent`, Gemini's Interactions and Amazon
//! Bedrock's Converse.
//!
//! [`Wire`] is what other crates ask; only `registry` names the implementations.

pub mod address;
mod api_endpoint;
mod capabilities;
mod chat;
mod comparison;
mod converse;
mod conversion;
pub mod embeddings;
pub mod error;
pub mod event_stream;
mod extra;
mod format;
mod gemini;
mod interactions;
mod level;
pub mod marker_rules;
pub mod media;
pub mod members;
mod message;
pub mod messages;
pub mod normal;
pub mod openai;
mod parameters;
mod registry;
mod renewal;
mod renewal_changes;
mod reply;
mod request;
pub mod request_rules;
mod responses;
mod server_output;
mod setting_changes;
pub mod shared_members;
pub mod sse;
pub mod table;
mod tail;
mod terms;
pub mod view;
mod wire;

pub use api_endpoint::{ApiEndpoint, Operation};
pub use cachalot_accounting::{Terms, Usage};
pub use capabilities::{Capabilities, Thinking};
pub use comparison::ComparisonParameter;
pub use conversion::{Conversion, Stream};
pub use error::{Error, ErrorKind};
pub use format::Format;
pub use level::Level;
pub use marker_rules::{MarkerRules, MarkerStyle};
pub use media::MediaLimits;
pub use members::Members;
pub use message::{
    Block, Extra, Image, ImageSource, Message, Reasoning, Role, ToolResult, ToolUse,
};
pub use messages::Platform;
pub use parameters::{
    ApiOwner, OutputFormat, Parameters, RefusedParameters, RequestedReasoning, ToolChoice,
    ToolDefinition,
};
pub use registry::{
    CHAT, CONVERSE, FormatWire, GEMINI, INTERACTIONS, MESSAGES, RESPONSES, endpoints, for_format,
    usage,
};
pub use renewal::renewal;
pub use renewal_changes::{RENEWAL_OUTPUT, RenewalChanges};
pub use reply::{Delta, Reply, StopReason};
pub use request::Request;
pub use request_rules::RequestRules;
pub use server_output::server_output;
pub use setting_changes::{AcceptedToolChanges, SettingChanges};
pub use shared_members::SharedMembers;
pub use terms::{ModelUsage, requested_terms};
pub use view::View;
pub use wire::{Layout, MarkerTime, Member, Pieces, Rendered, StreamReader, Wire};
