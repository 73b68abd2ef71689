//! `memory.*`: the memory of a run.

use std::sync::Arc;

use cachalot_simulator::ScriptedReply;
use cachalot_workflow::actions::builtin;
use serde_json::{Value, json};

use crate::fakes::Provider;
use crate::fakes::provider::configure;
use crate::fixture::Fixture;

async fn run(file: &str, input: Value) -> Result<Value, String> {
    let mut fixture = Fixture::new();
    Arc::get_mut(&mut fixture.runtime).unwrap().actions = Arc::new(builtin());
    let ran = fixture.run(file, input).await;
    ran.map_err(|failure| format!("{}: {}", failure.kind, failure.message))
}

fn retrieve(name: &str, with: &str) -> String {
    format!("  - {{name: {name}, uses: memory.retrieve, with: {with}, output: {name}}}\n")
}

#[tokio::test]
async fn memory_values_are_kept_by_key_and_namespace() {
    let file = format!(
        "nodes:
  - {{name: one, uses: memory.store, with: {{key: 7, value: {{theme: dark}}}}, output: one}}
  - {{name: two, uses: actions.memory_store, with: {{key: '7', value: light, namespace: ada}}, output: two}}
  - {{name: none, uses: memory.store, with: {{key: none, value: null}}}}
{}{}{}{}",
        retrieve("plain", "{key: 7}"),
        retrieve("other", "{key: 7, namespace: ada, default: x}"),
        retrieve("missing", "{key: 7, namespace: bob, default: [1]}"),
        retrieve("null_", "{key: none, default: 5}"),
    );
    let state = run(&file, json!({})).await.unwrap();
    assert_eq!(
        (&state["one"], &state["two"]),
        (
            &json!({ "stored": true, "key": "7", "namespace": "default" }),
            &json!({ "stored": true, "key": "7", "namespace": "ada" })
        )
    );
    assert_eq!(
        state["plain"],
        json!({ "value": { "theme": "dark" }, "found": true, "key": "7" })
    );
    assert_eq!(
        state["other"],
        json!({ "value": "light", "found": true, "key": "7" })
    );
    assert_eq!(
        state["missing"],
        json!({ "value": [1], "found": false, "key": "7" })
    );
    assert_eq!(
        state["null_"],
        json!({ "value": 5, "found": false, "key": "none" })
    );
    // Another run begins with nothing.
    let file = format!("nodes:\n{}", retrieve("plain", "{key: 7}"));
    let state = run(&file, json!({})).await.unwrap();
    assert_eq!(
        state["plain"],
        json!({ "value": null, "found": false, "key": "7" })
    );
}

#[tokio::test]
async fn memory_value_expires() {
    let store =
        "nodes:\n  - {name: store, uses: memory.store, with: {key: a, value: 1, ttl: 2.5}}\n";
    let mut fixture = Fixture::new();
    let clock = Arc::new(cachalot_core::ManualClock::at(0));
    let runtime = Arc::get_mut(&mut fixture.runtime).unwrap();
    runtime.actions = Arc::new(builtin());
    runtime.clock = Arc::clone(&clock) as Arc<dyn cachalot_core::Clock>;
    fixture.run(store, json!({})).await.unwrap();
    let read = format!("nodes:\n{}", retrieve("a", "{key: a}"));
    for (now, found) in [(2_499, true), (2_500, false), (0, false)] {
        clock.set(now);
        let state = fixture.run(&read, json!({})).await.unwrap();
        assert_eq!(state["a"]["found"], found, "{now}");
    }
    let failed = run("nodes:\n  - {name: store, uses: memory.store, with: {key: a, value: 1, ttl: '{{ state.x }}'}}\n", json!({ "x": -1 })).await;
    assert!(failed.unwrap_err().contains("parameter `ttl` is -1"));
}

#[tokio::test]
async fn branches_share_session_memory() {
    let file = format!(
        "nodes:
  - name: each
    type: dynamic_parallel
    items: [a, b, c]
    uses: memory.store
    with: {{key: '{{{{ state.item }}}}', value: '{{{{ state.index }}}}', namespace: branches}}
    fan_in: join
  - {{name: join, fan_in: true}}
{}",
        retrieve("read", "{key: c, namespace: branches}")
    );
    let state = run(&file, json!({})).await.unwrap();
    assert_eq!(state["read"]["value"], 2);
}

const SUMMARIZE: &str = "
models:
  small: {provider: openai, model: gpt-4o-mini, format: chat, cost: {input: 1, output: 2}}
settings: {llm: {model: small}}
nodes:
  - name: sum
    uses: memory.summarize
    with: {messages_key: chat, max_tokens: 10}
    output: sum
";

#[tokio::test]
async fn long_conversation_is_summarized() {
    let provider = Provider::replies([ScriptedReply::text(" Whales dive. ")]);
    let mut fixture = Fixture::new();
    let runtime = Arc::get_mut(&mut fixture.runtime).unwrap();
    runtime.actions = Arc::new(builtin());
    configure(runtime, &provider.environment(), SUMMARIZE);
    let short =
        json!({ "chat": [{ "role": "user", "content": "Hi" }, "and more", { "content": 5 }] });
    let state = fixture.run(SUMMARIZE, short).await.unwrap();
    assert_eq!(
        state["sum"],
        json!({
            "summary": "user: Hi\nand more\nuser: 5", "original_count": 3, "token_estimate": 6,
            "success": true, "usage": null, "cost": 0.0,
        })
    );
    assert_eq!(provider.requests(), 0);
    let long = json!({ "chat": [{ "role": "assistant", "content": "x".repeat(40) }] });
    let state = fixture.run(SUMMARIZE, long).await.unwrap();
    assert_eq!(
        (
            &state["sum"]["summary"],
            &state["sum"]["token_estimate"],
            &state["sum"]["original_count"]
        ),
        (&json!("Whales dive."), &json!(3), &json!(1))
    );
    assert!(state["sum"]["cost"].as_f64().unwrap() > 0.0);
    let sent = provider.last();
    assert!(
        sent["messages"][0]["content"]
            .as_str()
            .unwrap()
            .contains("at most 10 tokens")
    );
    assert!(
        sent["messages"][1]["content"]
            .as_str()
            .unwrap()
            .starts_with("assistant: xxx")
    );
    for (input, kind) in [
        (json!({}), "not_found"),
        (json!({ "chat": "x" }), "validation_error"),
    ] {
        let failure = fixture.run(SUMMARIZE, input).await.unwrap_err();
        assert_eq!(failure.kind, kind);
    }
}
