//! `cachalot prefix plan`: what the same requests would have cost.

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};

/// A length at which everything else is negligible: 100,000 tokens.
const LONG: usize = 400_000;

fn log(requests: &[Value]) -> String {
    requests
        .iter()
        .map(|request| format!("{request}\n"))
        .collect()
}

/// Requests with the same long system text, so many seconds apart.
fn asked(model: &str, times: u64, seconds: u64) -> String {
    let system = "s".repeat(LONG);
    let requests: Vec<Value> = (0..times)
        .map(|number| {
            let request = if model.starts_with("claude") { json!({
                "model": model, "max_tokens": 10, "system": system,
                "messages": [{"role": "user", "content": format!("{number}")}],
            }) } else { json!({
                "model": model, "prompt_cache_key": "k",
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": format!("{number}")}],
            }) };
            json!({"at": 1_800_000_000 + number * seconds, "request": request})
        })
        .collect();
    log(&requests)
}

/// The requests of a conversation, so many seconds apart.
fn conversation(turns: u64, seconds: u64) -> String {
    let system = "s".repeat(LONG);
    let mut messages = Vec::new();
    let requests: Vec<Value> = (0..turns)
        .map(|number| {
            messages.push(json!({"role": "user", "content": format!("{number}")}));
            let request = json!({
                "model": "claude-sonnet-4-5", "max_tokens": 10, "system": system,
                "messages": messages,
            });
            messages.push(json!({"role": "assistant", "content": "Yes."}));
            json!({"at": 1_800_000_000 + number * seconds, "request": request})
        })
        .collect();
    log(&requests)
}

/// The cost of each plan, in dollars.
fn plans(home: &Home, log: &str, more: &[&str]) -> Vec<(String, f64)> {
    home.write("log.jsonl", log);
    let reported = home
        .run(&[&["prefix", "plan", "--json", "log.jsonl"], more].concat())
        .ok()
        .json();
    let plans = reported["models"][0]["plans"].as_array().unwrap().clone();
    let named = plans.iter().map(|plan| {
        assert_eq!(plan["refused"], 0, "{reported}");
        (
            plan["plan"].as_str().unwrap().to_owned(),
            plan["dollars"].as_f64().unwrap(),
        )
    });
    named.collect()
}

fn cost(plans: &[(String, f64)], name: &str) -> f64 {
    let found = plans.iter().find(|(plan, _)| plan == name);
    found.unwrap_or_else(|| panic!("no {name} in {plans:?}")).1
}

fn about(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 0.001
}

#[test]
fn plan_reproduces_the_published_prices_of_anthropic() {
    let home = Home::new();
    // 100,000 tokens at 3 $ per million: 1.25 times as much to write for five minutes, twice as much
    // for an hour, a tenth to read.
    let plain = 0.3;
    for (requests, five, hour) in [(1, 1.25, 2.0), (2, 1.35, 2.1), (3, 1.45, 2.2)] {
        let plans = plans(&home, &asked("claude-sonnet-4-5", requests, 60), &[]);
        #[expect(clippy::cast_precision_loss)]
        let without = plain * requests as f64;
        assert!(about(cost(&plans, "without"), without), "{plans:?}");
        assert!(
            about(cost(&plans, "as sent"), without),
            "it had no markers: {plans:?}"
        );
        assert!(about(cost(&plans, "5m"), plain * five), "{plans:?}");
        assert!(about(cost(&plans, "1h"), plain * hour), "{plans:?}");
        // Five minutes pay from the second request on, an hour from the third.
        assert_eq!(cost(&plans, "5m") < without, requests >= 2, "{plans:?}");
        assert_eq!(cost(&plans, "1h") < without, requests >= 3, "{plans:?}");
    }
}

#[test]
fn requests_after_ten_minutes_need_an_hour_lifetime() {
    let home = Home::new();
    let plans = plans(&home, &conversation(4, 600), &[]);
    assert!(about(cost(&plans, "5m"), 0.3 * 5.0), "{plans:?}");
    assert!(about(cost(&plans, "1h"), 0.3 * 2.3), "{plans:?}");
    // An hour from the first pause on: written once for five minutes, and once for an hour.
    assert!(about(cost(&plans, "auto"), 0.3 * 3.45), "{plans:?}");
}

