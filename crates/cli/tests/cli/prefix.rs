//! `cachalot prefix`: what is said of logs, and of what is to be sent.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::provider::{OBEDIENT, Provider, session};
use crate::support::{Home, Ran};

fn example() -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/requests.jsonl");
    examples.to_str().unwrap().to_owned()
}

/// The causes that are named, in their order, and how often each.
fn causes(document: &Value) -> Vec<(String, u64)> {
    let breaks = document["logs"][0]["breaks"].as_array().unwrap();
    let named = breaks.iter().map(|breaks| {
        let cause = breaks["cause"].as_str().unwrap_or("unknown").to_owned();
        (cause, breaks["count"].as_u64().unwrap())
    });
    named.collect()
}

fn piped(home: &Home, arguments: &[&str], input: &str) -> Ran {
    let mut command = home.command(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn every_break_of_the_example_is_named_with_its_cause() {
    let home = Home::new();
    let told = home
        .run(&["prefix", "analyze", "--json", &example()])
        .ok()
        .json();
    let log = &told["logs"][0];
    assert_eq!(
        (&log["requests"], &log["conversations"]),
        (&json!(15), &json!(4))
    );
    let mut found = causes(&told);
    found.sort();
    let expected = [
        ("expired", 1),
        ("model-switched", 1),
        ("reasoning-setting", 1),
        ("sliding-window", 1),
        ("timestamp", 2),
        ("tool-added", 1),
        ("tool-result-pruned", 1),
        ("tools-reordered", 1),
    ];
    assert_eq!(
        found,
        expected.map(|(cause, count)| (cause.to_owned(), count))
    );
    let dollars = |breaks: &Value| breaks["lost_dollars"].as_f64().unwrap();
    let breaks = log["breaks"].as_array().unwrap();
    assert!(
        breaks
            .windows(2)
            .all(|pair| dollars(&pair[0]) >= dollars(&pair[1]))
    );
    assert!(log["dedup_ratio"].as_f64().unwrap() > 2.0);
}

#[test]
fn people_see_what_became_of_what_and_what_to_do() {
    let home = Home::new();
    let told = home.run(&["prefix", "analyze", &example()]).ok();
    for expected in [
        "15 requests in 4 conversations",
        "dedup ratio",
        "system_changed: a time of day in the prefix · 2 times",
        "`Conversation started: Saturday 08:41`\n     became `Conversation started: Saturday 08:43`",
        "Remove the time from the prefix",
        "the parameter `reasoning_effort`",
        "became `[old tool result cleared]`",
    ] {
        assert!(told.stdout.contains(expected), "{expected}\n{told}");
    }
    assert_eq!(told.stderr, "");
    home.run(&["prefix", "analyze", "--strict", &example()])
        .fails(1);
}

#[test]
fn a_log_is_read_from_stdin_and_invalid_lines_are_reported() {
    let home = Home::new();
    let body = json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]});
    let log = format!("{body}\nnonsense\n");
    let told = piped(&home, &["prefix", "analyze", "--strict", "-"], &log).ok();
    assert!(told.stdout.contains("no prefix breaks"), "{told}");
    assert!(told.stderr.contains("-, line 2: it is not JSON"), "{told}");
    let missing = home.run(&["prefix", "analyze", "no.jsonl"]).fails(1);
    assert!(missing.stderr.contains("no.jsonl"), "{missing}");
}

#[test]
fn what_looks_like_a_credential_is_not_shown() {
    let home = Home::new();
    let body = |key: &str| {
        json!({"session": "s", "request": {"model": "gpt-4.1", "messages": [
            {"role": "system", "content": format!("You help. The key is sk-proj-{key}, use it.")},
            {"role": "user", "content": "a question"}]}})
    };
    let key = |letter: &str| letter.repeat(40);
    let log = format!("{}\n{}\n", body(&key("a1")), body(&key("b2")));
    let told = piped(&home, &["prefix", "analyze", "-"], &log).ok();
    assert!(told.stdout.contains("system_changed"), "{told}");
    assert!(
        !told.stdout.contains("a1a1") && !told.stdout.contains("b2b2"),
        "{told}"
    );
}

