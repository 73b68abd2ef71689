//! Parses answers: one response, or several of a stream that form one answer.

use cachalot_core::json;
use serde_json::{Map, Value};

use super::request::GENERATED_ID_PREFIX;
use crate::error::{Error, ErrorKind};
use crate::terms::{has_count, text};
use crate::{
    Block, Delta, Extra, Format, Message, Reasoning, Reply, Role, StopReason, Terms, ToolUse, Usage,
};
use crate::{extra, openai};

/// Finish reasons that mean that the model, or a filter of its provider, refused.
const REFUSALS: [&str; 11] = [
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "MODEL_ARMOR",
    "JAILBREAK",
];

/// Maximum size of one answer, in bytes: 64 MiB.
const MAX_ANSWER_BYTES: usize = 64 << 20;

type Fields = Map<String, Value>;

/// Parses a whole answer.
pub(crate) fn reply(body: &[u8]) -> Result<Reply, Error> {
    let text = std::str::from_utf8(body)
        .map_err(|error| malformed(format_args!("the answer is no UTF-8 text ({error})")))?;
    let mut answer = GeminiAnswerBuilder::default();
    answer.take(text)?;
    if answer.ended() {
        Ok(answer.reply())
    } else {
        Err(malformed("the answer has no `finishReason`"))
    }
}

/// An answer that is being streamed.
#[derive(Default)]
pub(super) struct GeminiAnswerBuilder {
    blocks: Vec<Block>,
    calls: usize,
    kept: usize,
    finish: Option<String>,
    usage: Option<Value>,
    model: String,
    id: Option<String>,
    extra: Extra,
}

impl GeminiAnswerBuilder {
    /// Returns true if a response with a finish reason has arrived.
    pub(super) fn ended(&self) -> bool {
        self.finish.is_some()
    }

