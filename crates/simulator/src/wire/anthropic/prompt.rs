//! The parts of a Messages request on which caching depends: the settings of each level, and the content of
//! the blocks without their markers.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::super::{
    Object, ValidationContext, content, is_true, items, other_fields, present, text_of,
};
use super::is_custom;
use super::markers::BlockPosition;
use super::message::{self, Message};
use super::role::Role;
use crate::accounting::anthropic::{Block, Level, LookbackUnit, Prompt, Ttl};
use crate::accounting::{AnthropicModel, Content};
use crate::facts;
use crate::tokens;

pub(super) fn build(
    request: &Object,
    validation: &ValidationContext<'_>,
    rules: &AnthropicModel,
    system: &[Object],
    messages: &[Message],
    marks: &HashMap<BlockPosition, Ttl>,
) -> Prompt {
    let tools: Vec<&Object> = items(request.get("tools"))
        .filter_map(Value::as_object)
        .collect();
    let thinking = thinking(request);
    let ahead = if rules.settings_first {
        thinking.as_str()
    } else {
        ""
    };
    Prompt {
        namespace: validation.namespace,
        model: text_of(request, "model").to_owned(),
        levels: [
            Level {
                settings: content(ahead, ""),
                blocks: tool_blocks(&tools, marks),
            },
            Level {
                settings: system_settings(request, &tools, messages),
                blocks: system_blocks(system, marks),
            },
            Level {
                settings: message_settings(request, &thinking, messages),
                blocks: message_blocks(messages, rules, marks),
            },
        ],
    }
}

/// Renders thinking and effort; a default equals a missing value.
fn thinking(request: &Object) -> String {
    let thinking = present(request, "thinking");
    let thinking = thinking.filter(|config| config.get("type") != Some(&json!("disabled")));
    let effort = request
        .get("output_config")
        .and_then(|config| config.get("effort"));
    let default = facts::anthropic(text_of(request, "model"));
    let default = default.map_or_else(|| "high".to_owned(), |facts| facts.default_effort);
    let effort = effort.filter(|effort| !effort.is_null() && **effort != json!(default));
    format!(
        "{}|{}",
        thinking.map(Value::to_string).unwrap_or_default(),
        effort.map(Value::to_string).unwrap_or_default()
    )
}

/// Returns true if a tool belongs to the system prompt: turning web search on or off keeps the tools'
/// cache.
fn is_web(tool: &Object) -> bool {
    let kind = text_of(tool, "type");
    kind.starts_with("web_search_") || kind.starts_with("web_fetch_")
}

fn tool_blocks(tools: &[&Object], marks: &HashMap<BlockPosition, Ttl>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (at, tool) in tools.iter().enumerate() {
        let is_deferred = is_true(tool, "defer_loading");
        let breakpoint = marks.get(&(0, 0, at)).copied();
        if !is_web(tool) && !is_deferred {
            blocks.push(Block {
                content: tool_content(tool),
                breakpoint,
                run: LookbackUnit::Alone,
            });
        } else if let Some(last) = blocks.last_mut() {
            // The tool is not rendered here: its marker applies to the end of the tools before it.
            last.breakpoint = last.breakpoint.or(breakpoint);
        }
    }
    blocks
}

fn tool_content(tool: &Object) -> Content {
    let named = [
        "type",
        "name",
        "description",
        "input_schema",
        "cache_control",
    ];
    let kind = if is_custom(tool) {
        "custom"
    } else {
        text_of(tool, "type")
    };
    let schema = tool.get("input_schema").map(Value::to_string);
    let schema = schema.unwrap_or_default();
    let (name, description) = (text_of(tool, "name"), text_of(tool, "description"));
    content(
        format!("tool|{kind}|{}", other_fields(tool, &named)),
        format!("{name} {description} {schema}"),
    )
}

/// Returns web tools, citations, speed, and the output format, which adds a system prompt.
fn system_settings(request: &Object, tools: &[&Object], messages: &[Message]) -> Content {
    let web = tools.iter().filter(|tool| is_web(tool));
    let web: String = web
        .map(|tool| other_fields(tool, &["cache_control"]))
        .collect();
    let cites = |block: &Object| {
        let citations = block
            .get("citations")
            .and_then(|citations| citations.get("enabled"));
        citations == Some(&Value::Bool(true))
    };
    let has_citations = messages
        .iter()
        .flat_map(|message| &message.blocks)
        .any(cites);
    let speed = request
        .get("speed")
        .filter(|speed| **speed != json!("standard"));
    let format = request
        .get("output_config")
        .and_then(|config| config.get("format"));
    let format = format.or(request.get("output_format"));
    let text = |value: Option<&Value>| {
        let value = value.filter(|value| !value.is_null());
        value.map(Value::to_string).unwrap_or_default()
    };
    content(
        format!("citations {has_citations}|speed {}", text(speed)),
        format!("{web}{}", text(format)),
    )
}

