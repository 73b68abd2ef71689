//! `agent.run` that is wrapped: answered from the cache only where nothing but the answer is lost.

use std::sync::Arc;

use cachalot_core::Cost;
use cachalot_simulator::{ScriptedReply, ScriptedStop, ScriptedUsage};
use serde_json::{Value, json};

use crate::fakes::{Provider, TestAgentHost};
use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::llm::asking;

fn agents(setup: Setup, provider: &Provider, file: &str) -> Fixture {
    let mut fixture = asking(setup, provider, file);
    fixture.runtime.agent_host = Some(Arc::new(TestAgentHost::of(&fixture.runtime)));
    fixture
}

const PLAIN: &str = "
models:
  small: {provider: openai, model: gpt-4o-mini, cost: {input: 1, output: 2, cache_read: 0.5}}
agents:
  root:
    model: small
    instruction: You answer in one sentence.
";

fn reply(text: &str) -> ScriptedReply {
    ScriptedReply::text(text).with_usage(ScriptedUsage {
        input: Some(1_000),
        cache_read: Some(400),
        cache_write: Some(0),
        output: Some(50),
        ..ScriptedUsage::default()
    })
}

const COST: Cost = Cost {
    picodollars: 900_000_000,
    unpriced: 0,
};

fn wrapping(args: Value) -> Value {
    json!({ "action": "agent.run", "args": args })
}

fn hi() -> Value {
    wrapping(json!({ "input": "Hi" }))
}

#[tokio::test]
async fn agent_without_tools_is_cached() {
    let provider = Provider::replies([reply("Hello.")]);
    let fixture = agents(Setup::default(), &provider, PLAIN);
    let miss = fixture.wrap(hi()).await;
    assert_eq!(
        (&miss["_cache_stored"], &miss["result"]["text"]),
        (&json!(true), &json!("Hello."))
    );
    let hit = fixture.wrap(hi()).await;
    assert!(is_hit(&hit));
    assert_eq!(hit["result"], miss["result"]);
    let reported = fixture.events.answered();
    assert_eq!(
        (
            reported[0].paid.cost,
            reported[1].saved.cost,
            reported[1].saved.input_tokens
        ),
        (COST, COST, 1_000)
    );
    assert_eq!(provider.requests(), 1);
    // In another run, too.
    let later = agents(fixture.end().await, &provider, PLAIN);
    assert!(is_hit(&later.wrap(hi()).await));
}

#[tokio::test]
async fn agents_with_tools_or_recall_run_uncached_with_a_reason() {
    let effects = "the agent has tools or sub-agents, whose effects a hit would swallow";
    let changing = "the agent reads long-term memory, which changes";
    for (more, reason) in [
        ("    toolsets: [{type: filesystem}]\n", effects),
        (
            "    sub_agents: [helper]\n  helper: {model: small, instruction: You help.}\n",
            effects,
        ),
        ("    recall: 3\n", changing),
    ] {
        let provider = Provider::replies([reply("Hello.")]);
        let fixture = agents(Setup::default(), &provider, &format!("{PLAIN}{more}"));
        for requests in [1, 2] {
            let given = fixture.wrap(hi()).await;
            assert!(!is_hit(&given));
            assert_eq!(given["result"]["text"], "Hello.");
            assert_eq!(
                (&given["_cache_stored"], &given["_cache_key"]),
                (&json!(false), &Value::Null)
            );
            assert!(text(&given, "_cache_reason").contains(reason), "{given}");
            assert_eq!(provider.requests(), requests);
        }
        assert!(fixture.entries().await.is_empty());
        // It is accounted for all the same.
        let row = fixture.why().await.call;
        assert_eq!((row.name.as_str(), row.paid.cost), ("agent.run", COST));
        assert!(row.reason.unwrap().contains(reason));
    }
}

/// Only the agent that runs decides.
#[tokio::test]
async fn agent_without_tools_is_cached_beside_agents_with_tools() {
    let provider = Provider::replies([reply("Hello.")]);
    let file = format!(
        "{PLAIN}  reader: {{model: small, instruction: You read., toolsets: [{{type: filesystem}}]}}\n"
    );
    let fixture = agents(Setup::default(), &provider, &file);
    fixture.wrap(hi()).await;
    assert!(is_hit(&fixture.wrap(hi()).await));
    let reader = wrapping(json!({ "input": "Hi", "agent": "reader" }));
    assert_eq!(fixture.wrap(reader).await["_cache_stored"], false);
}

