//! System text and messages, and the rules that pair tool calls and results.

use serde_json::{Value, json};

use super::super::{ApiError, Object, is_true, present, refuse, text_of};
use super::role::Role;
use super::{block, check_keys, dictionary, list, missing};
use crate::accounting::AnthropicModel;
use crate::dialogue::{DialogueItem, ToolCall, ToolResult};

/// A message. Content that is a string equals one text block.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) blocks: Vec<Object>,
}

fn text_block(text: &str) -> Object {
    Object::from_iter([
        ("type".to_owned(), json!("text")),
        ("text".to_owned(), json!(text)),
    ])
}

/// Returns the blocks of `system`.
pub(super) fn system(request: &Object) -> Result<Vec<Object>, ApiError> {
    let blocks = match request.get("system") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(vec![text_block(text)]),
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return refuse("system: Input should be a valid string or array"),
    };
    let read_message = |(at, block): (usize, &Value)| {
        let at = format!("system.{at}");
        let fields = dictionary(&at, block)?;
        if text_of(fields, "type") != "text" {
            return refuse(format!("{at}.type: Input should be 'text'"));
        }
        block::text(&at, "system", fields)?;
        Ok(fields.clone())
    };
    blocks.iter().enumerate().map(read_message).collect()
}

pub(super) fn read(
    request: &Object,
    rules: &AnthropicModel,
    has_tools: bool,
) -> Result<Vec<Message>, ApiError> {
    if !request.contains_key("messages") {
        return missing("messages");
    }
    let values = list(request, "messages")?;
    if values.is_empty() {
        return refuse("messages: at least one message is required");
    }
    let messages: Vec<Message> = values
        .iter()
        .enumerate()
        .map(|(at, message)| read_message(at, message, rules, at + 1 == values.len()))
        .collect::<Result<_, _>>()?;
    if messages[0].role != Role::User && !messages[0].begins_with_compaction() {
        return refuse("messages: first message must use the \"user\" role");
    }
    system_places(&messages)?;
    check_tool_pairs(&messages)?;
    if !has_tools && list(request, "tools")?.is_empty() && !changes_tools(&messages) {
        without_tools(&messages)?;
    }
    check_ending(&messages)?;
    Ok(messages)
}

fn read_message(
    at: usize,
    message: &Value,
    rules: &AnthropicModel,
    is_last: bool,
) -> Result<Message, ApiError> {
    let place = format!("messages.{at}");
    let fields = dictionary(&place, message)?;
    let role = match fields.get("role").map(Value::as_str) {
        Some(Some("user")) => Role::User,
        Some(Some("assistant")) => Role::Assistant,
        Some(Some("system")) if rules.system_messages => Role::System,
        Some(Some("system")) => {
            return refuse(
                "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` \
                 parameter, not \"system\" as an input message role.",
            );
        }
        Some(_) => {
            return refuse(format!(
                "{place}.role: Input should be 'user' or 'assistant'"
            ));
        }
        None => return missing(&format!("{place}.role")),
    };
    let settings: &[&str] = match role {
        Role::System => &SYSTEM_SETTINGS,
        Role::User | Role::Assistant => &[],
    };
    check_keys(
        &place,
        fields,
        &[&["role", "content"][..], settings].concat(),
    )?;
    let blocks = match fields.get("content") {
        None if settings.iter().any(|key| fields.contains_key(*key)) => Vec::new(),
        Some(Value::String(text)) if text.is_empty() => Vec::new(),
        Some(Value::String(text)) => vec![text_block(text)],
        Some(Value::Array(blocks)) => blocks
            .iter()
            .enumerate()
            .map(|(index, block)| block::read(&format!("{place}.content.{index}"), role, block))
            .collect::<Result<_, _>>()?,
        Some(_) => {
            return refuse(format!(
                "{place}.content: Input should be a valid string or array"
            ));
        }
        None => return missing(&format!("{place}.content")),
    };
    let blocks = with_settings(fields, settings, blocks);
    if blocks.is_empty() && !(is_last && role == Role::Assistant) {
        return refuse(format!(
            "{place}: all messages must have non-empty content except for the optional final \
             assistant message"
        ));
    }
    Ok(Message { role, blocks })
}

/// Settings of a system message: the effort of the answers after it, and its end.
const SYSTEM_SETTINGS: [&str; 2] = ["output_config", "clear_at"];

/// Type of a block that stands for the settings of a message, which are part of the prompt at its place.
pub(super) const SETTINGS: &str = "settings";

/// Adds a block with the `settings` that the message has.
fn with_settings(message: &Object, settings: &[&str], mut blocks: Vec<Object>) -> Vec<Object> {
    let set = settings
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), present(message, key)?.clone())));
    let mut set: Object = set.collect();
    if !set.is_empty() {
        set.insert("type".to_owned(), json!(SETTINGS));
        blocks.insert(0, set);
    }
    blocks
}

/// Checks that each system message follows a user message, and is last or followed by an assistant message.
fn system_places(messages: &[Message]) -> Result<(), ApiError> {
    for (at, message) in messages.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| messages.get(before));
        let follows_user = before.is_some_and(|before| before.role == Role::User);
        let after = messages.get(at + 1).map(|after| after.role);
        let is_placed = follows_user && matches!(after, None | Some(Role::Assistant));
        if message.role == Role::System && !is_placed {
            return refuse(format!(
                "messages.{at}: a `system` message must follow a user message, and be last or followed \
                 by an assistant message"
            ));
        }
    }
    Ok(())
}

