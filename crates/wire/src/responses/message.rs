//! Renders messages as items of the input.

use serde_json::Value;

use super::ITEM;
use crate::error::Error;
use crate::openai::{self, Object, object};
use crate::{Block, Extra, Format, Image, Message, Role, ToolResult, ToolUse};
use crate::{Rendered, extra};

/// Renders a piece of the system text, with a position for a marker if `is_markable`.
pub(crate) fn system(text: &str, is_markable: bool) -> Rendered {
    let part = input_text(text, &Extra::new());
    rendered(
        message_item("developer", vec![part]),
        "content",
        is_markable,
    )
}

/// Renders the items of a message. For the user: tool results, then the remaining content. For the
/// assistant: the blocks in their order, without trailing reasoning, as in an answer that was cut off,
/// because the API rejects a reasoning item that no item of its answer follows. If `is_markable`, the
/// model's input accepts markers, and results are rendered as parts.
pub(crate) fn pieces(message: &Message, is_markable: bool) -> Result<Vec<Rendered>, Error> {
    match message.role {
        Role::User => user(message, is_markable),
        Role::Assistant => assistant(message),
    }
}

fn rendered(fields: Object, content: &str, is_markable: bool) -> Rendered {
    if is_markable {
        openai::markable(fields, content)
    } else {
        openai::rendered(fields)
    }
}

fn user(message: &Message, is_markable: bool) -> Result<Vec<Rendered>, Error> {
    let mut pieces = Vec::new();
    let mut parts = Vec::new();
    for block in &message.content {
        match block {
            Block::ToolResult(result) => pieces.push(tool_output(result, is_markable)?),
            Block::ToolUse(_) | Block::Reasoning(_) => {
                return Err(openai::misplaced(block, "a message of the user"));
            }
            _ => parts.extend(input_part(block)),
        }
    }
    if !parts.is_empty() {
        let mut fields = message_item("user", parts);
        extra::add(&mut fields, Format::Responses, &message.extra);
        pieces.push(rendered(fields, "content", is_markable));
    }
    Ok(pieces)
}

fn message_item(role: &str, content: Vec<Value>) -> Object {
    object([
        ("type", Value::from("message")),
        ("role", Value::from(role)),
        ("content", Value::Array(content)),
    ])
}

/// Renders a part of the model's input; `None` for blocks that the format cannot represent.
fn input_part(block: &Block) -> Option<Value> {
    match block {
        Block::Text { text, extra } => Some(input_text(text, extra)),
        Block::Image(image) => Some(input_image(image)),
        Block::Other {
            format: Format::Responses,
            verbatim,
        } => Some(verbatim.clone()),
        _ => None,
    }
}

fn input_text(text: &str, further: &Extra) -> Value {
    let mut part = object([
        ("type", Value::from("input_text")),
        ("text", Value::from(text)),
    ]);
    extra::add(&mut part, Format::Responses, further);
    Value::Object(part)
}

/// Renders an image. `detail` is always present: some servers require it, and `auto` is the default.
fn input_image(image: &Image) -> Value {
    let mut part = object([
        ("type", Value::from("input_image")),
        ("image_url", openai::image_url(&image.source).into()),
    ]);
    extra::add(&mut part, Format::Responses, &image.extra);
    part.entry("detail").or_insert_with(|| "auto".into());
    Value::Object(part)
}

/// Renders a tool result: one string if it consists of text only and carries no marker, parts otherwise.
fn tool_output(result: &ToolResult, is_markable: bool) -> Result<Rendered, Error> {
    let ToolResult {
        id,
        content,
        is_error,
        extra,
    } = result;
    let mut parts = Vec::new();
    let mut texts = Vec::new();
    let mut structured = is_markable;
    for block in content {
        match block {
            Block::Text { text, extra } => {
                texts.push(text.as_str());
                structured |= extra::fields(Format::Responses, extra).next().is_some();
            }
            Block::ToolUse(_) | Block::ToolResult(_) | Block::Reasoning(_) => {
                return Err(openai::misplaced(block, "the result of a tool"));
            }
            _ => structured |= input_part(block).is_some(),
        }
        parts.extend(input_part(block));
    }
    let output = if structured && !parts.is_empty() {
        if *is_error {
            mark_failure(&mut parts);
        }
        Value::Array(parts)
    } else {
        openai::told(&openai::paragraphs(texts), *is_error).into()
    };
    let mut fields = object([
        ("type", Value::from("function_call_output")),
        ("call_id", Value::from(id.as_str())),
        ("output", output),
    ]);
    extra::add(&mut fields, Format::Responses, extra);
    Ok(rendered(fields, "output", is_markable))
}

