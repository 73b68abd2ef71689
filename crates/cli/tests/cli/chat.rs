//! `cachalot chat` through a pipe: the answer alone on stdout, everything else on stderr.

use serde_json::{Value, json};

use crate::bodies::frozen_parts;
use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::Home;

/// The example, and the file that it is tried on.
pub(crate) fn with_the_example(home: &Home) {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    for file in ["coder.yaml", "data/draft.md"] {
        let bytes = std::fs::read(format!("{examples}/{file}")).unwrap();
        home.write(&format!("examples/{file}"), bytes);
    }
}

pub(crate) const TASK: &str = "Finish the TODO in examples/data/draft.md";

#[test]
fn coder_example_reads_edits_and_rereads_with_a_hit() {
    let (home, provider) = (Home::new(), Provider::built_in());
    with_the_example(&home);
    let ran = home.ask(&provider, &["examples/coder.yaml"], TASK).ok();
    assert_eq!(
        ran.stdout,
        "[simulated] Done. Line 4 of examples/data/draft.md now reads:\n\n    DONE: say how deep it dives.\n"
    );
    let draft = std::fs::read_to_string(home.join("examples/data/draft.md")).unwrap();
    assert!(
        draft.contains("\nDONE: say how deep it dives.\n"),
        "{draft}"
    );
    let calls: Vec<&str> = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("  "))
        .collect();
    let expected = [
        ("read_file", "ran", ""),
        ("read_file", "hit", ""),
        ("grep", "ran", ""),
        ("edit_file", "ran", ""),
        (
            "read_file",
            "ran",
            "examples/data/draft.md was written to since",
        ),
    ];
    assert_eq!(calls.len(), expected.len(), "{ran}");
    for (line, (tool, how, why)) in calls.iter().zip(expected) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words[0], tool, "{ran}");
        assert!(words.contains(&how) && line.ends_with(why), "{line}");
    }
    assert!(
        ran.stderr.contains("Tool cache stats: 1/4 hits (25%)"),
        "{ran}"
    );
    let sum = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("in all "))
        .unwrap();
    assert!(
        sum.contains("cached by the provider")
            && sum.contains("$0.0")
            && sum.contains("saved 1 tool call"),
        "{sum}"
    );
    session(&ran);
}

#[test]
fn no_cache_and_refresh_run_every_call() {
    for flag in ["--no-cache", "--refresh"] {
        let (home, provider) = (Home::new(), Provider::built_in());
        with_the_example(&home);
        let ran = home
            .ask(&provider, &["examples/coder.yaml", flag], TASK)
            .ok();
        assert!(ran.stdout.contains("DONE"), "{ran}");
        assert!(!ran.stderr.contains(" hit "), "{flag}: {ran}");
        assert!(
            !ran.stderr.contains("caching is off"),
            "that was asked for: {ran}"
        );
    }
    let both = Home::new().run(&["chat", "x.yaml", "--no-cache", "--refresh"]);
    both.fails(2);
}

#[test]
fn stdout_contains_the_answer_only() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    for arguments in [
        &["agent.yaml", "--yes"][..],
        &["agent.yaml", "--yes", "-v"],
        &["agent.yaml", "--yes", "-q"],
    ] {
        let ran = home.ask(&provider, arguments, "run echo hello").ok();
        assert_eq!(ran.stdout, "It said: hello\n[exit status 0]\n", "{ran}");
        assert!(!ran.stderr.contains('\u{1b}'), "{ran}");
        assert_eq!(ran.stderr.is_empty(), arguments.contains(&"-q"), "{ran}");
    }
    let ran = home.ask(&provider, &["agent.yaml", "-v"], "think").ok();
    assert_eq!(ran.stdout, "I have thought.\n");
    assert!(
        ran.stderr
            .contains("  thinking | First this.\n  thinking | Then that.\n"),
        "{ran}"
    );
    // What a program reads is what the model wrote.
    let ran = home.ask(&provider, &["agent.yaml"], "escape").ok();
    assert_eq!(ran.stdout, "a \u{1b}[31mred\u{1b}[0m word\n");
}

#[test]
fn json_output_contains_answer_session_and_report() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let ran = home.ask(&provider, &["agent.yaml", "--json"], "hello").ok();
    let reported = ran.json();
    assert_eq!(reported["answer"], "I was told: hello");
    assert_eq!(
        (&reported["ended"], &reported["agent"]),
        (&json!("end"), &json!("root"))
    );
    assert_eq!(reported["session"], session(&ran));
    assert_eq!(reported["report"]["model_calls"], 1);
    assert!(
        reported["report"]["dollars"].as_f64().unwrap() > 0.0,
        "{reported}"
    );
}

