//! Transcripts of Claude Code and Codex, which have answers and no requests.

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

/// Times of two answers of Codex.
const START: &str = "2026-11-28T11:00:00.000Z";
const SOON: &str = "2026-11-28T11:01:00.000Z";

/// A line of Codex.
fn rollout(ordinal: u64, kind: &str, payload: Value) -> Value {
    json!({"timestamp": "2026-11-28T11:00:00.000Z", "ordinal": ordinal, "type": kind,
        "payload": payload})
}

fn turn(ordinal: u64, model: &str, effort: &str) -> Value {
    rollout(
        ordinal,
        "turn_context",
        json!({"model": model, "effort": effort}),
    )
}

/// An answer of Codex.
fn record(ordinal: u64, at: &str, id: &str, input: u64, read: u64, written: u64) -> Value {
    let usage = json!({"input_tokens": input, "cached_input_tokens": read,
        "cache_write_input_tokens": written, "output_tokens": 40});
    let line = rollout(
        ordinal,
        "token_usage_record",
        json!({"response_id": id, "usage": usage}),
    );
    with(line, "/timestamp", json!(at))
}

#[test]
fn causes_of_expensive_requests_of_codex_are_found() {
    let meta = rollout(0, "session_meta", json!({"id": "thread-1"}));
    let first = record(2, START, "resp_1", 30_500, 10_000, 20_000);
    let lines = |middle: Option<Value>, at: &str| {
        let begin = [
            meta.clone(),
            turn(1, "gpt-5.6-sol", "medium"),
            first.clone(),
        ];
        let again = record(4, at, "resp_2", 31_000, 5_000, 25_000);
        Vec::from_iter(begin.into_iter().chain(middle).chain([again]))
    };
    // 30,000 tokens were in the cache, and 5,000 were read.
    let unknown = (Reason::EvictedOrUnknown, None, 25_000);
    assert_eq!(only_break(&lines(None, SOON)), unknown);
    for (middle, reason, cause) in [
        (
            rollout(3, "compacted", json!({"message": ""})),
            Reason::MessagesChanged,
            LikelyCause::Compaction,
        ),
        (
            turn(3, "gpt-5.4", "medium"),
            Reason::ModelChanged,
            LikelyCause::ModelSwitched,
        ),
        (
            turn(3, "gpt-5.6-sol", "high"),
            Reason::ParametersChanged,
            LikelyCause::ReasoningSetting,
        ),
    ] {
        let found = only_break(&lines(Some(middle), SOON));
        assert_eq!(found, (reason, Some(cause), 25_000));
    }
    // Three days later, nothing is there.
    let found = only_break(&lines(None, "2026-12-01T11:00:00.000Z"));
    assert_eq!(
        found,
        (Reason::Expired, Some(LikelyCause::RetentionExpired), 25_000)
    );
}

#[test]
fn copied_and_repeated_counts_of_codex_are_no_answers() {
    let meta = json!({"id": "thread-2", "history_base": {"end_ordinal_exclusive": 5}});
    let found = analyzed(&[
        rollout(5, "session_meta", meta),
        turn(1, "gpt-5.4", "medium"),
        record(2, START, "resp_1", 30_500, 10_000, 20_000),
        rollout(3, "compacted", json!({"message": ""})),
        turn(6, "gpt-5.4", "medium"),
        record(7, SOON, "resp_3", 31_000, 5_000, 25_000),
    ]);
    assert_eq!((found.requests, found.answers_only), (1, 1));
    assert!(found.breaks.is_empty(), "{:?}", found.breaks);

    // Older versions write totals, and repeat them.
    let count = |total: u64, last: u64| {
        let usage = |input: u64| json!({"input_tokens": input, "cached_input_tokens": 0});
        rollout(
            1,
            "event_msg",
            json!({"type": "token_count", "info": {
                "total_token_usage": usage(total), "last_token_usage": usage(last)}}),
        )
    };
    let found = analyzed(&[
        rollout(0, "session_meta", json!({"id": "thread-3"})),
        count(9_000, 9_000),
        count(9_000, 9_000),
        count(19_000, 10_000),
        rollout(2, "event_msg", json!({"type": "token_count", "info": null})),
    ]);
    assert_eq!((found.requests, found.conversations), (2, 1));
    assert_eq!(found.reported.1.total_input(), 19_000);
}

