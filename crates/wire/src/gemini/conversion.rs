//! Gemini.

use serde_json::{Value, json};

use crate::conversion::repeated::Repeated;
use crate::conversion::texts::pieces;
use crate::conversion::{
    Conversion, Object, Stream, has_only, is_compound, members, object, owned, set_once, text,
};

/// Members of a response with rules of their own.
const RESPONSE: [&str; 2] = ["candidates", "usageMetadata"];
/// Members of a candidate with rules of their own.
const CANDIDATE: [&str; 2] = ["content", "finishReason"];
/// Members of a candidate of which each chunk may have a part.
const INCREMENTS: [&str; 6] = [
    "avgLogprobs",
    "citationMetadata",
    "groundingMetadata",
    "logprobsResult",
    "tokenCount",
    "urlContextMetadata",
];
/// Members of the usage that count output.
const OUTPUT: [&str; 3] = [
    "candidatesTokenCount",
    "candidatesTokensDetails",
    "thoughtsTokenCount",
];

/// The two forms of answers of Gemini.
pub(super) static FORMS: Conversion = Conversion {
    end_of_event: "\r\n\r\n",
    ..Conversion::new(document, stream)
};

/// Returns the response of a stream.
fn document(stream: &Stream) -> Option<Object> {
    let mut response = Repeated::default();
    let mut candidate = Repeated::default();
    let mut content: Option<Object> = None;
    let mut parts: Option<Vec<Value>> = None;
    let (mut finish_reason, mut usage) = (None, Value::Null);
    for event in &stream.events {
        // Only the last chunk has a reason for the end.
        if event.name.is_some() || event.data.contains_key("error") || finish_reason.is_some() {
            return None;
        }
        response.add(&event.data, &RESPONSE)?;
        let total = event.data.get("usageMetadata").cloned();
        let before = std::mem::replace(&mut usage, total.unwrap_or_default());
        // The last chunk has the totals.
        if usage.is_null() && !before.is_null() {
            return None;
        }
        let [Value::Object(chunk)] = event.data.get("candidates")?.as_array()?.as_slice() else {
            return None;
        };
        candidate.add(chunk, &CANDIDATE)?;
        match chunk.get("finishReason") {
            None | Some(Value::Null) => {}
            Some(reason) => finish_reason = Some(text(chunk, "finishReason").map(|_| reason)?),
        }
        let Some(piece) = chunk.get("content") else {
            continue;
        };
        let content = content.get_or_insert_default();
        for (name, value) in piece.as_object()? {
            match name.as_str() {
                "parts" => {
                    content.entry(name.as_str()).or_insert(Value::Null);
                    let parts = parts.get_or_insert_default();
                    for part in value.as_array()? {
                        add_part(parts, part.as_object()?)?;
                    }
                }
                "role" if content.get(name) == Some(value) => {}
                "role" => set_once(content, name, value)?,
                _ => return None,
            }
        }
    }
    let mut candidate = candidate.finish(&INCREMENTS)?;
    candidate
        .get("index")
        .is_none_or(|index| index.as_u64() == Some(0))
        .then_some(())?;
    let mut whole = Object::new();
    whole.extend(content.map(|mut content| {
        if let (Some(list), Some(parts)) = (content.get_mut("parts"), parts) {
            *list = parts.into();
        }
        ("content".to_owned(), content.into())
    }));
    whole.insert("finishReason".into(), finish_reason?.clone());
    whole.append(&mut candidate);
    let mut document = members([("candidates", json!([whole]))]);
    if !usage.is_null() {
        document.insert("usageMetadata".into(), usage);
    }
    document.append(&mut response.finish(&[])?);
    Some(document)
}

