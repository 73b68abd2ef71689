//! `models`, `providers`, `agents`, `budget` and `settings.llm` in agent files.

use std::time::Duration;

use cachalot_model::RequestedReasoning;

use super::{load, problems};

#[test]
fn models_and_agents_of_a_workflow_are_read() {
    let agent = load(
        "
settings:
  llm:
    model: fast
    temperature: 0.5
    thinking_budget: 100
    timeouts: {idle: 5s}
    retries: ${RETRIES:-4}
models:
  fast:
    provider: openai
    model: ${MODEL:-gpt-4o-mini}
    max_tokens: ${LIMIT}
  careful: anthropic/claude-opus-4-8
providers:
  lab: {base_url: 'https://lab.example/v1', token_key: LAB_TOKEN}
agents:
  helper: {model: careful, instruction: You help.}
  root: {model: fast, sub_agents: [helper]}
permissions: {allow: ['read_*'], deny: ['read_file:path=.env*']}
budget: {max_cost: 0.5, max_tokens: 2000, max_time: 10m}
tools: {cacheToolResults: true}
mcps: {files: {command: x}}
nodes: [{name: a}]
",
    )
    .unwrap_or_else(|reported| panic!("{reported}"));
    let defaults = &agent.models.defaults;
    assert_eq!(
        (
            defaults.model.as_deref(),
            defaults.temperature,
            defaults.retries
        ),
        (Some("fast"), Some(0.5), Some(4))
    );
    assert_eq!(defaults.reasoning, Some(RequestedReasoning::Budget(100)));
    assert_eq!(defaults.timeouts.idle, Some(Duration::from_secs(5)));
    let fast = agent.models.model("fast").unwrap();
    assert_eq!(
        (fast.model.as_deref(), fast.max_tokens),
        (Some("gpt-4o-mini"), Some(100))
    );
    assert!(agent.models.provider("lab").is_some());
    assert_eq!(agent.budget.max_cost, Some(500_000_000_000));
    assert_eq!(agent.budget.max_time, Some(Duration::from_secs(600)));
    let team = agent.team.unwrap();
    assert_eq!((team.entry().name.as_str(), team.agents.len()), ("root", 2));
    // What holds for all models holds for those of agents.
    assert_eq!(team.configured, agent.models);
    let shared = &team.shared_tools;
    assert!(shared.results.is_some() && shared.servers.is_some());
}

#[test]
fn budget_and_models_are_valid_without_agents() {
    let agent = load("models: {a: gpt-4o}\nbudget: {max_tokens: 5}\nnodes: [{name: a}]").unwrap();
    assert!(agent.team.is_none());
    assert_eq!(agent.budget.max_tokens, Some(5));
    assert!(agent.models.model("a").is_some());
}

#[test]
fn problems_of_models_are_reported_with_their_place() {
    problems(
        "
models:
  fast: {provider: opnai, model: gpt-4o, temprature: 1}
  none: {provider: openai}
  hot: {model: gpt-4o, temperature: 11}
  list: [a]
providers:
  lab: {key_header: x-key}
settings:
  llm: {modle: gpt-4o, base_url: example.com, retries: 99}
nodes: [{name: a}]
",
        &[
            "a.yaml:3:20: there is no provider `opnai` [bad-value]; did you mean `openai`? Or set its address under `providers:`",
            "a.yaml:3:42: unknown key `temprature` in a model [unknown-key]; did you mean `temperature`?",
            "a.yaml:4:9: a model needs `model` [missing-key]; add `model: …`",
            "a.yaml:5:37: `temperature` must be from 0 to 10, but it is 11 [out-of-range]; write a number within these bounds",
            "a.yaml:6:9: a model must be a mapping, but this is a list [wrong-type]; write a mapping here",
            "a.yaml:8:3: the address of the provider `lab` is unknown [missing-key]; add `base_url: …`, or name one that comes with Cachalot: expected one of: openai, anthropic, azure, vertex, bedrock, amazon-bedrock, google, openrouter, deepseek, mistral, groq, xai, together, fireworks, cerebras, moonshot, baseten, cloudflare-ai-gateway, cloudflare-workers-ai, github-copilot, huggingface, minimax, nebius, nvidia, opencode-go, opencode-zen, ovhcloud, requesty, vercel, litellm, ollama, vllm, dmr, lmstudio, llamacpp",
            "a.yaml:10:9: unknown key `modle` in `settings.llm` [unknown-key]; did you mean `model`?",
            "a.yaml:10:34: `base_url` is `example.com`, which is not a URL (relative URL without a base) [bad-value]; write one such as https://api.example.com/v1",
            "a.yaml:10:56: `retries` must be at most 10 and not negative, but it is 99 [out-of-range]; write a whole number that is at most 10 and not negative",
        ],
    );
}

