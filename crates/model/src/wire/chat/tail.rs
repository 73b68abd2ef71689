//! Renders the end of the body after the messages.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::wire::openai::{self, Object, object};
use crate::wire::tail::number;
use crate::{OutputFormat, Parameters, RequestedReasoning, ToolChoice};

/// Names of the output limit: the name for OpenAI's models, and the older name, which all other servers
/// accept.
const OUTPUT_LIMIT_NAMES: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Names that the user's fields must not have; see [`openai::tail`].
const RESERVED_MEMBERS: [&str; 3] = ["tools", "messages", "stream"];

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
    let mut fields = object([("model", Value::from(model.as_str()))]);
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    let limited = OUTPUT_LIMIT_NAMES
        .iter()
        .any(|name| extra.contains_key(*name));
    let limit = if openai::is_openai_model(model) {
        OUTPUT_LIMIT_NAMES[0]
    } else {
        OUTPUT_LIMIT_NAMES[1]
    };
    add(
        limit,
        max_output_tokens.filter(|_| !limited).map(Value::from),
    );
    add("temperature", number(*temperature));
    add("top_p", number(*top_p));
    add("stop", (!stop.is_empty()).then(|| json!(stop)));
    add("tool_choice", tool_choice.as_ref().map(choice));
    add("parallel_tool_calls", parallel_tool_calls.map(Value::from));
    add("response_format", output.as_ref().map(response_format));
    add("prompt_cache_key", cache_key.as_deref().map(Value::from));
    if stream {
        add("stream", Some(Value::Bool(true)));
        add("stream_options", Some(json!({"include_usage": true})));
    }
    if let Some(wish) = reasoning {
        think(&mut fields, model, wish);
    }
    openai::tail(fields, extra, &RESERVED_MEMBERS)
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

/// Adds the reasoning parameter. An effort is `reasoning_effort`. The format has no token budget: OpenAI's
/// models get the corresponding effort, all others get OpenRouter's `reasoning.max_tokens`.
fn think(fields: &mut Object, model: &str, wish: &RequestedReasoning) {
    let (name, value) = match wish {
        RequestedReasoning::Effort(effort) => ("reasoning_effort", Value::from(effort.as_str())),
        RequestedReasoning::Budget(tokens) if openai::is_openai_model(model) => {
            ("reasoning_effort", openai::effort(*tokens).into())
        }
        RequestedReasoning::Budget(tokens) => ("reasoning", json!({"max_tokens": tokens})),
    };
    fields.insert(name.to_owned(), value);
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
