//! `reason.*` in files, against the simulator: results, requests, costs, budgets, the cache, and tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use cachalot_simulator::{Fault, ScriptedReply, ScriptedStop, ScriptedUsage};
use cachalot_workflow::actions::builtin;
use cachalot_workflow::format;
use cachalot_workflow::graph::{PlannedOutcome, RunFailure};
use cachalot_workflow::report::Event;
use serde_json::{Value, json};

use crate::fakes::provider::configure;
use crate::fakes::{Provider, Server};
use crate::fixture::Fixture;

const HEAD: &str = "
models:
  small: {provider: openai, model: gpt-4o-mini, format: chat, cost: {input: 1, output: 2}}
  large: {provider: openai, model: gpt-4o, format: chat, cost: {input: 10, output: 20}}
settings:
  llm: {model: small, retries: 0}
";

/// 1000 tokens in, and 50 out: $0.0011 with `small`, $0.011 with `large`.
fn reply(text: impl ToString) -> ScriptedReply {
    ScriptedReply::text(text.to_string()).with_usage(ScriptedUsage {
        input: Some(1_000),
        cache_read: Some(0),
        cache_write: Some(0),
        output: Some(50),
        ..ScriptedUsage::default()
    })
}

fn fixture(provider: &Provider, file: &str) -> Fixture {
    let mut fixture = Fixture::new();
    let runtime = Arc::get_mut(&mut fixture.runtime).unwrap();
    runtime.actions = Arc::new(builtin());
    configure(runtime, &provider.environment(), file);
    fixture
}

struct Ran {
    provider: Provider,
    fixture: Fixture,
    ended: Result<Value, RunFailure>,
}

impl Ran {
    fn state(&self) -> &Value {
        self.ended
            .as_ref()
            .unwrap_or_else(|failure| panic!("{failure}"))
    }

    fn failure(&self) -> &RunFailure {
        self.ended.as_ref().unwrap_err()
    }

    /// The content of a message of a request.
    fn sent(&self, request: usize, message: usize) -> String {
        let request = self.provider.received()[request].json();
        request["messages"][message]["content"]
            .as_str()
            .unwrap_or_else(|| panic!("{request}"))
            .to_owned()
    }
}

/// Runs nodes; the n-th request gets the n-th reply.
async fn run(nodes: &str, replies: impl IntoIterator<Item = ScriptedReply>, input: Value) -> Ran {
    let provider = Provider::replies(replies);
    let file = format!("{HEAD}nodes:\n{nodes}");
    let fixture = fixture(&provider, &file);
    let ended = fixture.run(&file, input).await;
    Ran {
        provider,
        fixture,
        ended,
    }
}

/// The codes and texts of the problems of a node that uses an action.
fn problems(uses: &str, with: &str) -> Vec<(&'static str, String)> {
    let text = format!("nodes:\n  - {{name: think, uses: {uses}, with: {with}}}\n");
    let loaded = format::load(
        "agent.yaml",
        &text,
        &builtin(),
        &BTreeMap::new(),
        &cachalot_agent::definition::Builtins::default(),
    );
    match loaded {
        Ok(agent) => agent.warnings,
        Err(problems) => problems,
    }
    .into_iter()
    .map(|problem| (problem.code, problem.to_string()))
    .collect()
}

const COT: &str = "
  - name: think
    uses: reason.cot
    with:
      problem: 'What is 15% of {{ state.of }}?'
      thinking_format: '{{ state.format }}'
      few_shot_examples:
        - {problem: 'What is 20% of 150?', thinking: '0.2 * 150', answer: 30}
    output: solution
";

#[tokio::test]
async fn chain_of_thought_returns_thinking_and_answer() {
    let answer = "Sure:\n```json\n{\"thinking\": \"0.15 * 80\", \"answer\": 12}\n```";
    let ran = run(COT, [reply(answer)], json!({ "of": 80, "format": "tree" })).await;
    assert_eq!(
        ran.state()["solution"],
        json!({
            "thinking": "0.15 * 80",
            "answer": 12,
            "reasoning_trace": [
                { "step": "cot_request", "problem": "What is 15% of 80?", "thinking_format": "tree", "model": null },
                { "step": "cot_response", "thinking": "0.15 * 80", "answer": 12 },
            ],
            "model": "gpt-4o-mini",
            "thinking_format": "tree",
            "reasoning_thinking": "0.15 * 80",
            "reasoning_answer": 12,
            "usage": {
                "input_tokens": 1000, "output_tokens": 50, "cache_read_tokens": 0, "cache_write_tokens": 0,
                "reasoning_tokens": 0, "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
            },
            "cost": 0.0011,
        })
    );
    let system = ran.sent(0, 0);
    assert!(system.contains("branches"), "{system}");
    assert!(system.contains("problem: What is 20% of 150?\nthinking: 0.2 * 150\nanswer: 30"));
    assert_eq!(ran.sent(0, 1), "Problem: What is 15% of 80?");
}

