//! Notes on the names of tools.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::message::RESULT_NAME_NOTE;
use crate::{Block, Message};

/// Notes the tool of each result; `messages` follow `before`.
pub(crate) fn name_results(before: &[Arc<Message>], messages: &mut [Message]) {
    let mut names: HashMap<String, String> = HashMap::new();
    let mut learn = |message: &Message| {
        let calls = message.tool_uses();
        names.extend(calls.map(|call| (call.id.clone(), call.name.clone())));
    };
    before.iter().for_each(|message| learn(message));
    messages.iter().for_each(learn);
    for block in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let Block::ToolResult(result) = block
            && let Some(name) = names.get(&result.id)
        {
            let name = Value::from(name.as_str());
            result.extra.insert(RESULT_NAME_NOTE.to_owned(), name);
        }
    }
}
