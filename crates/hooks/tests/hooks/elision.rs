//! `elide_repeated_tool_results`: what the model was told already is not told again.

use std::sync::Arc;

use cachalot_hooks::input::{ToolResponse, ToolUse};
use cachalot_hooks::{Event, Hooks, Input};
use cachalot_model::{Block, Extra, Message, Role, ToolResult, ToolUse as Called};
use serde_json::{Value, json};

use crate::redaction;

const ON: &str = "elide_repeated_tool_results: true";

/// A conversation, as a runtime would have it with one agent.
struct Conversation {
    hooks: Hooks,
    session: &'static str,
    turn: String,
    messages: Vec<Arc<Message>>,
    calls: usize,
    read_only: bool,
    fails: bool,
}

impl Conversation {
    fn of(sections: &str) -> Self {
        let place = std::env::temp_dir();
        Self::with(redaction::hooks(&place, sections))
    }

    fn with(hooks: Hooks) -> Self {
        Self {
            hooks,
            session: "s-1",
            turn: "t-1".into(),
            messages: vec![Arc::new(Message::user("look"))],
            calls: 0,
            read_only: true,
            fails: false,
        }
    }

    fn input(&self, event: Event) -> Input {
        Input {
            event,
            session_id: self.session.into(),
            turn_id: self.turn.clone(),
            ..Input::default()
        }
    }

    async fn tell(&self, event: Event) {
        let verdict = self.hooks.fire(self.input(event)).await;
        assert_eq!(verdict.messages, [""; 0]);
    }

    /// Asks the model, which calls a tool: what the model is told of its result.
    async fn call(&mut self, tool: &str, arguments: Value, result: &str) -> String {
        self.ask().await;
        let written = arguments.to_string();
        self.answer_call(tool, &written, arguments, result).await
    }

    async fn ask(&mut self) {
        let asking = Input {
            messages: self.messages.clone(),
            unsent: 1,
            ..self.input(Event::BeforeLlmCall)
        };
        assert_eq!(self.hooks.fire(asking).await.updated_messages, None);
    }

    async fn answer_call(
        &mut self,
        tool: &str,
        written: &str,
        arguments: Value,
        result: &str,
    ) -> String {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let Value::Object(input) = arguments else {
            panic!("no arguments");
        };
        let answered = Input {
            tool: Some(ToolUse {
                name: tool.into(),
                id: id.clone(),
                read_only: self.read_only,
                input,
                ..ToolUse::default()
            }),
            tool_response: Some(ToolResponse {
                text: result.into(),
                is_error: self.fails,
            }),
            ..self.input(Event::ToolResponseTransform)
        };
        let verdict = self.hooks.fire(answered).await;
        let reported = verdict
            .updated_tool_response
            .unwrap_or_else(|| result.to_owned());
        self.say(
            Role::Assistant,
            Block::ToolUse(Called {
                id: id.clone(),
                name: tool.into(),
                arguments: written.into(),
                extra: Extra::new(),
            }),
        );
        self.say(
            Role::User,
            Block::ToolResult(ToolResult {
                id,
                content: vec![Block::text(&reported)],
                is_error: self.fails,
                extra: Extra::new(),
            }),
        );
        reported
    }

    fn say(&mut self, role: Role, block: Block) {
        self.messages
            .push(Arc::new(Message::new(role, vec![block])));
    }
}

fn long() -> String {
    "a line of the file\n".repeat(20)
}

fn path() -> Value {
    json!({"path": "a.txt", "n": 1})
}

#[tokio::test]
async fn repeated_result_is_replaced_by_a_reference() {
    let mut talk = Conversation::of(ON);
    assert_eq!(talk.call("read_file", path(), &long()).await, long());
    let reported = talk.call("read_file", path(), &long()).await;
    assert_eq!(
        reported,
        "[unchanged: the same result as that of the earlier call call-1 of read_file with the same arguments]"
    );
    // Not to the one that was elided itself, which says nothing.
    assert_eq!(talk.call("read_file", path(), &long()).await, reported);
}

#[tokio::test]
async fn elision_is_off_by_default() {
    for sections in ["", "elide_repeated_tool_results: false"] {
        let mut talk = Conversation::of(sections);
        for _ in 0..2 {
            assert_eq!(talk.call("read_file", path(), &long()).await, long());
        }
    }
}

#[tokio::test]
async fn elision_ignores_argument_order_only() {
    let mut talk = Conversation::of(ON);
    talk.call("read_file", path(), &long()).await;
    for (tool, arguments) in [
        ("read_file", json!({"path": "b.txt", "n": 1})),
        ("read_file", json!({"path": "a.txt", "n": "1"})),
        ("read_file", json!({"path": "a.txt"})),
        ("list_dir", path()),
    ] {
        assert_eq!(talk.call(tool, arguments, &long()).await, long());
    }
    let swapped = json!({"n": 1, "path": "a.txt"});
    let reported = talk.call("read_file", swapped, &long()).await;
    assert!(reported.contains("call-1"), "{reported}");
}

#[tokio::test]
async fn changed_result_is_sent_and_becomes_the_reference() {
    let mut talk = Conversation::of(ON);
    let changed = format!("{}and one more\n", long());
    talk.call("read_file", path(), &long()).await;
    assert_eq!(talk.call("read_file", path(), &changed).await, changed);
    let reported = talk.call("read_file", path(), &changed).await;
    assert!(reported.contains("call-2"), "{reported}");
    // Changed back: the first result still stands there.
    let reported = talk.call("read_file", path(), &long()).await;
    assert!(reported.contains("call-1"), "{reported}");
}

