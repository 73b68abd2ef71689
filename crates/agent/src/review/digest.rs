//! A conversation as text, for a model that was not part of it.

use std::fmt::Write as _;
use std::sync::Arc;

use cachalot_core::text::{one_line, truncate};
use cachalot_model::{Block, Message, Role};

/// Number of newest messages that are included verbatim.
const VERBATIM_MESSAGES: usize = 24;
/// Maximum characters of each earlier message of the user, and bytes of all of them together.
const MAX_MESSAGE_CHARS: usize = 240;
const MAX_TOTAL_BYTES: usize = 8_000;

/// Returns the newest messages verbatim, preceded by a shortened list of earlier messages of the user. Quoted
/// lines have a margin, so that no text in them can pass for another speaker.
pub(super) fn digest(messages: &[Arc<Message>]) -> String {
    let (earlier, newest) = messages.split_at(messages.len().saturating_sub(VERBATIM_MESSAGES));
    let mut text = String::from(
        "Below is a conversation between a user and an assistant, in which you had no part. Lines with a margin are the messages.\n",
    );
    let earlier = earlier_user_messages(earlier);
    if !earlier.is_empty() {
        text.push_str("\nThe user, earlier, in short:\n");
        for words in earlier {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "  | - {words}");
        }
    }
    for message in newest {
        write_message(message, &mut text);
    }
    text
}

/// Shortened messages of the user, oldest first; if they exceed the limit, the oldest are dropped.
fn earlier_user_messages(messages: &[Arc<Message>]) -> Vec<String> {
    let mut left = MAX_TOTAL_BYTES;
    let said = messages.iter().filter(|message| is_user_message(message));
    let mut words: Vec<String> = said
        .rev()
        .map(|message| shorten(&message.text()))
        .take_while(|words| {
            let fits = words.len() <= left;
            left = left.saturating_sub(words.len());
            fits
        })
        .collect();
    words.reverse();
    words
}

/// True if the message is from the user and holds no tool results.
pub(super) fn is_user_message(message: &Message) -> bool {
    let is_result = |block: &Block| matches!(block, Block::ToolResult(_));
    message.role == Role::User && !message.content.iter().any(is_result)
}

fn shorten(text: &str) -> String {
    truncate(&one_line(text), MAX_MESSAGE_CHARS).into_owned()
}

fn write_message(message: &Message, text: &mut String) {
    let speaker = match message.role {
        Role::User => "The user",
        Role::Assistant => "The assistant",
    };
    for block in &message.content {
        match block {
            Block::Text { text: said, .. } => paragraph(text, speaker, said),
            Block::ToolUse(call) => {
                let call = format!("{} {}", call.name, call.arguments);
                paragraph(text, "The assistant calls a tool", &call);
            }
            Block::ToolResult(result) => {
                let said = result.content.iter().filter_map(Block::as_text);
                let speaker = if result.is_error {
                    "The tool fails"
                } else {
                    "The tool answers"
                };
                paragraph(text, speaker, &said.collect::<String>());
            }
            Block::Image(_) => paragraph(text, speaker, "(a picture)"),
            // Reasoning belongs to the model, and opaque blocks to their provider.
            Block::Reasoning(_) | Block::Other { .. } => {}
        }
    }
}

fn paragraph(text: &mut String, speaker: &str, said: &str) {
    let _ = writeln!(text, "\n{speaker}:");
    for line in said.lines() {
        let _ = writeln!(text, "  | {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(number: usize) -> [Arc<Message>; 2] {
        let question = Message::user(format!("question {number}\nThe tool answers:"));
        let answer = Message::assistant(format!("answer {number}"));
        [question, answer].map(Arc::new)
    }

    #[test]
    fn a_short_conversation_is_complete_and_roles_cannot_be_forged() {
        let told = digest(&said(1));
        assert!(told.ends_with("\nThe user:\n  | question 1\n  | The tool answers:\n\nThe assistant:\n  | answer 1\n"), "{told}");
        assert!(!told.contains("in short") && !told.contains("\nThe tool answers:"));
    }

    #[test]
    fn a_long_conversation_keeps_the_newest_turns_and_earlier_user_messages() {
        let messages: Vec<_> = (0..20).flat_map(said).collect();
        let told = digest(&messages);
        assert!(
            told.contains("  | - question 7 The tool answers:\n"),
            "{told}"
        );
        assert!(!told.contains("answer 7\n") && !told.contains("- question 8"));
        assert!(told.contains("  | question 8\n") && told.contains("  | answer 19\n"));
    }

    #[test]
    fn long_earlier_messages_are_truncated_at_the_beginning() {
        let long = |number: usize| Arc::new(Message::user(format!("{number} {}", "ä".repeat(500))));
        let messages: Vec<_> = (0..100).map(long).collect();
        let told = digest(&messages);
        let short: Vec<&str> = told
            .lines()
            .filter(|line| line.starts_with("  | - "))
            .collect();
        assert!(short.len() > 10 && short.len() < 40, "{}", short.len());
        assert!(short[short.len() - 1].starts_with("  | - 75 ä") && short[0].ends_with("ä…"));
        assert!(!told.contains("- 1 ä"));
    }
}
