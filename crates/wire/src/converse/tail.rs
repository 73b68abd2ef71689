//! Renders the end of the body after the messages, and the tool choice.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::request::fit_name;
use crate::messages::ParameterRules;
use crate::openai;
use crate::tail::{Merging, number, present, rendered};
use crate::{OutputFormat, Parameters, RequestedReasoning, ToolChoice};

/// Members in other parts of the request, or in its path.
const RESERVED_MEMBERS: [&str; 6] = [
    "toolConfig",
    "system",
    "messages",
    "modelId",
    "model",
    "stream",
];

/// Output tokens in addition to the thinking budget, if the request sets no limit.
const DEFAULT_ANSWER_TOKENS: u64 = 4_096;

/// Renders the tail: begins with a comma, unless it has no members, and ends with the body's brace.
pub(crate) fn tail(parameters: &Parameters, rules: ParameterRules) -> Bytes {
    rendered(
        parameter_members(parameters, rules),
        &parameters.extra,
        &RESERVED_MEMBERS,
        Merging::All,
    )
}

/// Renders `toolChoice`, a member of `toolConfig`. `auto` is the default; the API has no `none`.
pub(crate) fn tool_choice(choice: &ToolChoice) -> Option<String> {
    let choice = match choice {
        ToolChoice::Auto | ToolChoice::None => return None,
        ToolChoice::Any => json!({"any": {}}),
        ToolChoice::Tool(name) => json!({"tool": {"name": fit_name(name, "_-")}}),
    };
    Some(format!(r#","toolChoice":{choice}"#))
}

fn parameter_members(parameters: &Parameters, rules: ParameterRules) -> Map<String, Value> {
    let Parameters {
        model,
        max_output_tokens,
        temperature,
        top_p,
        stop,
        tool_choice: _,         // rendered next to the tools
        parallel_tool_calls: _, // not supported by the API
        reasoning,
        output,
        cache_key: _, // OpenAI only
        extra: _,     // merged in `tail`
    } = parameters;
    let is_claude = model.contains("claude");
    let wish = reasoning.as_ref();
    // A budget counts toward the output.
    let maximum = max_output_tokens.or(match wish {
        Some(RequestedReasoning::Budget(budget)) if is_claude && *budget > 0 => {
            Some(budget.saturating_add(DEFAULT_ANSWER_TOKENS))
        }
        _ => None,
    });
    let (thinking, effort) = match wish {
        None => (None, None),
        Some(wish) if is_claude => (
            rules.thinking(wish, maximum.unwrap_or(u64::MAX)),
            rules.effort(wish).map(str::to_owned),
        ),
        Some(RequestedReasoning::Effort(effort)) => (None, Some(effort.clone())),
        Some(RequestedReasoning::Budget(budget)) => {
            (None, Some(openai::effort(*budget).to_owned()))
        }
    };
    let sampled = |value: &Option<f64>| number(value.filter(|_| rules.sampling));
    let config = present([
        ("maxTokens", maximum.map(Value::from)),
        ("temperature", sampled(temperature)),
        ("topP", sampled(top_p)),
        ("stopSequences", (!stop.is_empty()).then(|| json!(stop))),
    ]);
    let output = output.as_ref().filter(|output| !output.is_json_object());
    let of_output = present([
        ("textFormat", output.map(text_format)),
        ("effort", effort.map(Value::from)),
    ]);
    let of_model = present([("thinking", thinking)]);
    let object = |fields: Map<String, Value>| (!fields.is_empty()).then(|| Value::Object(fields));
    present([
        ("inferenceConfig", object(config)),
        ("additionalModelRequestFields", object(of_model)),
        ("outputConfig", object(of_output)),
    ])
}

/// The API takes the schema as a text.
fn text_format(output: &OutputFormat) -> Value {
    let schema = output.schema.to_string();
    json!({
        "type": "json_schema",
        "structure": {"jsonSchema": {"schema": schema, "name": output.name}},
    })
}