#[tokio::test]
async fn elision_applies_to_successful_read_only_calls() {
    for (read_only, fails) in [(false, false), (true, true)] {
        let mut talk = Conversation::of(ON);
        (talk.read_only, talk.fails) = (read_only, fails);
        for _ in 0..2 {
            assert_eq!(talk.call("read_file", path(), &long()).await, long());
        }
    }
    let mut talk = Conversation::of(ON);
    talk.fails = true;
    talk.call("read_file", path(), &long()).await;
    talk.fails = false;
    assert_eq!(talk.call("read_file", path(), &long()).await, long());
}

#[tokio::test]
async fn result_shorter_than_the_reference_is_sent() {
    let mut talk = Conversation::of(ON);
    for _ in 0..2 {
        assert_eq!(talk.call("read_file", path(), "short").await, "short");
    }
}

#[tokio::test]
async fn repeated_calls_of_one_answer_are_both_sent() {
    let mut talk = Conversation::of(ON);
    talk.ask().await;
    for _ in 0..2 {
        let written = path().to_string();
        let reported = talk
            .answer_call("read_file", &written, path(), &long())
            .await;
        assert_eq!(reported, long());
    }
    let reported = talk.call("read_file", path(), &long()).await;
    assert!(reported.contains("call-2"), "{reported}");
}

#[tokio::test]
async fn results_that_were_not_sent_verbatim_are_not_referenced() {
    let mut talk = Conversation::of(ON);
    talk.call("read_file", path(), &long()).await;
    // The conversation was truncated afterwards.
    let Some(last) = talk.messages.last_mut() else {
        panic!("no result");
    };
    let mut shortened = Message::clone(last);
    if let Block::ToolResult(result) = &mut shortened.content[0] {
        result.content = vec![Block::text("[left out]")];
    }
    *last = Arc::new(shortened);
    assert_eq!(talk.call("read_file", path(), &long()).await, long());
}

#[tokio::test]
async fn truncated_result_is_not_referenced() {
    let place = tempfile::tempdir().unwrap();
    let mut talk = Conversation::with(redaction::hooks(place.path(), ON));
    let huge = "a line\n".repeat(9_000);
    for _ in 0..2 {
        let reported = talk.call("shell", path(), &huge).await;
        assert!(reported.contains("this result was cut"));
    }
}

#[tokio::test]
async fn later_turn_references_results_of_the_conversation() {
    let mut talk = Conversation::of(ON);
    talk.call("read_file", path(), &long()).await;
    talk.tell(Event::TurnEnd).await;
    talk.turn = "t-2".into();
    let reported = talk.call("read_file", path(), &long()).await;
    assert!(reported.contains("call-1"), "{reported}");
}

#[tokio::test]
async fn results_of_other_sessions_are_not_referenced() {
    let mut talk = Conversation::of(ON);
    talk.call("read_file", path(), &long()).await;
    // The task of a sub-agent: another turn, of the same session.
    let mut other = Conversation::with(talk.hooks.clone());
    other.turn = "t-sub".into();
    assert_eq!(other.call("read_file", path(), &long()).await, long());
    // The first one does not refer to the other one either.
    let reported = talk.call("read_file", path(), &long()).await;
    assert!(reported.contains("call-1"), "{reported}");
}

#[tokio::test]
async fn compaction_and_ends_of_turns_and_sessions_clear_references() {
    for event in [
        Event::AfterCompaction,
        Event::SessionStart,
        Event::SessionEnd,
        Event::TurnEnd,
    ] {
        let mut talk = Conversation::of(ON);
        talk.call("read_file", path(), &long()).await;
        talk.ask().await;
        talk.tell(event).await;
        let written = path().to_string();
        let reported = talk
            .answer_call("read_file", &written, path(), &long())
            .await;
        assert_eq!(reported, long(), "{event}");
    }
}

#[tokio::test]
async fn references_are_kept_for_a_limited_number_of_turns() {
    let mut oldest = Conversation::of(ON);
    oldest.call("read_file", path(), &long()).await;
    oldest.ask().await;
    let mut newest = Conversation::with(oldest.hooks.clone());
    newest.messages.clone_from(&oldest.messages);
    for number in 0..256 {
        newest.turn = format!("another {number}");
        newest.ask().await;
    }
    let written = path().to_string();
    let reported = oldest
        .answer_call("read_file", &written, path(), &long())
        .await;
    assert_eq!(reported, long());
    newest.calls = 1;
    let reported = newest
        .answer_call("read_file", &written, path(), &long())
        .await;
    assert!(reported.contains("call-1"));
}

#[tokio::test]
async fn calls_with_invalid_json_arguments_are_not_matched() {
    let mut talk = Conversation::of(ON);
    talk.ask().await;
    talk.answer_call("read_file", "{\"path\": ", json!({}), &long())
        .await;
    assert_eq!(talk.call("read_file", json!({}), &long()).await, long());
    talk.ask().await;
    let reported = talk.answer_call("read_file", "", json!({}), &long()).await;
    assert!(reported.contains("call-2"), "{reported}");
}