/// Marks a failure in the first text part, or in an additional one.
fn mark_failure(parts: &mut Vec<Value>) {
    let text = parts
        .iter_mut()
        .find_map(|part| match part.get_mut("text") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        });
    match text {
        Some(text) => *text = openai::told(text, true).into_owned(),
        None => parts.insert(0, input_text(&openai::told("", true), &Extra::new())),
    }
}

fn assistant(message: &Message) -> Result<Vec<Rendered>, Error> {
    let mut items: Vec<Object> = Vec::new();
    let mut open: Option<OpenItem<'_>> = None;
    for block in &message.content {
        if let Block::Text { text, extra } = block {
            let item = extra::field(Format::Responses, extra, ITEM);
            if open.as_ref().is_none_or(|open| open.item != item) {
                items.extend(open.take().map(|open| open.close(message)));
            }
            let open = open.get_or_insert_with(|| OpenItem::new(item));
            open.parts.push(output_part(text, extra));
            continue;
        }
        let Some(item) = own_item(block)? else {
            continue;
        };
        items.extend(open.take().map(|open| open.close(message)));
        items.push(item);
    }
    items.extend(open.take().map(|open| open.close(message)));
    let is_reasoning = |item: &Object| item.get("type").is_some_and(|kind| kind == "reasoning");
    while items.last().is_some_and(is_reasoning) {
        items.pop();
    }
    Ok(items.into_iter().map(openai::rendered).collect())
}

/// A message item under construction, to which text blocks are added.
struct OpenItem<'a> {
    /// Fields of the item other than its content.
    item: Option<&'a Value>,
    parts: Vec<Value>,
}

impl<'a> OpenItem<'a> {
    fn new(item: Option<&'a Value>) -> Self {
        Self {
            item,
            parts: Vec::new(),
        }
    }

    fn close(self, message: &Message) -> Object {
        let mut fields = message_item("assistant", self.parts);
        if let Some(Value::Object(item)) = self.item {
            extra::add(&mut fields, Format::Responses, item);
        }
        extra::add(&mut fields, Format::Responses, &message.extra);
        fields
    }
}

/// Renders a block that is a separate item; `None` for blocks that the format cannot represent.
fn own_item(block: &Block) -> Result<Option<Object>, Error> {
    Ok(match block {
        Block::ToolUse(call) => Some(function_call(call)),
        Block::Reasoning(reasoning) if reasoning.format == Format::Responses => {
            reasoning.verbatim.as_object().cloned()
        }
        Block::Other {
            format: Format::Responses,
            verbatim,
        } => verbatim.as_object().cloned(),
        Block::Image(_) | Block::ToolResult(_) => {
            return Err(openai::misplaced(block, "a message of the assistant"));
        }
        _ => None,
    })
}

/// Renders a part of a message item, with its original type.
fn output_part(text: &str, further: &Extra) -> Value {
    let kind = extra::field(Format::Responses, further, "type").and_then(Value::as_str);
    let mut part = match kind {
        None | Some("output_text") => object([
            ("type", Value::from("output_text")),
            ("text", Value::from(text)),
        ]),
        Some(openai::REFUSAL) => object([
            ("type", Value::from(openai::REFUSAL)),
            (openai::REFUSAL, Value::from(text)),
        ]),
        Some(other) if text.is_empty() => object([("type", Value::from(other))]),
        Some(other) => object([("type", Value::from(other)), ("text", Value::from(text))]),
    };
    extra::add(&mut part, Format::Responses, further);
    part.shift_remove(ITEM);
    if matches!(kind, None | Some("output_text")) {
        part.entry("annotations")
            .or_insert_with(|| Value::Array(Vec::new()));
    }
    Value::Object(part)
}

fn function_call(call: &ToolUse) -> Object {
    let ToolUse {
        id,
        name,
        arguments,
        extra,
    } = call;
    let mut fields = object([
        ("type", Value::from("function_call")),
        ("call_id", Value::from(id.as_str())),
        ("name", Value::from(name.as_str())),
        ("arguments", Value::from(openai::arguments(arguments))),
    ]);
    extra::add(&mut fields, Format::Responses, extra);
    fields
}