/// The requests of a conversation in the format `responses`, two hours apart.
fn slow_conversation(model: &str) -> String {
    let mut input = vec![json!({"role": "developer", "content": "s".repeat(LONG)})];
    let requests: Vec<Value> = (0..5)
        .map(|number: u64| {
            input.push(json!({"role": "user", "content": format!("{number}")}));
            let request = json!({"model": model, "prompt_cache_key": "k", "input": input});
            input.push(json!({"role": "assistant", "content": "Yes."}));
            json!({"at": 1_800_000_000 + number * 7_200, "request": request})
        })
        .collect();
    log(&requests)
}

#[test]
fn plan_says_where_twelve_hours_pay() {
    let home = Home::new();
    let plans_of = plans(&home, &slow_conversation("gpt-5.6"), &[]);
    // Of the plain price of a request: 1.25 to write for half an hour, 2.5 for twelve hours, 0.1 to read.
    let plain = cost(&plans_of, "without") / 5.0;
    assert!(
        about(cost(&plans_of, "5m"), plain * 1.25 * 5.0),
        "{plans_of:?}"
    );
    assert!(
        about(cost(&plans_of, "12h"), plain * (2.5 + 0.1 * 4.0)),
        "{plans_of:?}"
    );
    // Twelve hours after two such pauses.
    let auto = plain * (1.25 * 2.0 + 2.5 + 0.1 * 2.0);
    assert!(about(cost(&plans_of, "auto"), auto), "{plans_of:?}");
    let reported = home.run(&["prefix", "plan", "log.jsonl"]).ok().stdout;
    assert!(
        reported.contains("set `prefix: {ttl: 12h}` of the agent"),
        "{reported}"
    );
    // The price of such a write is not known for every model.
    home.write("log.jsonl", slow_conversation("gpt-5.9-unlisted"));
    let reported = home
        .run(&["prefix", "plan", "--json", "log.jsonl"])
        .ok()
        .json();
    let plans = reported["models"][0]["plans"].as_array().unwrap();
    let names: Vec<&Value> = plans.iter().map(|plan| &plan["plan"]).collect();
    assert_eq!(names, ["as sent", "auto", "without"]);
}

#[test]
fn plan_reproduces_the_published_prices_of_openai() {
    let home = Home::new();
    // gpt-5.6: r + (w - r) / N of the plain price, with w = 1.25 and r = 0.1.
    let ours = plans(&home, &asked("gpt-5.6", 4, 60), &[]);
    let factor = cost(&ours, "auto") / cost(&ours, "without");
    assert!(about(factor, 0.1 + 1.15 / 4.0), "{factor}: {ours:?}");
    // Who caches by itself is asked nothing.
    let automatic = plans(&home, &asked("gpt-4.1", 4, 60), &[]);
    let names: Vec<&str> = automatic.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["automatic", "without"]);
    let factor = cost(&automatic, "automatic") / cost(&automatic, "without");
    assert!(
        (0.4..0.5).contains(&factor),
        "three of four at a quarter: {factor}"
    );
}

#[test]
fn plan_prices_a_log_for_another_model() {
    let home = Home::new();
    let log = asked("claude-sonnet-4-5", 2, 60);
    let sonnet = plans(&home, &log, &[]);
    let opus = plans(&home, &log, &["--model", "anthropic/claude-opus-4-5"]);
    assert!(
        about(cost(&opus, "5m") / cost(&sonnet, "5m"), 5.0 / 3.0),
        "{opus:?}"
    );
    let wrong = home.run(&[
        "prefix",
        "plan",
        "log.jsonl",
        "--model",
        "anthropic/claude-opus-4-55",
    ]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("claude-opus-4-5"), "{}", wrong.stderr);
    let nameless = home.run(&["prefix", "plan", "log.jsonl", "--model", "opus"]);
    assert!(
        nameless.code == Some(2) && nameless.stderr.contains("provider/model"),
        "{}",
        nameless.stderr
    );
}