#[test]
fn a_request_is_checked_before_it_is_sent() {
    let home = Home::new();
    let system = format!("It is 10:41.\n{}", "You help. ".repeat(1_000));
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 5, "system": system,
        "messages": [{"role": "user", "content": "hi"}]});
    home.write("request.json", serde_json::to_string_pretty(&body).unwrap());
    let told = home.run(&["prefix", "lint", "request.json"]).fails(2);
    assert!(told.stderr.contains("timestamp"), "{told}");
    assert!(told.stderr.contains("request.json:4:"), "{told}");
    assert!(told.stderr.contains("no-markers"), "{told}");
    let told = home
        .run(&["prefix", "lint", "--json", "request.json"])
        .fails(2)
        .json();
    assert_eq!(told["problems"][0]["code"], "timestamp");
    assert_eq!(told["problems"][0]["line"], 4);
    let short = json!({"model": "claude-sonnet-4-5", "max_tokens": 5, "messages": [
        {"role": "user", "content": "hi"}]});
    let told = piped(&home, &["prefix", "lint", "-"], &short.to_string()).ok();
    assert!(
        told.stderr.contains("caches no prefix of less than 1024"),
        "{told}"
    );
}

#[test]
fn an_agent_file_is_checked_for_what_changes() {
    let home = Home::new();
    let agent = |instruction: &str| {
        format!(
            "agents:\n  root:\n    model: gpt-4.1\n    instruction: |\n      You help.\n      {instruction}\n"
        )
    };
    home.write("good.yaml", agent("Be kind."));
    let told = home.run(&["prefix", "lint", "good.yaml"]).ok();
    assert!(told.stderr.contains("no problems"), "{told}");
    for (instruction, code) in [
        ("It is 2026-11-21T10:41:00Z.", "timestamp"),
        (
            "Session 3f2b8c1e-9d4a-4c6b-8e21-5a7d0f3b9c42.",
            "identifier",
        ),
        ("Today is {{ now() }}.", "timestamp"),
    ] {
        home.write("bad.yaml", agent(instruction));
        let told = home.run(&["prefix", "lint", "bad.yaml"]).fails(2);
        assert!(told.stderr.contains(code), "{told}");
        assert!(told.stderr.contains("bad.yaml:6:"), "{told}");
    }
    home.write("broken.yaml", "agents: [");
    home.run(&["prefix", "lint", "broken.yaml"]).fails(2);
}

#[test]
fn credentials_are_named_and_never_shown_and_plain_dates_are_no_fault() {
    let home = Home::new();
    let key = "sk-proj-abcdEFGH1234567890abcdEFGH1234567890";
    let agent = format!(
        "agents:\n  root:\n    model: gpt-4.1\n    instruction: Use {key} now, at 10:41.\n"
    );
    home.write("agent.yaml", agent);
    let system =
        format!("Known until 2024-10-01. Password: hunter2hunter2, key {key}. It is 10:41.");
    let request = json!({"model": "gpt-4.1", "messages": [
        {"role": "system", "content": system}, {"role": "user", "content": "hi"}]});
    home.write("request.json", request.to_string());
    for file in ["agent.yaml", "request.json"] {
        for json in [&[][..], &["--json"]] {
            let arguments = [&["prefix", "lint", file], json].concat();
            let told = home.run(&arguments).fails(2);
            let all = format!("{}{}", told.stdout, told.stderr);
            assert!(all.contains("a credential in the prefix"), "{told}");
            assert!(all.contains("a time of day"), "{told}");
            assert!(!all.contains("EFGH") && !all.contains("hunter2"), "{told}");
        }
    }
    let plain = json!({"model": "gpt-4.1", "messages": [
        {"role": "system", "content": "Known until 2024-10-01. Office hours 09:00."},
        {"role": "user", "content": "hi"}]});
    let told = piped(&home, &["prefix", "lint", "-"], &plain.to_string()).ok();
    assert!(told.stderr.contains("`2024-10-01`"), "{told}");
}