#[tokio::test]
async fn definition_of_the_agent_is_keyed() {
    for (from, to, hits) in [
        ("You answer in one sentence.", "You answer in two.", false),
        ("model: gpt-4o-mini", "model: gpt-4o", false),
        (
            "model: gpt-4o-mini",
            "model: gpt-4o-mini, temperature: 0.5",
            false,
        ),
        (
            "models:",
            "settings: {llm: {temperature: 0.1}}\nmodels:",
            false,
        ),
        (
            "    instruction",
            "    max_iterations: 3\n    instruction",
            false,
        ),
        ("  root:", "  other:", false),
        (
            "    instruction",
            "    description: Answers.\n    instruction",
            true,
        ),
        (
            "    instruction",
            "    max_consecutive_tool_calls: 9\n    instruction",
            true,
        ),
        ("cost: {input: 1,", "cost: {input: 7,", true),
        ("models:", "budget: {max_tokens: 90000}\nmodels:", true),
    ] {
        assert!(PLAIN.contains(from), "{from}");
        let provider = Provider::replies([reply("Hello.")]);
        let first = agents(Setup::default(), &provider, PLAIN);
        first.wrap(hi()).await;
        let file = PLAIN.replacen(from, to, 1);
        let later = agents(first.end().await, &provider, &file);
        assert_eq!(is_hit(&later.wrap(hi()).await), hits, "{to}");
        assert!(!is_hit(
            &later.wrap(wrapping(json!({ "input": "Hello" }))).await
        ));
    }
}

const OTHER: &str = "
agents:
  root: {model: gpt-4o-mini, instruction_file: told.md}
";

#[tokio::test]
async fn a_changed_agent_file_invalidates_the_entry() {
    let provider = Provider::replies([reply("Hello.")]);
    let fixture = agents(Setup::default(), &provider, "name: a");
    fixture.file("team.yaml", OTHER);
    fixture.file("told.md", "You help.");
    let with = || wrapping(json!({ "input": "Hi", "file": "team.yaml" }));
    assert!(!is_hit(&fixture.wrap(with()).await));
    assert!(is_hit(&fixture.wrap(with()).await));
    fixture.file("told.md", "You do not help.");
    assert!(!is_hit(&fixture.wrap(with()).await));
    assert!(provider.last().to_string().contains("You do not help."));
    fixture.file("team.yaml", OTHER.replace("gpt-4o-mini", "gpt-4o"));
    assert!(!is_hit(&fixture.wrap(with()).await));
    assert!(is_hit(&fixture.wrap(with()).await));
    // The same in another place is another file, and the same agent.
    fixture.file(
        "elsewhere/team.yaml",
        OTHER.replace("gpt-4o-mini", "gpt-4o"),
    );
    fixture.file("elsewhere/told.md", "You do not help.");
    let elsewhere = wrapping(json!({ "input": "Hi", "file": "elsewhere/team.yaml" }));
    assert!(!is_hit(&fixture.wrap(elsewhere).await));
    // A file that is not there cannot be run, and nothing is stored.
    let nowhere = wrapping(json!({ "input": "Hi", "file": "nowhere.yaml" }));
    let failure = fixture.fails("cache.wrap", nowhere).await;
    assert_eq!(failure.kind, "not_found");
}

#[tokio::test]
async fn incomplete_turns_are_not_stored() {
    for stop in [ScriptedStop::Length, ScriptedStop::Refusal] {
        let provider = Provider::replies([reply("No").with_stop(stop)]);
        let fixture = agents(Setup::default(), &provider, PLAIN);
        let given = fixture.wrap(hi()).await;
        assert_eq!(given["_cache_stored"], false);
        assert_eq!(
            text(&given, "_cache_reason"),
            "the agent did not come to an end by itself"
        );
    }
}

#[tokio::test]
async fn an_unwrapped_run_is_in_the_ledger() {
    let provider = Provider::replies([reply("Hello.")]);
    let fixture = agents(Setup::default(), &provider, PLAIN);
    fixture.ok("agent.run", json!({ "input": "Hi" })).await;
    let row = fixture.why().await.call;
    assert_eq!(
        (
            row.name.as_str(),
            row.paid.cost,
            row.paid.input_tokens,
            row.paid.output_tokens
        ),
        ("agent.run", COST, 1_000, 50)
    );
    assert_eq!(row.input, Some(json!({ "agent": "root" })));
}
