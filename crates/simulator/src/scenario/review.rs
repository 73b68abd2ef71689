//! A review of a conversation: calls a forbidden tool, stores one memory, and ends.
//!
//! It tests that a tool that is offered to a review but not permitted does not run.

use serde_json::json;

use crate::dialogue::Dialogue;
use crate::reply::ScriptedReply;

/// Words in the user's message that identify a review; the second ones are those of earlier versions.
const TRIGGER_PHRASES: [&str; 2] = [
    "review this conversation",
    "look back over this conversation",
];
/// The tool that the review tries to run, if the request has it.
const SHELL_TOOL: &str = "shell";
const MEMORY_TOOL: &str = "memory";

/// Returns the next step, if a review is requested.
pub(super) fn reply(dialogue: &Dialogue) -> Option<ScriptedReply> {
    let is_review = |text: &String| {
        let text = text.to_lowercase();
        TRIGGER_PHRASES.iter().any(|phrase| text.contains(phrase))
    };
    if !dialogue.user.iter().any(is_review) {
        return None;
    }
    let steps = [SHELL_TOOL, MEMORY_TOOL]
        .into_iter()
        .filter(|tool| dialogue.has_tool(tool));
    Some(match steps.collect::<Vec<_>>().get(dialogue.step) {
        Some(&SHELL_TOOL) => ScriptedReply::call(SHELL_TOOL, json!({"command": "git log -5"})),
        Some(_) => ScriptedReply::call(
            MEMORY_TOOL,
            json!({
                "action": "store",
                "key": "simulated review",
                "value": "The user talks to the Cachalot simulator.",
            }),
        ),
        None => end(dialogue),
    })
}

/// Reports the memory that was stored.
fn end(dialogue: &Dialogue) -> ScriptedReply {
    let kept = dialogue.calls.iter().any(|call| {
        let result = dialogue.result_of(call);
        call.name == MEMORY_TOOL
            && result.is_some_and(|result| result.text.contains("\"stored\":true"))
    });
    ScriptedReply::text(if kept {
        "[simulated] I remember whom the user talks to."
    } else {
        "[simulated] Nothing to keep."
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::{OfferedTool, ToolCall, ToolResult};

    fn reviewing(tools: &[&str]) -> Dialogue {
        let tool = |name: &&str| OfferedTool {
            name: (*name).to_owned(),
            schema: json!({"type": "object"}),
        };
        Dialogue {
            user: vec!["Review this conversation. …".to_owned()],
            tools: tools.iter().map(tool).collect(),
            ..Dialogue::default()
        }
    }

    fn called(dialogue: &Dialogue) -> Option<String> {
        let calls = reply(dialogue)?.tool_calls;
        calls.first().map(|call| call.name.clone())
    }

    #[test]
    fn review_tries_the_shell_stores_a_memory_and_reports_it() {
        let mut dialogue = reviewing(&["memory", "shell"]);
        assert_eq!(called(&dialogue).as_deref(), Some("shell"));
        dialogue.step = 1;
        assert_eq!(called(&dialogue).as_deref(), Some("memory"));
        dialogue.step = 2;
        dialogue.calls.push(ToolCall {
            id: "1".to_owned(),
            name: "memory".to_owned(),
            arguments: json!({}),
        });
        dialogue.results.push(ToolResult {
            call_id: "1".to_owned(),
            text: r#"{"key":"simulated review","replaced":false,"stored":true}"#.to_owned(),
            is_error: false,
        });
        let text = reply(&dialogue).and_then(|reply| reply.text);
        assert_eq!(
            text.as_deref(),
            Some("[simulated] I remember whom the user talks to.")
        );
    }

    #[test]
    fn review_without_tools_keeps_nothing() {
        let text = reply(&reviewing(&[])).and_then(|reply| reply.text);
        assert_eq!(text.as_deref(), Some("[simulated] Nothing to keep."));
        let dialogue = Dialogue {
            user: vec!["Look back.".to_owned()],
            ..Dialogue::default()
        };
        assert!(reply(&dialogue).is_none());
    }
}
