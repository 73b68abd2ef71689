//! Renders tools, system text and messages as pieces of a request.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::json::Json;
use crate::error::Error;
use crate::openai::{self, is_visible};
use crate::{Block, Extra, Format, Image, Message, Role, ToolDefinition, ToolResult, ToolUse};
use crate::{Rendered, extra};

const MARKER: &str = "cache_control";

/// Content of a failed tool without output: the API rejects an error without content.
const EMPTY_FAILURE_TEXT: &str = "The tool failed and said nothing.";

/// Result of writing a block: nothing written, or a block that does or does not accept a marker.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockResult {
    Nothing,
    Unmarkable,
    Markable,
}

/// Renders a tool. A schema without a `type` gets the type `object`, because the API requires a type.
pub(crate) fn tool(tool: &ToolDefinition) -> Rendered {
    let mut json = Json::default();
    write_tool(&mut json, tool);
    let mark_at = json.before_brace();
    json.rendered(mark_at)
}

pub(super) fn write_tool(json: &mut Json, tool: &ToolDefinition) {
    json.raw(r#"{"name":"#).string(&tool.name);
    if !tool.description.is_empty() {
        json.raw(r#","description":"#).string(&tool.description);
    }
    json.raw(r#","input_schema":"#);
    json.schema(&tool.parameters).raw("}");
}

pub(crate) fn system(text: &str) -> Rendered {
    let mut json = Json::default();
    json.raw(r#"{"type":"text","text":"#).string(text).raw("}");
    let mark_at = json.before_brace().filter(|_| is_visible(text));
    json.rendered(mark_at)
}

/// Renders a message; `None` if it has no content that can be sent.
pub(crate) fn message(message: &Message) -> Result<Option<Rendered>, Error> {
    let mut json = Json::default();
    json.raw(match message.role {
        Role::User => r#"{"role":"user","content":"#,
        Role::Assistant => r#"{"role":"assistant","content":"#,
    });
    let start = json.len();
    let mark_at = Blocks(&mut json).array(&message.content, Blocks::block)?;
    if json.len() == start {
        return Ok(None);
    }
    json.members(
        extra::fields(Format::Messages, &message.extra),
        &["role", "content", MARKER],
    )
    .raw("}");
    Ok(Some(json.rendered(mark_at)))
}

/// Writes blocks.
struct Blocks<'a>(&'a mut Json);

impl Blocks<'_> {
    /// Writes the array of the blocks that can be sent, or nothing if there are none. Returns the position
    /// of a marker in the last block.
    fn array(
        &mut self,
        blocks: &[Block],
        write: fn(&mut Self, &Block) -> Result<BlockResult, Error>,
    ) -> Result<Option<u32>, Error> {
        let start = self.0.len();
        let mut mark_at = None;
        for block in blocks {
            let before = self.0.len();
            self.0.raw(if before == start { "[" } else { "," });
            match write(self, block)? {
                // The comma before the block goes, too.
                BlockResult::Nothing => self.0.truncate(before),
                BlockResult::Unmarkable => mark_at = None,
                BlockResult::Markable => mark_at = self.0.before_brace(),
            }
        }
        if self.0.len() > start {
            self.0.raw("]");
        }
        Ok(mark_at)
    }

    fn block(&mut self, block: &Block) -> Result<BlockResult, Error> {
        match block {
            Block::ToolUse(call) => Ok(self.tool_use(call)),
            Block::ToolResult(result) => self.tool_result(result),
            Block::Reasoning(reasoning) if reasoning.format == Format::Messages => {
                self.0.value(&reasoning.verbatim);
                Ok(BlockResult::Unmarkable)
            }
            Block::Reasoning(_) => Ok(BlockResult::Nothing),
            Block::Text { .. } | Block::Image(_) | Block::Other { .. } => Ok(self.content(block)),
        }
    }

    /// Writes a block within a tool result.
    fn result_block(&mut self, block: &Block) -> Result<BlockResult, Error> {
        match block {
            Block::ToolUse(ToolUse { id, .. }) | Block::ToolResult(ToolResult { id, .. }) => {
                Err(openai::nested_call(id))
            }
            Block::Reasoning(_) => Ok(BlockResult::Nothing),
            Block::Text { .. } | Block::Image(_) | Block::Other { .. } => Ok(self.content(block)),
        }
    }

    /// Writes a block that is allowed both in a message and in a tool result.
    fn content(&mut self, block: &Block) -> BlockResult {
        match block {
            Block::Text { text, extra } => self.text(text, extra),
            Block::Image(image) => self.image(image),
            Block::Other {
                format: Format::Messages,
                verbatim,
            } => self.verbatim(verbatim),
            _ => BlockResult::Nothing,
        }
    }

    fn text(&mut self, text: &str, extra: &Extra) -> BlockResult {
        if !is_visible(text) {
            return BlockResult::Nothing;
        }
        self.0.raw(r#"{"type":"text","text":"#).string(text);
        self.close(extra, &["type", "text"])
    }

    fn image(&mut self, image: &Image) -> BlockResult {
        self.0.raw(r#"{"type":"image","source":"#);
        match image.source.inline() {
            Ok((media_type, base64)) => self
                .0
                .raw(r#"{"type":"base64","media_type":"#)
                .string(media_type)
                .raw(r#","data":"#)
                .string(base64),
            Err(url) => self.0.raw(r#"{"type":"url","url":"#).string(url),
        }
        .raw("}");
        self.close(&image.extra, &["type", "source"])
    }

    fn tool_use(&mut self, call: &ToolUse) -> BlockResult {
        self.0
            .raw(r#"{"type":"tool_use","id":"#)
            .string(&allowed(&call.id))
            .raw(r#","name":"#)
            .string(&allowed(&call.name))
            .raw(r#","input":"#);
        input(self.0, &call.arguments);
        self.close(&call.extra, &["type", "id", "name", "input"])
    }

    fn tool_result(&mut self, result: &ToolResult) -> Result<BlockResult, Error> {
        self.0
            .raw(r#"{"type":"tool_result","tool_use_id":"#)
            .string(&allowed(&result.id));
        let before = self.0.len();
        self.0.raw(r#","content":"#);
        let start = self.0.len();
        self.array(&result.content, Self::result_block)?;
        if self.0.len() == start && result.is_error {
            self.0.raw("[");
            self.text(EMPTY_FAILURE_TEXT, &Extra::new());
            self.0.raw("]");
        } else if self.0.len() == start {
            self.0.truncate(before);
        }
        if result.is_error {
            self.0.raw(r#","is_error":true"#);
        }
        Ok(self.close(
            &result.extra,
            &["type", "tool_use_id", "content", "is_error"],
        ))
    }

    /// Writes a block of an unknown type.
    fn verbatim(&mut self, block: &Value) -> BlockResult {
        let Value::Object(fields) = block else {
            self.0.value(block);
            return BlockResult::Unmarkable;
        };
        let kind = fields.get("type").unwrap_or(&Value::Null);
        self.0.raw(r#"{"type":"#).value(kind);
        self.0.members(fields, &["type", MARKER]).raw("}");
        if kind.as_str().is_some_and(takes_marker) {
            BlockResult::Markable
        } else {
            BlockResult::Unmarkable
        }
    }

    fn close(&mut self, extra: &Extra, parameter_members: &[&str]) -> BlockResult {
        let but: Vec<&str> = parameter_members.iter().copied().chain([MARKER]).collect();
        self.0
            .members(extra::fields(Format::Messages, extra), &but)
            .raw("}");
        BlockResult::Markable
    }
}

/// Writes the arguments as the model wrote them. If they are not an object, their text is wrapped in one:
/// the API accepts nothing else, and the conversation must continue.
pub(crate) fn input(json: &mut Json, arguments: &str) {
    let arguments = arguments.trim_matches([' ', '\t', '\n', '\r']);
    if arguments.is_empty() || arguments == "null" {
        json.raw("{}");
    } else if serde_json::from_str::<Map<String, Value>>(arguments).is_ok() {
        json.raw(arguments);
    } else {
        json.raw(r#"{"invalid_arguments":"#).string(arguments);
        json.raw("}");
    }
}

/// Returns true if the API accepts a marker in a block of this type, which has no representation here.
fn takes_marker(kind: &str) -> bool {
    [
        "document",
        "search_result",
        "container_upload",
        "compaction",
    ]
    .contains(&kind)
        || kind.ends_with("_tool_use")
        || kind.ends_with("_tool_result")
}

/// Converts a name to the characters that the API accepts: letters, digits, `_` and `-`.
fn allowed(name: &str) -> Cow<'_, str> {
    escaped(name, "_-")
}

/// Converts a name to ASCII letters, digits and `signs`. Other providers allow more characters. Each
/// forbidden character is written as `_` and its code point, in calls and results alike, so that a result
/// still matches its call.
pub(crate) fn escaped<'n>(name: &'n str, signs: &str) -> Cow<'n, str> {
    let fits = |character: char| character.is_ascii_alphanumeric() || signs.contains(character);
    if name.is_empty() {
        return Cow::Borrowed("_");
    }
    if name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(name.chars().fold(String::new(), |mut name, character| {
        if fits(character) {
            name.push(character);
        } else {
            // Writing to a string does not fail.
            write!(name, "_{:x}", u32::from(character)).unwrap_or_default();
        }
        name
    }))
}
