//! Renders tools, system text and messages as pieces of a request.

use std::borrow::Cow;

use cachalot_core::Digest;
use serde_json::Value;

use crate::error::{Error, ErrorKind};
use crate::message::PREVIOUS_ROLE_NOTE;
use crate::messages::json::Json;
use crate::messages::{escaped, input};
use crate::openai::{self, is_visible};
use crate::{Block, Extra, Format, Image, Message, Role, ToolDefinition, ToolResult, ToolUse};
use crate::{Rendered, extra};

/// The member of a text block that contains the text together with its citations.
pub(super) const CITATIONS_MEMBER: &str = "citationsContent";

/// Result of a failed tool without output.
const EMPTY_FAILURE_TEXT: &str = "The tool failed and said nothing.";

/// Result of a tool without output: the API rejects a blank text.
const EMPTY_SUCCESS_TEXT: &str = "The tool succeeded and said nothing.";

/// Inserted between two messages of the user: the model, or a tool, was interrupted.
const NO_ANSWER_TEXT: &str = "(No answer.)";

/// Inserted between two messages of the model.
const CONTINUE_TEXT: &str = "(Continue.)";

/// Maximum length of a call id and of a tool name.
const MAX_NAME_CHARS: usize = 64;

/// Renders a tool. The schema must be an object.
pub(crate) fn tool(tool: &ToolDefinition) -> Rendered {
    let mut json = Json::default();
    json.raw(r#"{"toolSpec":{"name":"#)
        .string(&fit_name(&tool.name, "_-"));
    if !tool.description.is_empty() {
        json.raw(r#","description":"#).string(&tool.description);
    }
    json.raw(r#","inputSchema":{"json":"#);
    json.schema(&tool.parameters).raw("}}}");
    behind(json)
}

pub(crate) fn system(text: &str) -> Rendered {
    let mut json = Json::default();
    json.raw(r#"{"text":"#).string(text).raw("}");
    if is_visible(text) {
        behind(json)
    } else {
        json.rendered(None)
    }
}

/// Returns a piece that a cache point may follow.
fn behind(json: Json) -> Rendered {
    let end = u32::try_from(json.len()).ok();
    json.rendered(end)
}

/// Returns true if any content of a message is sent.
pub(crate) fn is_sent(message: &Message) -> bool {
    message.content.iter().any(|block| match block {
        Block::Text { text, extra } => {
            is_visible(text) || extra::field(Format::Converse, extra, CITATIONS_MEMBER).is_some()
        }
        Block::Reasoning(reasoning) => reasoning.format == Format::Converse,
        Block::Other { format, .. } => *format == Format::Converse,
        Block::Image(_) | Block::ToolUse(_) | Block::ToolResult(_) => true,
    })
}

/// Renders a message, preceded by a message of the other role if [`crate::prepare`] noted that one is
/// missing. Empty if the message has no content that can be sent.
pub(crate) fn message(message: &Message) -> Result<Vec<Rendered>, Error> {
    if !is_sent(message) {
        return Ok(Vec::new());
    }
    let between = match message
        .extra
        .get(PREVIOUS_ROLE_NOTE)
        .and_then(Value::as_str)
    {
        Some("user") if message.role == Role::User => Some(Message::assistant(NO_ANSWER_TEXT)),
        Some(_) if message.role == Role::Assistant => Some(Message::user(CONTINUE_TEXT)),
        _ => None,
    };
    let mut pieces = Vec::with_capacity(2);
    if let Some(between) = between {
        pieces.push(piece(&between)?);
    }
    pieces.push(piece(message)?);
    Ok(pieces)
}

fn piece(message: &Message) -> Result<Rendered, Error> {
    let mut blocks = Blocks {
        json: Json::default(),
        start: 0,
        markable: false,
    };
    blocks.json.raw(match message.role {
        Role::User => r#"{"role":"user","content":["#,
        Role::Assistant => r#"{"role":"assistant","content":["#,
    });
    blocks.start = blocks.json.len();
    for block in &message.content {
        blocks.block(block)?;
    }
    let Blocks {
        mut json, markable, ..
    } = blocks;
    let mark_at = u32::try_from(json.len()).ok().filter(|_| markable);
    json.raw("]}");
    Ok(json.rendered(mark_at))
}

/// Writes the blocks of a message or of a tool result.
struct Blocks {
    json: Json,
    /// Offset of the first block.
    start: usize,
    /// True if a cache point may follow the block that was written last.
    markable: bool,
}

impl Blocks {
    fn begin(&mut self) -> &mut Json {
        if self.json.len() > self.start {
            self.json.raw(",");
        }
        self.markable = true;
        &mut self.json
    }

    fn block(&mut self, block: &Block) -> Result<(), Error> {
        match block {
            Block::ToolUse(call) => self.call(call),
            Block::ToolResult(result) => self.result(result)?,
            Block::Reasoning(reasoning) if reasoning.format == Format::Converse => {
                self.begin().value(&reasoning.verbatim);
                // The API rejects a cache point after reasoning.
                self.markable = false;
            }
            Block::Reasoning(_) => {}
            Block::Text { .. } | Block::Image(_) | Block::Other { .. } => self.content(block)?,
        }
        Ok(())
    }

    /// Writes a block that is allowed both in a message and in a tool result.
    fn content(&mut self, block: &Block) -> Result<(), Error> {
        match block {
            Block::Text { text, extra } => self.text(text, extra),
            Block::Image(image) => self.image(image)?,
            Block::Other {
                format: Format::Converse,
                verbatim,
            } => {
                self.begin().value(verbatim);
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str, extra: &Extra) {
        if let Some(cited) = extra::field(Format::Converse, extra, CITATIONS_MEMBER) {
            self.begin()
                .raw(r#"{"citationsContent":"#)
                .value(cited)
                .raw("}");
        } else if is_visible(text) {
            self.begin().raw(r#"{"text":"#).string(text).raw("}");
        }
    }

    fn image(&mut self, image: &Image) -> Result<(), Error> {
        match image.source.inline() {
            Ok((media_type, base64)) => {
                self.begin()
                    .raw(r#"{"image":{"format":"#)
                    .string(format_of(media_type))
                    .raw(r#","source":{"bytes":"#)
                    .string(base64)
                    .raw("}}}");
            }
            Err(url) if url.starts_with("s3://") => {
                let ending = url.rsplit('.').next().unwrap_or_default();
                self.begin()
                    .raw(r#"{"image":{"format":"#)
                    .string(format_of(&ending.to_ascii_lowercase()))
                    .raw(r#","source":{"s3Location":{"uri":"#)
                    .string(url)
                    .raw("}}}}");
            }
            Err(_) => {
                return Err(Error::new(
                    ErrorKind::Rejected,
                    "Bedrock takes images inline or as `s3://…`, not by another URL; attach the file instead",
                ));
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &ToolUse) {
        let json = self.begin();
        json.raw(r#"{"toolUse":{"toolUseId":"#)
            .string(&fit_name(&call.id, "_.:-"))
            .raw(r#","name":"#)
            .string(&fit_name(&call.name, "_-"))
            .raw(r#","input":"#);
        input(json, &call.arguments);
        json.raw("}}");
    }

    fn result(&mut self, result: &ToolResult) -> Result<(), Error> {
        self.begin()
            .raw(r#"{"toolResult":{"toolUseId":"#)
            .string(&fit_name(&result.id, "_.:-"))
            .raw(r#","content":["#);
        // The first block of the result follows no other one, and begins without a comma.
        let outer = std::mem::replace(&mut self.start, self.json.len());
        for block in &result.content {
            match block {
                Block::ToolUse(ToolUse { id, .. }) | Block::ToolResult(ToolResult { id, .. }) => {
                    return Err(openai::nested_call(id));
                }
                block => self.content(block)?,
            }
        }
        if self.json.len() == self.start {
            let text = if result.is_error {
                EMPTY_FAILURE_TEXT
            } else {
                EMPTY_SUCCESS_TEXT
            };
            self.text(text, &Extra::new());
        }
        self.start = outer;
        self.json.raw(if result.is_error {
            r#"],"status":"error"}}"#
        } else {
            r#"],"status":"success"}}"#
        });
        Ok(())
    }
}

/// Returns the API's name for an image format, given a media type or a file extension.
fn format_of(kind: &str) -> &str {
    match kind.strip_prefix("image/").unwrap_or(kind) {
        "jpg" => "jpeg",
        format => format,
    }
}

/// Converts a name to one that the API accepts: at most 64 letters, digits and `signs`. Longer names end in
/// a digest, so that a result still matches its call.
pub(super) fn fit_name<'n>(name: &'n str, signs: &str) -> Cow<'n, str> {
    const DIGEST: usize = 16;
    let escaped = escaped(name, signs);
    if escaped.len() <= MAX_NAME_CHARS {
        return escaped;
    }
    let digest = Digest::sha256(name.as_bytes()).to_hex();
    // Escaped names are ASCII.
    let start = escaped
        .get(..MAX_NAME_CHARS - DIGEST - 1)
        .unwrap_or_default();
    let digest = digest.get(..DIGEST).unwrap_or_default();
    Cow::Owned(format!("{start}_{digest}"))
}
