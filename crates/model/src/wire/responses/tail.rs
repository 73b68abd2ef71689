//! Renders the end of the body after the input.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::wire::openai::{self, object};
use crate::wire::tail::number;
use crate::{OutputFormat, Parameters, RequestedReasoning, ToolChoice};

/// Names that the user's fields must not have; see [`openai::tail`].
const RESERVED_MEMBERS: [&str; 3] = ["tools", "input", "stream"];

pub(super) fn tail(parameters: &Parameters, stream: bool) -> Bytes {
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
    let mut fields = object([
        ("model", Value::from(model.as_str())),
        ("store", Value::Bool(false)),
    ]);
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    let include = || json!(["reasoning.encrypted_content"]);
    add("include", (!openai::never_reasons(model)).then(include));
    add("max_output_tokens", max_output_tokens.map(Value::from));
    add("temperature", number(*temperature));
    add("top_p", number(*top_p));
    add("stop", (!stop.is_empty()).then(|| json!(stop)));
    add("tool_choice", tool_choice.as_ref().map(choice));
    add("parallel_tool_calls", parallel_tool_calls.map(Value::from));
    add("reasoning", reasoning.as_ref().map(think));
    add("text", output.as_ref().map(text_format));
    add("prompt_cache_key", cache_key.as_deref().map(Value::from));
    add("stream", stream.then_some(Value::Bool(true)));
    openai::tail(fields, extra, &RESERVED_MEMBERS)
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
    }
}

/// Returns the reasoning parameter. The format has no token budget; the corresponding effort is sent. No
/// summary is requested, because OpenAI then rejects every request of an unverified organization; users who
/// want one set the field `reasoning: {summary: auto}`.
fn think(wish: &RequestedReasoning) -> Value {
    let effort = match wish {
        RequestedReasoning::Effort(effort) => effort.as_str(),
        RequestedReasoning::Budget(tokens) => openai::effort(*tokens),
    };
    json!({"effort": effort})
}

fn text_format(format: &OutputFormat) -> Value {
    if format.is_json_object() {
        return json!({"format": {"type": "json_object"}});
    }
    let OutputFormat {
        name,
        schema,
        strict,
    } = format;
    json!({
        "format": {"type": "json_schema", "name": name, "schema": schema, "strict": strict},
    })
}
