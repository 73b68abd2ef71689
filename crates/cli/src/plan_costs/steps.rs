//! Requests of logs and sessions, rendered so that the planner can place markers anywhere.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Digest, Millis};
use cachalot_model::marker_rules::MarkerStyle;
use cachalot_model::wire::{Rendered, for_format};
use cachalot_model::{Block, Format, MarkerRules, Message, Role, ToolResult};
use cachalot_prefix::log::LoggedRequest;
use cachalot_prompt::{Level, Namespace, Node, Prompt, Session, normal};
use serde_json::{Map, Value, json};

use super::{RecordedTimes, Step};

/// Returns the request of a log line. A line without a time counts as sent `pause` after the line before.
pub(crate) fn from_log(logged: &LoggedRequest, before: Option<Millis>, pause: Millis) -> Step {
    let request = &logged.request;
    Step {
        format: request.format,
        provider: request.provider().to_owned(),
        model: request.model.clone(),
        prompt: request.prompt.clone(),
        settings: settings(&request.namespace),
        sent: Some(request.plan.clone()),
        tail: request.tail.clone(),
        at: logged
            .at
            .unwrap_or_else(|| before.map_or(0, |before| before.saturating_add(pause))),
    }
}

/// Returns the digest of the parameters that separate caches from the first piece on. The model is not
/// included: it separates caches by itself.
fn settings(namespace: &Namespace) -> Digest {
    let fields = namespace.fields().iter();
    let fields = fields.filter(|field| field.level == Level::Tool && field.name != "model");
    let parts: Vec<&[u8]> = fields
        .flat_map(|field| [field.name.as_bytes(), field.digest.as_bytes().as_slice()])
        .collect();
    Digest::sha256_of_parts(&parts)
}

/// Returns the requests of a session, one per answer, and true if the ledger has the times of all of them. A request
/// without a time counts as sent `pause` after the one before. Their original markers are unknown.
pub(crate) fn from_session(
    session: &Session,
    recorded: &RecordedTimes,
    pause: Millis,
) -> (Vec<Step>, bool) {
    let head = &session.head;
    let messages = session.prompt.messages();
    let is_answer = |message: &&Arc<Message>| message.role == Role::Assistant;
    let tail = json!({"model": head.model}).to_string();
    let tail = Bytes::from(format!(",{}", &tail[1..]));
    let answers = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| is_answer(message));
    let prompts: Vec<Prompt> = answers
        .map(|(index, _)| session.prompt.without_last(messages.len() - index))
        .collect();
    let prefixes: Vec<String> = prompts.iter().map(prefix).collect();
    let times = recorded.of(&prefixes);
    let has_times = times.iter().all(Option::is_some);
    let mut before = None;
    let steps = prompts.into_iter().zip(times).map(|(prompt, time)| {
        let assumed = || before.map_or(head.created, |before: Millis| before.saturating_add(pause));
        let at = time.unwrap_or_else(assumed);
        // An assumed time may be later than the recorded one of the next request.
        let at = before.map_or(at, |before| at.max(before));
        before = Some(at);
        Step {
            format: head.format,
            provider: head.provider.clone(),
            model: head.model.clone(),
            prompt,
            settings: Digest::sha256(&[]),
            sent: None,
            tail: tail.clone(),
            at,
        }
    });
    (steps.collect(), has_times)
}

/// Returns the digest under which the ledger records a request.
fn prefix(prompt: &Prompt) -> String {
    let sent = prompt.tip().map(|id| id.0);
    sent.unwrap_or_else(|| Digest::sha256(&[])).to_string()
}

/// Returns the same prompt with texts as lists of one block, where the format has both, and with the roles
/// and blocks of its messages parsed. Otherwise there is no place for a marker, and turns cannot be detected.
pub(super) fn markable(prompt: &Prompt, format: Format, marker_rules: &MarkerRules) -> Prompt {
    let nodes = prompt.nodes();
    let of = |level: Level| nodes.iter().filter(move |node| node.level == level);
    let render = |level| -> Vec<Rendered> {
        of(level)
            .map(|node| piece(node, format, marker_rules))
            .collect()
    };
    let begun = Prompt::begin(&render(Level::Tool), &render(Level::System));
    of(Level::Message).fold(begun, |prompt, node| {
        let rendered = piece(node, format, marker_rules);
        prompt.append(&[rendered], Arc::new(source(&node.bytes)))
    })
}

