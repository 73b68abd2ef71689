//! Renders the end of the body after the input.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::openai;
use crate::tail::{Merging, number, present, rendered};
use crate::{OutputFormat, Parameters, RequestedReasoning, ToolChoice};

/// Members in other parts of the request.
const RESERVED_MEMBERS: [&str; 4] = ["tools", "system_instruction", "input", "stream"];

/// The lowest level of thinking, which cannot be switched off.
const LOWEST_LEVEL: &str = "minimal";

pub(super) fn tail(parameters: &Parameters, stream: bool) -> Bytes {
    let Parameters {
        model,
        max_output_tokens,
        temperature,
        top_p,
        stop,
        tool_choice,
        parallel_tool_calls: _, // not supported by the API
        reasoning,
        output,
        cache_key: _, // OpenAI only
        extra,
    } = parameters;
    let mut config = present([
        ("max_output_tokens", max_output_tokens.map(Value::from)),
        ("temperature", number(*temperature)),
        ("top_p", number(*top_p)),
        ("stop_sequences", (!stop.is_empty()).then(|| json!(stop))),
        ("tool_choice", tool_choice.as_ref().map(choice)),
    ]);
    config.extend(reasoning.as_ref().map(thinking).unwrap_or_default());
    let fields = present([
        ("model", Some(Value::from(model.as_str()))),
        ("store", Some(Value::Bool(false))),
        (
            "generation_config",
            (!config.is_empty()).then(|| Value::Object(config)),
        ),
        ("response_format", output.as_ref().map(response_format)),
        ("stream", stream.then_some(Value::Bool(true))),
    ]);
    rendered(fields, extra, &RESERVED_MEMBERS, Merging::All)
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "any".into(),
        ToolChoice::Tool(name) => json!({"allowed_tools": {"mode": "any", "tools": [name]}}),
    }
}

/// Returns the level of thinking, with summaries in the answer.
fn thinking(wish: &RequestedReasoning) -> Map<String, Value> {
    let level = match wish {
        RequestedReasoning::Budget(0) => LOWEST_LEVEL,
        RequestedReasoning::Budget(tokens) => openai::effort(*tokens),
        RequestedReasoning::Effort(effort) if effort == "none" => LOWEST_LEVEL,
        RequestedReasoning::Effort(effort) => effort.as_str(),
    };
    present([
        ("thinking_level", Some(level.into())),
        ("thinking_summaries", Some("auto".into())),
    ])
}

fn response_format(format: &OutputFormat) -> Value {
    let schema = (!format.is_json_object()).then(|| format.schema.clone());
    Value::Object(present([
        ("type", Some("text".into())),
        ("mime_type", Some("application/json".into())),
        ("schema", schema),
    ]))
}
