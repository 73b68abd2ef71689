//! Normalization of a model's answer before it becomes part of the conversation, so that every provider
//! accepts it in later requests.

use std::collections::BTreeSet;

use cachalot_model::{Block, Message, Reply, StopReason, ToolUse};
use cachalot_tools::{MAX_NAME_BYTES, ToolCall, sanitize_name};
use serde_json::{Map, Value, json};

/// Replaces an empty answer: providers refuse a message without content.
const EMPTY_ANSWER: &str = "(an empty answer)";

/// A normalized answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NormalizedReply {
    /// The message for the conversation.
    pub(crate) message: Message,
    /// The calls as the model wrote them, with their IDs in `message`.
    pub(crate) calls: Vec<ToolCall>,
    /// The text of the answer.
    pub(crate) text: String,
    /// True if the answer has neither text nor calls.
    pub(crate) is_empty: bool,
}

impl NormalizedReply {
    /// Normalizes a reply. `taken` are the IDs of earlier calls. `accepts_calls` is true if the provider accepts
    /// calls in this conversation.
    pub(crate) fn from_reply(reply: Reply, taken: &BTreeSet<String>, accepts_calls: bool) -> Self {
        let Reply {
            mut message, stop, ..
        } = reply;
        let text = message.text();
        let has_text = is_visible(&text);
        // A call in a refused answer may be incomplete and must not run.
        let calls_nothing = stop == StopReason::Refusal || !accepts_calls;
        if calls_nothing && message.tool_uses().next().is_some() {
            message = Message::assistant(text.clone());
        }
        let calls = calls(&mut message, taken);
        let is_empty = calls.is_empty() && !has_text;
        let has_others = |message: &Message| {
            let mut blocks = message.content.iter();
            blocks.any(|block| matches!(block, Block::Other { .. }))
        };
        if is_empty && !has_others(&message) {
            // Reasoning is dropped, too: providers refuse reasoning alone.
            message = Message::assistant(EMPTY_ANSWER);
        }
        Self {
            message,
            calls,
            text,
            is_empty,
        }
    }
}

/// True if the text has a character that is not whitespace.
pub(crate) fn is_visible(text: &str) -> bool {
    text.contains(|character: char| !character.is_whitespace())
}

/// Returns the calls of a message as the model wrote them. In the message itself, they get unique IDs, names
/// that providers accept, and arguments that are JSON objects.
fn calls(message: &mut Message, taken: &BTreeSet<String>) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    for block in &mut message.content {
        let Block::ToolUse(tool_use) = block else {
            continue;
        };
        let is_taken =
            |id: &str| taken.contains(id) || calls.iter().any(|earlier| earlier.id == id);
        if tool_use.id.is_empty() || is_taken(&tool_use.id) {
            tool_use.id = unused_id(taken.len() + calls.len(), is_taken);
        }
        calls.push(ToolCall {
            id: tool_use.id.clone(),
            name: tool_use.name.clone(),
            arguments: tool_use.arguments.clone(),
        });
        normalize_tool_use(tool_use);
    }
    calls
}

/// Returns an ID that no other call has. Several servers count calls from 0 in each answer, and others refuse
/// a conversation in which two calls have the same ID.
fn unused_id(number: usize, is_taken: impl Fn(&str) -> bool) -> String {
    let mut number = number;
    loop {
        let id = format!("call_{number}");
        if !is_taken(&id) {
            return id;
        }
        number += 1;
    }
}