/// An agent whose instruction is long enough to be kept by the provider.
fn long_agent(model: &str, more: &str) -> String {
    let instruction = "Answer briefly. ".repeat(400);
    format!("agents:\n  root:\n    model: {model}\n    instruction: '{instruction}'\n{more}")
}

#[test]
fn why_shows_cost_and_prefix_of_the_last_answer_of_a_session() {
    let (home, provider) = (Home::new(), Provider::scripted(OBEDIENT));
    home.write("agent.yaml", long_agent("openai/gpt-4o", ""));
    let name = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
    let quiet = home
        .ask(
            &provider,
            &["agent.yaml", "-v", "--session", &name],
            "again",
        )
        .ok();
    assert!(!quiet.stderr.contains("could not read"), "{quiet}");
    let told = home.run(&["why", &name]).ok().stdout;
    assert!(
        told.starts_with("openai/gpt-4o: paid, ") && told.contains(&name),
        "{told}"
    );
    let read = told
        .lines()
        .find(|line| line.contains("read from its cache"));
    let read: u64 = read.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(read >= 1_024, "{told}");
    assert!(
        !told.contains("could have read"),
        "nothing was lost: {told}"
    );

    // Another model reads nothing of what the first one was sent.
    let warned = "    prefix: {warn_above: 0}\n";
    home.write("agent.yaml", long_agent("openai/gpt-4o-mini", warned));
    let ran = home
        .ask(&provider, &["agent.yaml", "--session", &name], "and now")
        .ok();
    assert!(
        ran.stderr.contains("warning:") && ran.stderr.contains("model_changed"),
        "{ran}"
    );
    let told = home.run(&["why", &name]).ok().stdout;
    assert!(
        told.starts_with("openai/gpt-4o-mini: paid, ") && told.contains("model_changed"),
        "{told}"
    );
    // What an entry could have answered is something else.
    home.run(&["why"]).fails(1);
    let stats = home.run(&["cache", "stats"]).ok().stdout;
    let (calls, models) = stats.split_once("answers of models").unwrap();
    assert!(
        !calls.contains("openai") && models.contains("openai/gpt-4o-mini"),
        "{stats}"
    );
}

#[test]
fn a_transcript_shows_what_was_lost_by_its_usage() {
    let home = Home::new();
    let answer = |id: &str, read: u64, written: u64, diagnostics: Value| {
        let usage = json!({"input_tokens": 3, "output_tokens": 50,
            "cache_read_input_tokens": read, "cache_creation_input_tokens": written});
        json!({"type": "assistant", "uuid": id, "sessionId": "s1", "message":
            {"id": id, "role": "assistant", "model": "claude-opus-4-8", "usage": usage,
                "diagnostics": diagnostics, "content": []}})
    };
    let reason = json!({"cache_miss_reason":
        {"type": "tools_changed", "cache_missed_input_tokens": 14_000}});
    let lines = [
        json!({"type": "user", "uuid": "u", "sessionId": "s1", "message": {"role": "user"}}),
        answer("msg_1", 0, 20_000, Value::Null),
        answer("msg_2", 5_000, 16_000, reason),
    ];
    let log = lines.map(|line| format!("{line}\n")).concat();
    let told = piped(&home, &["prefix", "analyze", "-"], &log).ok();
    for expected in [
        "2 requests in 1 conversation, 1 session named\n2 requests are known from the answers only",
        "tools_changed",
        "line 3 after line 2 (s1, claude-opus-4-8, by the provider's own comparison)",
        "15000 tokens paid for anew",
    ] {
        assert!(told.stdout.contains(expected), "{expected}\n{told}");
    }
    assert!(!told.stdout.contains("dedup"), "{told}");
    assert_eq!(told.stderr, "");
    let told = piped(&home, &["prefix", "analyze", "--json", "-"], &log).ok();
    assert_eq!(told.json()["logs"][0]["answers_only"], 2);
}
