//! Logs of requests.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::diagnosis::{LikelyCause, Reason};
use cachalot_prefix::log::{Analysis, Analyzer, LogReader, LoggedRequest, MAX_LINE_BYTES};
use serde_json::{Value, json};

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn read(log: &str) -> Vec<Result<LoggedRequest, String>> {
    LogReader::new(log.as_bytes())
        .map(|logged| logged.map_err(|error| error.to_string()))
        .collect()
}

fn one(value: &Value) -> LoggedRequest {
    let text = lines(std::slice::from_ref(value));
    read(&text).remove(0).unwrap()
}

fn body(messages: &[&str]) -> Value {
    let messages = messages.iter().enumerate().map(|(at, text)| {
        json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": text})
    });
    let mut all = vec![json!({"role": "system", "content": "You help."})];
    all.extend(messages);
    json!({"model": "gpt-4.1", "messages": all})
}

fn analyzed(values: &[Value]) -> Analysis {
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    analyzer.read(lines(values).as_bytes()).unwrap();
    analyzer.finish()
}

#[test]
fn an_envelope_contains_time_session_and_usage() {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 64}});
    let response = json!({"id": "x", "usage": usage});
    let request = body(&["hi"]);
    for envelope in [
        json!({"request": request, "response": response, "timestamp": 1_795_228_920, "session": "s"}),
        json!({"body": request.to_string(), "response": response.to_string(),
            "time": "2026-11-21T02:42:00Z", "session_id": "s"}),
        json!({"request": {"method": "POST", "body": request}, "at": 1_795_228_920_000_u64,
            "response": {"status": 200, "body": response}, "conversation_id": "s"}),
        json!({"ts": "1795228920", "request": request, "usage": usage, "session": "s"}),
    ] {
        let logged = one(&envelope);
        assert_eq!(logged.session.as_deref(), Some("s"), "{envelope}");
        assert_eq!(logged.at, Some(1_795_228_920_000), "{envelope}");
        let expected = Usage {
            cache_read: 64,
            ..Usage::from_counts(36, 5)
        };
        assert_eq!(logged.usage, Some(expected), "{envelope}");
        assert_eq!(logged.request.prompt.len(), 2);
    }
    let logged = one(
        &json!({"request": {"model": "claude-sonnet-4-5", "messages": []},
        "response": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 70,
            "cache_creation_input_tokens": 20, "output_tokens": 1}}}),
    );
    assert_eq!(logged.usage.unwrap().total_input(), 95);
}

#[test]
fn request_without_envelope_may_name_its_session() {
    let mut request = body(&["hi"]);
    request["metadata"] = json!({"user_id": "user_1_account__session_77aa"});
    assert_eq!(one(&request).session.as_deref(), Some("77aa"));
    assert_eq!(one(&body(&["hi"])).session, None);
}

#[test]
fn invalid_lines_are_reported_and_skipped() {
    let log = format!(
        "\u{feff}{}\n\n  \nnonsense\n{{\"a\":1}}\n{}",
        body(&["a"]),
        body(&["b"])
    );
    let read = read(&log);
    assert_eq!(read.len(), 4);
    assert_eq!(read[0].as_ref().unwrap().line, 1);
    assert_eq!(
        read[1].as_ref().unwrap_err(),
        "line 4: it is not JSON: expected a JSON value at byte 0"
    );
    assert_eq!(
        read[2].as_ref().unwrap_err(),
        "line 5: it is no request: it has neither `messages` nor `input`"
    );
    assert_eq!(read[3].as_ref().unwrap().line, 6);
}

#[test]
fn too_long_line_is_skipped() {
    let body = format!("{}\n", body(&["a"]));
    let long = io::repeat(b'x').take(MAX_LINE_BYTES as u64 + 10);
    let log = BufReader::new(long.chain(b"\n".as_slice()).chain(body.as_bytes()));
    let read: Vec<_> = LogReader::new(log).collect();
    assert_eq!(read.len(), 2);
    assert_eq!(
        read[0].as_ref().unwrap_err().to_string(),
        "line 1: it is longer than 64 MiB"
    );
    assert_eq!(read[1].as_ref().unwrap().line, 2);
}

