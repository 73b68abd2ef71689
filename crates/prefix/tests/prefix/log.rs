//! Logs of requests.

use std::io::{self, BufReader, Read};
use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::diagnosis::{LikelyCause, Reason};
use cachalot_prefix::log::{
    Analysis, Analyzer, LogError, LogReader, LoggedRequest, MAX_LINE_BYTES,
};
use serde_json::{Value, json};

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

fn read(log: &str) -> Vec<Result<LoggedRequest, LogError>> {
    LogReader::new(log.as_bytes()).collect()
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
        read[1].as_ref().unwrap_err().to_string(),
        "line 4: it is not JSON: expected a JSON value at byte 0"
    );
    assert_eq!(
        read[2].as_ref().unwrap_err().to_string(),
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
        "line 1: it is longer than 64 MiB, or has more than 1048576 JSON values"
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

/// A request of Claude Code's shape and its answer, which read and wrote so many tokens.
fn answered(system: &[Value], messages: &[Value], read: u64, written: u64) -> Value {
    json!({"session": "s", "request": {"model": "claude-sonnet-4-5", "max_tokens": 9,
            "system": system, "messages": messages},
        "response": {"usage": {"input_tokens": 3, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written, "output_tokens": 9}}})
}

fn marked(text: &str) -> Value {
    json!([{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}])
}

#[test]
fn list_that_became_a_text_is_the_cause_of_a_loss_behind_it() {
    let said = |role: &str, content: Value| json!({"role": role, "content": content});
    let rules = "Read the file before it is edited. ".repeat(160);
    let system = marked(&rules).as_array().unwrap().clone();
    let agents = "Agents: alpha works on the parser. ".repeat(170);
    let (question, next) = ("why ".repeat(700), "and then ".repeat(170));
    let user = || {
        said(
            "user",
            json!([{"type": "text", "text": "Be kind. ".repeat(110)}]),
        )
    };
    let first = [
        user(),
        said("system", marked(&agents)),
        said("user", marked(&question)),
    ];
    // The question became a text, too, and was read anyway.
    let second = [
        user(),
        said("system", marked(&agents)),
        said("user", json!(question)),
        said("assistant", json!("Thus.")),
        said("user", marked(&next)),
    ];
    let third = |agents: Value| {
        [
            user(),
            said("system", agents),
            said("user", json!(question)),
            said("assistant", json!("Thus.")),
            said("user", json!(next)),
            said("assistant", json!("So.")),
            said("user", marked("Go on.")),
        ]
    };
    let log = |third: &[Value], read: u64| {
        analyzed(&[
            answered(&system, &first, 0, 4_500),
            answered(&system, &second, 4_500, 400),
            answered(&system, third, read, 5_000 - read),
        ])
    };
    let found = log(&third(json!(agents)), 1_600);
    let [breaks] = found.breaks.as_slice() else {
        panic!("{:?}", found.breaks)
    };
    assert_eq!(
        (breaks.reason, breaks.cause, breaks.lost_tokens),
        (
            Reason::MessagesChanged,
            Some(LikelyCause::StringOrParts),
            3_300
        )
    );
    let at = breaks.examples[0].diagnosis.at.as_ref().unwrap();
    assert_eq!((at.level, at.index), ("messages", 1));
    // Nothing is read, or the list stays: the spelling explains nothing.
    for unexplained in [
        log(&third(json!(agents)), 0),
        log(&third(marked(&agents)), 1_600),
    ] {
        assert_eq!(unexplained.breaks[0].reason, Reason::EvictedOrUnknown);
        assert_eq!(unexplained.breaks[0].cause, None);
    }
    // Nothing is lost.
    assert!(log(&third(json!(agents)), 4_900).breaks.is_empty());
}

#[test]
fn differences_that_cost_nothing_are_not_listed() {
    let message = |text: &str| json!({"role": "user", "content": marked(text)});
    let said = |text: &str| json!({"role": "assistant", "content": text});
    let system = |text: &str| marked(&text.repeat(500)).as_array().unwrap().clone();
    let first = |written| answered(&system("whale "), &[message("Where?")], 0, written);
    let next = |written| {
        let messages = [message("Where?"), said("There."), message("When?")];
        answered(&system("squid "), &messages, 0, written)
    };
    assert_eq!(analyzed(&[first(2_000), next(2_050)]).breaks.len(), 1);
    // Nothing was cached, so that nothing is lost.
    assert!(analyzed(&[first(0), next(0)]).breaks.is_empty());
}

#[test]
fn compaction_is_not_blamed_on_the_billing_header() {
    let system = |version: &str| {
        let header = format!("x-anthropic-billing-header: cc_version=2.1.332.{version};");
        let mut blocks = vec![json!({"type": "text", "text": header})];
        blocks.extend(
            marked(&"You code. ".repeat(500))
                .as_array()
                .unwrap()
                .clone(),
        );
        blocks
    };
    let user = |text: &str| json!({"role": "user", "content": marked(text)});
    let model = |text: &str| json!({"role": "assistant", "content": text});
    let before = [
        user("Fix the bug."),
        model("Fixed."),
        user("And the test?"),
        model("Passes."),
        user("Commit."),
    ];
    let summary = "This session continues from a previous conversation. Summary: all is done.";
    let after = [user(summary)];
    let found = analyzed(&[
        answered(&system("9a2"), &before, 0, 9_000),
        answered(&system("001"), &after, 1_000, 600),
    ]);
    let [breaks] = found.breaks.as_slice() else {
        panic!("{:?}", found.breaks)
    };
    assert_eq!(
        (breaks.reason, breaks.cause),
        (Reason::MessagesChanged, Some(LikelyCause::Compaction))
    );
}

#[test]
fn tools_that_an_item_gives_are_tools() {
    let tool = |name: &str| {
        json!({"type": "function", "name": name, "description": "Works on files.",
            "parameters": {"type": "object", "properties": {}}})
    };
    let request = |tools: &[Value], more: bool| {
        let namespace = json!({"type": "namespace", "name": "functions", "tools": tools});
        let mut input = vec![
            json!({"type": "additional_tools", "role": "developer", "tools": [namespace]}),
            json!({"type": "message", "role": "developer", "content": "You code."}),
            json!({"type": "message", "role": "user", "content": "Fix the bug."}),
        ];
        if more {
            input.extend([
                json!({"type": "message", "role": "assistant", "content": "Fixed."}),
                json!({"type": "message", "role": "user", "content": "And the test?"}),
            ]);
        }
        json!({"session": "s", "request": {"model": "gpt-5.4", "input": input}})
    };
    let (grep, edit) = (tool("grep"), tool("edit"));
    for (tools, cause) in [
        (vec![grep.clone(), edit.clone()], LikelyCause::ToolAdded),
        (vec![], LikelyCause::ToolRemoved),
    ] {
        let found = analyzed(&[
            request(std::slice::from_ref(&grep), false),
            request(&tools, true),
        ]);
        let [breaks] = found.breaks.as_slice() else {
            panic!("{:?}", found.breaks)
        };
        assert_eq!(
            (breaks.reason, breaks.cause),
            (Reason::ToolsChanged, Some(cause))
        );
    }
}
