//! One call is the same in all formats.

use std::collections::BTreeMap;

use axum::Router;
use axum::routing::post;
use cachalot_simulator::{ScriptedReply, ScriptedUsage};
use serde_json::{Value, json};

use super::{EACH, MODELS, asking};
use crate::fakes::provider::configure;
use crate::fakes::{Provider, Server};
use crate::fixture::Fixture;

fn reply() -> ScriptedReply {
    ScriptedReply::text("The whale dives.").with_usage(ScriptedUsage {
        input: Some(1_000),
        cache_read: Some(400),
        cache_write: Some(0),
        output: Some(50),
        ..ScriptedUsage::default()
    })
}

#[tokio::test]
async fn the_result_is_the_same_in_every_wire_format() {
    for (model, path) in EACH {
        let provider = Provider::replies([reply()]);
        let fixture = asking(&provider, MODELS);
        let arguments = json!({
            "model": model, "system": "Be brief.", "prompt": "What does the whale do?",
            "max_tokens": 300,
        });
        let answer = fixture.ok("llm.call", arguments).await;
        assert_eq!(
            answer,
            json!({
                "content": "The whale dives.",
                "model": answer["model"],
                "stop_reason": "end",
                "usage": {
                    "input_tokens": 1_000, "output_tokens": 50, "cache_read_tokens": 400,
                    "cache_write_tokens": 0, "reasoning_tokens": 0,
                    "prompt_tokens": 1_000, "completion_tokens": 50, "total_tokens": 1_050,
                },
                // 600 at $1, 400 at $0.50, 50 at $2 per million.
                "cost": 0.0009,
            }),
            "{model}"
        );
        let named = answer["model"].as_str().unwrap();
        assert!(named.starts_with(['g', 'c']), "{named}");
        let received = provider.received();
        assert_eq!(received.len(), 1);
        assert_eq!((received[0].path.as_str(), received[0].status), (path, 200));
    }
}

#[tokio::test]
async fn parameters_are_sent_in_every_wire_format() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, MODELS);
    let arguments = json!({
        "model": "chat", "prompt": "Hi", "temperature": "0.25", "top_p": 0.5, "max_tokens": "64",
        "stop": "###", "provider_opts": { "seed": 7 },
    });
    fixture.ok("llm.call", arguments).await;
    let sent = provider.last();
    assert_eq!(sent["temperature"], 0.25, "{sent}");
    assert_eq!(sent["top_p"], 0.5);
    assert_eq!(
        sent["max_completion_tokens"]
            .as_u64()
            .or(sent["max_tokens"].as_u64()),
        Some(64)
    );
    assert_eq!(sent["stop"], json!(["###"]));
    assert_eq!(sent["seed"], 7);
    assert_ne!(sent["stream"], true);

    let arguments = json!({
        "model": "messages", "prompt": "Hi", "stop": ["a", "b"], "max_tokens": 10,
    });
    fixture.ok("llm.call", arguments).await;
    let sent = provider.last();
    assert_eq!(
        (&sent["stop_sequences"], &sent["max_tokens"]),
        (&json!(["a", "b"]), &json!(10))
    );

    let arguments = json!({ "model": "responses", "prompt": "Hi", "reasoning_effort": "low" });
    fixture.ok("llm.call", arguments).await;
    assert_eq!(provider.last()["reasoning"]["effort"], "low");
}

#[tokio::test]
async fn reasoning_is_separate_from_the_answer() {
    let reply = || ScriptedReply::text("42").with_reasoning("Six by seven.");
    let thinking = "
models:
  chat: {provider: openai, model: deepseek-r1, base_url: '${OPENAI_BASE_URL}', token_key: OPENAI_API_KEY}
  messages: {provider: anthropic, model: claude-haiku-4-5, thinking_budget: 1024}
";
    for model in ["chat", "messages"] {
        let provider = Provider::replies([reply()]);
        let answer = asking(&provider, thinking)
            .ok("llm.call", json!({ "model": model, "prompt": "6 * 7" }))
            .await;
        assert_eq!(
            (&answer["content"], &answer["reasoning"]),
            (&json!("42"), &json!("Six by seven.")),
            "{model}"
        );
    }
}

