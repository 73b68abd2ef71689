//! Code that the two formats of OpenAI share.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::Rendered;
use crate::error::{Error, ErrorKind};
use crate::parameters::{OF_OPEN_MODELS, RefusedParameters};
use crate::tail::Merging;
use crate::{Block, ImageSource, ToolChoice};

mod cache_options;
mod failure;
mod usage;
pub mod written;

pub(crate) use cache_options::{marker, with_cache_options};
pub(crate) use failure::{malformed, parse, provider_error};
pub(crate) use usage::{terms, usage};

/// Parameters that OpenAI's API refuses.
pub(crate) const REFUSED: RefusedParameters = RefusedParameters {
    names: OF_OPEN_MODELS,
    reason: "OpenAI's API has no such parameter",
    remedy: "leave it out, or name the address of another server in `base_url`",
};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Type of a text block that is a refusal. Both formats have a separate field for refusals. A refusal is
/// kept as text with `"type": "refusal"`, so that it is shown.
pub(crate) const REFUSAL: &str = "refusal";

/// Creates an object with these fields, in this order.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Object {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Renders a piece without a position for a marker.
pub(crate) fn rendered(object: impl Into<Value>) -> Rendered {
    Rendered {
        bytes: object.into().to_string().into(),
        mark_at: None,
    }
}

/// Field names of cache markers. Markers that users write into fields would conflict with the planner's.
const MARKERS: [&str; 2] = ["cache_control", "prompt_cache_breakpoint"];

/// Renders a piece that may carry a marker in the last part of its field `content`, if that part is a
/// visible text. Markers that the parts already contain are dropped.
pub(crate) fn markable(mut object: Object, content: &str) -> Rendered {
    if let Some(Value::Array(parts)) = object.get_mut(content) {
        for part in parts.iter_mut().filter_map(Value::as_object_mut) {
            MARKERS.iter().for_each(|marker| {
                part.shift_remove(*marker);
            });
        }
    }
    let mut mark_at = None;
    let mut json = Vec::new();
    for (name, value) in &object {
        json.push(if json.is_empty() { b'{' } else { b',' });
        write(&mut json, &Value::from(name.as_str()));
        json.push(b':');
        write(&mut json, value);
        if name == content && ends_with_text(value) {
            // Before the brace of the part and the bracket of the array.
            mark_at = u32::try_from(json.len() - 2).ok();
        }
    }
    json.push(b'}');
    Rendered {
        bytes: json.into(),
        mark_at,
    }
}

fn write(json: &mut Vec<u8>, value: &Value) {
    // Writing a value into memory does not fail.
    serde_json::to_writer(json, value).unwrap_or_default();
}

/// Returns true if the last of these parts is a visible text.
fn ends_with_text(parts: &Value) -> bool {
    let last = parts.as_array().and_then(|parts| parts.last()?.as_object());
    last.is_some_and(|part| {
        let is_text = matches!(text_of(part, "type"), Some("text" | "input_text"));
        is_text && text_of(part, "text").is_some_and(is_visible)
    })
}

/// Returns true if a text has a visible character.
pub(crate) fn is_visible(text: &str) -> bool {
    text.contains(|character: char| !character.is_whitespace())
}

/// Fields that are groups of settings; the user's settings are merged into the group.
pub(crate) const GROUPS: Merging = Merging::Members(&["reasoning", "stream_options", "text"]);

/// Returns the source of an image as a URL.
pub(crate) fn image_url(source: &ImageSource) -> String {
    match source {
        ImageSource::Url(url) => url.clone(),
        ImageSource::Inline { media_type, base64 } => format!("data:{media_type};base64,{base64}"),
    }
}

/// Returns the arguments of a call verbatim. Empty arguments become an empty object: several servers parse
/// the arguments of earlier calls and fail on empty text.
pub(crate) fn arguments(written: &str) -> &str {
    if written.trim().is_empty() {
        "{}"
    } else {
        written
    }
}

/// Joins texts as paragraphs of one string; empty ones are skipped.
pub(crate) fn paragraphs<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

/// Returns the text of a tool result. The formats have no field for a failure, so the text of a failed
/// result begins with `Error:`, once.
pub(crate) fn told(text: &str, is_error: bool) -> Cow<'_, str> {
    if !is_error || text.starts_with("Error:") {
        Cow::Borrowed(text)
    } else if text.is_empty() {
        Cow::Borrowed("Error: the tool failed and said nothing")
    } else {
        Cow::Owned(format!("Error: {text}"))
    }
}

/// Returns the model's name without its provider: `openai/gpt-5` and `gpt-5` are the same model.
fn own_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// Returns true if a model belongs to OpenAI's own service: `gpt-…` (but not `gpt-oss-…`, an open-weight
/// model), `chatgpt-…`, `o` followed by a digit, or a fine-tuned version of such a model (`ft:gpt-…`).
pub(crate) fn is_openai_model(model: &str) -> bool {
    let name = own_name(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    let o_series = name
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    o_series
        || name.starts_with("chatgpt-")
        || (name.starts_with("gpt-") && !name.starts_with("gpt-oss"))
}

/// Returns true if one of OpenAI's models is known to have no reasoning; it rejects requests for reasoning.
pub(crate) fn never_reasons(model: &str) -> bool {
    let name = own_name(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    ["gpt-3.5", "gpt-4", "chatgpt-4", "gpt-5-chat"]
        .iter()
        .any(|family| name.starts_with(family))
}

/// Returns the choice of a tool. `named` is the choice of one tool.
pub(crate) fn tool_choice(choice: &ToolChoice, named: impl FnOnce(&str) -> Value) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Any => "required".into(),
        ToolChoice::Tool(name) => named(name),
    }
}

/// Converts a reasoning budget to an effort, for formats that have only efforts: `low` up to 2,048 tokens,
/// `medium` up to 16,384, `high` beyond.
pub const fn effort(budget: u64) -> &'static str {
    match budget {
        0..=2_048 => "low",
        2_049..=16_384 => "medium",
        _ => "high",
    }
}

/// Converts an effort to a reasoning budget in tokens, for formats that have only budgets. [`effort`]
/// converts it back to the same effort for `low`, `medium` and `high`.
pub(crate) fn budget(effort: &str) -> u64 {
    match effort {
        "minimal" => 1_024,
        "low" => 2_048,
        "medium" => 8_192,
        _ => 24_576,
    }
}

/// Returns the text of a field; `None` if it is missing, empty or not a text.
pub(crate) fn text_of<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Creates the error for a block in a place where the format does not allow it.
pub(crate) fn misplaced(block: &Block, place: &str) -> Error {
    let what = match block {
        Block::Text { .. } => "text",
        Block::Image(_) => "a picture",
        Block::ToolUse(_) => "the call of a tool",
        Block::ToolResult(_) => "the result of a tool",
        Block::Reasoning(_) => "reasoning",
        Block::Other { .. } => "a block of another kind",
    };
    Error::new(
        ErrorKind::Rejected,
        format!(
            "{place} holds {what}, and this format cannot say that; calls and reasoning belong to \
             messages of the assistant, results and pictures to messages of the user"
        ),
    )
}

/// The error of a result that contains a call or another result.
pub(crate) fn nested_call(id: &str) -> Error {
    Error::new(
        ErrorKind::Rejected,
        format!(
            "the result of a tool holds a call of a tool or its result ({id}); put it into a message of its own"
        ),
    )
}
