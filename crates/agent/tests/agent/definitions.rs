//! Agent files.

use cachalot_agent::definition::{
    DEFAULT_COMPACTION_THRESHOLD, DEFAULT_ITERATIONS, DEFAULT_REPETITIONS, KEYS, Notify,
    ReviewDefinition, ReviewKind,
};
use cachalot_agent::{Inherit, SourceFile, Team};
use cachalot_core::{ManualClock, Problem, tree};
use cachalot_model::{Catalog, ModelDependencies, Models};
use cachalot_storage::HttpOptions;

use crate::fixture::{environment, load, some_builtins};

fn problems(text: &str) -> Vec<Problem> {
    load(text, std::path::Path::new(".")).unwrap_err()
}

/// Problems of a file: codes, and the texts at their places.
fn found(text: &str) -> Vec<(&'static str, String)> {
    let problems = problems(text);
    problems
        .into_iter()
        .map(|problem| {
            let place = problem
                .place
                .unwrap_or_else(|| panic!("no place: {}", problem.message));
            assert_eq!(&*place.file, "team.yaml");
            let at = &text[place.start..place.start + place.len];
            (problem.code, at.to_owned())
        })
        .collect()
}

fn one(text: &str) -> (&'static str, String) {
    let mut found = found(text);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn at(code: &'static str, place: &str) -> (&'static str, String) {
    (code, place.to_owned())
}

#[test]
fn minimal_file_gets_defaults() {
    let team = load(
        "agents: {helper: {model: gpt-4o}}",
        std::path::Path::new("."),
    )
    .unwrap();
    let agent = team.entry();
    assert_eq!(
        (agent.name.as_str(), agent.model.as_str()),
        ("helper", "gpt-4o")
    );
    assert_eq!(
        (agent.instruction.as_str(), agent.description.as_str()),
        ("", "")
    );
    assert_eq!(agent.max_iterations, DEFAULT_ITERATIONS);
    assert_eq!(agent.max_repetitions, DEFAULT_REPETITIONS);
    assert!(agent.toolsets.is_none() && agent.sub_agents.is_empty());
    assert!(agent.hooks.is_empty() && agent.sections.is_empty() && agent.recall == 0);
    assert!((agent.compaction_threshold - DEFAULT_COMPACTION_THRESHOLD).abs() < f64::EPSILON);
    let shared = &team.shared_tools;
    assert!(team.budget.is_unlimited() && shared.servers.is_none() && shared.results.is_none());
}

#[test]
fn every_key_is_read() {
    let text = "
version: 1
name: team
description: for people
metadata: {author: me}
models:
  fast: {provider: openai, model: gpt-4o-mini}
providers:
  lab: {base_url: 'https://lab.example/v1'}
mcps:
  github: {command: gh}
tools:
  cacheToolResults: true
permissions:
  allow: [edit_file]
budget:
  max_cost: 1
agents:
  helper:
    model: fast
  root:
    model: lab/m
    description: Leads.
    instruction: Lead.
    toolsets: [{type: filesystem}]
    sub_agents: [helper, helper]
    max_iterations: 3
    max_consecutive_tool_calls: 2
    add_date: true
    recall: 4
";
    let team = load(text, std::path::Path::new("/dir")).unwrap();
    let agent = team.entry();
    assert_eq!(agent.name, "root");
    let names: Vec<_> = agent
        .sub_agents
        .iter()
        .map(|sub_agent| sub_agent.name.as_str())
        .collect();
    assert_eq!(names, ["helper"]);
    assert_eq!((agent.max_iterations, agent.max_repetitions), (3, 2));
    let date = agent.section("add_date").and_then(tree::Node::as_boolean);
    assert_eq!(date, Some(true));
    assert!(agent.recall == 4 && agent.toolsets.is_some());
    assert_eq!(team.agents.len(), 2);
    assert!(team.agent("helper").is_some() && team.agent("nobody").is_none());
    assert!(team.configured.model("fast").is_some() && team.configured.provider("lab").is_some());
    assert_eq!(team.directory, std::path::Path::new("/dir"));
    assert_eq!(team.budget.max_cost, Some(1_000_000_000_000));
}

#[test]
fn json_is_accepted() {
    let text = r#"{
	"agents": {
		"root": {"model": "gpt-4o", "instruction": "a\nb", "add_date": true, "max_iterations": 0}
	},
	"permissions": {"allow": ["read_*"]}
}"#;
    let team = load(text, std::path::Path::new(".")).unwrap();
    assert_eq!(team.entry().instruction, "a\nb");
    assert_eq!(team.entry().max_iterations, u32::MAX);
}

