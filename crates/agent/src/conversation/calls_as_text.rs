//! Tool calls and results as text, for an agent without tools: some providers refuse them in its requests.

use cachalot_model::{Block, Message};

/// Replaces the calls and the results of a message by text with the same content. Reasoning that belongs to
/// a replaced call is left out, because providers verify it together with the call.
pub(super) fn calls_as_text(message: Message) -> Message {
    let is_call = |block: &Block| matches!(block, Block::ToolUse(_));
    let has_calls = message.content.iter().any(is_call);
    let content = message.content.into_iter();
    Message {
        content: content
            .filter(|block| !(has_calls && matches!(block, Block::Reasoning(_))))
            .flat_map(block_as_text)
            .collect(),
        ..message
    }
}

fn block_as_text(block: Block) -> Vec<Block> {
    match block {
        Block::ToolUse(call) => {
            let text = format!("(called the tool `{}` with {})", call.name, call.arguments);
            vec![Block::text(text)]
        }
        Block::ToolResult(result) => {
            let failed = if result.is_error {
                " of a failed call"
            } else {
                ""
            };
            let mut blocks = vec![Block::text(format!("(the result{failed}:)"))];
            blocks.extend(result.content);
            blocks
        }
        other => vec![other],
    }
}
