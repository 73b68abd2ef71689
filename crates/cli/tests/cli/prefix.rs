//! `cachalot prefix`: what is said of logs, and of what is to be sent.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL, session};
use crate::support::{CommandOutput, Home};

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

fn piped(home: &Home, arguments: &[&str], input: &str) -> CommandOutput {
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
fn prefix_analyze_names_the_cause_of_every_break() {
    let home = Home::new();
    let reported = home
        .run(&["prefix", "analyze", "--json", &example()])
        .ok()
        .json();
    let log = &reported["logs"][0];
    assert_eq!(
        (&log["requests"], &log["conversations"]),
        (&json!(15), &json!(4))
    );
    let mut found = causes(&reported);
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
fn prefix_analyze_prints_causes_costs_and_remedies() {
    let home = Home::new();
    let reported = home.run(&["prefix", "analyze", &example()]).ok();
    for expected in [
        "15 requests in 4 conversations",
        "dedup ratio",
        "system_changed: a time of day in the prefix · 2 times",
        "`Conversation started: Saturday 08:41`\n     became `Conversation started: Saturday 08:43`",
        "Remove the time from the prefix",
        "the parameter `reasoning_effort`",
        "became `[old tool result cleared]`",
    ] {
        assert!(reported.stdout.contains(expected), "{expected}\n{reported}");
    }
    assert_eq!(reported.stderr, "");
    home.run(&["prefix", "analyze", "--strict", &example()])
        .fails(1);
}

#[test]
fn prefix_analyze_reads_stdin_and_reports_invalid_lines() {
    let home = Home::new();
    let body = json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]});
    let log = format!("{body}\nnonsense\n");
    let reported = piped(&home, &["prefix", "analyze", "--strict", "-"], &log).ok();
    assert!(reported.stdout.contains("no prefix breaks"), "{reported}");
    assert!(
        reported.stderr.contains("-, line 2: it is not JSON"),
        "{reported}"
    );
    let missing = home.run(&["prefix", "analyze", "no.jsonl"]).fails(1);
    assert!(missing.stderr.contains("no.jsonl"), "{missing}");
}

#[test]
fn prefix_analyze_masks_credential_like_texts() {
    let home = Home::new();
    let body = |key: &str| {
        json!({"session": "s", "request": {"model": "gpt-4.1", "messages": [
            {"role": "system", "content": format!("You help. The key is sk-proj-{key}, use it.")},
            {"role": "user", "content": "a question"}]}})
    };
    let key = |letter: &str| letter.repeat(40);
    let log = format!("{}\n{}\n", body(&key("a1")), body(&key("b2")));
    let reported = piped(&home, &["prefix", "analyze", "-"], &log).ok();
    assert!(reported.stdout.contains("system_changed"), "{reported}");
    assert!(
        !reported.stdout.contains("a1a1") && !reported.stdout.contains("b2b2"),
        "{reported}"
    );
}

#[test]
fn prefix_lint_checks_a_request() {
    let home = Home::new();
    let system = format!("It is 10:41.\n{}", "You help. ".repeat(1_000));
    let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 5, "system": system,
        "messages": [{"role": "user", "content": "hi"}]});
    home.write("request.json", serde_json::to_string_pretty(&body).unwrap());
    let reported = home.run(&["prefix", "lint", "request.json"]).fails(2);
    assert!(reported.stderr.contains("timestamp"), "{reported}");
    assert!(reported.stderr.contains("request.json:4:"), "{reported}");
    assert!(reported.stderr.contains("no-markers"), "{reported}");
    let reported = home
        .run(&["prefix", "lint", "--json", "request.json"])
        .fails(2)
        .json();
    assert_eq!(reported["problems"][0]["code"], "timestamp");
    assert_eq!(reported["problems"][0]["line"], 4);
    let short = json!({"model": "claude-sonnet-4-5", "max_tokens": 5, "messages": [
        {"role": "user", "content": "hi"}]});
    let reported = piped(&home, &["prefix", "lint", "-"], &short.to_string()).ok();
    assert!(
        reported
            .stderr
            .contains("caches no prefix of less than 1024"),
        "{reported}"
    );
}

#[test]
fn prefix_lint_finds_volatile_text_in_an_agent_file() {
    let home = Home::new();
    let agent = |instruction: &str| {
        format!(
            "agents:\n  root:\n    model: gpt-4.1\n    instruction: |\n      You help.\n      {instruction}\n"
        )
    };
    home.write("good.yaml", agent("Be kind."));
    let reported = home.run(&["prefix", "lint", "good.yaml"]).ok();
    assert!(reported.stderr.contains("no problems"), "{reported}");
    for (instruction, code) in [
        ("It is 2026-11-21T10:41:00Z.", "timestamp"),
        (
            "Session 3f2b8c1e-9d4a-4c6b-8e21-5a7d0f3b9c42.",
            "identifier",
        ),
        ("Today is {{ now() }}.", "timestamp"),
    ] {
        home.write("bad.yaml", agent(instruction));
        let reported = home.run(&["prefix", "lint", "bad.yaml"]).fails(2);
        assert!(reported.stderr.contains(code), "{reported}");
        assert!(reported.stderr.contains("bad.yaml:6:"), "{reported}");
    }
    home.write("broken.yaml", "agents: [");
    home.run(&["prefix", "lint", "broken.yaml"]).fails(2);
}

