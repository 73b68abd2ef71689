//! Translation of a Converse request to Anthropic Messages.

use serde_json::{Value, json};

use super::{messages, tools};
use crate::wire::{ApiError, Object, items, refuse, text_of};

/// Translates a request. `claude` is the model's name at Anthropic; `None` for other models, which accept
/// neither reasoning nor additional fields here.
pub(super) fn translate_request(
    request: &Object,
    claude: Option<&str>,
    limit: u64,
) -> Result<Value, ApiError> {
    let model = claude.unwrap_or_else(|| text_of(request, "model"));
    let mut own = Object::from_iter([
        ("model".to_owned(), json!(model)),
        ("max_tokens".to_owned(), json!(limit)),
    ]);
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            own.insert(name.to_owned(), value);
        }
    };
    let config = request.get("inferenceConfig");
    let setting = |name: &str| config.and_then(|config| config.get(name)).cloned();
    set("temperature", setting("temperature"));
    set("top_p", setting("topP"));
    set("stop_sequences", setting("stopSequences"));
    let tools = translated(tools(request), "toolConfig.tools", tool)?;
    let system = items(request.get("system"));
    let system = translated(system, "system", |block| content(block, true))?;
    set("tools", (!tools.is_empty()).then(|| json!(tools)));
    set("system", (!system.is_empty()).then(|| json!(system)));
    let choice = request
        .get("toolConfig")
        .and_then(|config| config.get("toolChoice"));
    set("tool_choice", choice.and_then(tool_choice));
    let output = request.get("outputConfig");
    let format = output.and_then(|output| output.get("textFormat"));
    let mut of_output = Object::new();
    if let Some(format) = format {
        of_output.insert("format".to_owned(), text_format(format)?);
    }
    if let Some(effort) = output.and_then(|output| output.get("effort"))
        && claude.is_some()
    {
        of_output.insert("effort".to_owned(), effort.clone());
    }
    set(
        "output_config",
        (!of_output.is_empty()).then(|| json!(of_output)),
    );
    let mut said = Vec::new();
    for (at, message) in messages(request).iter().enumerate() {
        let role = message.get("role").cloned().unwrap_or_default();
        let at = format!("messages.{at}.content");
        let blocks = translated(super::content(message), &at, |block| {
            content(block, claude.is_some())
        })?;
        said.push(json!({"role": role, "content": blocks}));
    }
    set("messages", Some(json!(said)));
    let further = request.get("additionalModelRequestFields");
    let further = further
        .filter(|_| claude.is_some())
        .and_then(Value::as_object);
    for (name, value) in further.into_iter().flatten() {
        own.insert(name.clone(), value.clone());
    }
    Ok(Value::Object(own))
}

/// Translates blocks; a cache point becomes the marker of the block before it.
fn translated<'a>(
    blocks: impl Iterator<Item = &'a Value>,
    at: &str,
    translate: impl Fn(&Value) -> Option<Value>,
) -> Result<Vec<Value>, ApiError> {
    let mut own: Vec<Value> = Vec::new();
    for (index, block) in blocks.enumerate() {
        let Some(point) = block.get("cachePoint") else {
            own.extend(translate(block));
            continue;
        };
        let Some(last) = own.last_mut() else {
            return refuse(format!(
                "The cachePoint at {at}.{index} has no content before it."
            ));
        };
        let mut marker = json!({"type": "ephemeral"});
        if let Some(ttl) = point.get("ttl") {
            marker["ttl"] = ttl.clone();
        }
        last["cache_control"] = marker;
    }
    Ok(own)
}

fn tool(tool: &Value) -> Option<Value> {
    let spec = tool.get("toolSpec")?;
    let mut own = json!({
        "name": spec.get("name"),
        "input_schema": spec.get("inputSchema").and_then(|schema| schema.get("json")),
    });
    for name in ["description", "strict"] {
        if let Some(value) = spec.get(name) {
            own[name] = value.clone();
        }
    }
    Some(own)
}

fn tool_choice(choice: &Value) -> Option<Value> {
    let (kind, choice) = choice.as_object()?.iter().next()?;
    Some(match choice.get("name") {
        Some(name) => json!({"type": kind, "name": name}),
        None => json!({"type": kind}),
    })
}

/// Parses the schema, which Converse sends as a text.
fn text_format(format: &Value) -> Result<Value, ApiError> {
    let schema = format
        .pointer("/structure/jsonSchema/schema")
        .and_then(Value::as_str);
    let schema: Value =
        serde_json::from_str(schema.unwrap_or_default()).map_err(|error| {
            ApiError::invalid(format!(
                "The value at outputConfig.textFormat.structure.jsonSchema.schema is not valid JSON: {error}"
            ))
        })?;
    Ok(json!({"type": "json_schema", "schema": schema}))
}

/// Translates a block of a message, of a result, or of the system text.
fn content(block: &Value, is_claude: bool) -> Option<Value> {
    let (kind, value) = block.as_object()?.iter().next()?;
    let text = |value: &Value| json!({"type": "text", "text": value});
    Some(match kind.as_str() {
        "text" => text(value),
        "image" => json!({"type": "image", "source": source(value, "image")}),
        "document" => json!({"type": "document", "source": source(value, "application")}),
        "toolUse" => json!({
            "type": "tool_use",
            "id": id(value),
            "name": value.get("name"),
            "input": value.get("input"),
        }),
        "toolResult" => {
            let parts = super::content(value);
            let parts: Vec<Value> = parts.filter_map(|part| content(part, is_claude)).collect();
            json!({
                "type": "tool_result",
                "tool_use_id": id(value),
                "content": parts,
                "is_error": value.get("status").is_some_and(|status| status == "error"),
            })
        }
        "reasoningContent" if !is_claude => return None,
        "reasoningContent" => match value.get("reasoningText") {
            Some(reasoning) => {
                let mut own = json!({"type": "thinking", "thinking": reasoning.get("text")});
                if let Some(signature) = reasoning.get("signature") {
                    own["signature"] = signature.clone();
                }
                own
            }
            None => json!({"type": "redacted_thinking", "data": value.get("redactedContent")}),
        },
        "citationsContent" => {
            let parts = super::content(value);
            let texts: String = parts
                .filter_map(|part| part.get("text")?.as_str())
                .collect();
            text(&json!(texts))
        }
        "json" => text(&json!(value.to_string())),
        _ => text(&json!(block.to_string())),
    })
}

/// Converts a call id to the characters that Anthropic accepts.
fn id(block: &Value) -> String {
    let id = block.get("toolUseId").and_then(Value::as_str);
    id.unwrap_or_default().replace(['.', ':'], "_")
}

fn source(block: &Value, family: &str) -> Value {
    let source = block.get("source");
    let of = |name: &str| source.and_then(|source| source.get(name));
    let format = block.get("format").and_then(Value::as_str);
    let kind = format!("{family}/{}", format.unwrap_or("pdf"));
    match (of("bytes"), of("text")) {
        (Some(bytes), _) => json!({"type": "base64", "media_type": kind, "data": bytes}),
        (None, Some(text)) => json!({"type": "text", "media_type": "text/plain", "data": text}),
        (None, None) => {
            let uri = of("s3Location").and_then(|location| location.get("uri"));
            json!({"type": "url", "url": uri})
        }
    }
}