/// Replaces invalid tool names and arguments that are not JSON objects, with which every later request would
/// be refused. The result of the call describes the error to the model.
fn normalize_tool_use(tool_use: &mut ToolUse) {
    tool_use.name = sanitize_name(&tool_use.name);
    // The name is ASCII now.
    tool_use.name.truncate(MAX_NAME_BYTES);
    if tool_use.name.is_empty() {
        "_".clone_into(&mut tool_use.name);
    }
    let arguments = tool_use.arguments.trim();
    if arguments == "null" {
        tool_use.arguments = "{}".to_owned();
    } else if !arguments.is_empty()
        && serde_json::from_str::<Map<String, Value>>(arguments).is_err()
    {
        tool_use.arguments = json!({ "invalid_arguments": arguments }).to_string();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_model::{Extra, Format, Reasoning, Role};

    use super::*;

    fn reply(content: Vec<Block>, stop: StopReason) -> Reply {
        Reply {
            message: Message::new(Role::Assistant, content),
            stop,
            usage: None,
            model: "m".to_owned(),
            id: None,
            extra: Extra::new(),
        }
    }

    fn tool_use(id: &str, name: &str, arguments: &str) -> Block {
        Block::ToolUse(ToolUse {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            extra: Extra::new(),
        })
    }

    fn thought() -> Block {
        Block::Reasoning(Reasoning {
            text: "hm".to_owned(),
            format: Format::Messages,
            verbatim: json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        })
    }

    fn of(content: Vec<Block>, stop: StopReason) -> NormalizedReply {
        NormalizedReply::from_reply(reply(content, stop), &BTreeSet::new(), true)
    }

    #[test]
    fn an_ordinary_answer_is_kept_as_it_is() {
        let content = vec![
            thought(),
            Block::text("a"),
            tool_use("1", "read_file", "{ \"path\": \"x\" }"),
            tool_use("2", "list_dir", ""),
        ];
        let said = of(content.clone(), StopReason::ToolUse);
        assert_eq!(said.message.content, content);
        assert_eq!(said.calls.len(), 2);
        assert_eq!((said.text.as_str(), said.is_empty), ("a", false));
    }

    #[test]
    fn empty_and_reasoning_only_replies_become_the_empty_answer() {
        for content in [
            vec![],
            vec![thought()],
            vec![Block::text("")],
            vec![thought(), Block::text(" \n")],
        ] {
            let said = of(content, StopReason::End);
            assert_eq!(said.message, Message::assistant(EMPTY_ANSWER));
            assert!(said.is_empty && said.calls.is_empty());
        }
    }

    #[test]
    fn provider_specific_blocks_are_kept() {
        let content = vec![Block::Other {
            format: Format::Messages,
            verbatim: json!({"type": "server_tool_use"}),
        }];
        let said = of(content.clone(), StopReason::End);
        assert_eq!(said.message.content, content);
        assert!(said.is_empty);
    }

    #[test]
    fn refused_answer_has_no_calls() {
        let content = vec![thought(), Block::text("I"), tool_use("1", "shell", "{}")];
        let said = of(content, StopReason::Refusal);
        assert_eq!(said.message, Message::assistant("I"));
        assert_eq!(said.calls, []);
        let said = of(vec![tool_use("1", "shell", "{}")], StopReason::Refusal);
        assert_eq!(said.message, Message::assistant(EMPTY_ANSWER));
    }

    #[test]
    fn duplicate_call_ids_are_made_unique() {
        let taken = BTreeSet::from(["call_0".to_owned(), "call_2".to_owned()]);
        let content = vec![
            tool_use("call_0", "a", "{}"),
            tool_use("x", "b", "{}"),
            tool_use("x", "c", "{}"),
            tool_use("", "d", "{}"),
        ];
        let said = NormalizedReply::from_reply(reply(content, StopReason::ToolUse), &taken, true);
        let ids: Vec<&str> = said.message.tool_uses().map(|call| &*call.id).collect();
        assert_eq!(ids, ["call_3", "x", "call_4", "call_5"]);
        let called: Vec<&str> = said.calls.iter().map(|call| &*call.id).collect();
        assert_eq!(called, ids);
    }

    #[test]
    fn invalid_tool_names_and_arguments_are_normalized() {
        let long = "x".repeat(65);
        let content = vec![
            tool_use("1", "functions.read file", "{\"path\": \"no"),
            tool_use("2", "", "[1]"),
            tool_use("3", &long, " null "),
        ];
        let said = of(content, StopReason::Length);
        let uses: Vec<_> = said.message.tool_uses().collect();
        assert_eq!(uses[0].name, "functions_read_file");
        assert_eq!(
            uses[0].arguments,
            r#"{"invalid_arguments":"{\"path\": \"no"}"#
        );
        assert_eq!((uses[1].name.as_str(), uses[2].name.len()), ("_", 64));
        assert_eq!(uses[1].arguments, r#"{"invalid_arguments":"[1]"}"#);
        assert_eq!(uses[2].arguments, "{}");
        // The toolbox receives the calls as the model wrote them.
        assert_eq!(said.calls[0].name, "functions.read file");
        assert_eq!(said.calls[0].arguments, "{\"path\": \"no");
    }
}