#[test]
fn instruction_is_read_from_instruction_file() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("prompts")).unwrap();
    std::fs::write(directory.path().join("prompts/a.md"), "Be kind.\n").unwrap();
    let text = "agents: {root: {model: gpt-4o, instruction_file: prompts/a.md}}";
    let team = load(text, directory.path()).unwrap();
    assert_eq!(team.entry().instruction, "Be kind.\n");

    let text = "agents: {root: {model: gpt-4o, instruction_file: prompts/b.md}}";
    let problems = load(text, directory.path()).unwrap_err();
    assert_eq!(problems[0].code, "unreadable-instruction");
    assert!(
        problems[0].message.contains("prompts/b.md"),
        "{}",
        problems[0].message
    );
    assert_eq!(
        one("agents: {root: {model: gpt-4o, instruction_file: no/such.md}}"),
        at("unreadable-instruction", "no/such.md")
    );
    std::fs::write(directory.path().join("prompts/c.md"), [0xff, 0xfe]).unwrap();
    let text = "agents: {root: {model: gpt-4o, instruction_file: prompts/c.md}}";
    assert_eq!(
        load(text, directory.path()).unwrap_err()[0].code,
        "unreadable-instruction"
    );
}

#[test]
fn environment_variables_are_expanded_in_models() {
    let text = "models:\n  m:\n    provider: openai\n    model: '${TEST_KEY}'\n    max_tokens: '${MOST:-5}'\nagents: {root: {model: m, instruction: 'Say ${this}.'}}";
    let environment = environment();
    let written = SourceFile {
        text,
        directory: std::path::Path::new("."),
        environment: &environment,
        builtins: &some_builtins(),
    };
    let read = Team::load(&tree::parse("team.yaml", text).unwrap(), &written);
    // Quoted: a text, where a number is wanted.
    assert_eq!(read.unwrap_err()[0].code, "wrong-type");
    let text = text.replace("'${MOST:-5}'", "${MOST:-5}");
    let team = load(&text, std::path::Path::new(".")).unwrap();
    let model = team.configured.model("m").unwrap();
    assert_eq!(model.model.as_deref(), Some("sk-test"));
    assert_eq!(model.max_tokens, Some(5));
    assert_eq!(team.entry().instruction, "Say ${this}.");
}

