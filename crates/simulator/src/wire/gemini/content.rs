//! Contents of a request: turns of parts, and thought signatures.

use cachalot_core::{Canonical, Digest};
use serde_json::{Map, Value};

use super::generation;
use crate::dialogue::{DialogueItem, ToolCall, ToolResult};
use crate::wire::{ApiError, Object, items, plain, refuse, text_of};

/// Number of tokens of an image: <https://ai.google.dev/gemini-api/docs/tokens>.
const IMAGE_TOKENS: u64 = 258;

/// Placeholder signatures for calls of other models:
/// <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>.
const NO_SIGNATURES: [&str; 2] = [
    "skip_thought_signature_validator",
    "context_engineering_is_the_way_to_go",
];

/// Data fields; a part has exactly one of them.
const DATA_FIELDS: [&str; 9] = [
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

/// Fields that a part may have in addition.
const ADDITIONAL_FIELDS: [&str; 11] = [
    "audioMetadata",
    "audioTranscription",
    "documentMetadata",
    "mediaProcessing",
    "speechMetadata",
    "spreadsheetMetadata",
    "thought",
    "thoughtSignature",
    "videoMetadata",
    "mediaResolution",
    "partMetadata",
];

/// Contents as scripts and the accounting see them.
pub(super) struct Contents {
    pub(super) dialogue_item: Vec<DialogueItem>,
    /// Role, text and tokens of images, part by part.
    pub(super) blocks: Vec<(&'static str, String, u64)>,
}

/// Returns the signature of a function call or a text; it can be verified without state. It is valid
/// base64, which a client does not change by decoding and encoding it.
pub(in crate::wire) fn signature(of: &Value) -> String {
    let digest = Canonical::value(of).digest();
    Digest::sha256_of_parts(&[b"gemini", digest.as_bytes()]).to_hex()
}

/// Returns the text of a content.
pub(super) fn text(content: &Value) -> String {
    let parts = items(content.get("parts"));
    let texts: Vec<&str> = parts
        .filter_map(|part| part.get("text")?.as_str())
        .collect();
    texts.join("\n")
}

pub(super) fn read(request: &Object, model: &str) -> Result<Contents, ApiError> {
    let contents = match request.get("contents") {
        Some(Value::Array(contents)) if !contents.is_empty() => contents,
        _ => return refuse("* GenerateContentRequest.contents: contents is not specified\n"),
    };
    let mut read = Contents {
        dialogue_item: Vec::new(),
        blocks: Vec::new(),
    };
    // Calls of the model's last turn, which the next turn must answer.
    let mut open: Vec<ToolCall> = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let parts = parts(content, at)?;
        match content.get("role").and_then(Value::as_str) {
            None | Some("user" | "function") => {
                read.add_user_parts(parts, at, &std::mem::take(&mut open))?;
            }
            Some("model") => {
                if !open.is_empty() {
                    return Err(unanswered());
                }
                open = read.add_model_parts(parts, at)?;
                if at == 0 && !open.is_empty() {
                    return refuse(
                        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
                    );
                }
            }
            Some(_) => return refuse("Please use a valid role: user, model."),
        }
    }
    if !open.is_empty() {
        return Err(unanswered());
    }
    if generation(model).is_some_and(|number| number >= 3) {
        signed(contents)?;
    }
    Ok(read)
}

fn unanswered() -> ApiError {
    ApiError::invalid(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
    )
}

/// Returns the parts of a content; checks that each has one data field.
fn parts(content: &Value, at: usize) -> Result<&[Value], ApiError> {
    let parts = match content.get("parts") {
        Some(Value::Array(parts)) if !parts.is_empty() => parts,
        _ => {
            return refuse(format!(
                "* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.\n"
            ));
        }
    };
    for (index, part) in parts.iter().enumerate() {
        let fields = part.as_object();
        let keys = || fields.into_iter().flat_map(Map::keys);
        let is_data = |key: &&String| DATA_FIELDS.contains(&key.as_str());
        let is_known = |key: &&String| is_data(key) || ADDITIONAL_FIELDS.contains(&key.as_str());
        if let Some(key) = keys().find(|key| !is_known(key)) {
            return refuse(format!(
                "Invalid JSON payload received. Unknown name \"{key}\" at 'contents[{at}].parts[{index}]': Cannot find field."
            ));
        }
        if keys().filter(is_data).count() != 1 {
            return refuse(format!(
                "* GenerateContentRequest.contents[{at}].parts[{index}].data: required oneof field 'data' must have one initialized field\n"
            ));
        }
    }
    Ok(parts)
}

impl Contents {
    fn add_user_parts(
        &mut self,
        parts: &[Value],
        at: usize,
        calls: &[ToolCall],
    ) -> Result<(), ApiError> {
        let (mut texts, mut results) = (Vec::new(), Vec::new());
        for (index, part) in parts.iter().enumerate() {
            if let Some(text) = part.get("text").and_then(Value::as_str) {
                texts.push(text.to_owned());
                self.blocks.push(("user", text.to_owned(), 0));
            } else if let Some(response) = part.get("functionResponse") {
                let result = result(response, calls, results.len(), (at, index))?;
                self.blocks.push(("result", response.to_string(), 0));
                results.push(result);
            } else if let Some(data) = part.get("inlineData").or_else(|| part.get("fileData")) {
                if !data["mimeType"].is_string() && data.get("fileUri").is_none() {
                    return refuse(format!(
                        "* GenerateContentRequest.contents[{at}].parts[{index}].inline_data: mime_type is missing\n"
                    ));
                }
                self.blocks.push(("image", String::new(), IMAGE_TOKENS));
            }
        }
        if results.len() != calls.len() {
            return Err(unanswered());
        }
        if !results.is_empty() {
            self.dialogue_item.push(DialogueItem::Results(results));
        }
        if !texts.is_empty() {
            self.dialogue_item.push(DialogueItem::User(texts));
        }
        Ok(())
    }

    fn add_model_parts(&mut self, parts: &[Value], at: usize) -> Result<Vec<ToolCall>, ApiError> {
        let mut calls = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            if let Some(call) = part.get("functionCall").and_then(Value::as_object) {
                let name = text_of(call, "name");
                let arguments = call.get("args").cloned().unwrap_or_default();
                if name.is_empty() || !(arguments.is_object() || arguments.is_null()) {
                    return refuse(format!(
                        "Invalid value at 'contents[{at}].parts[{index}].function_call'"
                    ));
                }
                let id = match text_of(call, "id") {
                    "" => format!("{at}:{}", calls.len()),
                    id => id.to_owned(),
                };
                calls.push(ToolCall {
                    id,
                    name: name.to_owned(),
                    arguments,
                });
                self.blocks
                    .push(("call", part["functionCall"].to_string(), 0));
            } else if let Some(text) = part.get("text").and_then(Value::as_str) {
                let is_thought = part.get("thought") == Some(&Value::Bool(true));
                // Thoughts of earlier turns are not part of the prompt.
                if !is_thought {
                    self.blocks.push(("model", text.to_owned(), 0));
                }
            }
        }
        self.dialogue_item.push(DialogueItem::Model(calls.clone()));
        Ok(calls)
    }
}

