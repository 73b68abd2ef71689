//! Renders messages as pieces of a request.

use serde_json::Value;

use crate::error::Error;
use crate::openai::{self, Object, object};
use crate::{Block, Extra, Format, Image, Message, Role, ToolResult, ToolUse};
use crate::{Rendered, extra};

/// Selects the texts that are written as parts, so that the last part may carry a marker; all other texts
/// are strings. The form is constant for a session, because the provider's cache treats a text as a string
/// and the same text as parts as different texts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TextForm {
    /// Texts of the system and the user.
    pub(crate) told: bool,
    /// Texts of tool results.
    pub(crate) results: bool,
    /// Texts of the model.
    pub(crate) answers: bool,
}

/// Renders the content of a message that consists of text only.
fn content(text: &str, as_parts: bool) -> Value {
    if as_parts && openai::is_visible(text) {
        Value::Array(vec![text_part(text, &Extra::new())])
    } else {
        Value::from(text)
    }
}

fn rendered(fields: Object, as_parts: bool) -> Rendered {
    if as_parts {
        openai::markable(fields, "content")
    } else {
        openai::rendered(fields)
    }
}

/// Renders a piece of the system text.
pub(crate) fn system(text: &str, text_form: TextForm) -> Rendered {
    let fields = object([
        ("role", Value::from("system")),
        ("content", content(text, text_form.told)),
    ]);
    rendered(fields, text_form.told)
}

/// Renders the pieces of a message in the order that the API requires: tool results, each as a separate
/// message, then the user's remaining content. Additional fields of a user message go with the user's
/// content, those of a result with the result.
pub(crate) fn pieces(message: &Message, text_form: TextForm) -> Result<Vec<Rendered>, Error> {
    match message.role {
        Role::User => user(message, text_form),
        Role::Assistant => Ok(assistant(message, text_form)?.into_iter().collect()),
    }
}

fn user(message: &Message, text_form: TextForm) -> Result<Vec<Rendered>, Error> {
    let mut pieces = Vec::new();
    let mut content = UserContent {
        structured: text_form.told,
        ..UserContent::default()
    };
    for block in &message.content {
        // Before the rest of the message: results have to follow their calls directly.
        if let Block::ToolResult(result) = block {
            pieces.push(tool_message(result, &mut content, text_form)?);
        }
    }
    for block in &message.content {
        content.push(block)?;
    }
    if let Some(content) = content.value() {
        let mut fields = object([("role", Value::from("user")), ("content", content)]);
        extra::add(&mut fields, Format::Chat, &message.extra);
        pieces.push(rendered(fields, text_form.told));
    }
    Ok(pieces)
}

/// Renders a tool result; content other than text goes to `attachments`.
fn tool_message(
    result: &ToolResult,
    attachments: &mut UserContent,
    text_form: TextForm,
) -> Result<Rendered, Error> {
    let ToolResult {
        id,
        content: blocks,
        is_error,
        extra,
    } = result;
    let mut texts = Vec::new();
    for block in blocks {
        match block {
            Block::Text { text, .. } => texts.push(text.clone()),
            Block::Image(image) => texts.push(attachments.attach(id, image_part(image))),
            Block::Other {
                format: Format::Chat,
                verbatim,
            } => texts.push(attachments.attach(id, verbatim.clone())),
            Block::Other { .. } => {}
            Block::ToolUse(_) | Block::ToolResult(_) | Block::Reasoning(_) => {
                return Err(openai::misplaced(block, "the result of a tool"));
            }
        }
    }
    let text = openai::paragraphs(texts.iter().map(String::as_str));
    let mut fields = object([
        ("role", Value::from("tool")),
        ("tool_call_id", Value::from(id.as_str())),
        (
            "content",
            content(&openai::told(&text, *is_error), text_form.results),
        ),
    ]);
    extra::add(&mut fields, Format::Chat, extra);
    Ok(rendered(fields, text_form.results))
}

/// The content of a user message: one string if it consists of text without additional fields only, parts
/// otherwise.
#[derive(Default)]
struct UserContent {
    parts: Vec<Value>,
    texts: Vec<String>,
    attachments: usize,
    structured: bool,
}

impl UserContent {
    /// Adds content that a tool result cannot hold; returns the line that replaces it in the result.
    fn attach(&mut self, id: &str, part: Value) -> String {
        self.structured = true;
        self.attachments += 1;
        let number = self.attachments;
        self.parts.push(text_part(
            &format!("[attachment {number}, of the result of {id}]"),
            &Extra::new(),
        ));
        self.parts.push(part);
        format!("[attachment {number}: in the next message of the user]")
    }

    fn push(&mut self, block: &Block) -> Result<(), Error> {
        match block {
            Block::Text { text, extra } => {
                self.texts.push(text.clone());
                let further = extra::fields(Format::Chat, extra).next().is_some();
                self.structured |= further;
                if further || !text.is_empty() {
                    self.parts.push(text_part(text, extra));
                }
            }
            Block::Image(image) => {
                self.structured = true;
                self.parts.push(image_part(image));
            }
            Block::Other {
                format: Format::Chat,
                verbatim,
            } => {
                self.structured = true;
                self.parts.push(verbatim.clone());
            }
            Block::Other { .. } | Block::ToolResult(_) => {}
            Block::ToolUse(_) | Block::Reasoning(_) => {
                return Err(openai::misplaced(block, "a message of the user"));
            }
        }
        Ok(())
    }

