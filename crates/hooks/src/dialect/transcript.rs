//! Transcript lines in the format of Claude Code: one JSON object per message.

use cachalot_core::clock::iso8601;
use cachalot_model::{Block, Message, Role};
use serde_json::{Value, json};

use super::tools;
use crate::Dialect;
use crate::input::{Input, ToolUse};

/// Writes the transcript and returns its path; empty if there is none, or if writing fails.
pub(super) fn path(dialect: Dialect, input: &Input) -> String {
    let Some(transcript) = &input.transcript else {
        return String::new();
    };
    transcript
        .file(|message, number| line(dialect, input, message, number).to_string())
        .map_or_else(
            |_| String::new(),
            |path| path.to_string_lossy().into_owned(),
        )
}

fn line(dialect: Dialect, input: &Input, message: &Message, number: usize) -> Value {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let name = |number: usize| format!("{}-{number}", input.session_id);
    let content: Vec<Value> = message
        .content
        .iter()
        .filter_map(|block| part(dialect, input, block))
        .collect();
    json!({
        "type": role,
        "sessionId": input.session_id,
        "cwd": input.cwd.to_string_lossy(),
        "uuid": name(number),
        "parentUuid": number.checked_sub(1).map(name),
        "timestamp": input.at.map(iso8601),
        "message": { "role": role, "content": content },
    })
}

/// Converts a block to the format of Claude Code. Images and provider-specific blocks are left out.
fn part(dialect: Dialect, input: &Input, block: &Block) -> Option<Value> {
    Some(match block {
        Block::Text { text, .. } => json!({ "type": "text", "text": text }),
        Block::Reasoning(reasoning) => json!({ "type": "thinking", "thinking": reasoning.text }),
        Block::ToolUse(call) => {
            let tool = ToolUse {
                name: call.name.clone(),
                id: call.id.clone(),
                input: serde_json::from_str(&call.arguments).unwrap_or_default(),
                ..ToolUse::default()
            };
            json!({
                "type": "tool_use",
                "id": call.id,
                "name": tools::input_name(dialect, &tool),
                "input": tools::input_arguments(dialect, &tool, input),
            })
        }
        Block::ToolResult(result) => {
            let texts = result.content.iter().filter_map(Block::as_text);
            json!({
                "type": "tool_result",
                "tool_use_id": result.id,
                "content": texts.collect::<String>(),
                "is_error": result.is_error,
            })
        }
        Block::Image(_) | Block::Other { .. } => return None,
    })
}