#[test]
fn plan_describes_a_session_and_the_example_log() {
    let home = Home::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/requests.jsonl");
    let reported = home
        .run(&["prefix", "plan", examples.to_str().unwrap()])
        .ok()
        .stdout;
    assert!(
        reported.starts_with(
            "anthropic/claude-sonnet-4-5, 8 requests: `as sent` is cheapest, $0.03: keep the markers as they are\n\n"
        ),
        "{reported}"
    );
    assert!(
        reported.contains("as sent  $0.03          2,889    8,221         0  cheapest\n"),
        "{reported}"
    );
    assert!(
        reported.contains("1h       $0.04   +34 %  4,258    6,852         0\n"),
        "{reported}"
    );
    assert!(reported.contains("published rules"), "{reported}");

    let provider = Provider::scripted(SCRIPTED_MODEL);
    home.write("agent.yaml", SHELL);
    let name = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
    home.ask(&provider, &["agent.yaml", "--session", &name], "again")
        .ok();
    let plan = || home.run(&["prefix", "plan", &name]).ok().stdout;
    let reported = plan();
    assert!(
        reported.contains("2 requests") && !reported.contains("lie between"),
        "{reported}"
    );
    // Without the ledger, the times are not known.
    let ledger = home.join("data/cachalot/cachalot.db.ledger");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", ledger.display()));
    }
    let reported = plan();
    assert!(reported.contains("60 s lie between"), "{reported}");

    let neither = home.run(&["prefix", "plan", "nothing-like-it"]);
    assert_eq!(neither.code, Some(1));
    assert!(
        neither.stderr.contains("neither a file nor a session"),
        "{}",
        neither.stderr
    );
    home.write("empty.jsonl", "");
    let empty = home.run(&["prefix", "plan", "empty.jsonl"]);
    assert!(
        empty.code == Some(1) && empty.stderr.contains("no request"),
        "{}",
        empty.stderr
    );
    home.write("odd.jsonl", "{}\n");
    let odd = home.run(&["prefix", "plan", "odd.jsonl"]);
    assert!(odd.stderr.contains("line 1"), "{}", odd.stderr);
}

#[test]
fn plan_accepts_a_pipe_as_log_and_refuses_a_directory() {
    let (home, log) = (Home::new(), asked("claude-sonnet-4-5", 2, 60));
    home.write("log.jsonl", &log);
    let reported = home.run(&["prefix", "plan", "log.jsonl"]).ok().stdout;
    let mut command = home.command(&["prefix", "plan", "/dev/stdin"]);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that fails does not read it.
    let _ = stdin.write_all(log.as_bytes());
    drop(stdin);
    let ran = CommandOutput::from(child.wait_with_output().unwrap()).ok();
    assert_eq!(ran.stdout, reported);
}

#[test]
fn a_missing_file_is_reported() {
    let home = Home::new();
    home.write("folder/log.jsonl", "");
    for wrong in ["loog.jsonl", "folder/log"] {
        let ran = home.run(&["prefix", "plan", wrong]).fails(1);
        let expected = format!("there is no file `{wrong}`");
        assert!(ran.stderr.contains(&expected), "{ran}");
    }
    let ran = home.run(&["prefix", "plan", "./folder"]).fails(1);
    assert!(ran.stderr.contains("`./folder` is a directory"), "{ran}");
}

#[test]
fn plan_names_invalid_lines_up_to_a_limit() {
    let home = Home::new();
    let log = asked("claude-sonnet-4-5", 1, 60) + &"{}\n".repeat(8);
    home.write("log.jsonl", log);
    let ran = home.run(&["prefix", "plan", "log.jsonl"]).ok();
    let warnings: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(warnings.len(), 6, "{ran}");
    for (at, warning) in warnings[..5].iter().enumerate() {
        let place = format!("log.jsonl: line {}: ", at + 2);
        assert!(warning.contains(&place), "{ran}");
    }
    assert!(warnings[5].contains("log.jsonl: 3 more"), "{ran}");
}

/// A conversation of two requests, as its client has sent it.
fn twice(one: &Value, more: &[Value]) -> String {
    let mut other = one.clone();
    let name = if one["input"].is_array() {
        "input"
    } else {
        "messages"
    };
    other[name]
        .as_array_mut()
        .unwrap()
        .extend(more.iter().cloned());
    log(&[one.clone(), other])
}

