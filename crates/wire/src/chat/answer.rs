//! Parses an answer, whole or streamed.

use cachalot_core::json::is_empty;
use serde_json::Value;

use super::calls::PartialCalls;
use super::content::PartialContent;
use super::reasoning::{self, PartialReasoning};
use crate::error::{Error, ErrorKind};
use crate::extra;
use crate::openai::{self, Object, malformed, text_of};
use crate::{Delta, Extra, Format, Message, Reply, Role, StopReason};

/// Returns the usage in an answer's `usage`.
pub(crate) fn reported(usage: &Value) -> Option<crate::Usage> {
    openai::usage(usage, "prompt_tokens", "completion_tokens")
}

/// Fields of a message that are parsed; all others are kept unchanged.
const PARSED_FIELDS: [&str; 6] = [
    "role",
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    "index",
];

/// Parses a whole answer.
pub(crate) fn whole(body: &[u8]) -> Result<Reply, Error> {
    let body = openai::parse(body, "the body")?;
    let mut answer = ChatAnswerBuilder::default();
    answer.envelope(&body)?;
    let choice = first_choice(&body).ok_or_else(|| malformed("it holds no choice"))?;
    answer.choice(choice)?;
    let message = choice
        .get("message")
        .and_then(Value::as_object)
        .ok_or_else(|| malformed("its choice holds no message"))?;
    answer.message(message, false);
    answer.reply()
}

/// Returns the choice that is read: the first one with index 0 or without an index.
pub(super) fn first_choice(fields: &Object) -> Option<&Object> {
    let choices = fields.get("choices")?.as_array()?;
    choices
        .iter()
        .filter_map(Value::as_object)
        .find(|choice| match choice.get("index") {
            Some(Value::Number(index)) => index.as_u64() == Some(0),
            _ => true,
        })
}

/// An answer as far as it has been read.
#[derive(Default)]
pub(super) struct ChatAnswerBuilder {
    id: String,
    model: String,
    created: u64,
    finish: Option<String>,
    /// True if the server reported that the model stopped at a stop sequence.
    stop_text: bool,
    usage: Option<Value>,
    content: PartialContent,
    thoughts: PartialReasoning,
    calls: PartialCalls,
    /// Unknown fields of the message.
    fields: Object,
    /// Unknown fields of the choice.
    choice: Object,
    /// Unknown fields of the answer.
    extra: Extra,
}

