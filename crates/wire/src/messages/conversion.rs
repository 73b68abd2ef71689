//! Anthropic Messages.
//!
//! Events are accumulated as the official client does (`anthropic/lib/streaming/_messages.py`).

use serde_json::{Value, json};

use crate::conversion::texts::pieces;
use crate::conversion::{
    Conversion, Event, Object, Stream, append, has_only, members, object, owned, parse, set_once,
    text,
};

/// Members of a message that are known at its end.
const END: [&str; 4] = ["stop_reason", "stop_sequence", "stop_details", "container"];
/// A member of a message that `message_delta` has beside them.
const CONTEXT_MANAGEMENT: &str = "context_management";
/// Members of the usage that are totals in both events; those of `message_delta` replace those of `message_start`.
const TOTALS: [&str; 4] = [
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
];
/// The same, known at the end only.
const FINAL_TOTALS: [&str; 4] = [
    "output_tokens_details",
    "server_tool_use",
    "iterations",
    "fallback_credit",
];

/// The two forms of answers of Messages.
pub(super) static FORMS: Conversion = Conversion::new(document, stream);

/// Returns the message of a stream.
fn document(stream: &Stream) -> Option<Object> {
    let mut message = PartialMessage::default();
    for event in &stream.events {
        message.add(event)?;
    }
    message.finish()
}

/// A message as far as it has been read.
#[derive(Debug, Default)]
struct PartialMessage {
    /// The message without its content; empty before it starts.
    message: Object,
    content: Vec<Value>,
    open: Option<PartialBlock>,
    is_ending: bool,
    is_stopped: bool,
}

/// A block that is being streamed.
#[derive(Debug)]
struct PartialBlock {
    block: Object,
    /// JSON text of a tool's input.
    input: String,
}

impl PartialMessage {
    fn add(&mut self, event: &Event) -> Option<()> {
        let kind = event.kind()?;
        let data = &event.data;
        if self.is_stopped || (self.message.is_empty() && kind != "message_start") {
            return None;
        }
        match kind {
            "ping" => has_only(data, &["type"]).then_some(()),
            "message_start" if self.message.is_empty() => {
                has_only(data, &["type", "message"]).then_some(())?;
                self.message = data.get("message")?.as_object()?.clone();
                (self.message.get("content") == Some(&json!([]))).then_some(())
            }
            "content_block_start" if self.open.is_none() && !self.is_ending => {
                has_only(data, &["type", "index", "content_block"]).then_some(())?;
                self.is_current(data)?;
                self.open = Some(PartialBlock::new(data.get("content_block")?)?);
                Some(())
            }
            "content_block_delta" => {
                has_only(data, &["type", "index", "delta"]).then_some(())?;
                self.is_current(data)?;
                self.open.as_mut()?.add(data.get("delta")?.as_object()?)
            }
            "content_block_stop" => {
                has_only(data, &["type", "index"]).then_some(())?;
                self.is_current(data)?;
                self.content.push(self.open.take()?.finish()?.into());
                Some(())
            }
            "message_delta" if self.open.is_none() => {
                self.is_ending = true;
                self.delta(data)
            }
            "message_stop" if self.is_ending => {
                self.is_stopped = true;
                has_only(data, &["type"]).then_some(())
            }
            // Errors, events out of order, and unknown ones.
            _ => None,
        }
    }

    /// Returns `None` unless the event is about the block that is open, or opens now.
    fn is_current(&self, event: &Object) -> Option<()> {
        let index = usize::try_from(event.get("index")?.as_u64()?).ok()?;
        (index == self.content.len()).then_some(())
    }

    fn delta(&mut self, event: &Object) -> Option<()> {
        // The count of `message_start` is no total.
        event.get("usage")?.get("output_tokens")?.as_u64()?;
        for (name, value) in event {
            match name.as_str() {
                "type" => {}
                "delta" => {
                    for (name, value) in value.as_object()? {
                        set_once(&mut self.message, name, value)?;
                    }
                }
                "usage" => {
                    let usage = self.message.get_mut("usage")?.as_object_mut()?;
                    for (name, value) in value.as_object()? {
                        let totals = [TOTALS, FINAL_TOTALS];
                        let is_total = totals.as_flattened().contains(&name.as_str());
                        if is_total && !value.is_null() {
                            usage.insert(name.clone(), value.clone());
                        } else if usage.get(name) != Some(value) {
                            set_once(usage, name, value)?;
                        }
                    }
                }
                CONTEXT_MANAGEMENT => set_once(&mut self.message, name, value)?,
                _ => return None,
            }
        }
        Some(())
    }

    fn finish(mut self) -> Option<Object> {
        text(&self.message, "stop_reason")?;
        *self.message.get_mut("content")? = self.content.into();
        self.is_stopped.then_some(self.message)
    }
}

impl PartialBlock {
    fn new(block: &Value) -> Option<Self> {
        let block = block.as_object()?.clone();
        let is_complete = match text(&block, "type")? {
            "text" => text(&block, "text").is_some(),
            "thinking" => text(&block, "thinking").is_some(),
            "tool_use" => block.get("input").is_some_and(Value::is_object),
            "redacted_thinking" => true,
            // Tools that the provider runs, and unknown blocks.
            _ => false,
        };
        let input = String::new();
        is_complete.then_some(Self { block, input })
    }