fn result(
    response: &Value,
    calls: &[ToolCall],
    number: usize,
    (at, index): (usize, usize),
) -> Result<ToolResult, ApiError> {
    let place = format!("contents[{at}].parts[{index}].function_response");
    let Some(fields) = response.as_object() else {
        return refuse(format!("Invalid value at '{place}'"));
    };
    let name = text_of(fields, "name");
    if name.is_empty() {
        return refuse(format!(
            "* GenerateContentRequest.{place}.name: Name cannot be empty.\n"
        ));
    }
    let Some(answer) = fields.get("response").and_then(Value::as_object) else {
        return refuse(format!(
            "* GenerateContentRequest.{place}.response: required field is not set\n"
        ));
    };
    let id = text_of(fields, "id");
    let called = match id {
        "" => calls.get(number),
        id => calls.iter().find(|call| call.id == id),
    };
    let Some(call) = called.filter(|call| call.name == name) else {
        return refuse(format!(
            "The function response `{name}` answers no function call of the turn before it."
        ));
    };
    let (text, is_error) = match (answer.get("error"), answer.get("output")) {
        (Some(error), _) => (plain(error), true),
        (None, Some(output)) => (plain(output), false),
        (None, None) => (Value::Object(answer.clone()).to_string(), false),
    };
    Ok(ToolResult {
        call_id: call.id.clone(),
        text,
        is_error,
    })
}

/// Checks that, in the current turn, the first function call of each step has its signature.
fn signed(contents: &[Value]) -> Result<(), ApiError> {
    let is_said = |content: &Value| {
        let is_users = content.get("role").and_then(Value::as_str) != Some("model");
        is_users && items(content.get("parts")).any(|part| part.get("text").is_some())
    };
    let turn = contents.iter().rposition(is_said).map_or(0, |at| at + 1);
    for (at, content) in contents.iter().enumerate().skip(turn) {
        let mut parts = items(content.get("parts")).enumerate();
        let Some((index, part)) = parts.find(|(_, part)| part.get("functionCall").is_some()) else {
            continue;
        };
        let call = &part["functionCall"];
        let signed = part.get("thoughtSignature").and_then(Value::as_str);
        match signed {
            None => {
                let name = call["name"].as_str().unwrap_or_default();
                return refuse(format!(
                    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{name}` , position {}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
                    at + index + 1
                ));
            }
            Some(text) if NO_SIGNATURES.contains(&text) => {}
            Some(text) if text == signature(&signed_call(call)) => {}
            Some(_) => return refuse("Corrupted thought signature."),
        }
    }
    Ok(())
}

/// Returns the signed part of a call.
pub(super) fn signed_call(call: &Value) -> Value {
    serde_json::json!([call["name"], call["args"]])
}
