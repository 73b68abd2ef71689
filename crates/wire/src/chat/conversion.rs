//! OpenAI Chat Completions, and servers with the same API.
//!
//! The pieces of a message are accumulated as the official client does (`openai/lib/streaming/chat`), where every
//! server agrees: texts, arguments and probabilities are appended; ids and names are sent once.

use serde_json::{Value, json};

use crate::conversion::repeated::Repeated;
use crate::conversion::texts::{pieces, pieces_with_logprobs};
use crate::conversion::{
    Conversion, Event, Object, Stream, append, is_compound, members, owned, set_once, text,
};

/// Members of a message that are streamed in pieces.
const TEXTS: [&str; 4] = ["reasoning_content", "reasoning", "content", "refusal"];
/// Members of a chunk that are no members of a document, or have another value there.
const CHUNK_ONLY: [&str; 3] = ["choices", "object", "obfuscation"];
/// Members of a choice that are not repeated.
const CHOICE: [&str; 4] = ["delta", "message", "logprobs", "finish_reason"];

/// The two forms of answers of Chat Completions.
pub(super) static FORMS: Conversion = Conversion {
    is_complete: has_usage,
    is_same,
    ..Conversion::new(document, stream)
};

/// Returns true if a document reports the usage. A stream does so only on request, a document always.
fn has_usage(document: &Object) -> bool {
    document.get("usage").is_some_and(Value::is_object)
}

/// Returns the document of a stream; without `usage` if the stream has none.
fn document(stream: &Stream) -> Option<Object> {
    if !stream.is_done {
        return None;
    }
    let mut repeated = Repeated::default();
    let mut choice = PartialChoice::default();
    for Event { name, data } in &stream.events {
        let is_chunk = text(data, "object") == Some("chat.completion.chunk");
        if name.is_some() || !is_chunk || data.contains_key("error") {
            return None;
        }
        repeated.add(data, &CHUNK_ONLY)?;
        match data.get("choices")?.as_array()?.as_slice() {
            [] => {}
            [Value::Object(chunk)] => choice.add(chunk)?,
            _ => return None,
        }
    }
    let mut repeated = repeated.finish(&["usage"])?;
    let mut document = Object::new();
    document.extend(repeated.shift_remove_entry("id"));
    document.insert("object".into(), "chat.completion".into());
    for name in ["created", "model"] {
        document.extend(repeated.shift_remove_entry(name));
    }
    document.insert("choices".into(), json!([choice.finish()?]));
    let usage = repeated.shift_remove_entry("usage");
    document.extend(usage.filter(|(_, usage)| !usage.is_null()));
    document.extend(repeated);
    Some(document)
}

/// A choice as far as it has been read.
#[derive(Debug, Default)]
struct PartialChoice {
    repeated: Repeated,
    message: Object,
    calls: Vec<Object>,
    logprobs: Option<Value>,
    finish_reason: Option<String>,
}

impl PartialChoice {
    fn add(&mut self, chunk: &Object) -> Option<()> {
        let is_first = chunk.get("index")?.as_u64() == Some(0);
        let mut others = ["error", "message"].iter();
        if !is_first || self.finish_reason.is_some() || others.any(|name| chunk.contains_key(*name))
        {
            return None;
        }
        self.repeated.add(chunk, &CHOICE)?;
        match chunk.get("finish_reason") {
            None | Some(Value::Null) => {}
            Some(reason) => self.finish_reason = Some(reason.as_str()?.to_owned()),
        }
        if let Some(logprobs) = chunk.get("logprobs") {
            self.logprobs(logprobs)?;
        }
        for (name, value) in chunk.get("delta")?.as_object()? {
            self.member(name, value)?;
        }
        Some(())
    }

    fn member(&mut self, name: &str, value: &Value) -> Option<()> {
        match name {
            name if TEXTS.contains(&name) => append(&mut self.message, name, value),
            // Many servers repeat it.
            "role" if self.message.get(name) == Some(value) => Some(()),
            "role" | "annotations" => set_once(&mut self.message, name, value),
            "tool_calls" if value.is_array() => {
                // Reserves the place among the members.
                self.message.entry(name).or_insert(Value::Null);
                let mut calls = value.as_array()?.iter();
                calls.try_for_each(|call| self.call(call.as_object()?))
            }
            // Audio, details of reasoning, the older form of calls, and unknown members.
            _ if !value.is_null() => None,
            _ => set_once(&mut self.message, name, value),
        }
    }