    fn add(&mut self, delta: &Object) -> Option<()> {
        let block = &mut self.block;
        let (member, further) = match (text(block, "type")?, text(delta, "type")?) {
            ("text", "text_delta") => ("text", ""),
            // An estimate of tokens, for a progress indicator.
            ("thinking", "thinking_delta") => ("thinking", "estimated_tokens"),
            ("thinking", "signature_delta") => ("signature", ""),
            ("text", "citations_delta") => ("citation", ""),
            ("tool_use", "input_json_delta") => ("partial_json", ""),
            _ => return None,
        };
        has_only(delta, &["type", member, further]).then_some(())?;
        let value = delta.get(member)?;
        match member {
            "partial_json" => self.input.push_str(value.as_str()?),
            "citation" => {
                let list = block.entry("citations").or_insert(Value::Null);
                if list.is_null() {
                    *list = json!([]);
                }
                list.as_array_mut()?.push(value.clone());
            }
            // The client replaces it.
            "signature" if text(block, member).is_some_and(|known| !known.is_empty()) => {
                return None;
            }
            _ => append(block, member, value.is_string().then_some(value)?)?,
        }
        Some(())
    }

    fn finish(mut self) -> Option<Object> {
        if !self.input.is_empty() {
            let input = self.block.get_mut("input")?;
            let is_first = input.as_object()?.is_empty();
            *input = object(parse(&self.input)?)?.into();
            // An input that was not empty at the start would be lost.
            is_first.then_some(())?;
        }
        Some(self.block)
    }
}

/// Returns the stream of a message.
fn stream(message: &Object, _includes_usage: bool) -> Option<Stream> {
    let mut begin = message.clone();
    let mut last = members([("type", "message_delta".into())]);
    let mut delta = Object::new();
    for name in END {
        if let Some(value) = begin.get_mut(name) {
            delta.insert(name.to_owned(), value.take());
        }
    }
    *begin.get_mut("content")? = json!([]);
    let usage = begin.get_mut("usage")?.as_object_mut()?;
    let is_final = |name: &str, value: &Value| FINAL_TOTALS.contains(&name) && !value.is_null();
    let totals = usage.iter().filter(|(name, value)| {
        (TOTALS.contains(&name.as_str()) || is_final(name, value)) && !value.is_null()
    });
    let totals: Object = totals.map(owned).collect();
    usage.retain(|name, value| !is_final(name, value));
    // At this point, one token has been generated.
    let output = usage.get_mut("output_tokens")?;
    *output = output.as_u64()?.min(1).into();
    last.insert("delta".into(), delta.into());
    last.insert("usage".into(), totals.into());
    if let Some(managed @ Value::Object(_)) = begin.get_mut(CONTEXT_MANAGEMENT) {
        last.insert(CONTEXT_MANAGEMENT.to_owned(), managed.take());
    }

    let mut stream = Stream::default();
    stream.push_typed(members([
        ("type", "message_start".into()),
        ("message", begin.into()),
    ]));
    let content = message.get("content")?.as_array()?;
    for (index, block) in content.iter().enumerate() {
        let (begin, deltas) = block_deltas(block.as_object()?)?;
        let event = |kind: &str, own: Option<(&str, Value)>| {
            let mut event = members([("type", kind.into()), ("index", index.into())]);
            event.extend(own.map(|(name, value)| (name.to_owned(), value)));
            event
        };
        stream.push_typed(event(
            "content_block_start",
            Some(("content_block", begin.into())),
        ));
        if index == 0 {
            stream.push_typed(members([("type", "ping".into())]));
        }
        for delta in deltas {
            stream.push_typed(event("content_block_delta", Some(("delta", delta))));
        }
        stream.push_typed(event("content_block_stop", None));
    }
    stream.push_typed(last);
    stream.push_typed(members([("type", "message_stop".into())]));
    Some(stream)
}

/// Returns the beginning of a block, and the deltas that complete it.
fn block_deltas(block: &Object) -> Option<(Object, Vec<Value>)> {
    let mut begin = block.clone();
    let mut deltas = Vec::new();
    match text(block, "type")? {
        "text" => {
            begin.insert("text".into(), "".into());
            let pieces = pieces(text(block, "text")?);
            deltas.extend(pieces.map(|piece| json!({"type": "text_delta", "text": piece})));
            if let Some(Value::Array(citations)) = begin.get_mut("citations") {
                let citations = std::mem::take(citations).into_iter();
                deltas.extend(
                    citations
                        .map(|citation| json!({"type": "citations_delta", "citation": citation})),
                );
            }
        }
        "thinking" => {
            begin.insert("thinking".into(), "".into());
            let pieces = pieces(text(block, "thinking")?);
            deltas.extend(pieces.map(|piece| json!({"type": "thinking_delta", "thinking": piece})));
            if let Some(signature) = begin.get_mut("signature") {
                let signature = std::mem::replace(signature, "".into());
                deltas.push(json!({"type": "signature_delta", "signature": signature}));
            }
        }
        "tool_use" => {
            let input = begin.insert("input".into(), json!({}))?;
            let text = input.to_string();
            let text = if text == "{}" { "" } else { &text };
            let pieces = [""].into_iter().chain(pieces(text));
            deltas.extend(
                pieces.map(|piece| json!({"type": "input_json_delta", "partial_json": piece})),
            );
        }
        _ => {}
    }
    Some((begin, deltas))
}