#[test]
fn problems_of_agents_are_reported_with_their_place() {
    problems(
        "
agents:
  root: {model: gpt-4o, instrction: x, sub_agents: [hepler, root]}
  helper: {instruction: x, instruction_file: y}
permissions: {alow: [x], deny: ['=x']}
budget: {max_costs: 5, max_tokens: -1}
nodes: [{name: a}]
",
        &[
            "a.yaml:3:25: unknown key `instrction` in an agent [unknown-key]; did you mean `instruction`?",
            "a.yaml:3:53: agent `root` delegates to `hepler`, which is not there [unknown-agent]; did you mean `helper`?",
            "a.yaml:3:61: agent `root` is its own sub-agent [delegates-to-itself]; take it out; an agent that should do the same again can be another one with the same instruction",
            "a.yaml:4:11: an agent needs `model` [missing-key]; add `model: …`",
            "a.yaml:4:46: an agent has either an `instruction` or an `instruction_file` [conflicting-keys]; leave one of them out",
            "a.yaml:4:46: y: No such file or directory (os error 2) [unreadable-instruction]; the path is relative to the agent file, and the file is UTF-8 text",
            "a.yaml:5:15: unknown key `alow` in `permissions` [unknown-key]; did you mean `allow`?",
            "a.yaml:5:33: `=x` does not begin with the name of a tool [bad-permission]; write a tool (`read_*`), or a tool and arguments (`shell:command=git *`)",
            "a.yaml:6:10: unknown key `max_costs` in `budget` [unknown-key]; did you mean `max_cost`?",
            "a.yaml:6:36: `max_tokens` must be at least 0, but it is -1 [out-of-range]; write a whole number that is at least 0",
        ],
    );
}

#[test]
fn agent_sections_without_agents_are_problems() {
    problems(
        "
tools: {cacheToolResults: true}
mcps: {}
permissions: {allow: []}
agnts: {}
nodes: [{name: a}]
",
        &[
            "a.yaml:2:1: `tools` is for agents, and there are none [no-agents]; add `agents:`, or take it out: it would have no effect",
            "a.yaml:3:1: `mcps` is for agents, and there are none [no-agents]; add `agents:` or a step that is a tool, or take it out: it would have no effect",
            "a.yaml:4:1: `permissions` is for agents, and there are none [no-agents]; add `agents:` or a step that is a tool, or take it out: it would have no effect",
            "a.yaml:5:1: unknown key `agnts` in an agent file [unknown-key]; did you mean `agents`?",
        ],
    );
    problems(
        "agents: {}\nnodes: [{name: a}]",
        &[
            "a.yaml:1:1: the file has no agents [no-agents]; add `agents:` with at least one: `root: {model: …, instruction: …}`",
        ],
    );
}

#[test]
fn agents_without_nodes_are_a_chat_file() {
    problems(
        "agents: {root: {model: gpt-4o}}",
        &[
            "a.yaml:1:1: an agent file needs `nodes` to be run [missing-key]; to talk to its agents, use `cachalot chat`; to run them, add a node with `uses: agent.run`",
        ],
    );
}

#[test]
fn instruction_file_is_read_once() {
    use std::collections::BTreeMap;

    use cachalot_workflow::{actions, format};

    let directory = tempfile::TempDir::new().unwrap();
    let reported = directory.path().join("told.md");
    std::fs::write(&reported, "You help.\n").unwrap();
    let file = directory.path().join("a.yaml");
    let text = "agents: {root: {model: gpt-4o, instruction_file: told.md}}\nnodes: [{name: a}]";
    let load = || {
        let name = file.to_str().unwrap();
        format::load(
            name,
            text,
            &actions::builtin(),
            &BTreeMap::new(),
            &cachalot_agent::definition::Builtins::default(),
        )
    };
    assert_eq!(
        load().unwrap().team.unwrap().entry().instruction.trim_end(),
        "You help."
    );
    std::fs::remove_file(reported).unwrap();
    let problems = load().unwrap_err();
    assert_eq!(problems[0].code, "unreadable-instruction");
    assert_eq!(problems[0].place.as_ref().unwrap().line, 1);
}