#[test]
fn plan_charges_thinking_blocks_of_real_models() {
    let home = Home::new();
    let system = "s".repeat(LONG);
    let claude = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 9000, "system": system,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "messages": [{"role": "user", "content": "one"}],
    });
    let thought = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I think.", "signature": "EqQBCkYIBRgCKkBreal"},
        {"type": "text", "text": "1"},
    ]});
    let log = twice(
        &claude,
        &[thought, json!({"role": "user", "content": "two"})],
    );
    let reported = plans(&home, &log, &[]);
    assert!(
        cost(&reported, "5m") < cost(&reported, "without"),
        "{reported:?}"
    );

    let gpt = json!({
        "model": "gpt-5", "instructions": system, "store": false, "include": ["reasoning.encrypted_content"],
        "input": [{"role": "user", "content": "one"}],
    });
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABreal=="});
    let said = json!({"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
        "content": [{"type": "output_text", "text": "1", "annotations": []}]});
    let log = twice(
        &gpt,
        &[thought, said, json!({"role": "user", "content": "two"})],
    );
    let reported = plans(&home, &log, &[]);
    assert!(
        cost(&reported, "automatic") < cost(&reported, "without"),
        "{reported:?}"
    );
}

#[test]
fn markers_are_charged_by_the_rules_of_their_provider() {
    let home = Home::new();
    let part = |text: &str, marker: Value| {
        let mut part = json!({"type": "text", "text": text});
        part.as_object_mut()
            .unwrap()
            .extend(marker.as_object().unwrap().clone());
        json!([part])
    };
    let long = "s".repeat(LONG);
    let follow = [
        json!({"role": "assistant", "content": "1"}),
        json!({"role": "user", "content": "two"}),
    ];
    // OpenAI's own.
    let point = json!({"prompt_cache_breakpoint": {"mode": "explicit"}});
    let gpt = json!({"model": "gpt-5.6", "prompt_cache_options": {"mode": "explicit"}, "messages": [
        {"role": "system", "content": part(&long, point)}, {"role": "user", "content": "one"},
    ]});
    let reported = plans(&home, &twice(&gpt, &follow), &[]);
    let factor = cost(&reported, "as sent") / cost(&reported, "without");
    assert!(about(factor, (1.25 + 0.1) / 2.0), "{factor}: {reported:?}");

    // Anthropic's through a gateway.
    let control = json!({"cache_control": {"type": "ephemeral"}});
    let claude = json!({"model": "anthropic/claude-sonnet-4.5", "messages": [
        {"role": "system", "content": part(&long, control)}, {"role": "user", "content": "one"},
    ]});
    let reported = plans(&home, &twice(&claude, &follow), &[]);
    let factor = cost(&reported, "as sent") / cost(&reported, "without");
    assert!(about(factor, (1.25 + 0.1) / 2.0), "{factor}: {reported:?}");
}

#[test]
fn requests_without_a_price_are_not_free() {
    let home = Home::new();
    home.write("log.jsonl", log(&[json!({"model": "claude-sonnet-4-5", "max_tokens": "many", "messages": [{"role": "user", "content": "x"}]})]));
    let reported = home.run(&["prefix", "plan", "log.jsonl"]).ok().stdout;
    assert!(
        reported.contains("\n5m       refused  ") && !reported.contains("$0"),
        "{reported}"
    );
    let reported = home
        .run(&["prefix", "plan", "--json", "log.jsonl"])
        .ok()
        .json();
    assert!(
        reported["models"][0]["plans"][0]["dollars"].is_null(),
        "{reported}"
    );
    // A request that names no model, and one without what only Anthropic asks for.
    let nameless = json!({"messages": [{"role": "user", "content": "x"}]});
    let bare = json!({"model": "claude-sonnet-4-5", "system": "s", "messages": [{"role": "user", "content": "x"}]});
    home.write("log.jsonl", log(&[nameless, bare]));
    let reported = home.run(&["prefix", "plan", "log.jsonl"]).ok();
    assert!(reported.stderr.contains("names no model"), "{reported}");
    assert!(
        reported
            .stdout
            .contains(", 1 request: `as sent` is cheapest, ")
            && !reported.stdout.contains("refused"),
        "{reported}"
    );
}

