//! Transcripts of Claude Code, which have answers and no requests.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::diagnosis::{LikelyCause, Reason};
use cachalot_prefix::log::{Analysis, Analyzer};
use serde_json::{Value, json};

fn analyzed(lines: &[Value]) -> Analysis {
    let log: Vec<String> = lines.iter().map(Value::to_string).collect();
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    analyzer.read(log.join("\n").as_bytes()).unwrap();
    analyzer.finish()
}

/// An answer in the minute `at`, which read and wrote so many tokens.
fn answer(at: u64, id: &str, read: u64, written: u64) -> Value {
    json!({
        "type": "assistant", "uuid": format!("u-{id}"), "sessionId": "s1", "isSidechain": false,
        "timestamp": format!("2026-11-21T{:02}:{:02}:00.000Z", 8 + at / 60, at % 60),
        "message": {"id": id, "role": "assistant", "model": "claude-opus-4-8",
            "content": [{"type": "text", "text": "Done."}],
            "usage": {"input_tokens": 3, "output_tokens": 50, "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "cache_creation": {"ephemeral_5m_input_tokens": written,
                    "ephemeral_1h_input_tokens": 0}}},
    })
}

fn with(mut line: Value, pointer: &str, value: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    line.pointer_mut(parent).unwrap()[name] = value;
    line
}

/// The reason, cause and lost tokens of the only break.
fn only_break(lines: &[Value]) -> (Reason, Option<LikelyCause>, u64) {
    let found = analyzed(lines);
    let [breaks] = found.breaks.as_slice() else {
        panic!("{:?}", found.breaks)
    };
    assert_eq!(breaks.count, 1);
    (breaks.reason, breaks.cause, breaks.lost_tokens)
}

#[test]
fn repeated_answer_lines_count_once_and_continuations_are_no_breaks() {
    let first = answer(0, "msg_1", 0, 20_000);
    let found = analyzed(&[
        json!({"type": "summary", "summary": "Bugs", "leafUuid": "x"}),
        json!({"type": "user", "uuid": "u0", "sessionId": "s1",
            "message": {"role": "user", "content": "Fix it."}}),
        first.clone(),
        // Each block of an answer is a line.
        with(first, "/uuid", json!("u-msg_1b")),
        answer(1, "msg_2", 20_000, 900),
        // Of a rewound conversation less is sent: nothing is written anew.
        answer(2, "msg_3", 12_000, 50),
        with(answer(3, "x", 0, 0), "/message/model", json!("<synthetic>")),
        json!({"neither": "a transcript"}),
    ]);
    assert_eq!((found.requests, found.answers_only), (3, 3));
    assert_eq!((found.conversations, found.sessions), (1, 1));
    assert_eq!((found.reported.0, found.reported.1.cache_read), (3, 32_000));
    assert!(found.breaks.is_empty(), "{:?}", found.breaks);
    assert_eq!(found.skipped.0, 1, "{:?}", found.skipped);
}

#[test]
fn rewritten_cache_is_a_loss_with_the_logged_reason_or_unknown() {
    let first = answer(0, "msg_1", 0, 20_000);
    let second = |at| answer(at, "msg_2", 5_000, 16_000);
    let unknown = (Reason::EvictedOrUnknown, None, 15_000);
    assert_eq!(only_break(&[first.clone(), second(1)]), unknown);

    let expired = Some(LikelyCause::Expired);
    assert_eq!(
        only_break(&[first.clone(), second(6)]),
        (Reason::Expired, expired, 15_000)
    );
    // What was written for an hour is still there after six minutes.
    let hour = json!({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 20_000});
    let for_an_hour = with(first.clone(), "/message/usage/cache_creation", hour);
    assert_eq!(only_break(&[for_an_hour.clone(), second(6)]), unknown);
    assert_eq!(only_break(&[for_an_hour, second(61)]).0, Reason::Expired);

    let other = with(second(1), "/message/model", json!("claude-sonnet-5"));
    assert_eq!(
        only_break(&[first.clone(), other]),
        (
            Reason::ModelChanged,
            Some(LikelyCause::ModelSwitched),
            15_000
        )
    );
    let boundary = json!({"type": "system", "subtype": "compact_boundary", "uuid": "b",
        "sessionId": "s1", "isSidechain": false});
    assert_eq!(
        only_break(&[first.clone(), boundary, second(1)]),
        (
            Reason::MessagesChanged,
            Some(LikelyCause::Compaction),
            15_000
        )
    );
    // The provider's own word goes before all of that.
    let reason = json!({"cache_miss_reason":
        {"type": "tools_changed", "cache_missed_input_tokens": 14_000}});
    let named = with(second(6), "/message/diagnostics", reason);
    let found = analyzed(&[first.clone(), named]);
    let broken = &found.breaks[0].examples[0];
    assert_eq!(broken.diagnosis.reason, Reason::ToolsChanged);
    assert!(broken.diagnosis.by_provider);
    assert_eq!((broken.previous_line, broken.line), (1, 2));
    // $6.25 for a million written, $0.50 for a million read.
    let cost = broken.diagnosis.lost_cost.unwrap().dollars();
    assert!((cost - 15_000.0 * 5.75e-6).abs() < 1e-9, "{cost}");
    // That nothing is said to differ may mean that nothing was compared.
    let null = with(second(1), "/message/diagnostics", Value::Null);
    assert_eq!(only_break(&[first, null]), unknown);
}

#[test]
fn sub_agents_are_separate_conversations() {
    let aside = |line: Value, agent: Option<&str>| {
        let line = with(line, "/isSidechain", json!(true));
        match agent {
            Some(agent) => with(line, "/agentId", json!(agent)),
            None => line,
        }
    };
    let lines = |one: Option<&str>, other: Option<&str>| {
        [
            answer(0, "msg_1", 0, 20_000),
            aside(answer(0, "msg_2", 0, 9_000), one),
            aside(answer(1, "msg_3", 0, 9_500), other),
            answer(2, "msg_4", 20_000, 100),
        ]
    };
    assert!(analyzed(&lines(Some("a"), Some("b"))).breaks.is_empty());
    // Without a name it is not known whose they are.
    assert!(analyzed(&lines(None, None)).breaks.is_empty());
    let found = analyzed(&lines(Some("a"), Some("a")));
    assert_eq!(found.conversations, 2);
    assert_eq!(found.breaks[0].examples[0].session, "s1, agent a");
}
