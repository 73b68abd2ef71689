//! Parses answers.

use cachalot_core::json;
use serde_json::{Map, Value, json};

use super::request::CITATIONS_MEMBER;
use crate::error::{Error, ErrorKind};
use crate::messages::stop_reason;
use crate::{Block, Extra, Format, Message, Reasoning, Reply, Role, ToolUse, Usage};
use crate::{extra, openai};

/// Stop reasons that are refusals.
const REFUSALS: [&str; 2] = ["guardrail_intervened", "content_filtered"];

pub(super) type Fields = Map<String, Value>;

/// Parses a whole answer.
pub(crate) fn reply(body: &[u8]) -> Result<Reply, Error> {
    let text = std::str::from_utf8(body)
        .map_err(|error| malformed(format_args!("the answer is no UTF-8 text ({error})")))?;
    let mut fields = openai::parse(body, "the answer")?;
    let mut output = match fields.shift_remove("output") {
        Some(Value::Object(output)) => output,
        _ => return Err(malformed("the answer has no `output`")),
    };
    let message = output.get_mut("message").and_then(Value::as_object_mut);
    let content = message.and_then(|message| message.shift_remove("content"));
    let Some(Value::Array(content)) = content else {
        return Err(malformed("the answer has no `output.message.content`"));
    };
    let texts = json::member(text, "output")
        .and_then(|output| json::member(output, "message"))
        .and_then(|message| json::member(message, "content"))
        .map(json::elements);
    let blocks = content
        .into_iter()
        .zip(texts.unwrap_or_default())
        .map(|(block, text)| {
            let input = json::member(text, "toolUse").and_then(|call| json::member(call, "input"));
            self::block(block, input)
        });
    let blocks = blocks.collect::<Result<_, _>>()?;
    Ok(whole(fields, blocks))
}

/// Creates the reply from the answer's fields outside of the message.
pub(super) fn whole(mut fields: Fields, blocks: Vec<Block>) -> Reply {
    let stop = fields.shift_remove("stopReason");
    let used = fields.shift_remove("usage");
    // Latency of the provider.
    fields.shift_remove("metrics");
    // The model that a router chose.
    let trace = fields.get("trace");
    let model = trace.and_then(|trace| trace.pointer("/promptRouter/invokedModelId")?.as_str());
    let model = model.unwrap_or_default().to_owned();
    Reply {
        message: Message::new(Role::Assistant, blocks),
        stop: stop_reason(stop.as_ref().and_then(Value::as_str), &REFUSALS),
        usage: used.as_ref().and_then(usage),
        model,
        id: None,
        extra: fields,
    }
}

/// Parses a block of an answer. `input` is the text of the arguments of a tool call.
pub(super) fn block(block: Value, input: Option<&str>) -> Result<Block, Error> {
    let Value::Object(fields) = &block else {
        return Err(malformed("a block of the answer is no object"));
    };
    if let Some(text) = fields.get("text").and_then(Value::as_str) {
        return Ok(Block::text(text));
    }
    if let Some(reasoning) = fields.get("reasoningContent") {
        let text = reasoning
            .pointer("/reasoningText/text")
            .and_then(Value::as_str);
        return Ok(Block::Reasoning(Reasoning {
            text: text.unwrap_or_default().to_owned(),
            format: Format::Converse,
            verbatim: block,
        }));
    }
    if let Some(cited) = fields.get(CITATIONS_MEMBER) {
        let parts = cited
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let texts = parts.filter_map(|part| part.get("text")?.as_str());
        let mut further = Extra::new();
        further.insert(CITATIONS_MEMBER.to_owned(), cited.clone());
        return Ok(Block::Text {
            text: texts.collect(),
            extra: extra::from_wire(Format::Converse, further),
        });
    }
    match fields.get("toolUse") {
        // A tool that the provider runs has a type.
        Some(Value::Object(call)) if !call.contains_key("type") => {
            let text = |name: &str| call.get(name).and_then(Value::as_str).map(str::to_owned);
            let (Some(id), Some(name)) = (text("toolUseId"), text("name")) else {
                return Err(malformed("a `toolUse` lacks its `toolUseId` or its `name`"));
            };
            let arguments = match input {
                None | Some("null" | "") => "{}",
                Some(written) => written,
            };
            Ok(Block::ToolUse(ToolUse {
                id,
                name,
                arguments: arguments.to_owned(),
                extra: Extra::new(),
            }))
        }
        _ => Ok(Block::Other {
            format: Format::Converse,
            verbatim: block,
        }),
    }
}

/// Returns a text with its citations.
pub(super) fn cited(text: &str, citations: &[Value]) -> Value {
    json!({CITATIONS_MEMBER: {"content": [{"text": text}], "citations": citations}})
}

/// Parses the usage; `None` if it has no token counts. `inputTokens` is the input that was neither read
/// from the cache nor written to it.
pub(crate) fn usage(reported: &Value) -> Option<Usage> {
    let count = |name: &str| reported.get(name).and_then(Value::as_u64);
    let input = count("inputTokens");
    let output = count("outputTokens");
    input.or(output)?;
    let written = count("cacheWriteInputTokens").unwrap_or(0);
    let details = reported.get("cacheDetails").and_then(Value::as_array);
    let of_time = |time: &str| -> u64 {
        details
            .into_iter()
            .flatten()
            .filter(|detail| detail.get("ttl").and_then(Value::as_str) == Some(time))
            .filter_map(|detail| detail.get("inputTokens")?.as_u64())
            .fold(0, u64::saturating_add)
    };
    let hour = of_time("1h").min(written);
    let five = of_time("5m").min(written - hour);
    Some(Usage {
        uncached_input: input.unwrap_or(0),
        cache_read: count("cacheReadInputTokens").unwrap_or(0),
        cache_write_5m: five,
        cache_write_1h: hour,
        cache_write_other: written - hour - five,
        output: output.unwrap_or(0),
        ..Usage::default()
    })
}

pub(super) fn malformed(what: impl std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::Malformed,
        format!("{what}; check that the base URL is one of Amazon Bedrock's runtime"),
    )
}