#[test]
fn resumed_session_sends_the_same_prefix() {
    let models = [
        "{provider: openai, model: gpt-4o}",
        "{provider: openai, model: gpt-5, format: responses}",
        "{provider: anthropic, model: claude-sonnet-5}",
    ];
    for model in models {
        let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
        let file = format!(
            "models:\n  one: {model}\n{}",
            SHELL.replace("openai/gpt-4o", "one")
        );
        home.write("agent.yaml", file);
        let keys = |command: &mut std::process::Command| {
            command
                .env("OPENAI_API_KEY", "x")
                .env("ANTHROPIC_API_KEY", "x");
        };
        let ask = |arguments: &[&str], question: &str| {
            let arguments = [&["agent.yaml", "--yes"], arguments].concat();
            home.ask_with(&provider, &arguments, question.as_bytes(), keys)
                .ok()
        };
        let first = ask(&[], "run echo one");
        let name = session(&first);
        let before = provider.received().len();
        // The beginning of its name is enough.
        let second = ask(&["--session", &name[..6]], "run echo two");
        assert_eq!(session(&second), name);
        assert!(second.stdout.contains("two"), "{second}");
        let received = provider.received();
        assert!(received.len() > before && before > 1, "{model}");
        // That each body begins with the one before it is checked of all of them; here is that it is
        // one conversation.
        assert_eq!(frozen_parts(&received).len(), 1, "{model}");
        let last = String::from_utf8_lossy(&received.last().unwrap().body).into_owned();
        assert!(
            last.contains("echo one") && last.contains("echo two"),
            "{last}"
        );
    }
}

#[test]
fn instruction_of_a_toolset_is_part_of_the_system_prompt() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let toolset = "{type: shell, instruction: Use the shell with care.}";
    home.write("agent.yaml", SHELL.replace("{type: shell}", toolset));
    home.ask(&provider, &["agent.yaml"], "hello").ok();
    let system = provider.received()[0].json()["messages"][0].clone();
    assert_eq!(
        system["content"],
        "Run what you are told.\n\nUse the shell with care."
    );
}

#[test]
fn approval_is_denied_through_a_pipe() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let run = "run touch made; echo done";
    home.write("agent.yaml", SHELL);
    let refused = home.ask(&provider, &["agent.yaml"], run).ok();
    assert!(!home.join("made").exists());
    for expected in ["refused", "--yes", "permissions.allow"] {
        assert!(refused.stderr.contains(expected), "{expected}: {refused}");
    }
    let denied = format!("{SHELL}permissions: {{deny: ['shell:command=touch*']}}\n");
    home.write("denied.yaml", denied);
    let denied = home.ask(&provider, &["denied.yaml", "--yes"], run).ok();
    assert!(!home.join("made").exists());
    assert!(
        denied
            .stderr
            .contains("denied by the rule `shell:command=touch*`"),
        "{denied}"
    );
    // What cannot be told is not let by `--yes` either: the rule and the reason are named.
    let unclear = format!("{SHELL}permissions: {{deny: ['shell:command=rm*'], allow: [shell]}}\n");
    home.write("unclear.yaml", unclear);
    let unclear = home
        .ask(&provider, &["unclear.yaml"], "run $UNSET made; touch made")
        .ok();
    assert!(!home.join("made").exists());
    let said = unclear
        .stderr
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        said.contains("the rule `shell:command=rm*` under permissions.deny may deny it: "),
        "{unclear}"
    );
    assert!(!said.contains("lets it"), "{unclear}");
    home.write(
        "allowed.yaml",
        format!("{SHELL}permissions: {{allow: [shell]}}\n"),
    );
    home.ask(&provider, &["allowed.yaml"], run).ok();
    assert!(home.join("made").exists());
}