/// Newer versions write a record and a count for each answer.
#[test]
fn records_and_counts_of_codex_are_one_answer_in_any_order() {
    let count = |total: u64, last: u64| {
        let usage = |input: u64| json!({"input_tokens": input, "output_tokens": 40});
        rollout(
            1,
            "event_msg",
            json!({"type": "token_count", "info": {
                "total_token_usage": usage(total), "last_token_usage": usage(last)}}),
        )
    };
    let meta = rollout(0, "session_meta", json!({"id": "thread-4"}));
    let records = [
        record(1, START, "resp_1", 30_500, 0, 0),
        record(2, SOON, "resp_2", 31_000, 0, 0),
    ];
    let counts = [count(30_500, 30_500), count(61_500, 31_000)];
    for lines in [
        [&records[0], &counts[0], &records[1], &counts[1]],
        [&counts[0], &records[0], &counts[1], &records[1]],
        [&counts[0], &records[0], &records[1], &counts[1]],
        [&records[0], &records[1], &counts[0], &counts[1]],
    ] {
        let lines = [&[&meta][..], &lines[..]].concat();
        let lines: Vec<Value> = lines.into_iter().cloned().collect();
        let found = analyzed(&lines);
        assert_eq!((found.requests, found.sessions), (2, 1));
        assert_eq!(found.reported.1.total_input(), 61_500);
    }
    // A fork whose lines have no numbers copies within two seconds.
    let fork = json!({"id": "thread-5", "forked_from_id": "thread-4"});
    let copied = [
        rollout(0, "session_meta", fork),
        records[0].clone(),
        records[1].clone(),
    ];
    let found = analyzed(&copied);
    assert_eq!(
        (found.requests, found.reported.1.total_input()),
        (1, 31_000)
    );
}

#[test]
fn losses_of_codex_have_the_price_of_their_tier() {
    let lost = |tier: Option<&str>| {
        let settings =
            json!({"type": "thread_settings_applied", "thread_settings": {"service_tier": tier}});
        let found = analyzed(&[
            rollout(0, "session_meta", json!({"id": "thread-6"})),
            turn(1, "gpt-5.6-sol", "medium"),
            rollout(1, "event_msg", settings),
            record(2, START, "resp_1", 30_500, 10_000, 20_000),
            record(4, SOON, "resp_2", 31_000, 5_000, 25_000),
        ]);
        assert_eq!(
            (found.breaks.len(), found.breaks[0].lost_tokens),
            (1, 25_000)
        );
        found.breaks[0].lost_cost
    };
    let standard = lost(None).picodollars;
    assert!(standard > 0);
    assert_eq!(lost(Some("priority")).picodollars, 2 * standard);
    assert_eq!(
        (
            lost(Some("scale")).picodollars,
            lost(Some("scale")).unpriced
        ),
        (0, 1)
    );
}

#[test]
fn real_rollout_of_codex_is_read() {
    let session = "rollout-2026-11-28T11-09-00-01a221d8-1c4e-7811-9155-40878826df61.jsonl";
    let log = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../cli/tests/data/transcripts/codex/tool_resume_fork_subagent_compact/sessions/2026/11/28")
        .join(session);
    let log = std::fs::read(log).unwrap();
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    analyzer.read(log.as_slice()).unwrap();
    let found = analyzer.finish();
    assert_eq!((found.requests, found.answers_only), (3, 3));
    assert_eq!((found.conversations, found.sessions), (1, 1));
    assert_eq!(found.skipped.0, 0, "{:?}", found.skipped);
    assert!(found.breaks.is_empty(), "{:?}", found.breaks);
}