#[tokio::test]
async fn the_stop_reason_is_reported() {
    use cachalot_simulator::ScriptedStop::{Length, Refusal};
    for (model, _) in EACH {
        for (stop, word) in [(Length, "length"), (Refusal, "refusal")] {
            let provider = Provider::replies([ScriptedReply::text("The wha").with_stop(stop)]);
            let answer = asking(&provider, MODELS)
                .ok("llm.call", json!({ "model": model, "prompt": "Hi" }))
                .await;
            assert_eq!(answer["stop_reason"], word, "{model}");
        }
    }
}

#[tokio::test]
async fn the_cost_of_an_unpriced_model_is_null() {
    let provider = Provider::answers(["Hi."]);
    let fixture = asking(
        &provider,
        "models: {mine: {provider: openai, model: gpt-of-mine}}",
    );
    let answer = fixture
        .ok("llm.call", json!({ "model": "mine", "prompt": "Hi" }))
        .await;
    assert!(answer["cost"].is_null(), "{answer}");
    assert_eq!(
        answer["unpriced"],
        "the price of `gpt-of-mine` is not known"
    );
    assert!(answer["usage"]["input_tokens"].as_u64() > Some(0));
    let free =
        "models: {mine: {provider: openai, model: gpt-of-mine, cost: {input: 0, output: 0}}}";
    let answer = asking(&provider, free)
        .ok("llm.call", json!({ "model": "mine", "prompt": "Hi" }))
        .await;
    assert_eq!(answer["cost"], 0.0);
}

/// 100,000 tokens at $5 and 10,000 at $30 per million cost $0.80 at the standard tier.
#[tokio::test]
async fn the_cost_is_that_of_the_tier_that_answered() {
    for (requested, answered, dollars, warnings) in [
        (json!("priority"), json!("priority"), json!(2.0), &[][..]),
        (json!("priority"), json!("default"), json!(0.8), &[]),
        (json!("priority"), Value::Null, json!(2.0), &[]),
        (json!("flex"), Value::Null, json!(0.4), &[]),
        (Value::Null, json!("priority"), json!(2.0), &[]),
        (
            Value::Null,
            json!("scale"),
            Value::Null,
            &[
                "openai/gpt-5.5: the answer is not priced: the price of the tier `scale` is not known",
            ],
        ),
    ] {
        let answer = json!({"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-5.5",
            "service_tier": answered, "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"},
                "logprobs": null, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100_000, "completion_tokens": 10_000, "total_tokens": 110_000}})
        .to_string();
        let reply = move || {
            let answer = answer.clone();
            async move { ([("content-type", "application/json")], answer) }
        };
        let server = Server::start(Router::new().route("/v1/chat/completions", post(reply)));
        let environment: BTreeMap<String, String> = [
            ("OPENAI_BASE_URL", format!("{}/v1", server.base_url())),
            ("OPENAI_API_KEY", "simulated".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut fixture = Fixture::new();
        let file = "models: {it: {provider: openai, model: gpt-5.5, format: chat}}";
        configure(&mut fixture.runtime, &environment, file);
        let mut arguments = json!({ "model": "it", "prompt": "hi" });
        if !requested.is_null() {
            arguments["provider_opts"] = json!({ "service_tier": requested });
        }
        // The warning comes once.
        let found = fixture.ok("llm.call", arguments.clone()).await;
        assert_eq!(found["cost"], dollars, "{requested} {answered}");
        fixture.ok("llm.call", arguments).await;
        assert_eq!(
            fixture.events.warnings(),
            warnings,
            "{requested} {answered}"
        );
    }
}