/// Adds a part of a chunk. Adjacent texts of one kind are pieces of one text; a signature of the text, which is a
/// part of the whole one, follows in a part without text.
fn add_part(parts: &mut Vec<Value>, part: &Object) -> Option<()> {
    let before = parts.last_mut().and_then(Value::as_object_mut);
    if !is_text(part) {
        // Other parts, sounds for example, may be pieces.
        is_call(part).then_some(())?;
        parts.push(part.clone().into());
        return Some(());
    }
    let piece = text(part, "text").unwrap_or_default();
    let signature = part.get("thoughtSignature");
    match before {
        Some(before)
            if is_text(before)
                && before.get("thought") == part.get("thought")
                && !before.contains_key("thoughtSignature") =>
        {
            match (before.get_mut("text"), signature) {
                (Some(Value::String(text)), None) => text.push_str(piece),
                (_, Some(signature)) if piece.is_empty() => {
                    before.insert("thoughtSignature".into(), signature.clone());
                }
                _ => return None,
            }
        }
        // The end of a stream.
        Some(_) if piece.is_empty() && signature.is_none() && part.get("thought").is_none() => {}
        _ => parts.push(part.clone().into()),
    }
    Some(())
}

/// Returns true for a text with its signature, or for a signature alone.
fn is_text(part: &Object) -> bool {
    let has = |name: &str| text(part, name).is_some();
    has_only(part, &["text", "thought", "thoughtSignature"])
        && part.get("thought").is_none_or(Value::is_boolean)
        && (has("text") || (!part.contains_key("text") && has("thoughtSignature")))
        && (has("thoughtSignature") || !part.contains_key("thoughtSignature"))
}

/// Returns true for a whole call. A call that is streamed in pieces has further members.
fn is_call(part: &Object) -> bool {
    let call = part.get("functionCall").and_then(Value::as_object);
    has_only(part, &["functionCall", "thought", "thoughtSignature"])
        && call.is_some_and(|call| has_only(call, &["id", "name", "args"]))
}

/// Returns the stream of a response.
fn stream(response: &Object, _includes_usage: bool) -> Option<Stream> {
    let [Value::Object(candidate)] = response.get("candidates")?.as_array()?.as_slice() else {
        return None;
    };
    let mut content = candidate.get("content").cloned();
    let list = content
        .as_mut()
        .and_then(|content| content.get_mut("parts"));
    let mut parts = Vec::new();
    if let Some(Value::Array(list)) = list {
        for part in std::mem::take(list) {
            push_pieces(&mut parts, object(part)?);
        }
    }
    let mut stream = Stream::default();
    let last = parts.len().max(1) - 1;
    for index in 0..=last {
        let mut chunk = Object::new();
        if let Some(content) = &content {
            let mut content = content.clone();
            if let Some(part) = parts.get_mut(index) {
                *content.get_mut("parts")? = json!([part.take()]);
            }
            chunk.insert("content".into(), content);
        }
        let others = candidate
            .iter()
            .filter(|(name, _)| *name != "content" && (index == last || *name == "index"));
        chunk.extend(others.map(owned));
        let mut event = members([("candidates", json!([chunk]))]);
        for (name, value) in response {
            let value = match name.as_str() {
                "candidates" => continue,
                "usageMetadata" if index < last => usage_of_input(value)?,
                "usageMetadata" => value.clone(),
                _ if is_compound(value) && index > 0 => continue,
                _ => value.clone(),
            };
            event.insert(name.clone(), value);
        }
        stream.push(event);
    }
    Some(stream)
}

/// Appends the pieces of a part.
fn push_pieces(parts: &mut Vec<Value>, part: Object) {
    let whole = text(&part, "text").filter(|whole| is_text(&part) && !whole.is_empty());
    let Some(whole) = whole else {
        parts.push(part.into());
        return;
    };
    let with = |text: &str, names: &[&str]| {
        let mut piece = members([("text", text.into())]);
        let others = part
            .iter()
            .filter(|(name, _)| names.contains(&name.as_str()));
        piece.extend(others.map(owned));
        Value::from(piece)
    };
    parts.extend(pieces(whole).map(|piece| with(piece, &["thought"])));
    if part.contains_key("thoughtSignature") {
        parts.push(with("", &["thought", "thoughtSignature"]));
    }
}

/// Returns the usage of a chunk before the last one: that of the input.
fn usage_of_input(usage: &Value) -> Option<Value> {
    let mut usage = object(usage.clone())?;
    usage.retain(|name, _| !OUTPUT.contains(&name.as_str()));
    if let Some(input) = usage.get("promptTokenCount").cloned()
        && let Some(total) = usage.get_mut("totalTokenCount")
    {
        *total = input;
    }
    Some(usage.into())
}