#[test]
fn a_session_with_a_model_that_takes_breakpoints_is_charged() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let instruction = "Answer briefly. ".repeat(400);
    home.write(
        "agent.yaml",
        format!("agents:\n  root:\n    model: openai/gpt-5.6\n    instruction: '{instruction}'\n"),
    );
    let name = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
    home.ask(&provider, &["agent.yaml", "--session", &name], "again")
        .ok();
    let reported = home.run(&["prefix", "plan", "--json", &name]).ok().json();
    let plans = &reported["models"][0]["plans"];
    assert_eq!(plans[0]["refused"], 0, "{reported}");
    assert!(plans[0]["read"].as_u64().unwrap() > 1_024, "{reported}");
}

#[test]
fn plan_refuses_a_model_of_another_format() {
    let home = Home::new();
    // A chat for one of Anthropic's models goes through a gateway, and by Anthropic's rules.
    let reported = plans(
        &home,
        &asked("gpt-4.1", 2, 60),
        &["--model", "anthropic/claude-sonnet-4-5"],
    );
    assert!(about(cost(&reported, "5m"), 0.3 * 1.35), "{reported:?}");
    home.write("log.jsonl", asked("claude-sonnet-4-5", 2, 60));
    let refused = home.run(&["prefix", "plan", "log.jsonl", "--model", "openai/gpt-4.1"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("2 requests are left out"),
        "{}",
        refused.stderr
    );
}

#[test]
fn plan_charges_requests_in_sending_order() {
    let home = Home::new();
    let log = asked("claude-sonnet-4-5", 3, 60);
    let mut lines: Vec<&str> = log.lines().collect();
    lines.reverse();
    let backwards = lines.join("\n");
    assert_eq!(plans(&home, &log, &[]), plans(&home, &backwards, &[]));
    // One that failed kept nothing for the next.
    let failed = log.lines().enumerate().map(|(at, line)| match at {
        0 => line.replacen(
            '{',
            "{\"response\": {\"error\": {\"type\": \"overloaded_error\"}}, ",
            1,
        ),
        _ => line.to_owned(),
    });
    let failed: Vec<String> = failed.collect();
    let reported = plans(&home, &failed.join("\n"), &[]);
    assert!(about(cost(&reported, "without"), 0.6), "{reported:?}");
}

#[test]
fn session_is_charged_with_the_pauses_of_the_ledger() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let instruction = "Answer briefly. ".repeat(600);
    home.write(
        "agent.yaml",
        format!(
            "agents: {{root: {{model: anthropic/claude-sonnet-4-5, instruction: '{instruction}'}}}}\n"
        ),
    );
    let ask = |arguments: &[&str]| {
        let arguments = [&["agent.yaml"], arguments].concat();
        home.ask_with(&provider, &arguments, b"hello", |command| {
            command.env("ANTHROPIC_API_KEY", "sk-x");
        })
        .ok()
    };
    let name = session(&ask(&[]));
    for _ in 0..2 {
        ask(&["--session", &name]);
    }
    let ledger = home.join("data/cachalot/cachalot.db.ledger");
    let read = |seconds: i64| {
        let ledger = rusqlite::Connection::open(&ledger).unwrap();
        let changed = ledger.execute(
            "UPDATE calls SET at = (SELECT min(at) FROM calls) + 1000 * ?1 * \
             (SELECT count(*) FROM calls AS earlier WHERE earlier.kind = 'prefix' AND earlier.id < calls.id) \
             WHERE kind = 'prefix'",
            [seconds],
        );
        assert_eq!(changed.unwrap(), 3);
        drop(ledger);
        let reported = home.run(&["prefix", "plan", "--json", &name]).ok().json();
        assert_eq!(reported["assumed_seconds_between"], Value::Null);
        let plans = reported["models"][0]["plans"].as_array().unwrap().clone();
        ["5m", "1h"].map(|wanted| {
            let plan = plans.iter().find(|plan| plan["plan"] == wanted).unwrap();
            plan["read"].as_u64().unwrap() > 0
        })
    };
    assert_eq!(read(60), [true, true]);
    // Five minutes are over after each request, an hour is not.
    assert_eq!(read(1_200), [false, true]);
    assert_eq!(read(7_200), [false, false]);
}