impl Message {
    /// Returns true for the compaction of the messages before, which need not be sent.
    fn begins_with_compaction(&self) -> bool {
        let first = self.blocks.first();
        self.role == Role::Assistant
            && first.is_some_and(|block| text_of(block, "type") == "compaction")
    }

    /// Returns the ids, at `key`, of the blocks of this kind.
    fn blocks_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Object> {
        let blocks = self.blocks.iter();
        blocks.filter(move |block| text_of(block, "type") == kind)
    }

    fn ids<'a>(&'a self, kind: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.blocks_of(kind).map(move |block| text_of(block, key))
    }

    fn tool_use_ids(&self) -> Vec<&str> {
        self.ids("tool_use", "id").collect()
    }

    fn results(&self) -> Vec<&str> {
        self.ids("tool_result", "tool_use_id").collect()
    }

    /// Returns the message as scripts see it.
    pub(super) fn dialogue_item(&self) -> Option<DialogueItem> {
        match self.role {
            Role::System => None,
            Role::Assistant => Some(DialogueItem::Model(self.calls())),
            Role::User if self.results().is_empty() => {
                let texts = self.ids("text", "text").map(str::to_owned);
                Some(DialogueItem::User(texts.collect()))
            }
            Role::User => Some(DialogueItem::Results(self.call_results())),
        }
    }

    fn calls(&self) -> Vec<ToolCall> {
        self.blocks_of("tool_use")
            .map(|block| ToolCall {
                id: text_of(block, "id").to_owned(),
                name: text_of(block, "name").to_owned(),
                arguments: block.get("input").cloned().unwrap_or_default(),
            })
            .collect()
    }

    fn call_results(&self) -> Vec<ToolResult> {
        self.blocks_of("tool_result")
            .map(|block| ToolResult {
                call_id: text_of(block, "tool_use_id").to_owned(),
                text: result_text(block),
                is_error: is_true(block, "is_error"),
            })
            .collect()
    }
}

/// Returns the text of a tool result.
pub(super) fn result_text(block: &Object) -> String {
    match block.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Checks that every tool call has its result at the beginning of the next message, and every result its
/// call in the previous message.
fn check_tool_pairs(messages: &[Message]) -> Result<(), ApiError> {
    let all: Vec<&str> = messages.iter().flat_map(Message::tool_use_ids).collect();
    if super::super::check::first_duplicate(all).is_some() {
        return refuse("messages: `tool_use` ids must be unique");
    }
    for (at, message) in messages.iter().enumerate() {
        let next = messages.get(at + 1);
        let answered: Vec<&str> = next.map(leading_results).unwrap_or_default();
        let tool_use_ids = message.tool_use_ids();
        let open = tool_use_ids.iter().filter(|id| !answered.contains(id));
        let open: Vec<&str> = open.copied().collect();
        if !open.is_empty() {
            return refuse(format!(
                "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately \
                 after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the \
                 next message.",
                open.join(", ")
            ));
        }
        let before = at.checked_sub(1).and_then(|before| messages.get(before));
        let called = before.map(Message::tool_use_ids).unwrap_or_default();
        results(at, message, &called)?;
    }
    Ok(())
}

fn leading_results(message: &Message) -> Vec<&str> {
    message
        .blocks
        .iter()
        .take_while(|block| text_of(block, "type") == "tool_result")
        .map(|block| text_of(block, "tool_use_id"))
        .collect()
}

fn results(at: usize, message: &Message, called: &[&str]) -> Result<(), ApiError> {
    let results = message.results();
    for id in &results {
        if !called.contains(id) {
            let index = message
                .blocks
                .iter()
                .position(|block| text_of(block, "tool_use_id") == *id);
            return refuse(format!(
                "messages.{at}.content.{}: unexpected `tool_use_id` found in `tool_result` blocks: \
                 {id}. Each `tool_result` block must have a corresponding `tool_use` block in the \
                 previous message.",
                index.unwrap_or(0)
            ));
        }
    }
    match super::super::check::first_duplicate(results) {
        Some(id) => refuse(format!(
            "messages.{at}.content: each tool_use must have a single result. Found multiple \
             `tool_result` blocks with id: {id}"
        )),
        None => Ok(()),
    }
}

/// Returns true if the tools change within the messages.
fn changes_tools(messages: &[Message]) -> bool {
    let mut blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.any(|block| matches!(text_of(block, "type"), "tool_addition" | "tool_removal"))
}

fn without_tools(messages: &[Message]) -> Result<(), ApiError> {
    let has_calls =
        |message: &Message| !message.tool_use_ids().is_empty() || !message.results().is_empty();
    if messages.iter().any(has_calls) {
        return refuse(
            "Requests which include `tool_use` or `tool_result` blocks must define tools",
        );
    }
    Ok(())
}

/// Checks that an answer that the request begins does not end with white space.
fn check_ending(messages: &[Message]) -> Result<(), ApiError> {
    let last = messages.last().filter(|last| last.role == Role::Assistant);
    let text = last.and_then(|last| last.blocks.last());
    let text = text.map(|block| text_of(block, "text")).unwrap_or_default();
    if text.ends_with(char::is_whitespace) {
        return refuse("messages: final assistant content cannot end with trailing whitespace");
    }
    Ok(())
}
