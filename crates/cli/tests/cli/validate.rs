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

#[test]
fn files_of_other_programs_and_commands_are_named() {
    let home = Home::new();
    let files = [
        (
            "settings.json",
            r#"{"permissions": {"allow": []}, "hooks": {"PreToolUse": []}}"#,
            "a settings file of Claude Code",
        ),
        (
            "mcp.json",
            r#"{"mcpServers": {"files": {"command": "npx"}}}"#,
            "a configuration of MCP servers",
        ),
        (
            "config.toml",
            "approval_policy = \"never\"\n",
            "a configuration of Codex",
        ),
        (
            "gateway.yaml",
            "upstreams: {openai: {url: https://a.example/v1}}",
            "a configuration of the gateway",
        ),
    ];
    for (file, text, name) in files {
        home.write(file, text);
        let mut commands = vec![vec!["chat", file, "hello"], vec!["run", file]];
        // `validate` checks files of the gateway, too.
        if file != "gateway.yaml" {
            commands.push(vec!["validate", file]);
        }
        for command in commands {
            let ran = home.run(&command).fails(2);
            let expected = format!("{file} is {name}, not an agent file");
            assert!(ran.unwrapped().contains(&expected), "{command:?}: {ran}");
            assert_eq!(ran.stderr.matches("  × ").count(), 1, "{ran}");
            assert!(ran.stderr.contains("help: "), "{ran}");
        }
    }
    home.write("agent.yaml", "agents: {root: {model: openai/gpt-4o}}\n");
    for (command, wanted) in [
        (["serve", "--config"], "a configuration of the gateway"),
        (["simulate", "--script"], "a script of the simulator"),
    ] {
        let ran = home.run(&[&command, &["agent.yaml"][..]].concat()).fails(2);
        let expected = format!("agent.yaml is an agent file, not {wanted}");
        assert!(ran.unwrapped().contains(&expected), "{ran}");
    }
    // Agents for docker-agent are agents.
    home.write(
        "team.yaml",
        "version: \"2\"\nmodels: {m: {provider: openai, model: gpt-4o}}\nagents: {root: {model: m, instruction: x}}\n",
    );
    home.run(&["validate", "team.yaml"]).ok();
}

#[test]
fn misspelled_key_is_one_problem() {
    let home = Home::new();
    for (text, expected) in [
        (
            "nodes: [{name: a, usess: json.parse, with: {text: '1'}}]",
            "`uses`",
        ),
        (
            "nodes: [{name: a, uses: json.parse, wiht: {text: '1'}}]",
            "`with`",
        ),
        (
            "nodes: [{name: a, uses: json.parse, with: {txt: '1'}}]",
            "`text`",
        ),
        ("nodes: [{nmae: a}]", "`name`"),
        (
            "agents: {root: {model: openai/gpt-4o, hooks: {stop: [{type: command, comand: x}]}}}",
            "`command`",
        ),
        ("agents: {root: {modle: openai/gpt-4o}}", "`model`"),
        (
            "agents: {root: {model: openai/gpt-4o, toolsets: [{typ: shell}]}}",
            "`type`",
        ),
        (
            "models: {m: {provider: openai, modle: gpt-4o}}\nagents: {root: {model: openai/gpt-4o}}",
            "`model`",
        ),
    ] {
        home.write("agent.yaml", text);
        let listed = home.run(&["validate", "agent.yaml", "--json"]).fails(2);
        let problems = listed.json()["problems"].clone();
        let problems = problems.as_array().unwrap();
        assert_eq!(problems.len(), 1, "{text}: {listed}");
        let help = format!("did you mean {expected}?");
        assert_eq!(problems[0]["code"], "unknown-key", "{listed}");
        assert_eq!(problems[0]["help"], help.as_str(), "{listed}");
    }
    // The arguments below a misspelled key are checked, too.
    home.write(
        "agent.yaml",
        "nodes: [{name: a, uses: json.parse, wiht: {txt: '1'}}]",
    );
    let listed = home.run(&["validate", "agent.yaml", "--json"]).fails(2);
    assert_eq!(listed.json()["problems"].as_array().unwrap().len(), 2);
}

#[test]
fn variables_that_are_not_set_are_named_with_key_and_remedy() {
    let home = Home::new();
    let model = "agents: {root: {model: m}}";
    for (text, key, is_error) in [
        (
            "settings: {llm: {model: openai/gpt-4o, base_url: '${UNSET}'}}\nnodes: [{name: a}]"
                .to_owned(),
            "base_url",
            true,
        ),
        (
            "settings: {llm: {model: openai/gpt-4o, max_tokens: '${UNSET}'}}\nnodes: [{name: a}]"
                .to_owned(),
            "max_tokens",
            true,
        ),
        (
            format!("models: {{m: {{model: openai/gpt-4o, base_url: '${{UNSET}}'}}}}\n{model}"),
            "base_url",
            false,
        ),
        (
            format!(
                "providers: {{p: {{base_url: '${{UNSET}}/v1'}}}}\nmodels: {{m: {{provider: p, model: x}}}}\n{model}"
            ),
            "base_url",
            false,
        ),
    ] {
        home.write("agent.yaml", &text);
        let checked = home.run(&["validate", "agent.yaml"]);
        let code = if is_error { 2 } else { 0 };
        let message = format!("`{key}`: the environment variable `UNSET` is not set");
        let checked = checked.fails(code);
        assert!(checked.stderr.contains(&message), "{checked}");
        assert!(checked.stderr.contains("${UNSET:-default}"), "{checked}");
        let problems =
            checked.stderr.matches("  × ").count() + checked.stderr.matches("  ⚠ ").count();
        assert_eq!(problems, 1, "{checked}");
        if !is_error {
            // The model is called, and its address is not known.
            let ran = home.run(&["chat", "agent.yaml", "hello"]).fails(2);
            let unwrapped = ran.unwrapped();
            for part in ["variable UNSET is not set", "set it, or give it a default"] {
                assert!(unwrapped.contains(part), "{ran}");
            }
        }
    }
    // Where variables are not read.
    for (text, part) in [
        (
            "nodes: [{name: a, uses: http.get, with: {url: '${UNSET}/x'}}]",
            "`{{ secrets.NAME }}` is an environment variable",
        ),
        (
            "nodes: [{name: a, uses: llm.call, with: {prompt: x, model: openai/gpt-4o, base_url: '${UNSET}'}}]",
            "set `base_url` under `models:` or `providers:`",
        ),
    ] {
        home.write("agent.yaml", text);
        let ran = home.run(&["run", "agent.yaml"]).fails(1);
        assert!(ran.unwrapped().contains(part), "{ran}");
    }
}
