//! The form of a conversation that keys of stored answers use.

use std::borrow::Cow;

use cachalot_model::wire::{Rendered, Wire};
use cachalot_model::{Model, SettingChanges, ToolDefinition};
use cachalot_prompt::{Level, Prompt};
use serde_json::Value;

/// The prompt in the format that keys are made from. That is not the format of the requests if the request
/// format was chosen by what the model accepts: stored answers are found whichever format was chosen when
/// they were paid for. In OpenAI Responses, items also have IDs that differ from answer to answer and do not
/// affect the result.
pub(crate) fn prompt<'a>(prompt: &'a Prompt, model: &Model) -> Cow<'a, Prompt> {
    model
        .keyed_wire()
        .and_then(|wire| rendered(prompt, &*wire))
        .map_or(Cow::Borrowed(prompt), Cow::Owned)
}

/// Renders the prompt in this format. `None` if a part cannot be rendered in it, such as tools that change within
/// the conversation; the key then uses the sent form.
fn rendered(prompt: &Prompt, wire: &dyn Wire) -> Option<Prompt> {
    let (mut tools, mut system) = (Vec::<Rendered>::new(), Vec::<Rendered>::new());
    for node in prompt.nodes() {
        match node.level {
            Level::Tool => tools.push(wire.tool(&tool(&node.bytes)?)),
            Level::System => system.push(wire.system(&text(&node.bytes)?)),
            Level::Message => break,
        }
    }
    let mut again = Prompt::begin(&tools, &system);
    for message in prompt.messages() {
        if SettingChanges::noted(&message).is_some() {
            return None;
        }
        let pieces = wire.message(&message).ok()?;
        again = again.append(&pieces, message);
    }
    Some(again)
}

/// Parses a rendered tool of one of OpenAI's formats.
fn tool(bytes: &[u8]) -> Option<ToolDefinition> {
    let mut piece: Value = serde_json::from_slice(bytes).ok()?;
    let mut function = match piece.get_mut("function") {
        Some(function) => function.take(),
        None => piece,
    };
    Some(ToolDefinition {
        name: function.get("name")?.as_str()?.to_owned(),
        description: function.get("description")?.as_str()?.to_owned(),
        parameters: function.get_mut("parameters")?.take(),
    })
}

/// Parses rendered system text of one of OpenAI's formats: a message whose content is a string or one text
/// part.
fn text(bytes: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(bytes).ok()?;
    let text = match message.get("content")? {
        Value::String(text) => text,
        Value::Array(parts) => match parts.as_slice() {
            [part] => part.get("text")?.as_str()?,
            _ => return None,
        },
        _ => return None,
    };
    Some(text.to_owned())
}
