//! Files that hold a team of agents: what is told of them, and which command is meant.

use crate::support::Home;

const GOOD: &str = "
models:
  one: {provider: openai, model: gpt-4o}
agents:
  root:
    model: one
    instruction: Help.
    toolsets: [{type: filesystem}, {type: mcp, ref: files}]
    sub_agents: [helper]
  helper: {model: anthropic/claude-sonnet-5}
mcps:
  files: {command: some-server}
tools: {cacheToolResults: true}
permissions: {deny: [shell]}
budget: {max_cost: 1}
";

/// Something wrong in every section.
const BAD: &str = "
models:
  one: {provider: openai, model: gpt-4o}
agents:
  root:
    model: oen
    toolsets:
      - type: filesytem
      - {type: shell, timeot: 3}
      - {type: mcp, ref: flies}
    sub_agents: [helpr]
  helper: {model: one, toolset: []}
mcps:
  files: {command: some-server, transprot: x}
tools: {cacheToolResult: true}
permissions: {deny: ['shell:x']}
budget: {max_cots: 1}
";

#[test]
fn valid_team_is_reported_as_such() {
    let home = Home::new();
    home.write("team.yaml", GOOD);
    let ran = home.run(&["validate", "team.yaml"]).ok();
    assert_eq!(ran.stderr, "team.yaml: no problems, 2 agents\n");
    let listed = home.run(&["validate", "team.yaml", "--json"]).ok().json();
    assert_eq!(
        listed,
        serde_json::json!({"file": "team.yaml", "valid": true, "problems": [], "warnings": []})
    );
    // No key is needed for that, and nothing is started.
    assert!(!home.database().exists());
}