#[test]
fn prefix_lint_masks_credentials_and_accepts_plain_dates() {
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
            let reported = home.run(&arguments).fails(2);
            let all = format!("{}{}", reported.stdout, reported.stderr);
            assert!(all.contains("a credential in the prefix"), "{reported}");
            assert!(all.contains("a time of day"), "{reported}");
            assert!(
                !all.contains("EFGH") && !all.contains("hunter2"),
                "{reported}"
            );
        }
    }
    let plain = json!({"model": "gpt-4.1", "messages": [
        {"role": "system", "content": "Known until 2024-10-01. Office hours 09:00."},
        {"role": "user", "content": "hi"}]});
    let reported = piped(&home, &["prefix", "lint", "-"], &plain.to_string()).ok();
    assert!(reported.stderr.contains("`2024-10-01`"), "{reported}");
}

/// An agent whose instruction is long enough to be kept by the provider.
fn long_agent(model: &str, more: &str) -> String {
    let instruction = "Answer briefly. ".repeat(400);
    format!("agents:\n  root:\n    model: {model}\n    instruction: '{instruction}'\n{more}")
}

#[test]
fn why_shows_cost_and_prefix_of_the_last_answer_of_a_session() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
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
    let reported = home.run(&["why", &name]).ok().stdout;
    assert!(
        reported.starts_with("openai/gpt-4o: paid, ") && reported.contains(&name),
        "{reported}"
    );
    let read = reported
        .lines()
        .find(|line| line.contains("read from its cache"));
    let read = read.unwrap().rsplit(' ').next().unwrap().replace(',', "");
    let read: u64 = read.parse().unwrap();
    assert!(read >= 1_024, "{reported}");
    assert!(
        !reported.contains("could have read"),
        "nothing was lost: {reported}"
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
    let reported = home.run(&["why", &name]).ok().stdout;
    assert!(
        reported.starts_with("openai/gpt-4o-mini: paid, ") && reported.contains("model_changed"),
        "{reported}"
    );
    // What an entry could have answered is something else.
    home.run(&["why"]).fails(1);
    let stats = home.run(&["cache", "stats"]).ok().stdout;
    let (calls, models) = stats.split_once("Answers of models").unwrap();
    assert!(
        !calls.contains("openai") && models.contains("openai/gpt-4o-mini"),
        "{stats}"
    );
}

#[test]
fn prefix_analyze_computes_losses_from_the_usage_of_a_transcript() {
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
    let reported = piped(&home, &["prefix", "analyze", "-"], &log).ok();
    for expected in [
        "2 requests in 1 conversation, 1 session named; 1 prefix breaks, 15,000 tokens paid for anew · $0.09\n2 requests are known from the answers only",
        "  1  tools_changed  unknown           1  15,000  $0.09\n",
        "tools_changed",
        "line 3 after line 2 (s1, claude-opus-4-8, by the provider's own comparison)",
        "15,000 tokens paid for anew",
    ] {
        assert!(reported.stdout.contains(expected), "{expected}\n{reported}");
    }
    assert!(!reported.stdout.contains("dedup"), "{reported}");
    assert_eq!(reported.stderr, "");
    let reported = piped(&home, &["prefix", "analyze", "--json", "-"], &log).ok();
    assert_eq!(reported.json()["logs"][0]["answers_only"], 2);
}

#[test]
fn folder_with_transcripts_is_analyzed_as_one_log() {
    let home = Home::new();
    let transcripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts");
    let folder = transcripts.join("claude-code");
    let folder = folder.to_str().unwrap();
    let reported = home.run(&["prefix", "analyze", "--json", folder]).ok();
    let missing = "the message 76f7e0942250… of the recorded request is not in the file";
    assert!(!reported.stderr.contains(missing), "{}", reported.stderr);
    let document = reported.json();
    let log = &document["logs"][0];
    // Six requests of the resumed session and its fork, three of the compacted one and its fork, four of the one with a
    // sub-agent (two without a message), and one of a session with a hook.
    assert_eq!(log["requests"], json!(14));
    assert_eq!(log["reconstructed"], json!(12));
    assert_eq!(log["answers_only"], json!(2));
    assert_eq!(log["no_requests"]["count"], json!(2));
    let reason = log["no_requests"]["first"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("tool_and_subagent/"), "{reason}");
    assert!(reason.ends_with(missing), "{reason}");

    let shown = home.run(&["prefix", "analyze", folder]).ok();
    let text = "12 requests are reconstructed from their parts in transcripts";
    assert!(shown.stdout.contains(text), "{}", shown.stdout);
    assert!(shown.stderr.contains(missing), "{}", shown.stderr);
    // Codex leaves answers only: of five sessions, two of which are forks.
    let codex = transcripts.join("codex");
    let reported = home.run(&["prefix", "analyze", "--json", codex.to_str().unwrap()]);
    let log = &reported.ok().json()["logs"][0];
    assert_eq!(
        (&log["requests"], &log["answers_only"]),
        (&json!(10), &json!(10))
    );
    let empty = home.run(&["prefix", "analyze", home.path().to_str().unwrap()]);
    assert!(empty.fails(1).stderr.contains("holds no request"));
}