    /// Adds a piece of a tool call.
    fn call(&mut self, piece: &Object) -> Option<()> {
        let index = usize::try_from(piece.get("index")?.as_u64()?).ok()?;
        if index == self.calls.len() {
            self.calls.push(Object::new());
        }
        let call = self.calls.get_mut(index)?;
        for (name, value) in piece {
            match name.as_str() {
                "index" => {}
                "type" if call.get(name) == Some(value) => {}
                "function" => {
                    let function = call.entry("function").or_insert_with(|| json!({}));
                    let function = function.as_object_mut()?;
                    for (name, value) in value.as_object()? {
                        match name.as_str() {
                            "arguments" => append(function, name, value)?,
                            _ => set_once_unless_empty(function, name, value)?,
                        }
                    }
                }
                _ => set_once_unless_empty(call, name, value)?,
            }
        }
        Some(())
    }

    fn logprobs(&mut self, piece: &Value) -> Option<()> {
        let known = self.logprobs.get_or_insert(Value::Null);
        let Value::Object(piece) = piece else {
            return piece.is_null().then_some(());
        };
        if known.is_null() {
            *known = json!({});
        }
        let known = known.as_object_mut()?;
        for (name, value) in piece {
            let list = known.entry(name.as_str()).or_insert(Value::Null);
            match (list, value) {
                (_, Value::Null) => {}
                (Value::Array(list), Value::Array(more)) => list.extend(more.iter().cloned()),
                (list @ Value::Null, Value::Array(_)) => list.clone_from(value),
                _ => return None,
            }
        }
        Some(())
    }

    fn finish(self) -> Option<Object> {
        let mut message = self.message;
        text(&message, "role")?;
        for call in &self.calls {
            let function = call.get("function")?.as_object()?;
            text(call, "id")?;
            text(function, "name")?;
            text(function, "arguments")?;
            // The form of other calls in a stream is not documented.
            (text(call, "type") == Some("function")).then_some(())?;
        }
        if let Some(calls) = message.get_mut("tool_calls") {
            *calls = self.calls.into();
        }
        // OpenAI streams the refusal, even if there is none, and no empty list of annotations.
        if let Some(refusal) = message.shift_remove("refusal") {
            let annotations = message.shift_remove("annotations");
            message.insert("refusal".into(), refusal);
            let annotations = annotations.unwrap_or_else(|| json!([]));
            message.insert("annotations".into(), annotations);
        }
        let mut repeated = self.repeated.finish(&[])?;
        let mut choice = Object::new();
        choice.extend(repeated.shift_remove_entry("index"));
        choice.insert("message".into(), message.into());
        choice.extend(self.logprobs.map(|logprobs| ("logprobs".into(), logprobs)));
        choice.insert("finish_reason".into(), self.finish_reason?.into());
        choice.extend(repeated);
        Some(choice)
    }
}

/// Sets a member that is sent once. Some servers send empty texts in later pieces.
fn set_once_unless_empty(object: &mut Object, name: &str, value: &Value) -> Option<()> {
    match value.as_str() {
        Some("") if object.contains_key(name) => Some(()),
        _ => set_once(object, name, value),
    }
}

/// Returns the stream of a document.
fn stream(document: &Object, has_usage: bool) -> Option<Stream> {
    // A stream has it in a chunk of its own.
    if document.get("moderation").is_some_and(Value::is_object) {
        return None;
    }
    let [Value::Object(choice)] = document.get("choices")?.as_array()?.as_slice() else {
        return None;
    };
    let chunk = |choices: Value, usage: &Value, is_first: bool| {
        let mut chunk = Object::new();
        for (name, value) in document {
            let value = match name.as_str() {
                "choices" | "usage" => continue,
                "object" => "chat.completion.chunk".into(),
                _ if is_compound(value) && !is_first => continue,
                _ => value.clone(),
            };
            chunk.insert(name.clone(), value);
        }
        chunk.insert("choices".into(), choices);
        if has_usage {
            chunk.insert("usage".into(), usage.clone());
        }
        chunk
    };
    let mut stream = Stream::default();
    for (index, choice) in choices(choice)?.into_iter().enumerate() {
        stream.push(chunk(json!([choice]), &Value::Null, index == 0));
    }
    if has_usage {
        let usage = document.get("usage").filter(|usage| usage.is_object())?;
        stream.push(chunk(json!([]), usage, false));
    }
    stream.is_done = true;
    Some(stream)
}