    fn value(self) -> Option<Value> {
        if self.structured && !self.parts.is_empty() {
            return Some(Value::Array(self.parts));
        }
        if self.texts.is_empty() {
            return None;
        }
        Some(openai::paragraphs(self.texts.iter().map(String::as_str)).into())
    }
}

fn text_part(text: &str, further: &Extra) -> Value {
    let mut part = object([("type", Value::from("text")), ("text", Value::from(text))]);
    extra::add(&mut part, Format::Chat, further);
    Value::Object(part)
}

/// Renders an image; `detail` belongs to its URL, other fields to the part.
fn image_part(image: &Image) -> Value {
    let mut url = object([("url", Value::from(openai::image_url(&image.source)))]);
    if let Some(detail) = extra::field(Format::Chat, &image.extra, "detail") {
        url.insert("detail".into(), detail.clone());
    }
    let mut part = object([
        ("type", Value::from("image_url")),
        ("image_url", Value::Object(url)),
    ]);
    extra::add(&mut part, Format::Chat, &image.extra);
    part.shift_remove("detail");
    Value::Object(part)
}

/// The content of an assistant message, sorted into the fields of the wire.
#[derive(Default)]
struct AssistantFields {
    /// All content as parts.
    parts: Vec<Value>,
    /// All text.
    text: String,
    /// True if the text alone would lose content.
    structured: bool,
    refusal: String,
    reasoning: Object,
    calls: Vec<Value>,
    /// True if it has content that the format can represent.
    known: bool,
}

fn assistant(message: &Message, text_form: TextForm) -> Result<Option<Rendered>, Error> {
    let mut sorted = AssistantFields {
        structured: text_form.answers,
        ..AssistantFields::default()
    };
    for block in &message.content {
        sorted.push(block)?;
    }
    if !sorted.known {
        return Ok(None);
    }
    let content = sorted.content();
    let mut fields = object([("role", Value::from("assistant")), ("content", content)]);
    extra::add(&mut fields, Format::Chat, &sorted.reasoning);
    if !sorted.refusal.is_empty() {
        fields.insert(openai::REFUSAL.into(), sorted.refusal.into());
    }
    if !sorted.calls.is_empty() {
        fields.insert("tool_calls".into(), sorted.calls.into());
    }
    extra::add(&mut fields, Format::Chat, &message.extra);
    // Calls follow the content, and accept no marker.
    let is_markable = text_form.answers && !fields.contains_key("tool_calls");
    Ok(Some(rendered(fields, is_markable)))
}

impl AssistantFields {
    fn push(&mut self, block: &Block) -> Result<(), Error> {
        match block {
            Block::Text { text, extra } => self.text(text, extra),
            Block::ToolUse(call) => self.calls.push(tool_call(call)),
            Block::Reasoning(reasoning) if reasoning.format == Format::Chat => {
                self.reasoning(&reasoning.verbatim);
            }
            Block::Other {
                format: Format::Chat,
                verbatim,
            } => self.part(verbatim),
            Block::Reasoning(_) | Block::Other { .. } => return Ok(()),
            Block::Image(_) | Block::ToolResult(_) => {
                return Err(openai::misplaced(block, "a message of the assistant"));
            }
        }
        self.known = true;
        Ok(())
    }

    fn text(&mut self, text: &str, extra: &Extra) {
        let kind = extra::field(Format::Chat, extra, "type").and_then(Value::as_str);
        if kind == Some(openai::REFUSAL) {
            self.refusal.push_str(text);
            return;
        }
        self.structured |= extra::fields(Format::Chat, extra).next().is_some();
        self.text.push_str(text);
        if !text.is_empty() {
            self.parts.push(text_part(text, extra));
        }
    }

    /// Reasoning is either fields of the message, or a part of its content, which has a type.
    fn reasoning(&mut self, verbatim: &Value) {
        match verbatim {
            Value::Object(part) if part.contains_key("type") => self.part(verbatim),
            Value::Object(fields) => self.reasoning.extend(fields.clone()),
            _ => {}
        }
    }

    fn part(&mut self, verbatim: &Value) {
        self.structured = true;
        self.parts.push(verbatim.clone());
    }

    /// Returns the content; `null` if it is empty and the message has calls or a refusal.
    fn content(&mut self) -> Value {
        if self.structured && !self.parts.is_empty() {
            Value::Array(std::mem::take(&mut self.parts))
        } else if self.text.is_empty() && !(self.calls.is_empty() && self.refusal.is_empty()) {
            Value::Null
        } else {
            std::mem::take(&mut self.text).into()
        }
    }
}

fn tool_call(call: &ToolUse) -> Value {
    let ToolUse {
        id,
        name,
        arguments,
        extra: further,
    } = call;
    let kind = extra::field(Format::Chat, further, "type").and_then(Value::as_str);
    let (kind, written, arguments) = match kind {
        Some("custom") => ("custom", "input", arguments.as_str()),
        _ => ("function", "arguments", openai::arguments(arguments)),
    };
    let mut called = object([
        ("name", Value::from(name.as_str())),
        (written, Value::from(arguments)),
    ]);
    if let Some(Value::Object(inner)) = extra::field(Format::Chat, further, kind) {
        for (field, value) in inner {
            called
                .entry(field.as_str())
                .or_insert_with(|| value.clone());
        }
    }
    let mut fields = object([
        ("id", Value::from(id.as_str())),
        ("type", Value::from(kind)),
        (kind, Value::Object(called)),
    ]);
    extra::add(&mut fields, Format::Chat, further);
    Value::Object(fields)
}