#[test]
fn every_problem_has_its_code_and_its_place() {
    let agents = |rest: &str| format!("agents:\n  root:\n    model: gpt-4o\n{rest}");
    let cases: [(String, &'static str, &str); 21] = [
        ("name: x".to_owned(), "no-agents", "name"),
        ("agents: {}".to_owned(), "no-agents", "agents"),
        ("agents:".to_owned(), "no-agents", "agents"),
        ("agents: [a]".to_owned(), "wrong-type", "[a"),
        ("agents: {root: x}".to_owned(), "wrong-type", "x"),
        (
            "agents: {root: {instruction: x}}".to_owned(),
            "missing-key",
            "{instruction",
        ),
        ("agents: {root: {model: 5}}".to_owned(), "wrong-type", "5"),
        (agents("    instructions: x"), "unknown-key", "instructions"),
        (agents("toolset: x"), "unknown-key", "toolset"),
        (
            agents("    sub_agents: [root]"),
            "delegates-to-itself",
            "root",
        ),
        (agents("    sub_agents: [rot]"), "unknown-agent", "rot"),
        (agents("    sub_agents: [5]"), "wrong-type", "5"),
        (agents("    max_iterations: -1"), "out-of-range", "-1"),
        (
            agents("    max_consecutive_tool_calls: 1"),
            "out-of-range",
            "1",
        ),
        (agents("    add_date: sometimes"), "wrong-type", "sometimes"),
        (agents("    recall: a lot"), "wrong-type", "a lot"),
        (agents("    instruction_file: {a: b}"), "wrong-type", "{a"),
        (agents("permissions: [a]"), "wrong-type", "[a"),
        (
            agents("permissions: {allowed: [a]}"),
            "unknown-key",
            "allowed",
        ),
        (agents("permissions: {deny: [5]}"), "wrong-type", "5"),
        (agents("budget: {max_costs: 5}"), "unknown-key", "max_costs"),
    ];
    for (text, code, place) in cases {
        assert_eq!(one(&text), at(code, place), "{text}");
    }
}

#[test]
fn invalid_rules_are_reported() {
    for rule in [
        "''",
        "':path=x'",
        "'command=git *'",
        "'Shell(git *)'",
        "'shell:git *'",
        "'read file'",
    ] {
        let text = format!("agents: {{root: {{model: gpt-4o}}}}\npermissions: {{allow: [{rule}]}}");
        assert_eq!(one(&text), at("bad-permission", rule), "{text}");
    }
    let problems = problems("agents: {root: {model: gpt-4o}}\npermissions: {ask: ['shell:git *']}");
    assert_eq!(
        problems[0].to_string(),
        "team.yaml:2:21: `git *` is not of the form ARGUMENT=PATTERN [bad-permission]; write a tool (`read_*`), or a tool and arguments (`shell:command=git *`)"
    );
}

#[test]
fn problems_are_reported_together_in_file_order() {
    let text = "
agents:
  root: {model: gpt-4o, sub_agents: [helpr], instruction: a, instruction_file: b}
  helper: {mdoel: x}
permissions: {allow: ['a b']}
bugdet: {max_cost: 1}
";
    let codes: Vec<&str> = found(text).into_iter().map(|(code, _)| code).collect();
    assert_eq!(
        codes,
        [
            "unknown-agent",
            "conflicting-keys",
            "unreadable-instruction",
            "unknown-key",
            "bad-permission",
            "unknown-key"
        ]
    );
    let problems = problems(text);
    let help = problems[0].help.as_deref();
    assert_eq!(help, Some("did you mean `helper`?"));
    assert_eq!(problems[5].help.as_deref(), Some("did you mean `budget`?"));
}

#[test]
fn unknown_models_are_reported() {
    let text = "models: {fast: gpt-4o-mini}\nagents: {root: {model: fats}, other: {model: fast, review: {model: fasst}}, third: {model: nobody/x}}";
    let team = load(text, std::path::Path::new(".")).unwrap();
    let models = Models::new(
        ModelDependencies {
            environment: environment(),
            clock: std::sync::Arc::new(ManualClock::at(0)),
            http: HttpOptions::default(),
            catalog: Catalog::built_in(),
        },
        team.configured.clone(),
    );
    let problems = team.check_models(&models);
    let reported: Vec<_> = problems
        .iter()
        .map(|problem| {
            let place = problem.place.as_ref().unwrap();
            (problem.code, &text[place.start..place.start + place.len])
        })
        .collect();
    assert_eq!(
        reported,
        [
            ("unknown-model", "fats"),
            ("unknown-model", "nobody/x"),
            ("unknown-model", "fasst")
        ]
    );
    assert!(
        problems[0].message.contains("did you mean `fast`?"),
        "{}",
        problems[0].message
    );
}

#[test]
fn team_is_read_as_part_of_a_larger_file() {
    let text = "agents: {root: {model: gpt-4o}}\nnodes: []\n";
    let environment = environment();
    let written = SourceFile {
        text,
        directory: std::path::Path::new("."),
        environment: &environment,
        builtins: &some_builtins(),
    };
    let root = tree::parse("team.yaml", text).unwrap();
    let mut problems = Vec::new();
    let mut section = tree::Section::from_node(&root, "a file", &mut problems).unwrap();
    let team = Team::read(&mut section, &root, &written, &mut problems);
    assert!(team.is_some() && problems.is_empty());
    section.finish(&mut problems);
    assert_eq!(problems.len(), 1);
    assert!(KEYS.contains(&"agents") && !KEYS.contains(&"nodes"));
}

/// The files in the document are what it says that they are.
#[test]
fn yaml_examples_of_the_documentation_are_valid_teams() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let text = std::fs::read_to_string(path).unwrap();
    let files: Vec<&str> = text
        .split("```yaml team\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(files.len() > 5);
    for file in files {
        let team = load(file, std::path::Path::new(".")).unwrap_or_else(|problems| {
            panic!("{file}\n{problems:?}");
        });
        for agent in &team.agents {
            let toolsets = agent.toolsets.iter();
            let problems: Vec<_> = toolsets.flat_map(|it| &it.problems).collect();
            assert!(problems.is_empty(), "{file}\n{problems:?}");
        }
    }
}

#[test]
fn a_review_has_defaults_and_all_its_keys_are_read() {
    let team = |review: &str| {
        let text = format!("agents: {{a: {{model: gpt-4o, review: {review}}}}}");
        load(&text, std::path::Path::new(".")).unwrap()
    };
    let review = team("{}").entry().review.clone().unwrap();
    assert_eq!(review, ReviewDefinition::default());
    assert_eq!((review.every_turns, review.max_iterations), (10, 16));
    assert_eq!(review.max_input_tokens, Some(600_000));
    let usual = [
        "memory",
        "skills_list",
        "skill_view",
        "skill_manage",
        "read_file",
        "grep",
    ];
    assert_eq!(review.tools(), usual);
    assert!(team("").entry().review.is_none());

    let review = team(
        "{every_turns: 0, kind: skill, tools: [memory, grep, memory], model: gpt-4o-mini, max_input_tokens: 0, max_iterations: 0, inherit: none, notify: off}",
    );
    let review = review.entry().review.clone().unwrap();
    assert_eq!((review.every_turns, review.kind), (0, ReviewKind::Skill));
    assert_eq!(review.tools(), ["memory", "grep"]);
    assert_eq!(review.model.unwrap().name, "gpt-4o-mini");
    assert_eq!(
        (review.max_input_tokens, review.max_iterations),
        (None, u32::MAX)
    );
    assert_eq!(
        (review.inherit, review.notify),
        (Inherit::None, Notify::Off)
    );
    let review = team("{kind: memory, inherit: session, notify: verbose}");
    let review = review.entry().review.clone().unwrap();
    assert_eq!(
        (review.inherit, review.notify),
        (Inherit::Session, Notify::Verbose)
    );
    assert_eq!(review.tools(), ["memory", "read_file", "grep"]);
}

#[test]
fn problems_of_a_review_are_reported_with_their_place() {
    let of = |review: &str| {
        one(&format!(
            "agents: {{a: {{model: gpt-4o, review: {review}}}}}"
        ))
    };
    assert_eq!(of("5"), at("wrong-type", "5"));
    assert_eq!(of("{every: 5}"), at("unknown-key", "every"));
    assert_eq!(of("{every_turns: -1}"), at("out-of-range", "-1"));
    assert_eq!(of("{kind: both}"), at("bad-value", "both"));
    assert_eq!(of("{inherit: all}"), at("bad-value", "all"));
    assert_eq!(of("{notify: loud}"), at("bad-value", "loud"));
    assert_eq!(of("{tools: [grep, 5]}"), at("wrong-type", "5"));
    let both = "{model: gpt-4o-mini, inherit: prompt}";
    assert_eq!(of(both), at("conflicting-keys", "prompt"));
    // Its own model has read the conversation.
    for inherit in ["full", "prompt", "session", "none"] {
        let own = format!(
            "agents: {{a: {{model: gpt-4o, review: {{model: gpt-4o, inherit: {inherit}}}}}}}"
        );
        assert!(load(&own, std::path::Path::new(".")).is_ok(), "{inherit}");
    }
}

#[test]
fn guard_of_the_prefix_reads_an_amount() {
    let guard = |text: &str| {
        let file = format!("agents: {{root: {{model: gpt-4o, prefix: {{guard: {text}}}}}}}");
        let team = load(&file, std::path::Path::new("."))?;
        Ok::<_, Vec<Problem>>(team.entry().prefix.guard.map(|guard| guard.above))
    };
    for text in ["{above: 0.50}", "{above: $0.50}", "{above: '0.5'}"] {
        assert_eq!(guard(text).unwrap(), Some(500_000_000_000), "{text}");
    }
    assert_eq!(guard("{above: 0}").unwrap(), Some(0));
    for (text, expected) in [
        (
            "{above: fifty}",
            "`above` must be a number that is not negative",
        ),
        (
            "{above: -1}",
            "`above` must be a number that is not negative",
        ),
        ("{}", "`above`"),
        ("0.50", "`guard`"),
    ] {
        let problems = guard(text).unwrap_err();
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(
            problems[0].message.contains(expected),
            "{text}: {problems:?}"
        );
    }
    let team = load("agents: {root: {model: gpt-4o}}", std::path::Path::new(".")).unwrap();
    assert_eq!(team.entry().prefix.guard, None);
}