#[test]
fn yes_does_not_allow_writes_of_protected_files() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let allowing = format!("{SHELL}permissions: {{allow: [shell]}}\n");
    home.write("hooks.yaml", "hooks: {}\n");
    for (file, command) in [
        (SHELL, "run echo x > agent.yaml"),
        (SHELL, "run mkdir .git && echo x > .git/config"),
        (&allowing, "run echo x >> ./hooks.yaml"),
    ] {
        home.write("agent.yaml", file);
        // In a sandbox, the system would not let it.
        let arguments = [
            "agent.yaml",
            "--yes",
            "--sandbox=off",
            "--hooks",
            "hooks.yaml",
        ];
        let refused = home.ask(&provider, &arguments, command).ok();
        for expected in ["refused", "`--yes` does not allow that", "names the file"] {
            assert!(refused.stderr.contains(expected), "{expected}: {refused}");
        }
        let now = std::fs::read_to_string(home.join("agent.yaml")).unwrap();
        assert_eq!(now, *file);
        assert!(!home.join(".git").exists());
    }
    // A hook of the user adds the file to the prompt.
    home.write(
        "prompts.yaml",
        "hooks:\n  turn_start:\n    - {type: builtin, command: add_prompt_files, args: [MORE.txt]}\n",
    );
    home.write("MORE.txt", "Be kind.");
    home.write("agent.yaml", SHELL);
    let arguments = [
        "agent.yaml",
        "--yes",
        "--sandbox=off",
        "--hooks",
        "prompts.yaml",
    ];
    let command = "run echo x >> MORE.txt";
    let refused = home.ask(&provider, &arguments, command).ok();
    assert!(
        refused.stderr.contains("`--yes` does not allow that"),
        "{refused}"
    );
    let instructed = SHELL.replace(
        "instruction: ",
        "add_prompt_files: [RULES.txt]\n    instruction_file: role.md # ",
    );
    let outside = ["agent.yaml", "--yes", "--sandbox=off"];
    home.write("role.md", "You help.");
    home.write("RULES.txt", "Be brief.");
    for command in [
        "run echo x > AGENTS.md",
        "run mkdir -p sub && echo x > sub/CLAUDE.md",
        "run mkdir -p skills/a && echo x > skills/a/SKILL.md",
        "run echo x > skills/a.txt",
        "run echo x >> role.md",
        "run echo x >> RULES.txt",
    ] {
        home.write("agent.yaml", &instructed);
        let refused = home.ask(&provider, &outside, command).ok();
        assert!(
            refused.stderr.contains("`--yes` does not allow that"),
            "{command}: {refused}"
        );
    }
    home.write("me/RULES.txt", "Be brief.");
    for variable in ["HOME", "USERPROFILE"] {
        let in_home = |command: &mut std::process::Command| {
            command.env_remove("HOME").env(variable, home.join("me"));
        };
        let command = b"run echo x >> me/RULES.txt";
        let refused = home.ask_with(&provider, &outside, command, in_home).ok();
        assert!(
            refused.stderr.contains("`--yes` does not allow that"),
            "{variable}: {refused}"
        );
    }
    for file in ["AGENTS.md", "sub", "skills"] {
        assert!(!home.join(file).exists(), "{file}");
    }
    for (command, file) in [
        ("echo x > AGENTS.md", "AGENTS.md"),
        ("mkdir skills; echo x > skills/a.txt", "skills/a.txt"),
    ] {
        let rules = format!("permissions: {{allow: ['shell:command={command}']}}\n");
        home.write("agent.yaml", format!("{SHELL}{rules}"));
        home.ask(&provider, &["agent.yaml"], &format!("run {command}"))
            .ok();
        assert!(home.join(file).exists(), "{file}");
    }
    let named = "permissions: {allow: ['shell:command=echo x > .mcp.json']}\n";
    home.write("agent.yaml", format!("{SHELL}{named}"));
    home.ask(&provider, &["agent.yaml"], "run echo x > .mcp.json")
        .ok();
    assert!(home.join(".mcp.json").exists());
}

#[test]
fn events_of_a_sub_agent_are_labeled_with_its_name() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write(
        "team.yaml",
        "agents:
  lead: {model: openai/gpt-4o, sub_agents: [helper]}
  helper: {model: openai/gpt-4o, description: Runs things., toolsets: [{type: shell}]}
",
    );
    let ran = home
        .ask(&provider, &["team.yaml", "--yes"], "delegate echo hi")
        .ok();
    assert_eq!(ran.stdout, "Helper said: It said: hi\n[exit status 0]\n");
    let order = [
        "  transfer_task helper run echo hi",
        "  helper | I run it.",
        "  helper: shell echo hi",
        "  helper | It said: hi",
        "  transfer_task helper run echo hi",
    ];
    let mut rest = ran.stderr.as_str();
    for expected in order {
        let at = rest
            .find(expected)
            .unwrap_or_else(|| panic!("{expected}: {ran}"));
        rest = &rest[at + expected.len()..];
    }
    // Both agents' answers are in the sum.
    let reported = home
        .ask(
            &provider,
            &["team.yaml", "--yes", "--json"],
            "delegate echo hi",
        )
        .ok();
    assert_eq!(reported.json()["report"]["model_calls"], 4);
    let only = home
        .ask(&provider, &["team.yaml", "--agent", "helper"], "hello")
        .ok();
    assert_eq!(only.stdout, "I was told: hello\n");
}

