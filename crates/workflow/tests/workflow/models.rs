//! Agent files that ask models: budgets, retries, fan-outs, plans, and what ends with a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_core::SystemClock;
use cachalot_simulator::{Fault, Script, ScriptedReply, ScriptedUsage};
use cachalot_workflow::actions::builtin;
use cachalot_workflow::graph::PlannedOutcome;
use cachalot_workflow::report::Event;
use serde_json::{Value, json};

use crate::fakes::provider::configure;
use crate::fakes::{Provider, TestAgentHost};
use crate::fixture::Fixture;

/// A run of this file, whose provider is here.
fn fixture(provider: &Provider, file: &str) -> Fixture {
    let mut fixture = Fixture::new();
    let runtime = Arc::get_mut(&mut fixture.runtime).unwrap();
    runtime.actions = Arc::new(builtin());
    runtime.clock = Arc::new(SystemClock);
    configure(runtime, &provider.environment(), file);
    runtime.agent_host = Some(Arc::new(TestAgentHost::of(runtime)));
    fixture
}

/// 1000 tokens in, and 50 out: $0.0011.
fn reply(text: &str) -> ScriptedReply {
    ScriptedReply::text(text).with_usage(ScriptedUsage {
        input: Some(1_000),
        cache_read: Some(0),
        cache_write: Some(0),
        output: Some(50),
        ..ScriptedUsage::default()
    })
}

const MODEL: &str = "
models:
  small: {provider: openai, model: gpt-4o-mini, cost: {input: 1, output: 2}}
settings:
  llm: {model: small}
";

/// The paid and saved costs, in picodollars, as reported.
fn reported(fixture: &Fixture) -> (u64, u64) {
    let events = fixture.reported.events.lock().unwrap();
    let answered = events.iter().filter_map(|event| match event {
        Event::Answered { memoized, .. } => Some(memoized),
        _ => None,
    });
    answered.fold((0, 0), |(paid, saved), memoized| {
        (
            paid + memoized.paid.cost.picodollars,
            saved + memoized.saved.cost.picodollars,
        )
    })
}