fn message_settings(request: &Object, thinking: &str, messages: &[Message]) -> Content {
    let has_images = messages
        .iter()
        .flat_map(|message| &message.blocks)
        .any(has_image);
    let choice = request.get("tool_choice").and_then(Value::as_object);
    let choice = choice
        .map(|choice| other_fields(choice, &[]))
        .unwrap_or_default();
    content(
        format!("{thinking}|choice {choice}|images {has_images}"),
        "",
    )
}

fn has_image(block: &Object) -> bool {
    let mut parts = items(block.get("content")).filter_map(Value::as_object);
    text_of(block, "type") == "image" || parts.any(|part| text_of(part, "type") == "image")
}

fn system_blocks(system: &[Object], marks: &HashMap<BlockPosition, Ttl>) -> Vec<Block> {
    let block = |(at, fields): (usize, &Object)| Block {
        content: block_content("system", fields),
        breakpoint: marks.get(&(1, 0, at)).copied(),
        run: LookbackUnit::Alone,
    };
    system.iter().enumerate().map(block).collect()
}

fn message_blocks(
    messages: &[Message],
    rules: &AnthropicModel,
    marks: &HashMap<BlockPosition, Ttl>,
) -> Vec<Block> {
    let mut blocks = Vec::new();
    let last_question = messages.iter().rposition(is_question);
    for (at, message) in messages.iter().enumerate() {
        // Older models drop the thinking before the last message that is more than tool results.
        let drops_thinking = !rules.keeps_thinking && Some(at) < last_question;
        for (index, fields) in message.blocks.iter().enumerate() {
            let kind = text_of(fields, "type");
            if drops_thinking && matches!(kind, "thinking" | "redacted_thinking") {
                continue;
            }
            blocks.push(Block {
                content: block_content(message.role.name(), fields),
                breakpoint: marks.get(&(2, at, index)).copied(),
                run: match kind {
                    "tool_use" => LookbackUnit::ToolUses,
                    "tool_result" => LookbackUnit::ToolResults,
                    _ => LookbackUnit::Alone,
                },
            });
        }
    }
    blocks
}

/// Returns true if a user message is more than tool results.
fn is_question(message: &Message) -> bool {
    let is_result = |block: &Object| text_of(block, "type") == "tool_result";
    message.role == Role::User && !message.blocks.iter().all(is_result)
}

/// Returns the content of a block, without its marker.
fn block_content(role: &str, fields: &Object) -> Content {
    let kind = text_of(fields, "type");
    let with = |named: &[&str], text: String, images: u64| {
        let mut all = vec!["type", "cache_control"];
        all.extend(named);
        Content {
            frame: format!("{role}|{kind}|{}", other_fields(fields, &all)),
            text,
            images,
        }
    };
    match kind {
        "text" => with(&["text"], text_of(fields, "text").to_owned(), 0),
        "thinking" => with(&["thinking"], text_of(fields, "thinking").to_owned(), 0),
        "redacted_thinking" => with(&["data"], text_of(fields, "data").to_owned(), 0),
        "image" => with(&[], String::new(), tokens::TOKENS_PER_IMAGE),
        "document" => document(fields, with),
        "tool_use" => {
            let input = fields
                .get("input")
                .map(Value::to_string)
                .unwrap_or_default();
            let text = format!("{} {input}", text_of(fields, "name"));
            with(&["name", "input"], text, 0)
        }
        "tool_result" => tool_result(fields, with),
        message::SETTINGS => with(&[], String::new(), 0),
        _ => {
            let text = other_fields(fields, &["cache_control"]);
            content(format!("{role}|{kind}"), text)
        }
    }
}

fn document(fields: &Object, with: impl Fn(&[&str], String, u64) -> Content) -> Content {
    let source = fields.get("source").and_then(Value::as_object);
    match source.filter(|source| text_of(source, "type") == "text") {
        Some(source) => with(&["source"], text_of(source, "data").to_owned(), 0),
        None => with(&[], String::new(), tokens::TOKENS_PER_IMAGE),
    }
}

/// Renders a tool result; a string equals one text block.
fn tool_result(fields: &Object, with: impl Fn(&[&str], String, u64) -> Content) -> Content {
    let parts = match fields.get("content") {
        Some(Value::Array(parts)) => parts.as_slice(),
        _ => return with(&["content"], super::message::result_text(fields), 0),
    };
    let is_text = |part: &Value| part.get("type") == Some(&json!("text"));
    if let [only] = parts
        && is_text(only)
        && only
            .as_object()
            .is_some_and(|part| other_fields(part, &["type", "text"]).is_empty())
    {
        return with(&["content"], super::message::result_text(fields), 0);
    }
    let images = parts.iter().filter(|part| !is_text(part)).count() as u64;
    let images = images * tokens::TOKENS_PER_IMAGE;
    with(&[], super::message::result_text(fields), images)
}
