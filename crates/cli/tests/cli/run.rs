//! `cachalot run`: twice, and what is said where.

use serde_json::{Value, json};

use crate::support::{CommandOutput, Home, MARKING, Server};

#[test]
fn second_run_hits_and_reports_savings() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let first = home
        .run(&["run", "agent.yaml", "--input", "text=hello"])
        .ok();
    assert_eq!(first.json()["answer"]["_cache_hit"], false, "{first}");
    assert!(first.stderr.contains("paid 1 call, "), "{first}");
    assert!(first.stderr.contains("saved 0 s"), "{first}");
    let second = home
        .run(&["run", "agent.yaml", "--input", "text=hello"])
        .ok();
    assert_eq!(second.json()["answer"]["_cache_hit"], true, "{second}");
    assert_eq!(second.json()["answer"]["result"]["stdout"], "hello");
    assert!(
        second.stderr.contains("paid 0 calls, 0 s · saved "),
        "{second}"
    );
    assert_eq!(home.runs(), 1);
    let line = second
        .stderr
        .lines()
        .find(|line| line.starts_with("work"))
        .unwrap();
    assert!(
        line.contains("hit") && line.contains("cache:marking:shell.run:"),
        "{line}"
    );
}

#[test]
fn stdout_contains_the_state_only() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    for arguments in [
        &["run", "agent.yaml", "-i", "text=x"][..],
        &["run", "agent.yaml", "-i", "text=x", "-v"],
        &["run", "agent.yaml", "-i", "text=x", "-q"],
    ] {
        let ran = home.run(arguments).ok();
        assert_eq!(ran.json()["text"], "x", "{ran}");
    }
    let quiet = home.run(&["run", "agent.yaml", "-i", "text=x", "-q"]).ok();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn output_is_not_colored_without_a_terminal() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let ran = home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    assert!(
        !ran.stderr.contains('\u{1b}') && !ran.stdout.contains('\u{1b}'),
        "{ran}"
    );
}

#[test]
fn modes_of_the_command_line_override_the_file() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let frozen = home
        .run(&["run", "agent.yaml", "-i", "text=x", "--frozen"])
        .fails(1);
    assert!(frozen.stderr.contains("frozen"), "{frozen}");
    assert_eq!(home.runs(), 0);
    home.run(&["run", "agent.yaml", "-i", "text=x", "--no-cache"])
        .ok();
    home.run(&["run", "agent.yaml", "-i", "text=x", "--no-cache"])
        .ok();
    assert_eq!(home.runs(), 2);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    assert_eq!(home.runs(), 3);
    home.run(&["run", "agent.yaml", "-i", "text=x", "--refresh"])
        .ok();
    assert_eq!(home.runs(), 4);
    home.run(&["run", "agent.yaml", "-i", "text=x", "--frozen"])
        .ok();
    assert_eq!(home.runs(), 4);
    home.run(&["run", "agent.yaml", "--frozen", "--refresh"])
        .fails(2);
}

#[test]
fn plan_reports_misses_and_makes_no_calls() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let before = home
        .run(&["run", "agent.yaml", "-i", "text=x", "--plan"])
        .ok();
    assert!(
        before.stdout.contains("work") && before.stdout.contains("pay"),
        "{before}"
    );
    assert_eq!(home.runs(), 0);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let after = home
        .run(&["run", "agent.yaml", "-i", "text=x", "--plan"])
        .ok();
    assert!(after.stdout.contains("hit"), "{after}");
    assert_eq!(home.runs(), 1);
}

#[test]
fn json_and_ndjson_contain_the_report() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    let ran = home
        .run(&["run", "agent.yaml", "-i", "text=x", "--json"])
        .ok()
        .json();
    assert_eq!(ran["report"]["paid"]["calls"], 1);
    assert_eq!(ran["state"]["answer"]["result"]["stdout"], "x");
    let ran = home
        .run(&["run", "agent.yaml", "-i", "text=x", "--ndjson"])
        .ok();
    let events: Vec<serde_json::Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.first().unwrap()["event"], "started");
    assert!(
        events
            .iter()
            .any(|event| event["event"] == "answered" && event["outcome"] == "hit")
    );
    let answered = events.iter().find(|event| event["event"] == "answered");
    let answered = answered.unwrap();
    assert_eq!(
        answered.get("ms"),
        None,
        "how long it took is not known yet"
    );
    assert!(answered["saved_ms"].as_f64().unwrap() > 0.0, "{answered}");
    let finished = events.iter().find(|event| event["event"] == "finished");
    assert!(finished.unwrap()["ms"].as_f64().unwrap() > 0.0);
    let last = events.last().unwrap();
    assert_eq!(last["event"], "done");
    assert_eq!(last["state"]["answer"]["_cache_hit"], true);
}

#[test]
fn failing_step_is_reported_with_its_place_and_exit_code_1() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "name: failing\nnodes:\n  - name: boom\n    uses: shell.run\n    with:\n      command: [\"sh\", \"-c\", \"echo oops >&2; exit 3\"]\n",
    );
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr.contains("boom") && ran.stderr.contains("oops"),
        "{ran}"
    );
}