#[tokio::test]
async fn agent_of_the_story_pays_once() {
    let story = include_str!("../../../../examples/story/cached_llm_agent.yaml");
    let provider = Provider::built_in();
    let fixture = fixture(&provider, story);
    let input = json!({ "target_language": "French", "text": "The whale dives." });
    let first = fixture.run(story, input.clone()).await.unwrap();
    let result = &first["translation_result"];
    assert_eq!(result["_cache_hit"], false);
    assert_eq!(
        result["result"]["content"],
        "[simulated French] The whale dives."
    );
    let second = fixture.run(story, input).await.unwrap();
    let again = &second["translation_result"];
    assert_eq!(
        (&again["_cache_hit"], &again["result"]),
        (&json!(true), &result["result"])
    );
    assert_eq!(provider.requests(), 1);
    let (paid, saved) = reported(&fixture);
    assert!(paid > 0 && paid == saved);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn equal_branches_of_a_fan_out_pay_once() {
    let file = format!(
        "{MODEL}
nodes:
  - name: each
    type: dynamic_parallel
    items: [whale, whale, whale, dolphin]
    uses: cache.wrap
    with:
      action: llm.call
      args: {{prompt: 'Translate to French: {{{{ state.item }}}}'}}
    fan_in: join
  - {{name: join, fan_in: true}}
"
    );
    let slow = Fault::slow(Duration::from_millis(150), Duration::ZERO).times(9);
    let provider = Provider::replies([reply("x").with_fault(slow)]);
    let fixture = fixture(&provider, &file);
    let state = fixture.run(&file, json!({})).await.unwrap();
    let branches = state["parallel_results"].as_array().unwrap();
    assert_eq!(branches.len(), 4);
    assert!(
        branches.iter().all(|branch| branch["success"] == true),
        "{state}"
    );
    assert_eq!(provider.requests(), 2);
    assert_eq!(reported(&fixture), (2 * 1_100_000_000, 2 * 1_100_000_000));
    assert_eq!(fixture.runtime.meter.spent().calls, 2);
}

fn three_calls(budget: &str, action: &str) -> String {
    let node = |name: &str| match action {
        "wrapped" => format!(
            "  - {{name: {name}, uses: cache.wrap, with: {{action: llm.call, args: {{prompt: {name}}}}}, output: {name}}}\n"
        ),
        "agent" => format!(
            "  - {{name: {name}, uses: agent.run, with: {{input: {name}}}, output: {name}}}\n"
        ),
        action => format!(
            "  - {{name: {name}, uses: {action}, with: {{prompt: {name}}}, output: {name}}}\n"
        ),
    };
    format!(
        "{MODEL}budget: {budget}\nagents: {{root: {{model: small, instruction: You help.}}}}\nnodes:\n{}{}{}",
        node("one"),
        node("two"),
        node("three")
    )
}

#[tokio::test]
async fn budget_stops_the_run_before_an_unaffordable_call() {
    for action in ["llm.call", "llm.stream", "wrapped", "agent"] {
        for (budget, says) in [
            (
                "{max_cost: 0.002}",
                "the budget of $0.002 (`max_cost`) is used up: <$0.01 spent on 2 calls",
            ),
            (
                "{max_tokens: 2000}",
                "the budget of 2000 tokens (`max_tokens`) is used up: 2100 tokens in 2 calls",
            ),
        ] {
            let provider = Provider::replies([reply("x")]);
            let file = three_calls(budget, action);
            let fixture = fixture(&provider, &file);
            let failure = fixture.run(&file, json!({})).await.unwrap_err();
            assert_eq!(
                (failure.node.as_str(), failure.kind),
                ("three", "over_budget"),
                "{failure}"
            );
            assert!(failure.message.contains(says), "{failure}");
            assert!(!failure.retryable && failure.place.is_some());
            assert_eq!(provider.requests(), 2);
        }
    }
}

#[tokio::test]
async fn hits_are_not_counted_against_the_budget() {
    let provider = Provider::replies([reply("x")]);
    let file =
        three_calls("{max_tokens: 2000}", "wrapped").replace("{prompt: three}", "{prompt: one}");
    let fixture = fixture(&provider, &file);
    fixture.run(&file, json!({})).await.unwrap();
    let again = fixture.run(&file, json!({})).await.unwrap();
    assert_eq!(again["three"]["_cache_hit"], true);
    assert_eq!(provider.requests(), 2);
}

#[tokio::test]
async fn cost_budget_requires_known_prices_before_the_first_call() {
    let provider = Provider::replies([reply("x")]);
    let file = three_calls("{max_cost: 1}", "llm.call")
        .replace(", cost: {input: 1, output: 2}", "")
        .replace("gpt-4o-mini", "gpt-of-mine");
    let fixture = fixture(&provider, &file);
    let failure = fixture.run(&file, json!({})).await.unwrap_err();
    assert_eq!(
        (failure.node.as_str(), failure.kind),
        ("one", "over_budget")
    );
    assert!(
        failure
            .message
            .contains("the price of the model `gpt-of-mine` of openai is unknown"),
        "{failure}"
    );
    assert_eq!(provider.requests(), 0);
}

/// The connection is closed; the run does not wait for an answer that it has no time for.
#[tokio::test]
async fn time_budget_ends_a_call_in_progress() {
    for action in ["llm.call", "llm.stream", "wrapped", "agent"] {
        let slow = Fault::slow(Duration::from_secs(60), Duration::ZERO);
        let provider = Provider::replies([reply("x").with_fault(slow)]);
        let file = three_calls("{max_time: 100ms}", action);
        let fixture = fixture(&provider, &file);
        let began = Instant::now();
        let failure = fixture.run(&file, json!({})).await.unwrap_err();
        assert_eq!(
            (failure.node.as_str(), failure.kind),
            ("one", "over_budget"),
            "{failure}"
        );
        assert!(
            failure.message.contains("(`max_time`) is used up"),
            "{failure}"
        );
        assert!(began.elapsed() < Duration::from_secs(60));
        left(&provider).await;
    }
}

/// Waits until the provider has noticed that who asked it has gone.
async fn left(provider: &Provider) {
    let began = Instant::now();
    while !provider
        .received()
        .iter()
        .all(|request| request.disconnected)
    {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{:?}",
            provider.received()
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn canceling_a_run_closes_connections_and_stores_nothing() {
    for action in ["llm.call", "llm.stream", "wrapped", "agent"] {
        let slow = Fault::slow(Duration::from_secs(60), Duration::ZERO).times(1);
        let provider = Provider::replies([reply("x").with_fault(slow)]);
        let file = three_calls("{}", action);
        let fixture = fixture(&provider, &file);
        let arrived = async {
            while provider.requests() == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::select! {
            ended = fixture.run(&file, json!({})) => panic!("{action}: {ended:?}"),
            () = arrived => {}
        }
        left(&provider).await;
        assert_eq!(provider.requests(), 1);
        let after = fixture.run(&file, json!({})).await.unwrap();
        let is_hit = &after["one"]["_cache_hit"];
        assert_ne!(*is_hit, true, "{action}");
    }
}

fn retrying(errors: &str) -> String {
    format!(
        "{MODEL}
nodes:
  - name: ask
    uses: llm.call
    with: {{prompt: Hi}}
    output: answer
    on_error: {{mode: retry, max_retries: 2, retry_delay: 0{errors}}}
"
    )
}

#[tokio::test]
async fn transient_failures_are_retried_by_the_node() {
    // Three requests are one attempt.
    let fault = Fault::status(500).times(4);
    let provider = Provider::replies([reply("x").with_fault(fault)]).forgiving();
    let file = retrying("");
    let fixture = fixture(&provider, &file);
    let state = fixture.run(&file, json!({})).await.unwrap();
    assert_eq!(state["answer"]["content"], "x");
    assert_eq!(provider.requests(), 5);
    let shown = fixture.reported.shown();
    assert!(
        shown.iter().any(|event| event.starts_with("~ ask: 2")),
        "{shown:?}"
    );
}

#[tokio::test]
async fn permanent_failures_are_retried_only_if_configured() {
    for (file, requests) in [
        (retrying(""), 1),
        (retrying(", retryable_errors: [rejected]"), 3),
    ] {
        let fault = Fault::status(400).times(9);
        let provider = Provider::replies([reply("x").with_fault(fault)]).forgiving();
        let fixture = fixture(&provider, &file);
        let failure = fixture.run(&file, json!({})).await.unwrap_err();
        assert_eq!(failure.kind, "rejected");
        assert_eq!(provider.requests(), requests);
    }
}

#[tokio::test]
async fn answer_that_violates_the_schema_is_requested_again() {
    let file = retrying("").replace("{prompt: Hi}", "{prompt: Hi, response_format: {type: object, properties: {a: {type: integer}}, required: [a], additionalProperties: false}}");
    let provider = Provider::replies([reply("no"), reply(r#"{"a": 1}"#)]);
    let fixture = fixture(&provider, &file);
    let state = fixture.run(&file, json!({})).await.unwrap();
    assert_eq!(state["answer"]["data"], json!({ "a": 1 }));
    // Both were paid, and both are told.
    assert_eq!(reported(&fixture).0, 2 * 1_100_000_000);
}

#[tokio::test]
async fn exhausted_budget_is_not_retried() {
    let provider = Provider::replies([reply("x")]);
    let file = format!("{}budget: {{max_tokens: 0}}\n", retrying(""));
    let fixture = fixture(&provider, &file);
    let failure = fixture.run(&file, json!({})).await.unwrap_err();
    assert_eq!((failure.kind, provider.requests()), ("over_budget", 0));
}

#[tokio::test]
async fn a_plan_reports_misses() {
    let provider = Provider::replies([reply("x")]);
    let file = "
settings: {llm: {model: gpt-4o-mini}}
agents: {root: {model: gpt-4o-mini, instruction: You help.}}
nodes:
  - {name: wrapped, uses: cache.wrap, with: {action: llm.call, args: {prompt: Hi}}, output: a}
  - {name: plain, uses: llm.call, with: {prompt: Hi}, output: b}
  - {name: streamed, uses: llm.stream, with: {prompt: Hi}, output: c}
  - {name: agent, uses: agent.run, with: {input: Hi}, output: d}
  - {name: after, uses: json.parse, with: {text: '[]', }, output: e}
";
    let fixture = fixture(&provider, file);
    let unwrapped = || PlannedOutcome::Miss {
        handle: None,
        reason: "there is no cache.wrap around it".to_owned(),
    };
    let plan = fixture.plan(file, json!({})).await;
    let what: BTreeMap<&str, &PlannedOutcome> = plan
        .nodes
        .iter()
        .map(|node| (node.node.as_str(), &node.outcome))
        .collect();
    assert!(
        matches!(what["wrapped"], PlannedOutcome::Miss { handle: Some(handle), reason } if handle.starts_with("cache:test:llm.call:") && reason == "not in the cache"),
        "{plan:?}"
    );
    for node in ["plain", "streamed", "agent"] {
        assert_eq!(*what[node], unwrapped());
    }
    assert_eq!(provider.requests(), 0);
    fixture.run(file, json!({})).await.unwrap();
    let plan = fixture.plan(file, json!({})).await;
    assert!(
        matches!(plan.nodes[0].outcome, PlannedOutcome::Hit { .. }),
        "{plan:?}"
    );
    let requests = provider.requests();
    assert_eq!(requests, 4);
}

#[tokio::test]
async fn fallback_answers_when_the_model_fails() {
    let file = format!(
        "{MODEL}
nodes:
  - {{name: ask, uses: llm.call, with: {{prompt: Hi}}, on_error: {{mode: graceful, fallback: other}}, goto: __end__}}
  - {{name: other, uses: llm.call, with: {{model: anthropic/claude-sonnet-5, prompt: 'after {{{{ state.__error__.error_type }}}}'}}, output: answer}}
"
    );
    let provider = Provider::start(
        Script::parse(
            "script.yaml",
            "rules:\n  - {model: gpt-*, steps: [{fault: 401}]}\notherwise: {text: 'you said {{user}}'}",
        )
        .unwrap(),
    )
    .forgiving();
    let fixture = fixture(&provider, &file);
    let state = fixture.run(&file, json!({})).await.unwrap();
    assert_eq!(state["answer"]["content"], "you said after unauthorized");
}

#[tokio::test]
async fn streamed_lines_are_reported_under_the_node() {
    let file = format!(
        "{MODEL}\nnodes:\n  - {{name: poet, uses: llm.stream, with: {{prompt: Hi}}, output: poem}}\n"
    );
    let provider = Provider::replies([reply("one\ntwo")]);
    let fixture = fixture(&provider, &file);
    let state: Value = fixture.run(&file, json!({})).await.unwrap();
    assert_eq!(state["poem"]["content"], "one\ntwo");
    let shown = fixture.reported.shown();
    assert_eq!(
        shown,
        [
            "+ poet",
            "> poet: one",
            "> poet: two",
            "= poet: bypass",
            "- poet"
        ]
    );
}
