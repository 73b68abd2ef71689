//! Requests that Claude Code records in its transcripts, in parts.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::diagnosis::{LikelyCause, Reason};
use cachalot_prefix::log::{Analysis, Analyzer, LoggedBreak};
use serde_json::{Value, json};

fn analyzer() -> Analyzer {
    Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()))
}

/// A session that was resumed, and a fork of it, which repeats two answers.
const RESUMED: &str = "resume_and_fork/-home-user-work3/04de6bb7-b82c-4dd0-9850-0d8385b5ab04.jsonl";
const FORKED: &str = "resume_and_fork/-home-user-work3/da35d26a-f82b-42fe-ad76-7b5c7853edf2.jsonl";

/// A session that was compacted, and a fork of it, which repeats an answer with its counts set to zero.
const COMPACTED: &str =
    "compact_then_fork/-home-user-work4/ffffffff-0000-4000-8000-000000000001.jsonl";
const FORKED_AFTER_COMPACTION: &str =
    "compact_then_fork/-home-user-work4/00000000-0000-4000-8000-000000000002.jsonl";

/// A session with a sub-agent; a message without a blob has a hash that its shortened text does not match.
const WITH_SUBAGENT: &str =
    "tool_and_subagent/-home-user-work2/3f69e6cc-d433-41b2-a98c-7edb31afc73b.jsonl";

/// Analyzes files that belong together.
fn analyzed_files(names: &[&str]) -> Analysis {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../cli/tests/data/transcripts/claude-code");
    let files = names.iter();
    let files = files.map(|name| (*name, std::fs::read(folder.join(name)).unwrap()));
    let files: Vec<(&str, Vec<u8>)> = files.collect();
    let mut analyzer = analyzer();
    for (_, text) in &files {
        analyzer.register(text.as_slice());
    }
    for (name, text) in &files {
        analyzer.read_file(name, text.as_slice()).unwrap();
    }
    analyzer.finish()
}

fn analyzed(lines: &[Value]) -> Analysis {
    let log: Vec<String> = lines.iter().map(Value::to_string).collect();
    let mut analyzer = analyzer();
    analyzer.read(log.join("\n").as_bytes()).unwrap();
    analyzer.finish()
}

fn only_break(lines: &[Value]) -> LoggedBreak {
    let found = analyzed(lines);
    assert_eq!(found.skipped.0, 0, "{:?}", found.skipped);
    let [breaks] = found.breaks.as_slice() else {
        panic!("{:?}", found.breaks)
    };
    assert_eq!(breaks.count, 1);
    breaks.examples[0].clone()
}