/// Renders a piece with a position for a marker, if it can have one.
fn piece(node: &Node, format: Format, marker_rules: &MarkerRules) -> Rendered {
    // Normalized as in `prefix analyze`.
    let normal = normal::piece(format, node.level, &node.bytes);
    let rendered = normal.map_or_else(
        || Rendered {
            bytes: node.bytes.clone(),
            mark_at: node.mark_at,
        },
        |normal| Rendered {
            bytes: normal.bytes.into(),
            mark_at: normal.mark_at,
        },
    );
    let as_it_is = || rendered.clone();
    let value = match serde_json::from_slice(&rendered.bytes) {
        Ok(value) if rendered.mark_at.is_none() => value,
        _ => return rendered,
    };
    let rules = for_format(format).request_rules();
    match value {
        Value::String(text) if rules.has_system_blocks => block(&text),
        // Only models that accept markers are sent content parts.
        Value::Object(message)
            if rules.reads_list_as_string && takes_parts(&message, marker_rules) =>
        {
            message_of_text(message).unwrap_or_else(as_it_is)
        }
        Value::String(text) if rules.text_blocks.is_some() => {
            let role = match node.level {
                Level::Message => "user",
                Level::Tool | Level::System => "developer",
            };
            unmarkable(&json!({"role": role, "content": text}))
        }
        _ => as_it_is(),
    }
}

fn takes_parts(message: &Map<String, Value>, marker_rules: &MarkerRules) -> bool {
    match message.get("role").and_then(Value::as_str) {
        Some("assistant") => marker_rules.style == MarkerStyle::CacheControl,
        Some("tool") => marker_rules.style != MarkerStyle::None && marker_rules.in_results,
        _ => marker_rules.style != MarkerStyle::None,
    }
}

/// Renders a block of the system text.
fn block(text: &str) -> Rendered {
    let bytes = json!({"type": "text", "text": text}).to_string();
    Rendered {
        mark_at: before_the_end(&bytes, 1, text),
        bytes: bytes.into(),
    }
}

/// Renders a message whose content is text with that text as a block; the content comes last.
fn message_of_text(mut message: Map<String, Value>) -> Option<Rendered> {
    let text = message.get("content")?.as_str()?.to_owned();
    message.shift_remove("content");
    message.insert(
        "content".to_owned(),
        json!([{"type": "text", "text": text}]),
    );
    let bytes = Value::Object(message).to_string();
    Some(Rendered {
        mark_at: before_the_end(&bytes, "}]}".len(), &text),
        bytes: bytes.into(),
    })
}

/// Returns the position `distance` bytes before the end; `None` for a blank text, which cannot carry a
/// marker.
fn before_the_end(bytes: &str, distance: usize, text: &str) -> Option<u32> {
    let at = u32::try_from(bytes.len() - distance).ok()?;
    (!text.trim().is_empty()).then_some(at)
}

fn unmarkable(value: &Value) -> Rendered {
    Rendered {
        bytes: value.to_string().into(),
        mark_at: None,
    }
}

/// Parses the role and the kinds of blocks of a message: all that the planner uses.
fn source(bytes: &[u8]) -> Message {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let says = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    let role = match (says("role"), says("type")) {
        ("assistant", _) | (_, "function_call" | "reasoning") => Role::Assistant,
        _ => Role::User,
    };
    let blocks = value.get("content").and_then(Value::as_array);
    let is_result = says("role") == "tool" || says("type") == "function_call_output";
    let content = match blocks {
        Some(blocks) => blocks
            .iter()
            .map(|block| kind(block["type"].as_str()))
            .collect(),
        None if is_result => vec![result()],
        None => vec![Block::text("")],
    };
    Message::new(role, content)
}

fn kind(kind: Option<&str>) -> Block {
    match kind {
        Some("tool_result") => result(),
        _ => Block::text(""),
    }
}

fn result() -> Block {
    Block::ToolResult(ToolResult {
        id: String::new(),
        content: Vec::new(),
        is_error: false,
        extra: Map::new(),
    })
}
