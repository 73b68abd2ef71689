//! Mistakes of the first hour: each has a message with the remedy, and the exit code of its kind.

use crate::support::{CommandOutput, Home};

#[track_caller]
fn is_explained(ran: CommandOutput, code: i32, parts: &[&str]) {
    let ran = ran.fails(code);
    let unwrapped = ran.unwrapped();
    for part in parts {
        assert!(unwrapped.contains(part), "{part}: {ran}");
    }
    assert_eq!(ran.stdout, "", "{ran}");
}

#[test]
fn command_line_mistakes_have_a_remedy() {
    let home = Home::new();
    home.write("agent.yaml", "agents: {root: {model: openai/gpt-4o}}\n");
    for (arguments, parts) in [
        // The command is missing.
        (
            &["agent.yaml"][..],
            &["cachalot run agent.yaml", "cachalot chat agent.yaml"][..],
        ),
        // The name of a file is misspelled.
        (
            &["chat", "agent.yml", "hello"],
            &["did you mean `agent.yaml`?"],
        ),
        (
            &["validate", "./agnet.yaml"],
            &["did you mean `./agent.yaml`?"],
        ),
        (
            &["chat", "agent.yaml", "--hooks", "agnt.yaml", "hello"],
            &["agnt.yaml: No such file", "did you mean `agent.yaml`?"],
        ),
        // The separator is missing.
        (&["exec", "claude"], &["cachalot exec -- claude"]),
        (
            &["exec", "--quiet", "claude", "-p", "x"],
            &["cachalot exec -- claude"],
        ),
        (&["init", "agent.yaml"], &["cachalot init agent agent.yaml"]),
        (&["serve", "--listen", "localhost"], &["127.0.0.1:4114"]),
        (
            &["spend", "--since", "yesterdayy"],
            &["is no time for --since", "write a date (2026-11-20)"],
        ),
        (
            &[
                "hooks",
                "test",
                "stop",
                "--input",
                "x",
                "--dialect",
                "claud",
            ],
            &["expected one of: docker-agent, claude"],
        ),
        (
            &["models", "--provider", "x"],
            &["there is no provider `x`", "anthropic", "openai"],
        ),
        (
            &["chat", "--model", "opus", "hello"],
            &["did you mean one of `claude-opus-"],
        ),
    ] {
        is_explained(home.run(arguments), 2, parts);
    }
}

#[test]
fn mistakes_in_agents_have_a_remedy() {
    let home = Home::new();
    for (text, problem, help) in [
        (
            "agents: {root: {model: openai/gpt-4o, tools: [shell]}}",
            "unknown key `tools` in an agent",
            "toolsets: [{type: filesystem}",
        ),
        (
            "agents: {root: {model: openai/gpt-4o, system_prompt: x}}",
            "unknown key `system_prompt` in an agent",
            "`instruction: …`",
        ),
        (
            "agents: {root: {model: openai/gpt-4o, temperature: 0}}",
            "unknown key `temperature` in an agent",
            "models: {NAME: {model: …, temperature: …}}",
        ),
        (
            "agents: {root: {model: openai/gpt-4o, mcpServers: {}}}",
            "unknown key `mcpServers` in an agent",
            "{type: mcp, ref: NAME}",
        ),
        (
            "agents: {root: openai/gpt-4o}",
            "an agent must be a mapping, but this is text",
            "`root: {model: …, instruction: …}`",
        ),
        (
            "agents: {root: {model: openai/gpt-4o, toolsets: [filesystem]}}",
            "a toolset must be a mapping, but this is text",
            "write `{type: filesystem}`",
        ),
        (
            "agents: {root: {model: openai/gpt-4o, toolsets: shell}}",
            "`toolsets` must be a list, but this is text",
            "toolsets: [{type: filesystem}",
        ),
        (
            "models: {m: {provider: opnai, model: x}}\nagents: {root: {model: m}}",
            "there is no provider `opnai`",
            "did you mean `openai`?",
        ),
        (
            "model: openai/gpt-4o\ninstruction: x",
            "`model` is a key of an agent, and the file has none",
            "agents: {root: {model: …, instruction: …}}",
        ),
        (
            "steps: [{uses: json.parse}]",
            "`steps` is a key of a node, and the file has none",
            "nodes: [{name: greet, uses: …, with: …}]",
        ),
    ] {
        home.write("agent.yaml", text);
        let listed = home.run(&["validate", "agent.yaml", "--json"]).fails(2);
        let problems = listed.json()["problems"].clone();
        let problems = problems.as_array().unwrap();
        assert_eq!(problems.len(), 1, "{text}: {listed}");
        assert_eq!(problems[0]["message"], problem, "{listed}");
        let given = problems[0]["help"].as_str().unwrap();
        assert!(given.contains(help), "{listed}");
    }
}
