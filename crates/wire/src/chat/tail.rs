//! Renders the end of the body after the messages.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::openai;
use crate::tail::{number, present, rendered};
use crate::{OutputFormat, Parameters, RequestedReasoning};

/// Names of the output limit: the name for OpenAI's models, and the older name, which all other servers
/// accept.
const OUTPUT_LIMIT_NAMES: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Names that the user's fields must not have; see [`rendered`].
const RESERVED_MEMBERS: [&str; 3] = ["tools", "messages", "stream"];

pub(crate) fn tail(parameters: &Parameters, stream: bool) -> Bytes {
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
        cache_key,
        extra,
    } = parameters;
    let limited = OUTPUT_LIMIT_NAMES
        .iter()
        .any(|name| extra.contains_key(*name));
    let limit = OUTPUT_LIMIT_NAMES[usize::from(!openai::is_openai_model(model))];
    let (thinking, thought) = reasoning.as_ref().map(|wish| think(model, wish)).unzip();
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let fields = present([
        ("model", Some(Value::from(model.as_str()))),
        (
            limit,
            max_output_tokens.filter(|_| !limited).map(Value::from),
        ),
        ("temperature", number(*temperature)),
        ("top_p", number(*top_p)),
        ("stop", (!stop.is_empty()).then(|| json!(stop))),
        (
            "tool_choice",
            tool_choice
                .as_ref()
                .map(|choice| openai::tool_choice(choice, named)),
        ),
        ("parallel_tool_calls", parallel_tool_calls.map(Value::from)),
        ("response_format", output.as_ref().map(response_format)),
        ("prompt_cache_key", cache_key.as_deref().map(Value::from)),
        ("stream", stream.then_some(Value::Bool(true))),
        (
            "stream_options",
            stream.then(|| json!({"include_usage": true})),
        ),
        (thinking.unwrap_or_default(), thought),
    ]);
    rendered(fields, extra, &RESERVED_MEMBERS, openai::GROUPS)
}

/// Returns the reasoning parameter with its name. An effort is `reasoning_effort`. The format has no token budget: OpenAI's
/// models get the corresponding effort, all others get OpenRouter's `reasoning.max_tokens`.
fn think(model: &str, wish: &RequestedReasoning) -> (&'static str, Value) {
    match wish {
        RequestedReasoning::Effort(effort) => ("reasoning_effort", Value::from(effort.as_str())),
        RequestedReasoning::Budget(tokens) if openai::is_openai_model(model) => {
            ("reasoning_effort", openai::effort(*tokens).into())
        }
        RequestedReasoning::Budget(tokens) => ("reasoning", json!({"max_tokens": tokens})),
    }
}

fn response_format(format: &OutputFormat) -> Value {
    if format.is_json_object() {
        return json!({"type": "json_object"});
    }
    let OutputFormat {
        name,
        schema,
        strict,
    } = format;
    json!({
        "type": "json_schema",
        "json_schema": {"name": name, "schema": schema, "strict": strict},
    })
}
