//! What the two formats of OpenAI share.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Number, Value};

use crate::error::{Error, ErrorKind};
use crate::wire::Rendered;
use crate::{Block, Extra, ImageSource};

mod failure;
mod usage;

pub(crate) use failure::{malformed, parse, provider_error};
pub(crate) use usage::{UsageNames, usage};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Whether a text block is a refusal: both formats have a place of its own for one. It is kept as
/// text, so that it is shown, with `"type": "refusal"` beside it.
pub(crate) const REFUSAL: &str = "refusal";

/// An object of these fields, in this order.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Object {
    fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// A piece without a place for a marker.
pub(crate) fn rendered(object: Object) -> Rendered {
    Rendered {
        bytes: Value::Object(object).to_string().into(),
        mark_at: None,
    }
}

/// The names of cache markers: those of whoever writes fields by hand would stand beside ours.
const MARKERS: [&str; 2] = ["cache_control", "prompt_cache_breakpoint"];

/// A piece whose field `content` may carry a marker: in the last of its parts, if that is a text with
/// something to see in it. Markers that are in its parts already are left out.
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

/// Whether the last of these parts is a text with something to see in it.
fn ends_with_text(parts: &Value) -> bool {
    let last = parts.as_array().and_then(|parts| parts.last()?.as_object());
    last.is_some_and(|part| {
        let is_text = matches!(text_of(part, "type"), Some("text" | "input_text"));
        is_text && text_of(part, "text").is_some_and(is_visible)
    })
}

/// Whether there is something to see in a text.
pub(crate) fn is_visible(text: &str) -> bool {
    text.contains(|character: char| !character.is_whitespace())
}

/// Fields that are groups of settings: what the user says of one setting leaves the others alone.
const GROUPS: [&str; 3] = ["reasoning", "stream_options", "text"];

/// What stands behind the arrays: our fields, and the user's, which win.
///
/// `reserved` names what a user's field may not be: the arrays, which stand in the body already (a
/// second one of the same name would make two requests of one), and `stream`, which whoever reads
/// the answer decides. A `null` for one of our fields takes it out.
pub(crate) fn tail(mut fields: Object, extra: &Extra, reserved: &[&str]) -> Bytes {
    for (name, value) in extra {
        if reserved.contains(&name.as_str()) {
            continue;
        }
        match (fields.get_mut(name), value) {
            (Some(_), Value::Null) => {
                fields.shift_remove(name);
            }
            (Some(Value::Object(ours)), Value::Object(theirs))
                if GROUPS.contains(&name.as_str()) =>
            {
                ours.extend(theirs.clone());
            }
            _ => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
    if fields.is_empty() {
        return Bytes::from_static(b"}");
    }
    let mut bytes = Value::Object(fields).to_string().into_bytes();
    if let Some(first) = bytes.first_mut() {
        *first = b',';
    }
    bytes.into()
}

/// A number, unless JSON has none for it.
pub(crate) fn number(value: Option<f64>) -> Option<Value> {
    Number::from_f64(value?).map(Value::Number)
}

/// Where the bytes of a picture are, as a URL.
pub(crate) fn image_url(source: &ImageSource) -> String {
    match source {
        ImageSource::Url(url) => url.clone(),
        ImageSource::Inline { media_type, base64 } => format!("data:{media_type};base64,{base64}"),
    }
}

/// The arguments of a call, verbatim. None at all become an empty object: several servers parse the
/// arguments of earlier calls and fail on empty text.
pub(crate) fn arguments(written: &str) -> &str {
    if written.trim().is_empty() {
        "{}"
    } else {
        written
    }
}

/// Texts that belong to one string, as paragraphs; empty ones are left out.
pub(crate) fn paragraphs<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

/// What a tool said, with its failure said in words: neither format has a field for it. A failure
/// begins with `Error:`, once.
pub(crate) fn told(text: &str, is_error: bool) -> Cow<'_, str> {
    if !is_error || text.starts_with("Error:") {
        Cow::Borrowed(text)
    } else if text.is_empty() {
        Cow::Borrowed("Error: the tool failed and said nothing")
    } else {
        Cow::Owned(format!("Error: {text}"))
    }
}

/// The model's own part of its name: `openai/gpt-5` and `gpt-5` are the same model.
fn own_name(model: &str) -> &str {
    model.rsplit('/').next().unwrap_or(model)
}

/// Whether a name is that of a model of OpenAI's own service: `gpt-…` (but not `gpt-oss-…`, whose
/// weights run anywhere), `chatgpt-…`, `o` and a digit, or one that was tuned from such a model
/// (`ft:gpt-…`).
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

/// Whether a model of OpenAI's is known not to reason; it refuses to be asked for its reasoning.
pub(crate) fn never_reasons(model: &str) -> bool {
    let name = own_name(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    ["gpt-3.5", "gpt-4", "chatgpt-4", "gpt-5-chat"]
        .iter()
        .any(|family| name.starts_with(family))
}

/// The effort that stands for a number of reasoning tokens where only efforts are known: `low` up to
/// 2,048, `medium` up to 16,384, `high` beyond.
pub(crate) const fn effort(budget: u64) -> &'static str {
    match budget {
        0..=2_048 => "low",
        2_049..=16_384 => "medium",
        _ => "high",
    }
}

/// The number of reasoning tokens that stands for an effort where only budgets are known; [`effort`] of
/// it is the effort again for `low`, `medium` and `high`.
pub(crate) fn budget(effort: &str) -> u64 {
    match effort {
        "minimal" => 1_024,
        "low" => 2_048,
        "medium" => 8_192,
        _ => 24_576,
    }
}

/// A field's text, if it has some.
pub(crate) fn text_of<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// The refusal to render a block where nobody may say such a thing.
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