impl ChatAnswerBuilder {
    /// Returns true if the server has reported a finish reason.
    pub(super) fn has_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// Reads the fields outside of the choices, of an answer or of a chunk.
    pub(super) fn envelope(&mut self, fields: &Object) -> Result<(), Error> {
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("choices" | "object" | "obfuscation", _) | (_, Value::Null) => {}
                ("error", reported) => return Err(openai::provider_error(reported)),
                ("id", Value::String(id)) => keep_first(&mut self.id, id),
                ("model", Value::String(model)) => keep_first(&mut self.model, model),
                ("usage", usage) => self.usage(usage),
                _ => {
                    if name == "created" && self.created == 0 {
                        self.created = value.as_u64().unwrap_or(0);
                    }
                    extra::update(&mut self.extra, name.clone(), value.clone());
                }
            }
        }
        // Groq reports the usage of a stream in a field of its own.
        let groq = fields.get("x_groq").and_then(|groq| groq.get("usage"));
        if let Some(usage) = groq.filter(|_| self.usage.is_none()) {
            self.usage = Some(usage.clone());
        }
        Ok(())
    }

    /// Keeps a usage; an empty one replaces none.
    fn usage(&mut self, usage: &Value) {
        if self.usage.is_none() || !is_empty(usage) {
            self.usage = Some(usage.clone());
        }
    }

    /// Reads the fields of a choice outside of the message.
    pub(super) fn choice(&mut self, choice: &Object) -> Result<(), Error> {
        for (name, value) in choice {
            match (name.as_str(), value) {
                ("index" | "message" | "delta", _) | (_, Value::Null) => {}
                ("error", reported) => return Err(openai::provider_error(reported)),
                ("finish_reason", Value::String(reason)) => {
                    if !reason.is_empty() {
                        self.finish = Some(reason.clone());
                    }
                }
                // Moonshot reports the usage of a stream here.
                ("usage", usage) => self.usage(usage),
                ("logprobs", value) => accumulate(
                    self.choice.entry(name.as_str()).or_insert(Value::Null),
                    value,
                ),
                _ => {
                    // Names in vLLM and SGLang. A string is the stop sequence; a number is the token that
                    // ends an answer.
                    let stops = matches!(name.as_str(), "stop_reason" | "matched_stop");
                    self.stop_text |= stops && value.is_string();
                    extra::update(&mut self.choice, name.clone(), value.clone());
                }
            }
        }
        failed(self.finish.as_deref())
    }

    /// Reads a message, or (`growing`) the next part of one.
    pub(super) fn message(&mut self, message: &Object, growing: bool) -> Vec<Delta> {
        let mut deltas = Vec::new();
        deltas.extend(self.thoughts.take(message).map(Delta::Reasoning));
        if let Some(content) = message.get("content") {
            self.content.take(content, &mut deltas);
        }
        if let Some(refusal) = text_of(message, openai::REFUSAL) {
            self.content.refuse(refusal, &mut deltas);
        }
        self.tool_calls(message, growing, &mut deltas);
        let further = message.iter().filter(|(name, value)| {
            let name = name.as_str();
            !value.is_null() && !PARSED_FIELDS.contains(&name) && !reasoning::FIELDS.contains(&name)
        });
        for (name, value) in further {
            let known = self.fields.entry(name.as_str()).or_insert(Value::Null);
            accumulate(known, value);
        }
        deltas
    }

    fn tool_calls(&mut self, message: &Object, growing: bool, deltas: &mut Vec<Delta>) {
        let seed = self.seed();
        let calls = message.get("tool_calls").and_then(Value::as_array);
        for call in calls.into_iter().flatten().filter_map(Value::as_object) {
            deltas.extend(if growing {
                self.calls.fragment(call, &seed)
            } else {
                self.calls.whole(call, &seed)
            });
        }
        // The older form, with at most one call.
        if let Some(call @ Value::Object(_)) = message.get("function_call") {
            let call = openai::object([("index", 0.into()), ("function", call.clone())]);
            deltas.extend(self.calls.fragment(&call, &seed));
        }
    }

    /// Returns a text that identifies this answer.
    fn seed(&self) -> String {
        format!("{} {}", self.id, self.created)
    }

    pub(super) fn reply(self) -> Result<Reply, Error> {
        let stop = self.stop();
        let seed = self.seed();
        let usage = self.usage.as_ref().and_then(reported);
        let mut content: Vec<_> = self.thoughts.into_block().into_iter().collect();
        content.extend(self.content.into_blocks());
        let calls = self.calls.into_uses(&seed).into_iter();
        content.extend(calls.map(crate::Block::ToolUse));

        let mut extra = self.extra;
        if !self.choice.is_empty() {
            extra.insert("choice".into(), self.choice.into());
        }
        if let Some(usage) = self.usage {
            extra.insert("usage".into(), usage);
        }
        Ok(Reply {
            message: Message {
                role: Role::Assistant,
                content,
                extra: extra::from_wire(Format::Chat, self.fields),
            },
            stop,
            usage,
            model: self.model,
            id: Some(self.id).filter(|id| !id.is_empty()),
            extra,
        })
    }

    /// Returns the stop reason. Servers may report `stop` although the answer calls tools, or no reason at
    /// all.
    fn stop(&self) -> StopReason {
        match self.finish.as_deref() {
            Some("length" | "model_length" | "max_tokens") => StopReason::Length,
            Some("content_filter") => StopReason::Refusal,
            None
            | Some("stop" | "tool_calls" | "function_call" | "end_turn" | "eos" | "eos_token") => {
                if !self.calls.is_empty() {
                    StopReason::ToolUse
                } else if self.content.is_refusal() {
                    StopReason::Refusal
                } else if self.stop_text {
                    StopReason::StopText
                } else {
                    StopReason::End
                }
            }
            Some("stop_sequence") => StopReason::StopText,
            Some(other) => StopReason::Other(other.to_owned()),
        }
    }
}

/// Returns an error if the finish reason is a failure: the answer is incomplete at an unknown point.
fn failed(reason: Option<&str>) -> Result<(), Error> {
    let kind = match reason {
        // OpenRouter; DeepSeek.
        Some("error" | "insufficient_system_resource") => ErrorKind::Unavailable,
        // vLLM, on shutdown or when the request is cancelled.
        Some("abort") => ErrorKind::CutOff,
        _ => return Ok(()),
    };
    let reason = reason.unwrap_or_default();
    Err(Error {
        code: Some(reason.to_owned()),
        ..Error::new(
            kind,
            format!("the provider gave up in the middle of the answer ({reason}); ask again"),
        )
    })
}

fn keep_first(known: &mut String, new: &str) {
    if known.is_empty() {
        new.clone_into(known);
    }
}

/// Adds a part to a field without a specified merge rule: texts and lists are appended, objects are merged
/// field by field, everything else is replaced.
fn accumulate(known: &mut Value, piece: &Value) {
    match (known, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (Value::Array(list), Value::Array(more)) => list.extend(more.iter().cloned()),
        (Value::Object(fields), Value::Object(more)) => {
            for (name, value) in more {
                accumulate(fields.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (known, piece) => *known = piece.clone(),
    }
}