#[test]
fn failure_is_a_document_on_stdout_with_json() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "name: failing\nnodes:\n  - {name: first, uses: shell.run, with: {command: [echo, hi]}, output: said}\n  - {name: boom, uses: shell.run, with: {command: [sh, -c, 'echo oops >&2; exit 3']}}\n",
    );
    let ran = home.run(&["run", "agent.yaml", "-i", "a=1", "--json"]);
    let failed = ran.fails(1).json();
    let error = &failed["error"];
    assert_eq!(
        (&error["file"], &error["line"]),
        (&json!("agent.yaml"), &json!(4))
    );
    assert!(error["code"].is_string(), "{failed}");
    assert!(
        error["message"].as_str().unwrap().contains("oops"),
        "{failed}"
    );
    assert_eq!(failed["state"]["a"], "1");
    assert_eq!(failed["state"]["said"]["stdout"], "hi\n");
    assert_eq!(failed["report"]["steps"][1]["outcome"], "failed");
    let ran = home.run(&["run", "agent.yaml", "--ndjson"]).fails(1);
    let last = serde_json::from_str::<Value>(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "error");
    assert_eq!(last["error"]["code"], error["code"]);
    assert_eq!(last["state"]["said"]["stdout"], "hi\n");
    assert_eq!(last["report"]["steps"][0]["node"], "first");
}

#[test]
fn file_with_problems_is_a_failure_document() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "nodes:\n  - {name: a, uses: no.such}\n  - {name: b, uses: nor.this}\n",
    );
    let failed = home.run(&["run", "agent.yaml", "--json"]).fails(2).json();
    assert_eq!(failed["error"]["code"], "unknown-action");
    assert_eq!(failed["error"]["problems"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&failed["state"], &failed["report"]),
        (&Value::Null, &Value::Null)
    );
    let ran = home.run(&["run", "gone.yaml", "--ndjson"]).fails(2);
    assert_eq!(ran.json()["event"], "error", "{ran}");
    let plain = home.run(&["run", "gone.yaml"]).fails(2);
    assert_eq!(plain.stdout, "");
}

#[test]
fn missing_input_of_a_required_argument_is_named() {
    let home = Home::new();
    for node in [
        "uses: document.text, with: {path: '{{ state.file_path }}'}",
        "uses: cache.wrap, with: {action: document.text, args: {path: '{{ state.file_path }}'}}",
    ] {
        home.write(
            "agent.yaml",
            format!("nodes:\n  - {{name: read, {node}}}\n"),
        );
        let failed = home.run(&["run", "agent.yaml", "-i", "file=x", "--json"]);
        let error = &failed.fails(1).json()["error"];
        assert_eq!(
            error["message"],
            "node `read` failed: document.text: parameter `path` is required: `state.file_path` is undefined; inputs given: `file`"
        );
        assert_eq!(error["line"], 2);
        assert!(
            error["column"].as_u64().unwrap() > 50,
            "the place of the template: {error}"
        );
        let help = home.run(&["run", "agent.yaml"]).fails(1).unwrapped();
        assert!(
            help.contains("`cachalot run agent.yaml -i file_path=TEXT`"),
            "{help}"
        );
    }
}

#[test]
fn a_failed_action_is_not_stored() {
    let home = Home::new();
    let agent = MARKING.replace("echo ran >> runs.log;", "echo ran >> runs.log; exit 1;");
    home.write("agent.yaml", agent);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).fails(1);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).fails(1);
    assert_eq!(home.runs(), 2);
}

#[test]
fn help_and_version_are_printed() {
    let home = Home::new();
    assert!(
        home.run(&["--version"])
            .ok()
            .stdout
            .starts_with("cachalot ")
    );
    assert!(home.run(&["--help"]).ok().stdout.contains("run"));
    let typo = home.run(&["validat"]).fails(2);
    assert!(typo.stderr.contains("'validate'"), "{typo}");
}

#[test]
fn completions_and_the_schema_are_printed() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            home.run(&["completions", shell])
                .ok()
                .stdout
                .contains("cachalot")
        );
    }
    let schema = home.run(&["schema"]).ok().json();
    assert_eq!(
        schema["$schema"],
        json!("https://json-schema.org/draft/2020-12/schema")
    );
    assert!(schema.to_string().contains("cache.wrap"));
}

#[test]
fn provider_key_is_not_stored() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "nodes:\n  - {name: note, uses: ltm.store, with: {key: note, value: '{{ state.text }}'}}\n",
    );
    let run = |text: &str| {
        let text = format!("text={text}");
        let mut command = home.command(&["run", "agent.yaml", "-i", &text]);
        // Whichever provider it is of: no model has to be asked first.
        command.env("MISTRAL_API_KEY", "q8Zr0pT4");
        CommandOutput::from(command.output().unwrap())
    };
    let ran = run("it is q8Zr0pT4").fails(1);
    assert!(ran.stderr.contains("holds a secret of this run"), "{ran}");
    assert!(!ran.to_string().contains("q8Zr0pT4"), "{ran}");
    run("it is a whale").ok();
}

#[test]
fn docker_model_runner_is_called_at_its_address() {
    let home = Home::new();
    let server = Server::start(
        r#"{"choices": [{"message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2}}"#,
    );
    home.write(
        "agent.yaml",
        "nodes:\n  - {name: ask, uses: llm.call, with: {model: dmr/ai/smollm2, prompt: Hi}, output: said}\n",
    );
    let mut command = home.command(&["run", "agent.yaml"]);
    // As Docker's own tools have it: a host, without the path of the API.
    command.env("MODEL_RUNNER_HOST", server.url());
    let ran = CommandOutput::from(command.output().unwrap()).ok();
    assert_eq!(ran.json()["said"]["content"], "Hello.", "{ran}");
    let asked = server.requests().concat();
    assert!(
        asked.starts_with("POST /engines/v1/chat/completions "),
        "{asked}"
    );
    assert!(asked.contains(r#""model":"ai/smollm2""#), "{asked}");
}
