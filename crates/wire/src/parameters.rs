//! Tools and parameters of requests.

use cachalot_core::config::{ParameterKind as Kind, Settings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Extra;

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// Name; must match `^[a-zA-Z0-9_-]{1,64}$`, the strictest rule of the providers.
    pub name: String,
    /// Description: when and how to use the tool.
    pub description: String,
    /// JSON Schema of the arguments; an object.
    pub parameters: Value,
}

/// Parameters of a request. They follow the messages in the body.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    /// The model's name at its provider.
    pub model: String,
    /// Maximum number of output tokens, including reasoning.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling (`top_p`).
    pub top_p: Option<f64>,
    /// Stop sequences.
    pub stop: Vec<String>,
    /// Tools that the model may or must call.
    pub tool_choice: Option<ToolChoice>,
    /// Allows several tool calls in one answer; `None` means the provider's default.
    pub parallel_tool_calls: Option<bool>,
    /// Amount of reasoning.
    pub reasoning: Option<RequestedReasoning>,
    /// Requires JSON output of this schema.
    pub output: Option<OutputFormat>,
    /// Routing key: requests with the same key go to the machine that caches their prefix (OpenAI); at most
    /// 64 characters.
    pub cache_key: Option<String>,
    /// Additional fields, sent unchanged; they override the fields of this type.
    pub extra: Extra,
}

impl Parameters {
    /// Returns the key by which requests are routed to the machine that caches their prefix.
    #[must_use]
    pub fn routing_key(&self) -> Option<&str> {
        self.cache_key.as_deref()
    }
}

/// Tools that a model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool.
    None,
    /// At least one tool.
    Any,
    /// This tool.
    Tool(String),
}

/// Amount of reasoning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestedReasoning {
    /// An effort in the provider's words: `minimal`, `low`, `medium`, `high`, …
    Effort(String),
    /// Maximum number of reasoning tokens.
    Budget(u64),
}

/// The answer is JSON that matches a schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Settings)]
#[settings(name = "`structured_output`")]
pub struct OutputFormat {
    /// The name of the shape.
    #[setting(default = "answer")]
    pub name: String,
    /// Its JSON Schema.
    #[setting(kind = Kind::Object)]
    pub schema: Value,
    /// Requires the provider to enforce the schema.
    #[setting(default = true)]
    pub strict: bool,
}

impl OutputFormat {
    /// Creates JSON mode: the output is any JSON object. Wire formats without JSON mode send no format; the
    /// prompt has to ask for JSON with all of them.
    #[must_use]
    pub fn json_object() -> Self {
        Self {
            name: "json_object".to_owned(),
            schema: json!({"type": "object"}),
            strict: false,
        }
    }

    /// Returns true for JSON mode.
    pub fn is_json_object(&self) -> bool {
        *self == Self::json_object()
    }
}

/// The provider whose own API answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiOwner {
    /// OpenAI, or Azure.
    OpenAi,
    /// Anthropic, or a cloud platform with its API.
    Anthropic,
    /// Google.
    Google,
    /// A provider whose parameters are not known.
    Other,
}

/// Configured parameters that an API refuses. They are not sent.
#[derive(Debug, Clone, Copy)]
pub struct RefusedParameters {
    /// Names.
    pub names: &'static [&'static str],
    /// The reason.
    pub reason: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// Sampling parameters of servers for open models.
pub(crate) const OF_OPEN_MODELS: &[&str] = &["top_k", "min_p", "typical_p", "repetition_penalty"];

/// Sampling parameters of Chat Completions.
pub(crate) const OF_CHAT: &[&str] = &["frequency_penalty", "presence_penalty", "seed"];

/// The remedy for a parameter that no setting replaces.
pub(crate) const LEAVE_OUT: &str = "leave it out";

/// Moves a field to this path, unless something is there.
pub(crate) fn move_into(extra: &mut Extra, name: &str, path: &[&str]) {
    let Some(value) = extra.shift_remove(name) else {
        return;
    };
    let Some((last, objects)) = path.split_last() else {
        return;
    };
    let mut object: &mut Map<String, Value> = extra;
    for name in objects {
        let inner = object
            .entry(*name)
            .or_insert_with(|| Value::Object(Map::new()));
        match inner {
            Value::Object(inner) => object = inner,
            _ => return,
        }
    }
    object.entry(*last).or_insert(value);
}