/// Returns the choices of the chunks.
fn choices(choice: &Object) -> Option<Vec<Object>> {
    let message = choice.get("message")?.as_object()?;
    let logprobs = choice.get("logprobs");
    let probabilities = |name: &str| {
        let list = logprobs.and_then(|logprobs| logprobs.get(name)?.as_array());
        list.map_or(&[][..], Vec::as_slice)
    };
    let part = |delta: Object, own: Option<Value>| {
        let mut part = Object::new();
        part.extend(choice.get_key_value("index").map(owned));
        part.insert("delta".into(), delta.into());
        if logprobs.is_some() {
            part.insert("logprobs".into(), own.unwrap_or_default());
        }
        part.insert("finish_reason".into(), Value::Null);
        part
    };
    let calls = message.get("tool_calls").and_then(Value::as_array);
    let mut calls = calls
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(index, call)| call_pieces(index, call.as_object()?))
        .collect::<Option<Vec<_>>>()?;
    let mut first = first_delta(message)?;
    // OpenAI begins a call in the first chunk if it is the whole answer.
    let mut texts = TEXTS.iter().filter_map(|name| message.get(*name)?.as_str());
    if let [call] = calls.as_mut_slice()
        && texts.next().is_none()
    {
        let refusal = first.shift_remove_entry("refusal");
        first.insert("tool_calls".into(), json!([call.remove(0)]));
        first.extend(refusal);
    }
    let no_logprobs = logprobs.map(without_tokens);
    let mut parts = vec![part(first, no_logprobs.clone())];
    for name in TEXTS {
        let text = message.get(name).and_then(Value::as_str);
        let probabilities = probabilities(name);
        for (piece, own) in pieces_with_logprobs(text.unwrap_or_default(), probabilities) {
            let own = (!own.is_empty()).then(|| {
                let mut lists = no_logprobs.clone()?;
                *lists.get_mut(name)? = own.into();
                Some(lists)
            });
            parts.push(part(members([(name, piece.into())]), own.flatten()));
        }
    }
    for piece in calls.into_iter().flatten() {
        parts.push(part(members([("tool_calls", json!([piece]))]), None));
    }
    if let Some(annotations @ Value::Array(list)) = message.get("annotations")
        && !list.is_empty()
    {
        let delta = members([("annotations", annotations.clone())]);
        parts.push(part(delta, None));
    }
    let mut last = part(Object::new(), None);
    last.insert("finish_reason".into(), choice.get("finish_reason")?.clone());
    let others = choice
        .iter()
        .filter(|(name, _)| !CHOICE.contains(&name.as_str()));
    last.extend(others.map(owned));
    parts.push(last);
    Some(parts)
}

/// Returns the delta of the first chunk: the members that are not sent in pieces, and the beginnings of the others.
fn first_delta(message: &Object) -> Option<Object> {
    let mut delta = Object::new();
    for (name, value) in message {
        let begin = match (name.as_str(), value) {
            ("role", role) => role.clone(),
            ("refusal", _) | (_, Value::Null) => Value::Null,
            ("content", Value::String(_)) => "".into(),
            (name, Value::String(text)) if TEXTS.contains(&name) => match text.as_str() {
                "" => "".into(),
                _ => continue,
            },
            ("tool_calls", Value::Array(calls)) if calls.is_empty() => json!([]),
            // With a refusal, an empty list is implied.
            ("annotations", Value::Array(list))
                if list.is_empty() && !message.contains_key("refusal") =>
            {
                json!([])
            }
            ("tool_calls" | "annotations", Value::Array(_)) => continue,
            _ => return None,
        };
        delta.insert(name.clone(), begin);
    }
    Some(delta)
}

/// Returns the pieces of a tool call: all but its arguments first.
fn call_pieces(index: usize, call: &Object) -> Option<Vec<Object>> {
    let mut function = call.get("function")?.as_object()?.clone();
    let arguments = function.insert("arguments".into(), "".into())?;
    let mut first = members([("index", index.into())]);
    first.extend(call.iter().map(owned));
    first.insert("function".into(), function.into());
    let rest = pieces(arguments.as_str()?).map(|piece| {
        members([
            ("index", index.into()),
            ("function", json!({"arguments": piece})),
        ])
    });
    Some([first].into_iter().chain(rest).collect())
}

/// Returns probabilities with empty lists.
fn without_tokens(logprobs: &Value) -> Value {
    let mut logprobs = logprobs.clone();
    let lists = logprobs.as_object_mut().into_iter();
    let lists = lists.flat_map(|lists| lists.values_mut());
    lists
        .filter_map(Value::as_array_mut)
        .for_each(|list| list.clear());
    logprobs
}

/// Returns true if the index of a call is this one.
fn is_at(call: &Object, index: usize) -> bool {
    call.get("index").and_then(Value::as_u64) == u64::try_from(index).ok()
}

/// Compares a document that was made from a stream with the source of the stream. Members of a message without a
/// value count as missing, as do the usage if the stream does not have it, and the indices of calls, which few servers
/// have in a document.
fn is_same(restored: Object, mut source: Object) -> bool {
    if !has_usage(&restored) {
        source.shift_remove("usage");
    }
    let [restored, source] = [restored, source].map(|mut document| {
        let choices = document.get_mut("choices").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten() {
            if let Some(Value::Object(message)) = choice.get_mut("message") {
                message.retain(|_, value| !value.is_null() && *value != json!([]));
                let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
                for (index, call) in calls.into_iter().flatten().enumerate() {
                    if let Some(call) = call.as_object_mut().filter(|call| is_at(call, index)) {
                        call.shift_remove("index");
                    }
                }
            }
        }
        document
    });
    restored == source
}