    /// Reads a response; returns the deltas for display.
    pub(super) fn take(&mut self, text: &str) -> Result<Vec<Delta>, Error> {
        let mut fields = openai::parse(text.as_bytes(), "the answer")?;
        if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
            return Err(openai::provider_error(error));
        }
        let own = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        self.id = self.id.take().or(own(fields.shift_remove("responseId")));
        if let Some(model) = own(fields.shift_remove("modelVersion")) {
            self.model = model;
        }
        if let Some(usage) = fields.shift_remove(USAGE) {
            self.usage = Some(usage);
        }
        let feedback = fields.get("promptFeedback");
        if let Some(reason) = feedback.and_then(|feedback| feedback.get("blockReason")?.as_str()) {
            self.finish = Some(reason.to_owned());
        }
        let candidates = fields.shift_remove("candidates");
        self.keep(fields);
        let first = match candidates {
            Some(Value::Array(candidates)) => candidates.into_iter().next(),
            _ => None,
        };
        let Some(Value::Object(mut candidate)) = first else {
            return Ok(Vec::new());
        };
        if let Some(reason) = own(candidate.shift_remove("finishReason")) {
            self.finish = Some(reason);
        }
        let content = candidate.shift_remove("content");
        candidate.shift_remove("index");
        self.keep(candidate);
        let parts = match content {
            Some(Value::Object(mut content)) => content.shift_remove("parts"),
            _ => None,
        };
        let Some(Value::Array(parts)) = parts else {
            return Ok(Vec::new());
        };
        self.kept += text.len();
        if self.kept > MAX_ANSWER_BYTES {
            return Err(malformed(format_args!(
                "the answer is longer than {MAX_ANSWER_BYTES} bytes"
            )));
        }
        let texts = part_texts(text);
        let mut deltas = Vec::new();
        for (at, part) in parts.into_iter().enumerate() {
            let Value::Object(part) = part else {
                return Err(malformed("a part of the answer is no object"));
            };
            let text = texts.get(at).copied().unwrap_or_default();
            self.part(part, text, &mut deltas)?;
        }
        Ok(deltas)
    }

    /// Keeps the further members of a response.
    fn keep(&mut self, fields: Fields) {
        for (name, value) in fields {
            extra::update(&mut self.extra, name, value);
        }
    }

    fn part(&mut self, mut part: Fields, text: &str, deltas: &mut Vec<Delta>) -> Result<(), Error> {
        if part.contains_key("functionCall") {
            return self.call(part, text, deltas);
        }
        let Some(Value::String(said)) = part.get("text").cloned() else {
            self.blocks.push(Block::Other {
                format: Format::Gemini,
                verbatim: Value::Object(part),
            });
            return Ok(());
        };
        let is_signed = part.contains_key("thoughtSignature");
        if part.get("thought") == Some(&Value::Bool(true)) {
            if !said.is_empty() {
                deltas.push(Delta::Reasoning(said.clone()));
            }
            self.thought(said, part, is_signed);
            return Ok(());
        }
        if !said.is_empty() {
            deltas.push(Delta::Text(said.clone()));
        }
        part.shift_remove("text");
        part.shift_remove("thought");
        match self.blocks.last_mut() {
            // A signed part is never merged.
            Some(Block::Text { text, extra }) if part.is_empty() && extra.is_empty() => {
                text.push_str(&said);
            }
            // A signed part with an empty text is meaningful to Gemini alone.
            _ if said.is_empty() && is_signed => {
                part.insert("text".to_owned(), said.into());
                self.blocks.push(Block::Other {
                    format: Format::Gemini,
                    verbatim: Value::Object(part),
                });
            }
            _ if said.is_empty() && part.is_empty() => {}
            _ => self.blocks.push(Block::Text {
                text: said,
                extra: extra::from_wire(Format::Gemini, part),
            }),
        }
        Ok(())
    }

    fn thought(&mut self, said: String, part: Fields, is_signed: bool) {
        if let Some(Block::Reasoning(last)) = self.blocks.last_mut()
            && !is_signed
            && last.verbatim.get("thoughtSignature").is_none()
        {
            last.text.push_str(&said);
            last.verbatim["text"] = last.text.as_str().into();
            return;
        }
        self.blocks.push(Block::Reasoning(Reasoning {
            text: said,
            format: Format::Gemini,
            verbatim: Value::Object(part),
        }));
    }

    fn call(&mut self, mut part: Fields, text: &str, deltas: &mut Vec<Delta>) -> Result<(), Error> {
        let Some(Value::Object(mut call)) = part.shift_remove("functionCall") else {
            return Err(malformed("a `functionCall` is no object"));
        };
        let Some(Value::String(name)) = call.shift_remove("name") else {
            return Err(malformed("a `functionCall` has no `name`"));
        };
        let id = match call.shift_remove("id") {
            Some(Value::String(id)) if !id.is_empty() => id,
            _ => self.generated_id(),
        };
        let written =
            json::member(text, "functionCall").and_then(|call| json::member(call, "args"));
        let arguments = match written {
            Some("null") | None => "{}".to_owned(),
            Some(written) => written.to_owned(),
        };
        let index = self.calls;
        self.calls += 1;
        deltas.push(Delta::ToolUse {
            index,
            id: id.clone(),
            name: name.clone(),
        });
        deltas.push(Delta::Arguments {
            index,
            text: arguments.clone(),
        });
        self.blocks.push(Block::ToolUse(ToolUse {
            id,
            name,
            arguments,
            extra: extra::marked(Format::Gemini, part),
        }));
        Ok(())
    }

    /// Creates an id for a call without one: unique across all answers.
    fn generated_id(&self) -> String {
        let of_answer: String = match &self.id {
            Some(id) => id
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || "_-".contains(*c))
                .take(40)
                .collect(),
            None => {
                let mut bytes = [0; 12];
                // Without randomness ids may repeat; the provider then matches results by their order.
                let _ = getrandom::fill(&mut bytes);
                bytes.iter().map(|byte| format!("{byte:02x}")).collect()
            }
        };
        format!("{GENERATED_ID_PREFIX}{of_answer}_{}", self.calls)
    }

    /// Returns the whole answer.
    pub(super) fn reply(mut self) -> Reply {
        let stop = stop_reason(self.finish.as_deref(), self.calls > 0);
        if matches!(stop, StopReason::Refusal | StopReason::Other(_))
            && let Some(reason) = self.finish.take()
        {
            self.extra.insert("finishReason".to_owned(), reason.into());
        }
        let usage = self.usage.as_ref().and_then(usage).map(|usage| Usage {
            web_searches: searches(&self.extra, &self.model),
            ..usage
        });
        if let Some(Value::Object(mut reported)) = self.usage {
            reported.retain(|name, value| {
                if DETAILS.contains(&name.as_str()) {
                    is_audio(value)
                } else {
                    TERMS.contains(&name.as_str())
                }
            });
            if !reported.is_empty() {
                self.extra.insert(USAGE.to_owned(), reported.into());
            }
        }
        Reply {
            message: Message::new(Role::Assistant, self.blocks),
            stop,
            usage,
            model: self.model,
            id: self.id,
            extra: self.extra,
        }
    }
}

