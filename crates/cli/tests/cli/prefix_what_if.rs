//! `cachalot prefix whatif`: what other settings would have cost.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{CommandOutput, Home};

/// Transcripts that are made from public descriptions of the formats; none is a real one.
fn transcripts() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/transcripts");
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn output(command: &mut Command) -> CommandOutput {
    command.env("TZ", "UTC").output().unwrap().into()
}

fn what_if(home: &Home, arguments: &[&str]) -> CommandOutput {
    output(&mut home.command(&[&["prefix", "whatif"], arguments].concat()))
}

/// A conversation with a pause of so many minutes before each request, as Anthropic's cache treats it.
fn log(pauses: &[u64]) -> String {
    let (mut at, mut messages) = (1_800_000_000, Vec::new());
    let lines = pauses.iter().enumerate().map(|(number, pause)| {
        at += pause * 60;
        messages.push(json!({"role": "user", "content": format!("{number}")}));
        let request = json!({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages});
        messages.push(json!({"role": "assistant", "content": "Yes."}));
        let is_read = number > 0 && *pause <= 5;
        let (read, written) = if is_read { (100_000, 0) } else { (0, 100_000) };
        let usage = json!({
            "input_tokens": 10, "output_tokens": 10,
            "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
        });
        format!(
            "{}\n",
            json!({"at": at, "request": request, "response": {"usage": usage}})
        )
    });
    lines.collect()
}

fn policy<'d>(document: &'d Value, name: &str, until: Option<&str>) -> &'d Value {
    let policies = document["groups"][0]["policies"].as_array().unwrap();
    let mut policies = policies.iter();
    let found = policies.find(|policy| policy["policy"] == name && policy["until"] == json!(until));
    found.unwrap_or_else(|| panic!("no {name} in {document}"))
}

fn about(value: &Value, dollars: f64) -> bool {
    (value.as_f64().unwrap() - dollars).abs() < 1e-9
}

#[test]
fn transcripts_are_compared_by_program() {
    let home = Home::new();
    let shown = what_if(&home, &[&transcripts()]).ok();
    insta::assert_snapshot!(shown.stdout);
    assert_eq!(shown.stderr, "");
    let mut narrow = home.command(&["prefix", "whatif", &transcripts()]);
    let narrow = output(narrow.env("COLUMNS", "80")).ok();
    assert!(
        narrow.stdout.lines().all(|line| line.chars().count() <= 80),
        "{narrow}"
    );
    let document = what_if(&home, &[&transcripts(), "--json"]).ok().json();
    let first = &document["groups"][0];
    assert_eq!(
        (&first["client"], &first["answers"]),
        (&json!("Claude Code"), &json!(9))
    );
    assert_eq!(first["recommendation"], Value::Null);
    assert!(about(&first["usd"], 0.478_984), "{first}");
    let hour = policy(&document, "one_hour", None);
    assert!(about(&hour["change_usd"], 0.118_59), "{hour}");
    assert_eq!(document["groups"].as_array().unwrap().len(), 3);
}

#[test]
fn setting_is_recommended_if_it_would_have_saved() {
    let home = Home::new();
    // $0.375 to write 100,000 tokens, $0.03 to read them; with 10 tokens of input and of output.
    home.write("log.jsonl", log(&[0, 10, 10, 10, 2]));
    let shown = what_if(&home, &["log.jsonl"]).ok();
    insta::assert_snapshot!(shown.stdout);
    let document = what_if(&home, &["log.jsonl", "--json"]).ok().json();
    let answers = 5.0 * 0.000_18;
    let group = &document["groups"][0];
    assert!(
        about(&group["usd"], 4.0 * 0.375 + 0.03 + answers),
        "{group}"
    );
    let kept = policy(&document, "keep_alive", Some("15m"));
    // Six renewals, each with the 10 tokens after the prefix and one token of output.
    let expected = 0.375 + 4.0 * 0.03 + 6.0 * 0.030_045 + answers;
    assert!(about(&kept["usd"], expected), "{kept}");
    assert_eq!(kept["extra_requests"], 6);
    let hour = policy(&document, "one_hour", None);
    assert!(about(&hour["usd"], 0.6 + 4.0 * 0.03 + answers), "{hour}");
    let recommendation = &group["recommendation"];
    assert_eq!(recommendation["policy"], "keep_alive");
    // Two renewals in a pause: $0.06009, and the next two cents.
    let setting = "prefix.keep_alive: {until: 15m, max: $0.08}";
    assert_eq!(recommendation["setting"], setting);
    let file = setting.replace("prefix.keep_alive: ", "prefix: {keep_alive: ") + "}";
    home.write("gateway.yaml", file);
    home.run(&["validate", "gateway.yaml"]).ok();
    // One request after each pause: an hour is cheaper than renewals of many pauses.
    home.write("slow.jsonl", log(&[0, 50, 50, 50, 50]));
    let document = what_if(&home, &["slow.jsonl", "--json"]).ok().json();
    assert_eq!(
        document["groups"][0]["recommendation"]["policy"],
        "one_hour"
    );
    // Nothing helps without pauses.
    home.write("fast.jsonl", log(&[0, 1, 1, 1]));
    let shown = what_if(&home, &["fast.jsonl"]).ok();
    let nothing = "no setting would have saved anything: no pause outlasted the cache";
    assert!(shown.stdout.starts_with(nothing), "{shown}");
}

