//! Agent files of docker-agent: keys that are not honored name what replaces them.

use serde_json::Value;

use crate::support::Home;

/// `validate --json` of an agent file: for each problem and warning its code and remedy.
fn told(text: &str) -> Vec<String> {
    let home = Home::new();
    home.write("agent.yaml", text);
    let document = home.run(&["validate", "agent.yaml", "--json"]).json();
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap().to_owned();
    let all = ["problems", "warnings"].map(|list| document[list].as_array().unwrap().clone());
    let all = all.concat();
    let told = all.iter().map(|problem| {
        let [code, help] = ["code", "help"].map(|key| text(problem, key));
        format!("{code}: {help}")
    });
    told.collect()
}

#[test]
fn unsupported_keys_of_agents_name_their_replacement() {
    for (key, expected) in [
        (
            "safety: strict",
            "unsupported-safety: write `ask: [\"*\"]` under `permissions`",
        ),
        (
            "safety: balanced",
            "no-effect: calls that may change something are asked about",
        ),
        (
            "routing: {default_agent: root}",
            "unsupported-routing: name the agents in `handoffs`",
        ),
        ("budgets: [a]", "no-effect: `budget` of the file"),
        (
            "compaction_model: x",
            "no-effect: write `compaction: {model: …}`",
        ),
        ("inject_memories: true", "no-effect: `recall: 5` adds"),
        (
            "tool_choice: required",
            "no-effect: the model decides about its calls",
        ),
        (
            "toolsets: [{type: fetch, escape_html: true}]",
            "no-effect: results are shown",
        ),
        (
            "toolsets: [{type: openapi, url: 'https://x'}]",
            "unknown-toolset: describe the requests that the agent needs with `type: api`",
        ),
        (
            "toolsets: [{type: model_picker, models: [x]}]",
            "unknown-toolset: give each model an agent of its own",
        ),
        (
            "toolsets: [{type: background_agents}]",
            "unknown-toolset: name the agents in `sub_agents`",
        ),
        (
            "sub_agents: ['docker.io/org/agent:1']",
            "unknown-agent: agents of a registry are not fetched",
        ),
        (
            "hooks: {session_start: [{type: builtin, command: add_context, args: [x]}]}",
            "unknown-builtin: write a hook of the type `command`",
        ),
    ] {
        let found = told(&format!(
            "agents:\n  root:\n    model: openai/gpt-4o\n    {key}\n"
        ));
        assert_eq!(found.len(), 1, "{key}: {found:#?}");
        assert!(found[0].starts_with(expected), "{key}: {found:#?}");
    }
}

#[test]
fn unsupported_sections_of_a_file_name_their_replacement() {
    for (section, expected) in [
        (
            "runtime: {safety: autonomous}",
            "no-effect: calls that may change something are asked about",
        ),
        (
            "runtime: {safety: strict}",
            "unsupported-safety: write `ask: [\"*\"]`",
        ),
        (
            "runtime: {image: alpine}",
            "unsupported-section: start Cachalot within a container",
        ),
        (
            "budgets: {a: {max_cost: 1}}",
            "unsupported-section: write the limits into `budget`",
        ),
        (
            "evaluators: {a: {model: x}}",
            "unsupported-section: ask the question in a hook",
        ),
        (
            "flavors: {cheap: {}}",
            "no-effect: write a file of its own for each flavor",
        ),
        (
            "models: {m: {provider: openai, model: gpt-4o, description: x}}",
            "no-effect: an agent chooses among agents",
        ),
        (
            "models: {m: {provider: google, model: gemini-2.5-flash, output_capabilities: {image: true}}}",
            "no-effect: the answer of a model is text",
        ),
        (
            "providers: {p: {provider: openai, compaction_model: x}}",
            "no-effect: the agent's own model summarizes",
        ),
    ] {
        let found = told(&format!(
            "{section}\nagents:\n  root: {{model: openai/gpt-4o}}\n"
        ));
        assert_eq!(found.len(), 1, "{section}: {found:#?}");
        assert!(found[0].starts_with(expected), "{section}: {found:#?}");
    }
}

#[test]
fn rule_for_a_tool_of_a_server_says_how_to_name_it() {
    let found = told(
        "agents:\n  root:\n    model: openai/gpt-4o\n    toolsets:\n      - {type: mcp, command: docker}\n      - {type: script, shell: {mcp-list: {cmd: x}}}\npermissions: {allow: [mcp-find]}\n",
    );
    let rule = found.iter().find(|told| told.starts_with("void-rule"));
    let expected =
        "void-rule: did you mean `mcp-list`? For a tool of an MCP server, write `mcp_*_mcp-find`";
    assert_eq!(rule.map(String::as_str), Some(expected), "{found:#?}");
}
