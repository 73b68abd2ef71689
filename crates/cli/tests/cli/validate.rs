//! `cachalot validate`: all problems at once, each with its place.

use crate::support::Home;

#[test]
fn problems_are_reported_together_with_their_places() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "name: broken\nnodez: []\nnodes:\n  - name: one\n    uses: cache.wrap\n    with:\n      action: json.parze\n      ttl_dayz: 3\n      args: {}\n  - name: one\n    goto: nowhere\n",
    );
    let ran = home.run(&["validate", "agent.yaml"]).fails(2);
    insta::assert_snapshot!(ran.shown(&home));
    let listed = home
        .run(&["validate", "agent.yaml", "--json"])
        .fails(2)
        .json();
    assert_eq!(listed["valid"], false);
    assert!(
        listed["problems"].as_array().unwrap().len() >= 5,
        "{listed}"
    );
}

#[test]
fn valid_file_is_reported_as_such() {
    let home = Home::new();
    home.write("agent.yaml", "name: fine\nnodes:\n  - name: n\n");
    let ran = home.run(&["validate", "agent.yaml"]).ok();
    insta::assert_snapshot!(ran.shown(&home));
    assert_eq!(
        home.run(&["validate", "agent.yaml", "--json"]).ok().json()["valid"],
        true
    );
}

#[test]
fn missing_or_binary_file_is_named() {
    let home = Home::new();
    home.write("binary.yaml", [0xff, 0xfe, 0x00]);
    home.write("tabs.yaml", "name: x\nnodes:\n\t- name: n\n");
    let shown = ["missing", "binary", "tabs"].map(|name| {
        let file = format!("{name}.yaml");
        home.run(&["validate", &file]).fails(2).shown(&home)
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn one_mistake_is_reported_once() {
    let home = Home::new();
    for value in ["abc", "-1", "[1]"] {
        home.write(
            "agent.yaml",
            format!("name: a\nnodes:\n  - name: n\n    uses: cache.wrap\n    with:\n      action: json.parse\n      ttl_seconds: {value}\n      args: {{text: x}}\n"),
        );
        let ran = home.run(&["validate", "agent.yaml", "--json"]).fails(2);
        let problems = ran.json()["problems"].as_array().unwrap().len();
        assert_eq!(problems, 1, "{value}: {ran}");
        assert!(ran.stdout.contains("ttl_seconds"), "{ran}");
    }
}

#[test]
fn long_lines_are_truncated_around_the_place() {
    let home = Home::new();
    let long = "x".repeat(40_000);
    home.write(
        "agent.yaml",
        format!(
            "name: a\nnodes:\n  - {{name: n, uses: shell.run, with: {{command: [\"{long}é\"]}}, nonsense: \"{long}\"}}\n  - name: m\n    description: {long}\n"
        ),
    );
    let listed = home
        .run(&["validate", "agent.yaml", "--json"])
        .fails(2)
        .json();
    let column = listed["problems"][0]["column"].as_u64().unwrap();
    assert!(column > 40_000, "{listed}");
    let ran = home.run(&["validate", "agent.yaml"]).fails(2);
    assert!(ran.stderr.len() < 4_000, "{} bytes", ran.stderr.len());
    assert!(ran.stderr.contains("nonsense"), "{ran}");
    assert!(
        ran.stderr.contains(&format!("agent.yaml:3:{column}]")),
        "{ran}"
    );
}

#[test]
fn unsupported_effort_is_a_problem_in_every_place() {
    let home = Home::new();
    let workflow = |arguments: &str| {
        let text = format!(
            "settings:\n  llm: {{model: fast}}\nmodels:\n  fast: {{provider: openai, model: gpt-5.6-terra}}\nnodes:\n  - name: ask\n    uses: cache.wrap\n    with:\n      action: llm.call\n      args: {{prompt: x, {arguments}}}\n"
        );
        home.write("agent.yaml", &text);
        home.run(&["validate", "agent.yaml"])
    };
    for refused in [
        "model: fast, reasoning_effort: enormous",
        "reasoning_effort: enormous",
        "model: openai/gpt-5.6-terra, reasoning_effort: enormous",
        "model: gpt-5.6-terra, provider: openai, reasoning_effort: enormous",
    ] {
        let ran = workflow(refused).fails(2);
        for part in ["agent.yaml:", "does not take the reasoning effort", "high"] {
            assert!(ran.stderr.contains(part), "{refused}: {ran}");
        }
    }
    for taken in [
        "model: fast, reasoning_effort: high",
        "model: fast, reasoning_effort: '{{ state.effort }}'",
        "model: '{{ state.model }}', reasoning_effort: enormous",
    ] {
        workflow(taken).ok();
    }
}

#[test]
fn keys_without_effect_are_warnings() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "config: {raise_exceptions: true, checkpoint_dir: c}\nnodes: [{name: a}]\n",
    );
    let shown = ["validate", "run"].map(|command| {
        let ran = home.run(&[command, "agent.yaml"]).ok();
        ran.shown(&home)
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn code_is_checked_for_its_runner_at_load() {
    let home = Home::new();
    let agent = |language: &str, code: &str| {
        format!(
            "name: code\nnodes:\n  - name: first\n    run: print('ran')\n  - name: second\n{language}    run: |\n      x = 1\n      {code}\n"
        )
    };
    for (language, code, problem) in [
        ("", "yield x", Some("script-unsupported")),
        ("", "import subprocess", Some("script-unsupported")),
        ("", "y = = 1", Some("script-syntax")),
        ("    language: python3\n", "y = = 1", Some("script-syntax")),
        ("    language: python3\n", "import subprocess", None),
        ("", "y = x + 1", None),
    ] {
        home.write("agent.yaml", agent(language, code));
        let runner = if language.is_empty() {
            "embedded"
        } else {
            "python3"
        };
        let Some(problem) = problem else {
            home.run(&["validate", "agent.yaml", "--python", runner])
                .ok();
            continue;
        };
        let line = if language.is_empty() { 8 } else { 9 };
        for command in ["validate", "run"] {
            let arguments = [command, "agent.yaml", "--python", runner];
            let ran = home.run(&arguments).fails(2);
            assert!(ran.stderr.contains(problem), "{code}: {ran}");
            assert!(
                ran.stderr.contains(&format!("agent.yaml:{line}")),
                "{code}: {ran}"
            );
            assert!(!ran.stdout.contains("ran"), "{ran}");
        }
    }
}

#[test]
fn several_files_are_checked_and_all_problems_reported() {
    let home = Home::new();
    let agent = |model: &str| format!("agents: {{root: {{model: {model}}}}}\n");
    home.write("good.yaml", agent("gpt-4o"));
    home.write("bad.yaml", agent("gpt4o"));
    home.write("worse.yaml", "agents: {}\n");
    home.run(&["validate", "good.yaml", "good.yaml"]).ok();
    let files = ["bad.yaml", "good.yaml", "worse.yaml"];
    let ran = home.run(&[&["validate"], &files[..]].concat()).fails(2);
    insta::assert_snapshot!(ran.shown(&home));
    let ran = home
        .run(&[&["validate", "--json"], &files[..]].concat())
        .fails(2);
    let listed = ran.json();
    let valid: Vec<bool> = files
        .iter()
        .zip(listed.as_array().unwrap())
        .map(|(file, document)| {
            assert_eq!(document["file"], *file);
            document["valid"].as_bool().unwrap()
        })
        .collect();
    assert_eq!(valid, [false, true, false]);
    home.run(&["validate", "good.yaml", "missing.yaml"])
        .fails(2);
}