/// A session of pi with a pause of so many minutes before each answer, each of which writes the whole prompt.
fn pi(pauses: &[u64]) -> String {
    let mut minutes = 0;
    let head = json!({"type": "session", "version": 3, "id": "s", "cwd": "/home/ada"});
    let answers = pauses.iter().enumerate().map(|(number, pause)| {
        minutes += pause;
        let usage = json!({"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 200_000});
        let message = json!({
            "role": "assistant", "api": "anthropic-messages", "model": "claude-sonnet-4-5",
            "responseId": format!("r{number}"), "usage": usage,
        });
        let (hours, minutes) = (minutes / 60, minutes % 60);
        let at = format!("2027-01-15T{hours:02}:{minutes:02}:00.000Z");
        json!({"type": "message", "id": format!("m{number}"), "timestamp": at, "message": message})
    });
    let lines = std::iter::once(head).chain(answers);
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn each_program_has_a_recommendation_of_its_own() {
    let home = Home::new();
    home.write("logs/log.jsonl", log(&[0, 10, 10, 10, 2]));
    home.write("logs/pi.jsonl", pi(&[0, 50, 50, 50]));
    let shown = what_if(&home, &["logs"]).ok();
    insta::assert_snapshot!(shown.stdout);
    assert_eq!(shown.stderr, "");
    let document = what_if(&home, &["logs", "--json"]).ok().json();
    let groups = document["groups"].as_array().unwrap().iter();
    let settings: Vec<_> = groups
        .map(|group| group["recommendation"]["setting"].as_str().unwrap())
        .collect();
    assert_eq!(settings[0], "PI_CACHE_RETENTION=long");
    assert!(settings[1].starts_with("prefix.keep_alive"), "{settings:?}");
}

#[test]
fn log_is_read_from_stdin_and_defects_are_named() {
    let home = Home::new();
    let mut command = home.command(&["prefix", "whatif", "-", "--json"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"a\": 1}\n").unwrap();
    stdin.write_all(log(&[0, 10]).as_bytes()).unwrap();
    drop(stdin);
    let shown: CommandOutput = child.wait_with_output().unwrap().into();
    let shown = shown.ok();
    assert_eq!(shown.json()["groups"][0]["answers"], 2);
    assert!(shown.stderr.contains("stdin: line 1: "), "{shown}");
}

#[test]
fn answers_without_a_time_are_named() {
    let home = Home::new();
    let timeless = log(&[0]).replace("\"at\":", "\"when\":");
    home.write("log.jsonl", timeless.clone() + &log(&[0, 10]));
    let shown = what_if(&home, &["log.jsonl"]).ok();
    let named = "Left out: 1 answer (the time is not recorded).";
    assert!(shown.stdout.contains(named), "{shown}");
    home.write("log.jsonl", timeless);
    let refused = what_if(&home, &["log.jsonl"]).fails(1);
    assert!(
        refused.stderr.contains("the time is not recorded"),
        "{refused}"
    );
    what_if(&home, &["absent.jsonl"]).fails(1);
}

#[test]
fn period_and_project_select_requests() {
    let home = Home::new();
    let place = transcripts();
    let answers = |options: &[&str]| {
        let arguments = [&[&place, "--json"], options].concat();
        let document = what_if(&home, &arguments).ok().json();
        let groups = document["groups"].as_array().unwrap().iter();
        let answers = groups.map(|group| group["answers"].as_u64().unwrap());
        answers.sum::<u64>()
    };
    assert_eq!(answers(&[]), 14);
    assert_eq!(
        answers(&["--since", "2026-11-19", "--until", "2026-11-19"]),
        3
    );
    assert_eq!(answers(&["--project", "ada/api"]), 3);
}

#[test]
fn transcripts_are_found_where_programs_keep_them() {
    let home = Home::new();
    let mut command = home.command(&["prefix", "whatif", "--json"]);
    let command = command.env("CLAUDE_CONFIG_DIR", format!("{}/claude", transcripts()));
    let document = output(command).ok().json();
    assert_eq!(document["groups"][0]["answers"], 9);
}