#[test]
fn unreadable_log_ends_the_analysis() {
    struct LoggedBreak;
    impl Read for LoggedBreak {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let read: Vec<_> = LogReader::new(BufReader::new(LoggedBreak)).collect();
    assert_eq!(read.len(), 1);
    assert_eq!(
        read[0].as_ref().unwrap_err().to_string(),
        "line 1: it cannot be read: gone"
    );
}

#[test]
fn unnamed_conversations_are_distinguished_by_content() {
    let analysis = analyzed(&[
        body(&["hi"]),
        body(&["write a poem"]),
        body(&["hi", "hello", "what is new?"]),
        body(&["write a poem", "roses", "another"]),
        body(&["hi", "hello", "what is new?", "nothing", "good"]),
    ]);
    assert_eq!((analysis.requests, analysis.conversations), (5, 2));
    assert!(analysis.breaks.is_empty(), "{:?}", analysis.breaks);
    assert_eq!(analysis.tree.sharing.leaves, 2);
    assert!(analysis.sent_bytes > analysis.different_bytes);
}

#[test]
fn forks_and_regenerated_answers_are_no_breaks() {
    let analysis = analyzed(&[
        body(&["a question", "an answer", "more"]),
        body(&["a question", "an answer", "more", "of this", "one way"]),
        body(&["a question", "an answer", "more", "of this", "another way"]),
        body(&[
            "a question",
            "an answer",
            "more",
            "of this",
            "one way",
            "yes",
            "go",
        ]),
    ]);
    assert!(analysis.breaks.is_empty(), "{:?}", analysis.breaks);
    assert_eq!(analysis.conversations, 2);
}

#[test]
fn conversations_of_one_session_are_separated() {
    let of = |body: Value| json!({"session": "s", "request": body});
    let mut title = body(&["Name this conversation."]);
    title["messages"][0]["content"] = json!("You give titles.");
    let analysis = analyzed(&[
        of(body(&["a question"])),
        of(title.clone()),
        of(body(&["a question", "an answer", "more"])),
        of(title),
    ]);
    assert!(analysis.breaks.is_empty(), "{:?}", analysis.breaks);
    assert_eq!((analysis.sessions, analysis.conversations), (1, 2));
}

#[test]
fn named_session_links_requests_without_a_common_prefix() {
    let of = |body: Value| json!({"session": "s", "request": body});
    let long = ["one", "two", "three", "four", "five"];
    let summary = "Summary of the conversation so far: they counted.";
    let analysis = analyzed(&[of(body(&long)), of(body(&[summary]))]);
    assert_eq!(analysis.breaks.len(), 1);
    assert_eq!(analysis.breaks[0].cause, Some(LikelyCause::Compaction));
}

#[test]
fn equal_breaks_are_grouped_and_sorted_by_cost() {
    let with = |system: &str, messages: &[&str]| {
        let mut body = body(messages);
        body["messages"][0]["content"] = json!(system);
        body
    };
    let filler = "word ".repeat(2_000);
    let at = |minute: u32| format!("It is 10:{minute}. {filler}");
    let analysis = analyzed(&[
        with(&at(10), &["the first"]),
        with(&at(11), &["the first", "b", "c"]),
        with(&at(12), &["the first", "b", "c", "d", "e"]),
        with("You help.", &["another", "answer", "third"]),
        with("You help.", &["third", "fourth", "fifth"]),
    ]);
    let found: Vec<_> = analysis
        .breaks
        .iter()
        .map(|b| (b.reason, b.cause, b.count))
        .collect();
    assert_eq!(
        found,
        [
            (Reason::SystemChanged, Some(LikelyCause::Timestamp), 2),
            (Reason::MessagesChanged, Some(LikelyCause::SlidingWindow), 1),
        ]
    );
    let (tokens, cost) = analysis.lost();
    assert!(tokens > 4_000 && cost.picodollars > 0);
    let example = &analysis.breaks[0].examples[0];
    assert_eq!(example.session, "line 1");
    assert!(example.line == example.previous_line + 1);
}