/// A hash that nothing verifies.
fn hash(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn line(kind: &str, members: Value) -> Value {
    let mut line = json!({"type": kind, "sessionId": "s1", "isSidechain": false});
    let Value::Object(members) = members else {
        panic!("{members}")
    };
    line.as_object_mut().unwrap().extend(members);
    line
}

fn shape(digit: char, system: &str) -> Value {
    line(
        "api-request-shape",
        json!({"shapeHash": hash(digit), "shape": {
            "system": [{"type": "text", "text": system}],
            "tools": [{"name": "Bash", "description": "Runs a command.",
                "input_schema": {"type": "object"}}]}}),
    )
}

fn blob(digit: char, role: &str, text: &str) -> Value {
    let message = json!({"role": role, "content": [{"type": "text", "text": text}]});
    line(
        "api-request-blob",
        json!({"hash": hash(digit), "message": message}),
    )
}

/// A request in a minute, with a marker on the first block of its last message.
fn request(minute: u64, id: &str, base: (Option<&str>, usize), tail: &[String]) -> Value {
    let (base, keep) = base;
    let last = keep + tail.len() - 1;
    let mut members = json!({
        "id": id, "timestamp": format!("2026-11-28T11:{minute:02}:00.000Z"),
        "shapeHash": hash('0'), "keep": keep, "tail": tail, "thread": {"type": "none"},
        "params": {"model": "claude-opus-5-5", "max_tokens": 9, "betas": ["a"]},
        "cacheControl": [
            {"path": ["system", 0], "value": {"type": "ephemeral"}},
            {"path": ["messages", last, "content", 0], "value": {"type": "ephemeral"}}]});
    if let Some(base) = base {
        members["base"] = json!(base);
    }
    line("api-request", members)
}

/// The answer to a request, which read and wrote so many tokens.
fn answer(request: &str, text: &str, read: u64, written: u64) -> Value {
    line(
        "assistant",
        json!({"requestRef": request, "uuid": format!("u-{request}"),
            "message": {"id": format!("msg-{request}"), "role": "assistant",
                "model": "claude-opus-5-5", "content": [{"type": "text", "text": text}],
                "usage": {"input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": read,
                    "cache_creation_input_tokens": written}}}),
    )
}

/// The hash of an answer's message: no line states it.
fn answer_hash(text: &str) -> String {
    let message = json!({"content": [{"text": text, "type": "text"}], "role": "assistant"});
    cachalot_core::Digest::sha256(message.to_string().as_bytes()).to_hex()
}

/// Two requests, each with its answer: `Fix the bug.`, and `And the test?` after it.
fn conversation() -> Vec<Value> {
    let second = [answer_hash("Fixed."), hash('3')];
    vec![
        shape('0', "You are a coding agent."),
        blob('1', "user", "Fix the bug in the parser."),
        blob('2', "system", "Agents: alpha and beta work here."),
        request(1, "r1", (None, 0), &[hash('1'), hash('2')]),
        answer("r1", "Fixed.", 0, 50_000),
        blob('3', "user", "And the test of the printer?"),
        request(2, "r2", (Some("r1"), 2), &second),
        answer("r2", "Passes.", 50_000, 1_000),
    ]
}

#[test]
fn recorded_requests_are_reconstructed_from_real_transcripts() {
    // The fork is read first: it repeats two answers of the other file.
    let found = analyzed_files(&[FORKED, RESUMED]);
    assert_eq!((found.requests, found.reconstructed), (6, 6));
    assert_eq!((found.answers_only, found.unanswered), (0, 0));
    assert_eq!(found.skipped.0, 0, "{:?}", found.skipped);
    assert_eq!((found.conversations, found.sessions), (2, 2));
    assert_eq!(
        (found.reported.0, found.reported.1.cache_read),
        (6, 120_069)
    );
    // The provider of these sessions reads less than was written; the bytes of no request are changed.
    for breaks in &found.breaks {
        assert_eq!(breaks.reason, Reason::EvictedOrUnknown);
        assert!(
            breaks
                .examples
                .iter()
                .all(|example| example.diagnosis.at.is_none())
        );
    }
}

#[test]
fn answers_that_a_fork_repeats_with_counts_of_zero_count_once() {
    let found = analyzed_files(&[FORKED_AFTER_COMPACTION, COMPACTED]);
    assert_eq!((found.requests, found.reconstructed), (3, 3));
    assert_eq!(found.skipped.0, 0, "{:?}", found.skipped);
    assert_eq!((found.reported.0, found.reported.1.cache_read), (3, 60_049));
}

#[test]
fn request_with_a_missing_message_is_named_and_known_by_its_answer() {
    let found = analyzed_files(&[WITH_SUBAGENT]);
    assert_eq!((found.requests, found.reconstructed), (3, 1));
    assert_eq!((found.answers_only, found.conversations), (2, 1));
    let (count, named) = &found.skipped;
    assert_eq!(*count, 2);
    for (_, reason) in named {
        let missing = "the message 76f7e0942250… of the recorded request is not in the file";
        assert_eq!(*reason, format!("{WITH_SUBAGENT}: {missing}"));
    }
}

#[test]
fn break_is_found_to_the_byte_without_a_gateway() {
    let changed = [
        hash('4'),
        answer_hash("Fixed."),
        hash('3'),
        answer_hash("Passes."),
        hash('5'),
    ];
    let mut lines = conversation();
    lines.extend([
        blob('4', "system", "Agents: alpha and gamma work here."),
        blob('5', "user", "Then commit it."),
        request(3, "r3", (Some("r2"), 1), &changed),
        answer("r3", "Committed.", 20_000, 32_000),
    ]);
    let broken = only_break(&lines);
    assert_eq!((broken.previous_line, broken.line), (7, 11));
    assert_eq!(
        (broken.session.as_str(), broken.model.as_str()),
        ("s1", "claude-opus-5-5")
    );
    let diagnosis = broken.diagnosis;
    assert_eq!(diagnosis.reason, Reason::MessagesChanged);
    assert_eq!(diagnosis.cause, Some(LikelyCause::MessageEdited));
    let at = diagnosis.at.unwrap();
    assert_eq!((at.level, at.index), ("messages", 1));
    let before = r#"{"role":"system","content":[{"type":"text","text":"Agents: alpha and "#;
    assert_eq!(at.offset, before.len());
    // 51,000 tokens might have been read, and 20,000 were.
    assert_eq!(diagnosis.lost_tokens, 31_000);
}

#[test]
fn continued_requests_without_a_loss_are_no_breaks() {
    let found = analyzed(&conversation());
    assert_eq!((found.requests, found.reconstructed), (2, 2));
    assert_eq!((found.conversations, found.sessions), (1, 1));
    assert!(found.breaks.is_empty(), "{:?}", found.breaks);
}

#[test]
fn recorded_compaction_is_the_cause_of_other_messages() {
    let mut lines = conversation();
    lines.extend([
        json!({"type": "system", "subtype": "compact_boundary", "sessionId": "s1",
            "isSidechain": false, "uuid": "b"}),
        blob('4', "user", "The parser was repaired."),
        blob('5', "system", "Agents: alpha and delta."),
        request(3, "r3", (None, 0), &[hash('4'), hash('5')]),
        answer("r3", "Committed.", 20_000, 9_000),
    ]);
    let broken = only_break(&lines);
    assert_eq!(broken.diagnosis.reason, Reason::MessagesChanged);
    assert_eq!(broken.diagnosis.cause, Some(LikelyCause::Compaction));
}

#[test]
fn lines_that_record_no_whole_request_are_named() {
    let good = |tail: &[String]| request(1, "r1", (None, 0), tail);
    let with = |name: &str, value: Value| {
        let mut line = good(&[hash('1')]);
        line[name] = value;
        line
    };
    for (line, reason) in [
        (with("tail", json!(["zz"])), "a hash in `tail`"),
        (
            with("shapeHash", json!(hash('9'))),
            "the shape 999999999999…",
        ),
        (with("shapeHash", Value::Null), "has no `shapeHash`"),
        (good(&[hash('8')]), "the message 888888888888…"),
        (with("keep", json!(3)), "names no `base`"),
        (with("base", json!("r0")), "the request `r0`, which"),
        (
            with(
                "cacheControl",
                json!([{"path": ["messages", 7], "value": {}}]),
            ),
            "a cache marker at a place",
        ),
        (
            with("cacheControl", json!([{"path": 1}])),
            "a cache marker of the recorded request is malformed",
        ),
        (
            with("cacheControl", json!([{"path": ["params"], "value": {}}])),
            "a cache marker at a place",
        ),
    ] {
        let found = analyzed(&[
            shape('0', "You are a coding agent."),
            blob('1', "user", "Fix the bug."),
            line.clone(),
            answer("r1", "Fixed.", 0, 50_000),
        ]);
        assert_eq!((found.requests, found.answers_only), (1, 1), "{line}");
        assert!(found.breaks.is_empty(), "{:?}", found.breaks);
        let [(3, named)] = found.skipped.1.as_slice() else {
            panic!("{:?}", found.skipped)
        };
        assert!(named.contains(reason), "{named}");
    }
}

#[test]
fn request_without_an_answer_is_not_compared() {
    let mut lines = conversation();
    lines.extend([
        blob('4', "user", "Another question."),
        request(3, "r3", (None, 0), &[hash('4')]),
    ]);
    let found = analyzed(&lines);
    assert_eq!((found.requests, found.unanswered), (2, 1));
    assert!(found.breaks.is_empty(), "{:?}", found.breaks);
}

#[test]
fn captured_bodies_are_compared_in_the_order_of_their_times() {
    let body = |note: &str, more: bool| {
        let mut body = json!({"model": "claude-opus-5-5", "max_tokens": 9,
            "metadata": {"user_id": r#"{"device_id":"d","session_id":"s7"}"#},
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332.9a2; cc_prev_req=req_1;"},
                {"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": note}]});
        if more {
            body["system"][0]["text"] =
                json!("x-anthropic-billing-header: cc_version=2.1.332.001; cc_prev_req=req_2;");
            body["messages"].as_array_mut().unwrap().extend([
                json!({"role": "assistant", "content": "Fixed."}),
                json!({"role": "user", "content": "And the test?"}),
            ]);
        }
        body.to_string()
    };
    let analysis = |second: String| {
        let mut analyzer = analyzer();
        let first = body("Fix the bug in the parser.", false);
        for (at, text) in [(1_000, first), (9_000, second)] {
            analyzer
                .read_capture("x.request.json", Some(at), text.as_bytes())
                .unwrap();
        }
        analyzer.finish()
    };
    // The billing header differs, which no model reads.
    let same = analysis(body("Fix the bug in the parser.", true));
    assert_eq!(
        (same.requests, same.conversations, same.sessions),
        (2, 1, 1)
    );
    assert!(same.breaks.is_empty(), "{:?}", same.breaks);
    let bad = analysis("[".to_owned());
    assert_eq!((bad.requests, bad.skipped.0), (1, 1));
    assert!(
        bad.skipped.1[0]
            .1
            .starts_with("x.request.json: it is not JSON")
    );
}