#[test]
fn team_problems_are_reported_together_with_their_places() {
    let home = Home::new();
    home.write("team.yaml", BAD);
    let ran = home.run(&["validate", "team.yaml", "--json"]).fails(2);
    let listed = ran.json();
    let found: Vec<(u64, &str)> = listed["problems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|problem| {
            (
                problem["line"].as_u64().unwrap(),
                problem["code"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        (6, "unknown-model"),
        (8, "unknown-toolset"),
        (9, "unknown-key"),
        (10, "unknown-server"),
        (11, "unknown-agent"),
        (12, "unknown-key"),
        (14, "unknown-key"),
        (15, "unknown-key"),
        (16, "bad-permission"),
        (17, "unknown-key"),
    ];
    assert_eq!(found, expected, "{ran}");
    let ran = home.run(&["validate", "team.yaml"]).fails(2);
    for expected in [
        "`one`?",
        "`filesystem`?",
        "`timeout`?",
        "`files`?",
        "`helper`?",
        "`toolsets`?",
        "`cacheToolResults`?",
        "`max_cost`?",
        "team.yaml:8",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {ran}");
    }
    // A chat does not begin with them, and tells the same.
    let chat = home.run(&["chat", "team.yaml"]).fails(2);
    assert_eq!(chat.stderr, ran.stderr);
}

#[test]
fn run_of_a_team_suggests_the_chat_command() {
    let home = Home::new();
    home.write("team.yaml", GOOD);
    home.write("flow.yaml", "nodes:\n  - {name: one, run: 'return 1'}\n");
    let said = |ran: &str| ran.split_whitespace().collect::<Vec<_>>().join(" ");
    for arguments in [&["run", "team.yaml"][..], &["run", "team.yaml", "--plan"]] {
        let ran = home.run(arguments).fails(2);
        let said = said(&ran.stderr);
        assert!(
            said.contains("team of agents") && said.contains("`cachalot chat team.yaml`"),
            "{ran}"
        );
    }
    let ran = home.run(&["chat", "flow.yaml"]).fails(2);
    let said = said(&ran.stderr);
    assert!(
        said.contains("workflow") && said.contains("`cachalot run flow.yaml`"),
        "{ran}"
    );
}

#[test]
fn workflow_with_agents_is_validated_like_a_team() {
    let home = Home::new();
    home.write("flow.yaml", format!("nodes:\n  - {{name: n}}\n{BAD}"));
    let listed = home
        .run(&["validate", "flow.yaml", "--json"])
        .fails(2)
        .json();
    let codes = listed["problems"].to_string();
    for code in [
        "unknown-toolset",
        "unknown-server",
        "unknown-agent",
        "bad-permission",
    ] {
        assert!(codes.contains(code), "{code}: {listed}");
    }
    home.write(
        "flow.yaml",
        format!(
            "nodes:\n  - {{name: n}}\n{}",
            GOOD.replace("model: one", "model: oen")
        ),
    );
    let listed = home
        .run(&["validate", "flow.yaml", "--json"])
        .fails(2)
        .json();
    assert_eq!(listed["problems"][0]["code"], "unknown-model", "{listed}");
    assert_eq!(listed["problems"].as_array().unwrap().len(), 1, "{listed}");
    home.write("flow.yaml", format!("nodes:\n  - {{name: n}}\n{GOOD}"));
    home.run(&["validate", "flow.yaml"]).ok();
}

#[test]
fn a_misspelt_key_does_not_prevent_detection_of_the_file_kind() {
    let home = Home::new();
    home.write("team.yaml", "agnets: {root: {model: openai/gpt-4o}}\n");
    let ran = home.run(&["validate", "team.yaml"]).fails(2);
    assert!(ran.stderr.contains("did you mean `agents`?"), "{ran}");
    assert!(!ran.stderr.contains("nodes"), "{ran}");
}

#[test]
fn instruction_file_is_relative_to_the_agent_file() {
    let home = Home::new();
    home.write(
        "teams/team.yaml",
        "agents: {root: {model: openai/gpt-4o, instruction_file: told.md}}\n",
    );
    let ran = home.run(&["validate", "teams/team.yaml"]).fails(2);
    assert!(
        ran.stderr.contains("unreadable-instruction") && ran.stderr.contains("told.md"),
        "{ran}"
    );
    home.write("teams/told.md", "Be kind.");
    home.run(&["validate", "teams/team.yaml"]).ok();
}

#[test]
fn permission_rule_for_an_unknown_tool_or_argument_is_a_problem() {
    let home = Home::new();
    for (rule, meant) in [
        ("shel", "`shell`?"),
        ("shell:comand=rm *", "`command`?"),
        ("read_fil:path=x", "`read_file`?"),
    ] {
        home.write("team.yaml", GOOD.replace("[shell]", &format!("['{rule}']")));
        let ran = home.run(&["validate", "team.yaml"]).fails(2);
        let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            said.contains("void-rule") && said.contains(meant),
            "{rule}: {ran}"
        );
    }
    // The argument's name in other runtimes.
    home.write("team.yaml", GOOD.replace("[shell]", "['shell:cmd=rm *']"));
    home.run(&["validate", "team.yaml"]).ok();
}

/// A read-only agent that can reach one that writes.
#[test]
fn readonly_agents_that_give_work_to_writers_are_problems() {
    let home = Home::new();
    let file = |root: &str, others: &str| {
        format!("agents:\n  root: {{model: openai/gpt-4o, readonly: true, {root}}}\n{others}")
    };
    let writer = "  writer: {model: openai/gpt-4o, toolsets: [{type: shell}]}\n";
    let helper = "  helper: {model: openai/gpt-4o, force_handoff: writer}\n";
    let reader = "  reader: {model: openai/gpt-4o, toolsets: [{type: filesystem, readonly: true}, {type: think}, {type: fetch}]}\n";
    let servers =
        "  servers: {model: openai/gpt-4o, toolsets: [{type: mcp, command: some-server}]}\n";
    for (root, part) in [
        (
            "sub_agents: [writer]",
            "gives work to `writer`, whose tool `shell`",
        ),
        ("sub_agents: [{name: writer, fork: true}]", "`writer`"),
        ("handoffs: [reader, writer]", "`writer`"),
        ("force_handoff: writer", "`writer`"),
        (
            "handoffs: [helper]",
            "gives work to `writer` (through `helper`)",
        ),
    ] {
        home.write("team.yaml", file(root, &[writer, helper, reader].concat()));
        let refused = home.run(&["validate", "team.yaml"]).fails(2);
        // Long lines are wrapped.
        let said: Vec<&str> = refused
            .stderr
            .split_whitespace()
            .filter(|word| *word != "│")
            .collect();
        let said = said.join(" ");
        assert!(
            said.contains("readonly-gives-work") && said.contains(part),
            "{said}"
        );
    }
    home.write(
        "team.yaml",
        file("sub_agents: [reader, servers]", &[reader, servers].concat()),
    );
    home.run(&["validate", "team.yaml"]).ok();
}
