//! Renders tools, system text, and messages as steps.

use serde_json::Value;

use super::{MODEL_OUTPUT, STEP_NOTE};
use crate::error::Error;
use crate::message::RESULT_NAME_NOTE;
use crate::messages::input;
use crate::messages::json::Json;
use crate::{Block, Extra, Format, Image, Message, Role, ToolDefinition, ToolResult, ToolUse};
use crate::{Rendered, extra, openai};

/// Types of contents, as opposed to steps.
const CONTENTS: [&str; 5] = ["audio", "document", "image", "text", "video"];

/// Result of a failed function without output.
const EMPTY_FAILURE_TEXT: &str = "The tool failed and said nothing.";

pub(super) fn tool(tool: &ToolDefinition) -> Rendered {
    let mut json = Json::default();
    json.raw(r#"{"type":"function","name":"#).string(&tool.name);
    if !tool.description.is_empty() {
        json.raw(r#","description":"#).string(&tool.description);
    }
    if !tool.parameters.is_null() {
        json.raw(r#","parameters":"#).value(&tool.parameters);
    }
    json.raw("}");
    json.rendered(None)
}

pub(super) fn system(text: &str) -> Rendered {
    let mut json = Json::default();
    json.string(text);
    json.rendered(None)
}

/// Renders the steps of a message. For the user: results of functions, then the remaining content. For the model: the
/// blocks in their order.
pub(super) fn steps(message: &Message) -> Result<Vec<Rendered>, Error> {
    let mut steps = Steps::new(message);
    for block in &message.content {
        match (block, message.role) {
            (Block::ToolResult(result), Role::User) => steps.done.push(function_result(result)?),
            (Block::ToolUse(call), Role::Assistant) => steps.push(function_call(call)),
            (Block::Reasoning(reasoning), Role::Assistant) => {
                if reasoning.format == Format::Interactions {
                    steps.push(verbatim(&reasoning.verbatim));
                }
            }
            (Block::ToolResult(_), Role::Assistant) => {
                return Err(openai::misplaced(block, "a message of the assistant"));
            }
            (Block::ToolUse(_) | Block::Reasoning(_), Role::User) => {
                return Err(openai::misplaced(block, "a message of the user"));
            }
            (Block::Text { .. } | Block::Image(_), _) => steps.content(block),
            (
                Block::Other {
                    format: Format::Interactions,
                    verbatim: step,
                },
                _,
            ) => {
                if is_content(step) {
                    steps.content(block)
                } else {
                    steps.push(verbatim(step))
                }
            }
            (Block::Other { .. }, _) => {}
        }
    }
    steps.close();
    Ok(steps.done)
}

/// Steps under construction.
struct Steps<'a> {
    /// The type of a step with contents.
    kind: &'static str,
    message: &'a Message,
    done: Vec<Rendered>,
    open: Option<OpenStep<'a>>,
}

/// A step with contents under construction.
struct OpenStep<'a> {
    json: Json,
    /// The note of its first block.
    note: Option<&'a Value>,
}

/// The number of the step that a text was read from.
fn number(note: Option<&Value>) -> Option<&Value> {
    note?.get("index")
}

impl<'a> Steps<'a> {
    fn new(message: &'a Message) -> Self {
        Self {
            kind: match message.role {
                Role::User => "user_input",
                Role::Assistant => MODEL_OUTPUT,
            },
            message,
            done: Vec::new(),
            open: None,
        }
    }

    fn push(&mut self, step: Rendered) {
        self.close();
        self.done.push(step);
    }

    fn content(&mut self, block: &'a Block) {
        let note = match block {
            Block::Text { text, extra } => {
                let fields = || extra::fields(Format::Interactions, extra);
                if text.is_empty() && fields().next().is_none() {
                    return;
                }
                let note = extra.get(STEP_NOTE);
                if self
                    .open
                    .as_ref()
                    .is_some_and(|open| number(open.note) != number(note))
                {
                    self.close();
                }
                note
            }
            _ => None,
        };
        match &mut self.open {
            Some(open) => {
                open.json.raw(",");
                content(&mut open.json, block);
            }
            None => {
                let mut json = Json::default();
                json.raw(r#"{"type":"#).string(self.kind);
                json.raw(r#","content":["#);
                content(&mut json, block);
                self.open = Some(OpenStep { json, note });
            }
        }
    }

    fn close(&mut self) {
        let Some(OpenStep { mut json, note }) = self.open.take() else {
            return;
        };
        let fields = note.and_then(|note| note.get("fields")?.as_object());
        json.raw("]")
            .members(fields.into_iter().flatten(), &["type", "content"]);
        let others = extra::fields(Format::Interactions, &self.message.extra);
        let others =
            others.filter(|(name, _)| fields.is_none_or(|fields| !fields.contains_key(*name)));
        json.members(others, &["type", "content"]).raw("}");
        self.done.push(json.rendered(None));
    }
}

/// Writes a content.
fn content(json: &mut Json, block: &Block) {
    match block {
        Block::Text { text, extra } => {
            json.raw(r#"{"type":"text","text":"#).string(text);
            close(json, extra, &["type", "text"]);
        }
        Block::Image(image) => self::image(json, image),
        Block::Other { verbatim, .. } => {
            json.value(verbatim);
        }
        Block::ToolUse(_) | Block::ToolResult(_) | Block::Reasoning(_) => {}
    }
}

/// Writes an image. `detail` is a field of OpenAI's formats.
fn image(json: &mut Json, image: &Image) {
    json.raw(r#"{"type":"image","#);
    match image.source.inline() {
        Ok((media_type, base64)) => json
            .raw(r#""mime_type":"#)
            .string(media_type)
            .raw(r#","data":"#)
            .string(base64),
        Err(url) => json.raw(r#""uri":"#).string(url),
    };
    let members = ["type", "mime_type", "data", "uri", "detail"];
    close(json, &image.extra, &members);
}

fn function_call(call: &ToolUse) -> Rendered {
    let mut json = Json::default();
    json.raw(r#"{"type":"function_call","id":"#)
        .string(&call.id);
    json.raw(r#","name":"#).string(&call.name);
    json.raw(r#","arguments":"#);
    input(&mut json, call.arguments.trim());
    close(&mut json, &call.extra, &["type", "id", "name", "arguments"]);
    json.rendered(None)
}

/// Renders a result: one text if it has no images, contents otherwise.
fn function_result(result: &ToolResult) -> Result<Rendered, Error> {
    let mut texts = Vec::new();
    let mut has_media = false;
    for block in &result.content {
        match block {
            Block::Text { text, .. } => texts.push(text.as_str()),
            Block::ToolUse(_) | Block::ToolResult(_) => {
                return Err(openai::nested_call(&result.id));
            }
            _ => has_media |= is_medium(block),
        }
    }
    let mut json = Json::default();
    json.raw(r#"{"type":"function_result","call_id":"#)
        .string(&result.id);
    let name = result.extra.get(RESULT_NAME_NOTE).and_then(Value::as_str);
    if let Some(name) = name {
        json.raw(r#","name":"#).string(name);
    }
    json.raw(r#","result":"#);
    if has_media {
        contents(&mut json, &result.content);
    } else {
        let text = texts.join("\n");
        let is_silent = result.is_error && text.is_empty();
        json.string(if is_silent { EMPTY_FAILURE_TEXT } else { &text });
    }
    if result.is_error {
        json.raw(r#","is_error":true"#);
    }
    let members = ["type", "call_id", "name", "result", "is_error"];
    close(&mut json, &result.extra, &members);
    Ok(json.rendered(None))
}

/// Writes the texts and the media of a result.
fn contents(json: &mut Json, blocks: &[Block]) {
    json.raw("[");
    let is_sent = |block: &&Block| match block {
        Block::Text { text, .. } => !text.is_empty(),
        block => is_medium(block),
    };
    for (at, block) in blocks.iter().filter(is_sent).enumerate() {
        if at > 0 {
            json.raw(",");
        }
        content(json, block);
    }
    json.raw("]");
}

fn is_medium(block: &Block) -> bool {
    match block {
        Block::Image(_) => true,
        Block::Other { format, verbatim } => {
            *format == Format::Interactions && is_content(verbatim)
        }
        _ => false,
    }
}

/// Returns true for a content of a known type.
pub(super) fn is_content(value: &Value) -> bool {
    let kind = value.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| CONTENTS.contains(&kind))
}

fn verbatim(step: &Value) -> Rendered {
    let mut json = Json::default();
    json.value(step);
    json.rendered(None)
}

/// Writes the further fields of an object, except `own`, and its brace.
fn close(json: &mut Json, extra: &Extra, own: &[&str]) {
    json.members(extra::fields(Format::Interactions, extra), own)
        .raw("}");
}
