//! Renders the end of the body after the input.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::openai;
use crate::tail::{number, present, rendered};
use crate::{OutputFormat, Parameters, RequestedReasoning};

/// Names that the user's fields must not have; see [`rendered`].
const RESERVED_MEMBERS: [&str; 3] = ["tools", "input", "stream"];

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
    let include = || json!(["reasoning.encrypted_content"]);
    let named = |name: &str| json!({"type": "function", "name": name});
    let fields = present([
        ("model", Some(Value::from(model.as_str()))),
        ("store", Some(Value::Bool(false))),
        ("include", (!openai::never_reasons(model)).then(include)),
        ("max_output_tokens", max_output_tokens.map(Value::from)),
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
        ("reasoning", reasoning.as_ref().map(think)),
        ("text", output.as_ref().map(text_format)),
        ("prompt_cache_key", cache_key.as_deref().map(Value::from)),
        ("stream", stream.then_some(Value::Bool(true))),
    ]);
    rendered(fields, extra, &RESERVED_MEMBERS, openai::GROUPS)
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