#[test]
fn tools_are_confined_to_the_workspace() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL.replace("shell", "filesystem"));
    home.write("inside/note.txt", "inside");
    home.write("outside.txt", "a secret thing");
    let arguments = ["agent.yaml", "--workspace", "inside"];
    let read = home.ask(&provider, &arguments, "read note.txt").ok();
    assert!(read.stdout.contains("inside"), "{read}");
    let refused = home.ask(&provider, &arguments, "read ../outside.txt").ok();
    assert!(!refused.stdout.contains("a secret thing"), "{refused}");
    assert!(refused.stderr.contains("failed"), "{refused}");
    let name = session(&read);
    let moved = home
        .ask(&provider, &["agent.yaml", "--session", &name], "hello")
        .ok();
    assert!(
        moved.stderr.contains("warning: ") && moved.stderr.contains("inside"),
        "{moved}"
    );
    for (wrong, cause) in [
        ("nowhere", "No such file"),
        ("outside.txt", "Not a directory"),
    ] {
        let ran = home
            .ask(&provider, &["agent.yaml", "--workspace", wrong], "hello")
            .fails(2);
        assert!(
            ran.stderr.contains(wrong) && ran.stderr.contains(cause),
            "{ran}"
        );
    }
}

#[test]
fn exhausted_budget_ends_the_turn_with_a_message() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", format!("{SHELL}budget: {{max_tokens: 1}}\n"));
    let ran = home
        .ask(&provider, &["agent.yaml", "--yes"], "run echo hi")
        .fails(1);
    assert!(ran.stderr.contains("stopped: "), "{ran}");
    assert!(ran.stderr.contains("max_tokens"), "{ran}");
    home.write(
        "few.yaml",
        SHELL.replace("    instruction", "    max_iterations: 1\n    instruction"),
    );
    let ran = home
        .ask(&provider, &["few.yaml", "--yes"], "run echo hi")
        .fails(1);
    assert!(ran.stderr.contains("max_iterations"), "{ran}");
    let ran = home
        .ask(&provider, &["few.yaml", "--yes", "--json"], "run echo hi")
        .fails(1);
    assert_eq!(ran.json()["ended"], "iterations");
}

#[test]
fn session_continued_by_two_processes_keeps_both_turns() {
    // Requests of two at once arrive in any order.
    let provider = Provider::scripted(SCRIPTED_MODEL).accepting_anything();
    let home = Home::new();
    home.write("agent.yaml", SHELL);
    let name = session(&home.ask(&provider, &["agent.yaml"], "first").ok());
    std::thread::scope(|scope| {
        let ask = |question: &'static str| {
            let (home, provider, name) = (&home, &provider, name.clone());
            scope.spawn(move || home.ask(provider, &["agent.yaml", "--session", &name], question))
        };
        let both = [ask("second"), ask("third")];
        for asked in both {
            let ran = asked.join().unwrap();
            // The second turn starts again after the first one, or gets a warning.
            assert!(
                ran.code == Some(0) || ran.stderr.contains("elsewhere"),
                "{ran}"
            );
        }
    });
    let shown = home.run(&["sessions", "show", &name, "--json"]).ok().json();
    let roles: Vec<&Value> = shown["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| &message["role"])
        .collect();
    assert!(roles.len() >= 4, "{shown}");
    assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{roles:?}");
}

#[test]
fn very_long_question_is_sent_completely() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let question = "ü".repeat(300_000);
    let ran = home.ask(&provider, &["agent.yaml"], &question).ok();
    assert_eq!(ran.stdout.len(), "I was told: \n".len() + question.len());
}

#[test]
fn recalled_memories_are_added_to_the_message_and_not_to_the_system_prompt() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write(
        "remember.yaml",
        r#"
nodes:
  - {name: depth, uses: ltm.store, with: {key: whale, value: "it dived 1,200 m in May"}}
  - {name: count, uses: ltm.store, with: {key: pod, value: {whale: 7, calves: 2}}}
  - {name: other, uses: ltm.store, with: {key: boat, value: "is being painted"}}
"#,
    );
    home.run(&["run", "remember.yaml"]).ok();
    home.write(
        "agent.yaml",
        "providers: {openai: {format: chat}}\nagents: {root: {model: openai/gpt-4o, instruction: Help., recall: 2, add_date: true}}\n",
    );
    let ran = home
        .ask(&provider, &["agent.yaml"], "How many whale calves dived?")
        .ok();
    session(&ran);
    let messages = provider.received()[0].json()["messages"].clone();
    assert_eq!(messages[0], json!({"role": "system", "content": "Help."}));
    let reported = messages[1]["content"].as_str().unwrap();
    for expected in [
        "- whale: it dived 1,200 m in May\n",
        "- pod: {\"whale\":7,\"calves\":2}\n",
        "The time is 20",
    ] {
        assert!(reported.contains(expected), "{expected}: {reported}");
    }
    assert!(
        !reported.contains("boat") && !reported.contains("metadata"),
        "{reported}"
    );
}