#[tokio::test]
async fn unknown_template_format_is_replaced_with_a_warning() {
    let ran = run(
        COT,
        [reply(r#"{"answer": "x"}"#)],
        json!({ "of": 1, "format": "zigzag" }),
    )
    .await;
    let solution = &ran.state()["solution"];
    assert_eq!(
        (&solution["thinking_format"], &solution["thinking"]),
        (&json!("step_by_step"), &json!(""))
    );
    let shown = ran.fixture.reported.shown().join("\n");
    assert!(
        shown.contains("there is no `thinking_format` `zigzag`"),
        "{shown}"
    );
}

#[tokio::test]
async fn unparsable_answer_is_not_a_success() {
    let input = json!({ "of": 1, "format": "tree" });
    for (answer, says) in [
        (reply("It is 12."), "is no JSON object: It is 12."),
        (
            reply(r#"{"thinking": "hm", "answer": null}"#),
            "has no `answer`",
        ),
        (
            reply("{\"thinking\": \"hm").with_stop(ScriptedStop::Length),
            "it is cut off: raise `max_tokens`",
        ),
    ] {
        let ran = run(COT, [answer], input.clone()).await;
        let failure = ran.failure();
        assert_eq!(failure.kind, "invalid_answer");
        assert!(
            failure.retryable && failure.message.contains(says),
            "{failure}"
        );
        assert_eq!(ran.fixture.runtime.meter.spent().calls, 1);
    }
}

const CORRECT: &str = "
  - name: write
    uses: reason.self_correct
    with:
      task: 'Write {{ state.what }}.'
      critic_model: large
      improvement_rounds: 2
      critic_prompt: |
        {{ state.what | upper }} for {{ task | length }}: {{ output | replace('O', '0') }}{% if output.x is defined %}!{% endif %}
    output: code
";

fn review(output: &str) -> ScriptedReply {
    reply(json!({
        "issues": ["dull"], "suggestions": [], "improved_output": output, "improvement_score": 0.5,
    }))
}

#[tokio::test]
async fn self_correct_reviews_an_output_in_rounds() {
    let first = reply(r#"{"output": "ONE", "confidence": 0.4, "potential_issues": ["short"]}"#);
    let input = json!({ "what": "code" });
    let ran = run(CORRECT, [first, review("TWO"), review("THREE")], input).await;
    let code = &ran.state()["code"];
    assert_eq!(
        (
            &code["output"],
            &code["reasoning_answer"],
            &code["rounds_completed"]
        ),
        (&json!("THREE"), &json!("THREE"), &json!(2))
    );
    assert_eq!(
        (
            &code["model"],
            &code["generator_model"],
            &code["critic_model"]
        ),
        (
            &json!("gpt-4o-mini"),
            &json!("gpt-4o-mini"),
            &json!("gpt-4o")
        )
    );
    assert_eq!(
        code["improvement_history"],
        json!([
            { "round": 0, "type": "initial", "output": "ONE", "confidence": 0.4, "potential_issues": ["short"] },
            { "round": 1, "type": "improvement", "issues_found": ["dull"], "suggestions": [], "output": "TWO", "improvement_score": 0.5 },
            { "round": 2, "type": "improvement", "issues_found": ["dull"], "suggestions": [], "output": "THREE", "improvement_score": 0.5 },
        ])
    );
    assert_eq!(code["usage"]["total_tokens"], 3 * 1_050);
    let cost = code["cost"].as_f64().unwrap();
    assert!((cost - 0.0231).abs() < 1e-9, "{cost}");
    // The prompt of the critic is rendered in each round.
    for (request, output, rendered) in [(1, "ONE", "0NE"), (2, "TWO", "TW0")] {
        let system = ran.sent(request, 0);
        assert!(
            system.contains(&format!("CODE for 11: {rendered}\n")),
            "{system}"
        );
        assert_eq!(
            ran.sent(request, 1),
            format!("Task: Write code.\n\nOutput:\n{output}")
        );
    }
}

#[tokio::test]
async fn failed_round_is_skipped_and_text_output_is_accepted() {
    let input = json!({ "what": "code" });
    let replies = [
        reply("just text"),
        reply("No idea."),
        ScriptedReply::error(500),
    ];
    let ran = run(CORRECT, replies, input.clone()).await;
    let code = &ran.state()["code"];
    assert_eq!(
        (
            &code["output"],
            &code["rounds_completed"],
            &code["critic_model"]
        ),
        (&json!("just text"), &json!(0), &Value::Null)
    );
    let steps: Vec<&str> = code["reasoning_trace"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|step| step["step"].as_str())
        .collect();
    assert_eq!(
        steps,
        [
            "self_correct_start",
            "initial_generation",
            "critique_round_1_parse_error",
            "critique_round_2_error",
            "self_correct_complete",
        ]
    );
    assert_eq!(code["reasoning_trace"][1]["structured"], false);
    // A failure that no later round can mend ends the node.
    let ran = run(CORRECT, [reply("x"), ScriptedReply::error(401)], input).await;
    assert_eq!(ran.failure().kind, "unauthorized");
}

const DECOMPOSE: &str = "
  - name: plan
    uses: reason.decompose
    with: {problem: Design an API., max_depth: 3, synthesis_prompt: 'Be {{ state.how }}.'}
    output: plan
";

#[tokio::test]
async fn decompose_solves_a_problem_in_parts() {
    let parts = json!({
        "analysis": "two parts",
        "sub_problems": [
            { "id": 2, "description": "routes", "dependencies": ["1"] },
            { "id": 1, "description": "nouns", "dependencies": [] },
            "errors",
        ],
        "synthesis_strategy": "join",
    });
    let replies = [
        reply(parts),
        reply(r#"{"reasoning": "r", "answer": ["todo"], "confidence": 0.9}"#),
        reply("GET /todo"),
        reply(r#"{"answer": "404"}"#),
        reply(r#"{"reasoning": "joined", "final_answer": "done"}"#),
    ];
    let ran = run(DECOMPOSE, replies, json!({ "how": "brief" })).await;
    let plan = &ran.state()["plan"];
    assert_eq!(
        plan["sub_problems"],
        json!([
            { "id": 2, "description": "routes", "dependencies": ["1"] },
            { "id": 1, "description": "nouns", "dependencies": [] },
            { "id": 3, "description": "errors", "dependencies": [] },
        ])
    );
    assert_eq!(
        plan["sub_answers"],
        json!([
            { "id": 1, "description": "nouns", "reasoning": "r", "answer": ["todo"], "confidence": 0.9 },
            { "id": 2, "description": "routes", "reasoning": null, "answer": "GET /todo", "confidence": null },
            { "id": 3, "description": "errors", "reasoning": null, "answer": "404", "confidence": null },
        ])
    );
    assert_eq!(
        (
            &plan["final_answer"],
            &plan["synthesis_reasoning"],
            &plan["depth_used"]
        ),
        (&json!("done"), &json!("joined"), &json!(0))
    );
    assert_eq!(plan["usage"]["input_tokens"], 5_000);
    assert_eq!(ran.sent(2, 1), "Part: routes\nAnswer to part 1: [\"todo\"]");
    assert!(ran.sent(4, 0).contains("Be brief."));
    assert!(ran.sent(4, 1).contains("GET /todo"));
}

#[tokio::test]
async fn missing_or_failed_parts_are_not_a_success() {
    for (answer, says) in [
        ("no JSON", "is no JSON object"),
        (r#"{"sub_problems": "x"}"#, "has no list `sub_problems`"),
        (r#"{"sub_problems": []}"#, "has 0 `sub_problems`"),
        (r#"{"sub_problems": [{"id": 1}]}"#, "without `description`"),
    ] {
        let ran = run(DECOMPOSE, [reply(answer)], json!({ "how": "brief" })).await;
        assert_eq!(ran.failure().kind, "invalid_answer");
        assert!(ran.failure().message.contains(says), "{}", ran.failure());
        assert_eq!(ran.provider.requests(), 1);
    }
    let failing = ScriptedReply::error(503).with_fault(Fault::status(503).times(9));
    let parts = reply(r#"{"sub_problems": ["a", "b"]}"#);
    let ran = run(DECOMPOSE, [parts, failing], json!({ "how": "brief" })).await;
    assert!(
        ran.failure()
            .message
            .contains("no part of the problem was solved")
    );
    assert_eq!(ran.provider.requests(), 3);
    // One part is missing: the others are combined.
    let replies = [
        reply(r#"{"sub_problems": ["a", "b"]}"#),
        ScriptedReply::error(503),
        reply(r#"{"answer": "B"}"#),
        reply("all"),
    ];
    let ran = run(DECOMPOSE, replies, json!({ "how": "brief" })).await;
    let plan = &ran.state()["plan"];
    assert_eq!(
        (&plan["final_answer"], &plan["sub_answers"][0]["answer"]),
        (&json!("all"), &Value::Null)
    );
    assert!(
        plan["sub_answers"][0]["error"]
            .as_str()
            .unwrap()
            .contains("503"),
        "{plan}"
    );
}

#[tokio::test]
async fn exhausted_budget_ends_the_pattern() {
    let provider = Provider::replies([reply(r#"{"output": "x"}"#), review("y")]);
    let file = format!("{HEAD}budget: {{max_tokens: 2000}}\nnodes:\n{CORRECT}");
    let fixture = fixture(&provider, &file);
    let failure = fixture
        .run(&file, json!({ "what": "code" }))
        .await
        .unwrap_err();
    assert_eq!(failure.kind, "over_budget", "{failure}");
    assert!(!failure.retryable);
    assert_eq!(provider.requests(), 2);
    assert_eq!(fixture.runtime.meter.spent().tokens, 2_100);
}

/// The node of a pattern inside `cache.wrap`.
fn wrapped(node: &str) -> String {
    let (before, with) = node.split_once("    with:").unwrap();
    let (with, output) = with.split_once("    output").unwrap();
    let action = before.rsplit("uses: ").next().unwrap().trim();
    let name = before.split("uses").next().unwrap();
    let args: String = with
        .lines()
        .fold(String::new(), |text, line| format!("{text}  {line}\n"));
    format!(
        "{name}uses: cache.wrap\n    with:\n      action: {action}\n      args:{}    output{output}",
        &args[2..]
    )
}

#[tokio::test]
async fn wrapped_pattern_is_paid_once() {
    let cot = reply(r#"{"thinking": "t", "answer": 12}"#);
    let parts = reply(r#"{"sub_problems": ["a"]}"#);
    for (node, replies, key, input, other) in [
        (
            COT,
            vec![cot],
            "solution",
            json!({ "of": 1, "format": "tree" }),
            json!({ "of": 1, "format": "pros_cons" }),
        ),
        (
            CORRECT,
            vec![reply(r#"{"output": "x"}"#), review("y"), review("z")],
            "code",
            json!({ "what": "code", "unread": 1 }),
            json!({ "what": "prose" }),
        ),
        (
            DECOMPOSE,
            vec![parts, reply("A"), reply("all")],
            "plan",
            json!({ "how": "brief" }),
            json!({ "how": "long" }),
        ),
    ] {
        let calls = replies.len();
        let twice: Vec<ScriptedReply> = replies.iter().chain(&replies).cloned().collect();
        let provider = Provider::replies(twice);
        let file = format!("{HEAD}nodes:\n{}", wrapped(node));
        let fixture = fixture(&provider, &file);
        let first = fixture.run(&file, input.clone()).await.unwrap();
        let mut same = input.clone();
        same["unread"] = json!(2);
        let second = fixture.run(&file, same).await.unwrap();
        assert_eq!(first[key]["_cache_stored"], true, "{first}");
        assert_eq!(second[key]["_cache_hit"], true, "{second}");
        assert_eq!(first[key]["result"], second[key]["result"]);
        assert_eq!(provider.requests(), calls);
        let plan = fixture.plan(&file, input).await;
        assert!(
            matches!(plan.nodes[0].outcome, PlannedOutcome::Hit { .. }),
            "{plan:?}"
        );
        // Every input is in the key, also one that only the critic's template reads.
        let third = fixture.run(&file, other).await.unwrap();
        assert_eq!(third[key]["_cache_hit"], false);
        assert_eq!(provider.requests(), 2 * calls);
        let paid: u64 = fixture
            .reported
            .events
            .lock()
            .unwrap()
            .iter()
            .map(|event| match event {
                Event::Answered { memoized, .. } => memoized.paid.input_tokens,
                _ => 0,
            })
            .sum();
        assert_eq!(paid, 2_000 * calls as u64);
    }
}

#[tokio::test]
async fn critic_template_with_other_values_has_another_key() {
    let node = |state: &str| {
        wrapped(
            &CORRECT
                .replace("{{ state.what | upper }}", state)
                .replace("{{ state.what }}", "x"),
        )
    };
    for (template, is_same) in [
        ("{% if 'never' in output %}{{ state.a }}{% endif %}", false),
        ("{{ state['a'] }}", false),
        ("{% for k, v in state.items() %}{{ v }}{% endfor %}", false),
        ("{{ state.get('a') }}", false),
        ("{{ state.c | default('') }}", true),
    ] {
        let replies = [reply(r#"{"output": "x"}"#), review("y"), review("z")];
        let provider = Provider::replies(replies.iter().chain(&replies).cloned());
        let file = format!("{HEAD}nodes:\n{}", node(template));
        let fixture = fixture(&provider, &file);
        fixture.run(&file, json!({ "a": 1 })).await.unwrap();
        let other = fixture.run(&file, json!({ "a": 2 })).await.unwrap();
        assert_eq!(other["code"]["_cache_hit"], is_same, "{template}: {other}");
    }
}

#[tokio::test]
async fn incomplete_results_are_not_stored() {
    for replies in [
        // A round is lost.
        vec![reply("x"), reply("?"), review("y")],
        // An answer is cut off.
        vec![
            reply("x").with_stop(ScriptedStop::Length),
            review("y"),
            review("z"),
        ],
    ] {
        let ran = run(&wrapped(CORRECT), replies, json!({ "what": "code" })).await;
        let code = &ran.state()["code"];
        assert_eq!(code["_cache_stored"], false, "{code}");
    }
    // A fallback of the model answered.
    let head = HEAD.replace("retries: 0", "retries: 0, fallbacks: [large]");
    let provider = Provider::replies([ScriptedReply::error(503), reply(r#"{"answer": 1}"#)]);
    let file = format!("{head}nodes:\n{}", wrapped(COT));
    let fixture = fixture(&provider, &file);
    let state = fixture
        .run(&file, json!({ "of": 1, "format": "tree" }))
        .await
        .unwrap();
    let solution = &state["solution"];
    assert_eq!(solution["result"]["model"], "gpt-4o");
    assert_eq!(solution["_cache_stored"], false, "{solution}");
}

fn react(tools: &str, maximum: u32) -> String {
    format!(
        "
  - name: research
    uses: reason.react
    with:
      goal: 'Find {{{{ state.what }}}}.'
      tools: {tools}
      max_steps: {maximum}
    output: found
"
    )
}

fn step(action: &str, input: Value) -> ScriptedReply {
    reply(json!({ "thought": "next", "action": action, "action_input": input }))
}

#[tokio::test]
async fn react_calls_tools_until_an_answer() {
    let replies = [
        step("memory.store", json!({ "key": "n", "value": [12] })),
        reply("Let me think."),
        step("memory.retrieve", json!({ "key": "n" })),
        step("file.read", json!({ "path": "nothing.txt" })),
        step("memory.retrieve", json!({ "kee": "n" })),
        step("shell.run", json!({ "command": ["true"] })),
        step("final_answer", json!({ "answer": { "n": 12 } })),
    ];
    let nodes = react("[memory.store, memory.retrieve, file.read]", 8);
    let ran = run(&nodes, replies, json!({ "what": "n" })).await;
    let found = &ran.state()["found"];
    assert_eq!(
        (
            &found["final_answer"],
            &found["reasoning_answer"],
            &found["total_steps"]
        ),
        (&json!({ "n": 12 }), &json!({ "n": 12 }), &json!(7))
    );
    let steps = found["steps"].as_array().unwrap();
    assert_eq!(found["steps"], found["react_steps"]);
    let numbers: Vec<u64> = steps
        .iter()
        .filter_map(|step| step["step"].as_u64())
        .collect();
    assert_eq!(numbers, [1, 3, 4, 5, 6, 7]);
    assert_eq!(
        steps[0],
        json!({
            "step": 1, "thought": "next", "action": "memory.store",
            "action_input": { "key": "n", "value": [12] },
            "observation": r#"{"stored":true,"key":"n","namespace":"default"}"#,
        })
    );
    let observation = |index: usize| steps[index]["observation"].as_str().unwrap();
    assert_eq!(observation(1), r#"{"found":true,"value":[12],"key":"n"}"#);
    assert!(
        observation(2).starts_with("`file.read` failed: "),
        "{}",
        observation(2)
    );
    assert!(
        observation(3).contains("did you mean `key`?"),
        "{}",
        observation(3)
    );
    assert!(
        observation(4).starts_with("there is no tool `shell.run`"),
        "{}",
        observation(4)
    );
    assert_eq!(found["reasoning_trace"][2]["step"], "step_2_parse_error");
    assert_eq!(found["usage"]["total_tokens"], 7 * 1_050);
    assert_eq!(ran.sent(0, 1), "Goal: Find n.");
    let system = ran.sent(0, 0);
    assert!(
        system.contains("- memory.store: ") && system.contains("    key (text, required): "),
        "{system}"
    );
    assert_eq!(
        ran.sent(1, 3),
        format!("Result of `memory.store`: {}", observation(0))
    );
    let events = ran.fixture.reported.shown();
    for event in [
        "+ research/memory.store[1]",
        "- research/memory.store[1]",
        "+ research/file.read[4]",
    ] {
        assert!(events.iter().any(|other| other == event), "{events:?}");
    }
}

#[tokio::test]
async fn react_without_an_answer_returns_its_steps_with_a_warning() {
    let ran = run(
        &react("[]", 2),
        [step("guess", json!("x"))],
        json!({ "what": "n" }),
    )
    .await;
    let found = &ran.state()["found"];
    assert_eq!(
        (&found["final_answer"], &found["total_steps"]),
        (&Value::Null, &json!(2))
    );
    assert_eq!(
        found["warning"],
        "`max_steps` (2) is reached without an answer"
    );
    assert_eq!(
        found["steps"][1]["observation"],
        "there is no tool `guess`: there are no tools"
    );
    assert!(found.get("reasoning_answer").is_none());
    assert!(
        ran.fixture
            .reported
            .shown()
            .join("\n")
            .contains("`max_steps` (2) is reached")
    );
    // An answer of null is none, and text alone is one.
    let replies = [
        step("final_answer", json!({ "answer": null })),
        step("final_answer", json!("12")),
    ];
    let ran = run(&react("[]", 2), replies, json!({ "what": "n" })).await;
    assert_eq!(ran.state()["found"]["final_answer"], "12");
}

/// The arguments of tools are chosen by a model, which must not choose where data is sent.
#[tokio::test]
async fn react_tool_cannot_request_a_host_of_the_model() {
    let server = Server::start(Router::new().fallback(any(async || "ok")));
    let url = server.base_url();
    let port = url.rsplit(':').next().unwrap();
    for (input, settings, is_requested) in [
        (json!({ "what": "n" }), "", false),
        (json!({ "what": "n", "at": url }), "", true),
        (
            json!({ "what": "n" }),
            "settings: {http: {allowed_hosts: [127.0.0.1]}}",
            true,
        ),
    ] {
        let replies = [
            step(
                "http.get",
                json!({ "url": format!("{url}/x"), "allowed_hosts": ["127.0.0.1"] }),
            ),
            step("final_answer", json!({ "answer": 1 })),
        ];
        let provider = Provider::replies(replies);
        let head = match settings {
            "" => HEAD.to_owned(),
            _ => HEAD.replace(
                "settings:",
                "settings:\n  http: {allowed_hosts: [127.0.0.1]}",
            ),
        };
        let file = format!("{head}nodes:\n{}", react("[http.get]", 3));
        let fixture = fixture(&provider, &file);
        let state = fixture.run(&file, input).await.unwrap();
        let observation = state["found"]["steps"][0]["observation"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(
            observation == "\"ok\"",
            is_requested,
            "{port}: {observation}"
        );
    }
}

#[test]
fn problems_are_found_at_load() {
    for (uses, with, code, says) in [
        ("reason.cot", "{}", "missing-key", "needs `problem`"),
        (
            "reason.cot",
            "{problem: x, modle: y}",
            "unknown-key",
            "did you mean `model`?",
        ),
        (
            "reason.cot",
            "{problem: x, messages: []}",
            "unknown-key",
            "no parameter `messages`",
        ),
        (
            "reason.cot",
            "{problem: x, thinking_format: trees}",
            "bad-value",
            "did you mean `tree`?",
        ),
        (
            "reason.cot",
            "{problem: x, max_retries: 99}",
            "out-of-range",
            "0 to 10",
        ),
        (
            "reason.self_correct",
            "{task: x, improvement_rounds: 51}",
            "out-of-range",
            "0 to 50",
        ),
        (
            "reason.self_correct",
            "{task: '{{ output }} x'}",
            "unknown-name",
            "there is no `output` here",
        ),
        (
            "reason.self_correct",
            "{task: x, critic_prompt: 'a {{ outpt }}'}",
            "unknown-name",
            "did you mean `output`?",
        ),
        (
            "reason.self_correct",
            "{task: x, critic_prompt: [a]}",
            "wrong-type",
            "critic_prompt",
        ),
        (
            "reason.self_correct",
            "{task: x, critic_prompt: \"{{ 'f' | storage_hash }}\"}",
            "unsupported",
            "storage_hash",
        ),
        (
            "reason.cot",
            "{problem: x, provider: shell, shell_provider: clade}",
            "bad-value",
            "there is no program `clade`",
        ),
        (
            "reason.decompose",
            "{problem: [x]}",
            "wrong-type",
            "problem",
        ),
        (
            "reason.react",
            "{goal: x, max_steps: 0}",
            "out-of-range",
            "1 to 100",
        ),
        (
            "reason.react",
            "{goal: x, tools: [web.serch]}",
            "unknown-action",
            "did you mean `web.search`?",
        ),
        (
            "reason.react",
            "{goal: x, tools: [cache.wrap]}",
            "bad-value",
            "runs other actions",
        ),
        (
            "reason.react",
            "{goal: x, tools: [reason.react]}",
            "bad-value",
            "runs other actions",
        ),
        (
            "reason.react",
            "{goal: x, tools: [reflection.loop]}",
            "bad-value",
            "runs other actions",
        ),
        (
            "reason.react",
            "{goal: x, tools: '{{ state.tools }}'}",
            "bad-value",
            "written out",
        ),
        (
            "reason.react",
            "{goal: x, tools: ['{{ state.tool }}']}",
            "bad-value",
            "written out",
        ),
        (
            "cache.wrap",
            "{action: reason.react, args: {goal: x}}",
            "not-memoizable",
            "runs other actions",
        ),
        (
            "cache.wrap",
            "{action: memory.retrieve, args: {key: x}}",
            "not-memoizable",
            "memory of the run",
        ),
        (
            "cache.wrap",
            "{action: memory.summarize, args: {messages_key: x}}",
            "not-memoizable",
            "reads the state",
        ),
        (
            "cache.wrap",
            "{action: memory.store, args: {key: x, value: 1}}",
            "effect-only-wrapped",
            "only has an effect",
        ),
        (
            "reason.dspy.cot",
            "{problem: x}",
            "unknown-action",
            "there is no action",
        ),
    ] {
        let found = problems(uses, with);
        assert!(
            found
                .iter()
                .any(|(found, text)| *found == code && text.contains(says)),
            "{uses} {with}: {found:?}"
        );
    }
    let absent = problems("reason.react", "{goal: x, tools: [web.scrape, file.write]}");
    let [(code, text)] = &absent[..] else {
        panic!("{absent:?}")
    };
    assert_eq!(*code, "no-effect");
    assert!(text.contains("the model does not get this tool"), "{text}");
    let late = "{task: x, critic_prompt: '{{ output }} {{ task }} {{ state.x }}'}";
    assert_eq!(problems("reason.self_correct", late), []);
    let late =
        format!("{{action: cache.wrap, args: {{action: reason.self_correct, args: {late}}}}}");
    assert_eq!(problems("cache.wrap", &late), []);
}

/// A mapping from the state is not a template, even if it looks like one.
#[tokio::test]
async fn template_from_the_state_is_plain_text() {
    let nodes = "
  - name: write
    uses: reason.self_correct
    with: '{{ state.arguments }}'
";
    let forged = json!({ "template": "{{ secrets.TOKEN }}", "values": {} });
    let arguments = json!({ "task": "x", "improvement_rounds": 1, "critic_prompt": forged });
    let ran = run(nodes, [reply("x")], json!({ "arguments": arguments })).await;
    assert_eq!(ran.failure().kind, "validation_error");
    let text =
        json!({ "task": "x", "improvement_rounds": 1, "critic_prompt": "{{ secrets.TOKEN }}" });
    let ran = run(
        nodes,
        [reply("x"), review("y")],
        json!({ "arguments": text }),
    )
    .await;
    assert_eq!(ran.state()["output"], "y");
    assert!(ran.sent(1, 0).contains("{{ secrets.TOKEN }}"));
}

/// The failure of a tool goes to the model and into the result without secrets.
#[tokio::test]
async fn failing_tool_reveals_no_secret() {
    let replies = [
        step("file.read", json!({ "path": "hunter2-hunter2.txt" })),
        step("final_answer", json!({ "answer": 1 })),
    ];
    let provider = Provider::replies(replies);
    let file = format!("{HEAD}nodes:\n{}", react("[file.read]", 3));
    let fixture = fixture(&provider, &file);
    fixture.runtime.secret_set.learn("hunter2-hunter2");
    let state = fixture.run(&file, json!({ "what": "n" })).await.unwrap();
    let observation = state["found"]["steps"][0]["observation"].as_str().unwrap();
    assert!(
        observation.starts_with("`file.read` failed: "),
        "{observation}"
    );
    assert!(!observation.contains("hunter2-hunter2"), "{observation}");
    let sent = provider.received()[1].json()["messages"][3].to_string();
    assert!(!sent.contains("hunter2-hunter2"), "{sent}");
}

/// The template of a critic works wherever an action does.
#[tokio::test]
async fn late_template_works_in_loops_and_branches() {
    let with = "{task: x, improvement_rounds: 1, critic_prompt: 'See {{ output }} of {{ state.n | default(7) }}.'}";
    let of_loop = format!(
        "  - name: write
    uses: reflection.loop
    with:
      generator: {{action: reason.self_correct, with: {with}}}
      evaluator: {{type: schema, schema: {{type: object}}}}
"
    );
    let of_branches = format!(
        "  - name: each
    type: dynamic_parallel
    items: [7]
    item_var: n
    action: reason.self_correct
    with: {with}
    fan_in: join
  - {{name: join, fan_in: true}}
"
    );
    for nodes in [of_loop, of_branches] {
        let ran = run(&nodes, [reply("first"), review("better")], json!({})).await;
        assert!(ran.state().to_string().contains("better"), "{nodes}");
        let system = ran.sent(1, 0);
        assert!(system.contains("See first of 7."), "{system}");
    }
}

/// Settings about models and the memory are checked for these actions, too.
#[test]
fn settings_problems_apply_to_patterns_and_their_tools() {
    let load = |settings: &str, node: &str| {
        let text = format!("settings: {settings}\nnodes:\n  - {node}\n");
        let builtins = cachalot_agent::definition::Builtins::default();
        format::load("agent.yaml", &text, &builtin(), &BTreeMap::new(), &builtins)
    };
    let problems = load(
        "{llm: {backend: local, model_path: x.gguf}}",
        "{name: n, uses: reason.cot, with: {problem: x}}",
    );
    let shown = crate::fixture::shown(&problems.unwrap_err());
    assert!(
        shown.contains("no model is loaded into this process"),
        "{shown}"
    );
    // A backend that is missing is ignored, with a warning, unless something uses the memory.
    for (tool, warnings) in [("json.parse", 1), ("ltm.search", 0)] {
        let node = format!("{{name: n, uses: reason.react, with: {{goal: x, tools: [{tool}]}}}}");
        let agent = load("{ltm: {backend: duckdb}}", &node).unwrap();
        assert_eq!(
            agent.warnings.len(),
            warnings,
            "{tool}: {:?}",
            agent.warnings
        );
    }
}
