//! Renders the end of the body after the messages.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::rules::ParameterRules;
use crate::tail::{Merging, number, present, rendered};
use crate::{Parameters, RequestedReasoning, ToolChoice};

/// Default of `max_tokens`, which the API requires: the number of tokens that every model supports. A
/// reasoning budget, which counts toward the limit, is added.
pub const DEFAULT_MAX_TOKENS: u64 = 4096;

/// The default if an effort is requested: models with efforts support more tokens, and reasoning counts
/// toward the limit.
pub const DEFAULT_MAX_TOKENS_WITH_EFFORT: u64 = 16_384;

/// Members in other parts of the request. Additional fields must not set `stream`, because the reader of
/// the answer depends on it.
const RESERVED_MEMBERS: [&str; 4] = ["tools", "system", "messages", "stream"];

/// Renders the tail: begins with a comma and ends with the body's brace; no key occurs twice.
pub(crate) fn tail(parameters: &Parameters, stream: bool, rules: ParameterRules) -> Bytes {
    let mut fields = parameter_members(parameters, rules);
    if stream && rules.names_stream() {
        fields.insert("stream".into(), Value::Bool(true));
    }
    rendered(fields, &parameters.extra, &RESERVED_MEMBERS, Merging::None)
}

fn parameter_members(parameters: &Parameters, rules: ParameterRules) -> Map<String, Value> {
    let Parameters {
        model,
        max_output_tokens,
        temperature,
        top_p,
        stop,
        tool_choice,
        parallel_tool_calls,
        reasoning,
        output,
        cache_key: _, // OpenAI only
        extra: _,     // merged in `tail`
    } = parameters;
    let max_tokens = max_output_tokens.unwrap_or_else(|| default_max_tokens(reasoning.as_ref()));
    let wish = reasoning.as_ref();
    let thinking = wish.and_then(|wish| rules.thinking(wish, max_tokens));
    let effort = wish.and_then(|wish| rules.effort(wish));
    let sampled = |value: &Option<f64>| number(value.filter(|_| rules.sampling));
    let format = output.as_ref().filter(|output| !output.is_json_object());
    let format = format.map(|output| json!({"type": "json_schema", "schema": output.schema}));
    let output_config = present([("effort", effort.map(Value::from)), ("format", format)]);
    let names_model = rules.version().is_none();
    present([
        ("anthropic_version", rules.version().map(Value::from)),
        ("model", names_model.then(|| Value::from(model.as_str()))),
        ("max_tokens", Some(Value::from(max_tokens))),
        ("temperature", sampled(temperature)),
        ("top_p", sampled(top_p)),
        ("stop_sequences", (!stop.is_empty()).then(|| json!(stop))),
        (
            "tool_choice",
            choice(tool_choice.as_ref(), *parallel_tool_calls),
        ),
        ("thinking", thinking),
        (
            "output_config",
            (!output_config.is_empty()).then(|| Value::Object(output_config)),
        ),
    ])
}

fn default_max_tokens(wish: Option<&RequestedReasoning>) -> u64 {
    match wish {
        Some(RequestedReasoning::Budget(tokens)) => DEFAULT_MAX_TOKENS.saturating_add(*tokens),
        Some(RequestedReasoning::Effort(effort)) if effort != "none" => {
            DEFAULT_MAX_TOKENS_WITH_EFFORT
        }
        _ => DEFAULT_MAX_TOKENS,
    }
}

/// Parallel calls are the provider's default; only disabling them is sent.
fn choice(choice: Option<&ToolChoice>, parallel: Option<bool>) -> Option<Value> {
    let one_at_a_time = parallel == Some(false);
    let mut said = match choice {
        Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::Any) => json!({"type": "any"}),
        Some(ToolChoice::Tool(name)) => json!({"type": "tool", "name": name}),
        Some(ToolChoice::None) => return Some(json!({"type": "none"})),
        None if one_at_a_time => json!({"type": "auto"}),
        None => return None,
    };
    if let (true, Some(fields)) = (one_at_a_time, said.as_object_mut()) {
        fields.insert("disable_parallel_tool_use".into(), Value::Bool(true));
    }
    Some(said)
}
