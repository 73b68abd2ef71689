//! Provider clients, credentials, and the model catalog with prices. The chat types and the formats of the providers'
//! APIs are those of `cachalot-wire`.
//!
//! The crate contains what a client of a provider needs. It knows no cache, no tool execution and no
//! session; these belong to the crates that use it.

mod address;
pub mod budget;
pub mod catalog;
mod charge;
mod cloud;
mod duration;
mod provider;
mod provider_table;
pub mod routing;

pub use budget::{Budget, Meter, Spending};
pub use cachalot_accounting::{Price, PriceChange, Rates, Terms, Unpriced, Usage, date, price};
pub use cachalot_wire as wire;
pub use cachalot_wire::{
    AcceptedToolChanges, Block, Capabilities, ComparisonParameter, Delta, Error, ErrorKind, Extra,
    Format, Image, ImageSource, MarkerRules, MarkerStyle, MediaLimits, Message, OutputFormat,
    Parameters, Reasoning, Reply, Request, RequestedReasoning, Role, SettingChanges, StopReason,
    Thinking, ToolChoice, ToolDefinition, ToolResult, ToolUse, error, marker_rules, media,
};
pub use catalog::{Catalog, CatalogEntry, ModelLimits};
pub use charge::Charge;
pub use duration::{AGE, DURATION};
pub use provider::{
    MODEL_KEYS, Model, ModelConfiguration, ModelDependencies, ModelSettings, Models, PROVIDER,
    PROVIDER_KEYS, RateLimitPause, RetryPauses, SystemRetryPauses, Timeouts, UnsentParameter,
};