/// Returns the texts of the parts of the first candidate, verbatim.
fn part_texts(text: &str) -> Vec<&str> {
    json::member(text, "candidates")
        .map(json::elements)
        .and_then(|candidates| candidates.into_iter().next())
        .and_then(|candidate| json::member(candidate, "content"))
        .and_then(|content| json::member(content, "parts"))
        .map(json::elements)
        .unwrap_or_default()
}

fn stop_reason(reason: Option<&str>, has_calls: bool) -> StopReason {
    match reason {
        Some("STOP") if has_calls => StopReason::ToolUse,
        Some("STOP") => StopReason::End,
        Some("MAX_TOKENS") => StopReason::Length,
        Some(reason) if REFUSALS.contains(&reason) => StopReason::Refusal,
        Some(other) => StopReason::Other(other.to_owned()),
        None => StopReason::Other("not said".to_owned()),
    }
}

/// The member of an answer with its usage. Of it, the [`TERMS`] are kept.
const USAGE: &str = "usageMetadata";

/// Members of the usage that change the price: the tier of service, and its name at Vertex AI.
const TERMS: [&str; 2] = ["serviceTier", "trafficType"];

/// Members of the usage with the tokens of each modality. They are kept if there is audio, whose price is not that of text:
/// <https://ai.google.dev/gemini-api/docs/pricing>, 2026-11-28.
const DETAILS: [&str; 3] = [
    "promptTokensDetails",
    "cacheTokensDetails",
    "candidatesTokensDetails",
];

fn is_audio(details: &Value) -> bool {
    let rows = details.as_array().into_iter().flatten();
    let mut audio = rows.filter(|row| row.get("modality").is_some_and(|name| name == "AUDIO"));
    audio.any(|row| row.get("tokenCount").is_some_and(has_count))
}

/// Returns the terms of an answer: its tier of service, in the words of all providers.
pub(super) fn terms(answer: &Extra) -> Terms {
    let named = |name: &str| text(answer.get(USAGE)?.get(name));
    let name = named("serviceTier").or_else(|| named("trafficType"));
    let mut details = DETAILS
        .iter()
        .filter_map(|name| answer.get(USAGE)?.get(name));
    Terms {
        tier: name.as_deref().and_then(tier),
        unknown: details.any(is_audio).then(|| "audio tokens".to_owned()),
        ..Terms::default()
    }
}

/// Returns the word of all providers for a tier of service of Google.
pub(crate) fn tier(name: &str) -> Option<String> {
    match name.to_lowercase().as_str() {
        "unspecified" | "service_tier_unspecified" | "traffic_type_unspecified" => None,
        "on_demand_priority" => Some("priority".to_owned()),
        "on_demand_flex" => Some("flex".to_owned()),
        other => Some(other.trim_start_matches("service_tier_").to_owned()),
    }
}

fn searches(answer: &Extra, model: &str) -> u64 {
    let grounding = answer.get("groundingMetadata");
    let queries = grounding.and_then(|grounding| grounding.get("webSearchQueries")?.as_array());
    paid_searches(queries.map_or(0, Vec::len) as u64, model)
}

/// Returns the number of paid searches: of each query, or, until Gemini 2.5, of the whole answer.
pub(crate) fn paid_searches(queries: u64, model: &str) -> u64 {
    let is_per_answer = ["gemini-1", "gemini-2"]
        .iter()
        .any(|family| model.contains(family));
    if is_per_answer {
        queries.min(1)
    } else {
        queries
    }
}

/// Parses `usageMetadata`; `None` if it has no token counts. `promptTokenCount` includes the cached input.
pub(crate) fn usage(reported: &Value) -> Option<Usage> {
    let count = |name: &str| reported.get(name).and_then(Value::as_u64);
    let prompt = count("promptTokenCount");
    let said = count("candidatesTokenCount");
    prompt.or(said)?;
    let input = prompt
        .unwrap_or(0)
        .saturating_add(count("toolUsePromptTokenCount").unwrap_or(0));
    let cached = count("cachedContentTokenCount");
    Some(usage_of(input, cached, said, count("thoughtsTokenCount")))
}

/// Returns the usage of counts whose input includes the cached one, and whose output does not include thoughts.
pub(crate) fn usage_of(
    input: u64,
    cached: Option<u64>,
    said: Option<u64>,
    thoughts: Option<u64>,
) -> Usage {
    let cached = cached.unwrap_or(0).min(input);
    let thoughts = thoughts.unwrap_or(0);
    Usage {
        uncached_input: input - cached,
        cache_read: cached,
        output: said.unwrap_or(0).saturating_add(thoughts),
        reasoning: thoughts,
        ..Usage::default()
    }
}

fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!("{what}; check that the base URL is one of the Gemini API"),
    )
}
