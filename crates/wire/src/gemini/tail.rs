//! Renders the end of the body after the contents.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::tail::{Merging, number, present, rendered};
use crate::{Parameters, RequestedReasoning, ToolChoice};

/// Members in other parts of the request, or in its path.
const RESERVED_MEMBERS: [&str; 5] = ["tools", "systemInstruction", "contents", "model", "stream"];

/// Renders the tail: begins with a comma, unless it has no members, and ends with the body's brace.
pub(crate) fn tail(parameters: &Parameters) -> Bytes {
    rendered(
        parameter_members(parameters),
        &parameters.extra,
        &RESERVED_MEMBERS,
        Merging::All,
    )
}

fn parameter_members(parameters: &Parameters) -> Map<String, Value> {
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
        extra: _,     // merged in `tail`
    } = parameters;
    let schema = output
        .as_ref()
        .filter(|output| !output.is_json_object())
        .map(|output| output.schema.clone());
    let config = present([
        ("maxOutputTokens", max_output_tokens.map(Value::from)),
        ("temperature", number(*temperature)),
        ("topP", number(*top_p)),
        ("stopSequences", (!stop.is_empty()).then(|| json!(stop))),
        (
            "responseMimeType",
            output.as_ref().map(|_| json!("application/json")),
        ),
        ("responseJsonSchema", schema),
        (
            "thinkingConfig",
            reasoning.as_ref().map(|wish| thinking(wish, model)),
        ),
    ]);
    let calling = |choice| json!({"functionCallingConfig": calling(choice)});
    present([
        ("toolConfig", tool_choice.as_ref().map(calling)),
        (
            "generationConfig",
            (!config.is_empty()).then(|| Value::Object(config)),
        ),
    ])
}

fn calling(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Any => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    }
}

/// Returns the thinking configuration, with thoughts included in the answer. Up to Gemini 2.5 it is a
/// budget, from Gemini 3 on a level. The budgets for efforts are those of Google's own OpenAI endpoint
/// (<https://ai.google.dev/gemini-api/docs/openai#thinking>).
fn thinking(wish: &RequestedReasoning, model: &str) -> Value {
    let name = model.rsplit('/').next().unwrap_or(model);
    let by_budget = name.starts_with("gemini-2");
    match wish {
        RequestedReasoning::Budget(0) => json!({"thinkingBudget": 0}),
        RequestedReasoning::Budget(tokens) => {
            json!({"thinkingBudget": tokens, "includeThoughts": true})
        }
        RequestedReasoning::Effort(effort) if by_budget => {
            let budget = match effort.as_str() {
                "none" => return json!({"thinkingBudget": 0}),
                "minimal" | "low" => 1_024,
                "medium" => 8_192,
                _ => 24_576,
            };
            json!({"thinkingBudget": budget, "includeThoughts": true})
        }
        // Thinking cannot be switched off.
        RequestedReasoning::Effort(effort) if effort == "none" => {
            json!({"thinkingLevel": "MINIMAL"})
        }
        RequestedReasoning::Effort(effort) => {
            json!({"thinkingLevel": effort.to_uppercase(), "includeThoughts": true})
        }
    }
}
