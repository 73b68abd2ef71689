//! Model calls that are wrapped: what is stored, what is not, and what it costs and saves.

use std::sync::Arc;

use cachalot_core::Cost;
use cachalot_simulator::{Fault, ScriptedReply, ScriptedStop, ScriptedUsage};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fakes::Provider;
use crate::fakes::provider::{KEY, configure};
use crate::fixture::{Fixture, Setup, is_hit, text, without};

/// $1, $0.50 and $2 per million tokens.
pub(crate) const MODELS: &str = "
models:
  chat: {provider: openai, model: gpt-4o-mini, cost: {input: 1, output: 2, cache_read: 0.5}}
  responses: {provider: openai, model: gpt-5, format: responses, cost: {input: 1, output: 2, cache_read: 0.5}}
  messages: {provider: anthropic, model: claude-sonnet-5, cost: {input: 1, output: 2, cache_read: 0.5}}
  unpriced: {provider: openai, model: gpt-of-mine}
";

/// A run that knows where the provider is.
pub(crate) fn asking(setup: Setup, provider: &Provider, file: &str) -> Fixture {
    let mut fixture = setup.start();
    configure(&mut fixture.runtime, &provider.environment(), file);
    fixture
}

fn fixture(provider: &Provider) -> Fixture {
    asking(Setup::default(), provider, MODELS)
}

/// 1000 tokens in, of them 400 cached, and 50 out: $0.0009.
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

fn wrapping(action: &str, args: Value) -> Value {
    json!({ "action": action, "ttl_days": 30, "args": args })
}

fn asked(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Translate to French: whale" }] })
}

#[tokio::test]
async fn miss_pays_and_hit_saves_tokens_and_money() {
    for action in ["llm.call", "llm.stream"] {
        for model in ["chat", "responses", "messages"] {
            let provider = Provider::replies([reply("baleine")]);
            let fixture = fixture(&provider);
            let miss = fixture.wrap(wrapping(action, asked(model))).await;
            assert!(!is_hit(&miss));
            assert_eq!(miss["_cache_stored"], true, "{miss}");
            assert_eq!(miss["_cache_reason"], "not in the cache");
            assert!(text(&miss, "_cache_key").starts_with(&format!("cache:tester:{action}:")));
            assert_eq!(miss["result"]["content"], "baleine");
            let hit = fixture.wrap(wrapping(action, asked(model))).await;
            assert!(is_hit(&hit));
            assert_eq!(
                hit["result"], miss["result"],
                "what it cost when it was made"
            );
            assert_eq!(provider.requests(), 1);

            let [first, second] = &fixture.events.answered()[..] else {
                panic!("two answers")
            };
            assert_eq!(first.outcome, "miss");
            assert_eq!(
                (
                    first.paid.calls,
                    first.paid.input_tokens,
                    first.paid.output_tokens,
                    first.paid.cost
                ),
                (1, 1_000, 50, COST)
            );
            assert!(first.saved.cost.is_zero() && first.saved.input_tokens == 0);
            assert_eq!(second.outcome, "hit");
            assert_eq!((second.paid.calls, second.paid.input_tokens), (0, 0));
            assert!(second.paid.cost.is_zero());
            assert_eq!(
                (
                    second.saved.input_tokens,
                    second.saved.output_tokens,
                    second.saved.cost
                ),
                (1_000, 50, COST)
            );

            let row = fixture.why().await.call;
            assert_eq!(
                (row.name.as_str(), row.saved.cost, row.paid.cost),
                (action, COST, Cost::default())
            );
            let hits_and_misses = fixture.runtime.cache.ledger().recent(9).unwrap();
            assert_eq!(hits_and_misses.len(), 2);
            assert_eq!(
                (
                    hits_and_misses[1].paid.input_tokens,
                    hits_and_misses[1].paid.cost
                ),
                (1_000, COST)
            );
            // What came from the cache is not spent.
            assert_eq!(fixture.runtime.meter.spent().tokens, 1_050);
        }
    }
}

#[tokio::test]
async fn next_run_hits_without_a_key() {
    let provider = Provider::replies([reply("baleine")]);
    let first = fixture(&provider);
    first.wrap(wrapping("llm.call", asked("chat"))).await;
    let mut later = first.end().await.start();
    let mut environment = provider.environment();
    environment.remove("OPENAI_API_KEY");
    configure(&mut later.runtime, &environment, MODELS);
    let hit = later.wrap(wrapping("llm.call", asked("chat"))).await;
    assert!(is_hit(&hit));
    assert_eq!(later.events.answered()[0].saved.cost, COST);
    assert_eq!(provider.requests(), 1);
}

#[tokio::test]
async fn incomplete_answers_are_returned_and_not_stored() {
    let tools = json!([{ "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": { "at": { "type": "string" } }, "required": ["at"], "additionalProperties": false } }]);
    for (reply, reason) in [
        (
            ScriptedReply::text("The wha").with_stop(ScriptedStop::Length),
            "the answer is cut off (max_tokens)",
        ),
        (
            ScriptedReply::text("I will not.").with_stop(ScriptedStop::Refusal),
            "the model refused to answer",
        ),
        (ScriptedReply::text(""), "the answer is empty"),
        (ScriptedReply::text(" \n"), "the answer is empty"),
        (
            ScriptedReply::call("look", json!("{\"at\": ")),
            "the arguments of a tool call are not JSON",
        ),
    ] {
        for action in ["llm.call", "llm.stream"] {
            let provider = Provider::replies([reply.clone()]);
            let fixture = fixture(&provider);
            let mut args = asked("chat");
            if !reply.tool_calls.is_empty() {
                args["tools"] = tools.clone();
            }
            for requests in [1, 2] {
                let given = fixture.wrap(wrapping(action, args.clone())).await;
                assert!(!is_hit(&given));
                assert_eq!(given["success"], true);
                assert_eq!(given["_cache_stored"], false, "{given}");
                assert_eq!(text(&given, "_cache_reason"), reason, "{given}");
                assert_eq!(provider.requests(), requests);
            }
            assert!(fixture.entries().await.is_empty());
            // It was paid all the same.
            assert!(fixture.events.answered()[1].paid.cost.picodollars > 0);
        }
    }
}

/// A wish for tools is an answer like any other: nothing is run for it.
#[tokio::test]
async fn an_answer_with_tool_calls_is_stored() {
    let provider = Provider::replies([ScriptedReply::call("look", json!({ "at": "sea" }))]);
    let fixture = fixture(&provider);
    let mut args = asked("chat");
    args["tools"] = json!([{ "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": { "at": { "type": "string" } }, "required": ["at"], "additionalProperties": false } }]);
    let miss = fixture.wrap(wrapping("llm.call", args.clone())).await;
    let hit = fixture.wrap(wrapping("llm.call", args)).await;
    assert!(is_hit(&hit));
    assert_eq!(hit["result"]["tool_calls"], miss["result"]["tool_calls"]);
}

#[tokio::test]
async fn schema_violation_is_a_failure_and_not_stored() {
    let provider = Provider::replies([
        reply("The whale"),
        reply(r#"{"word": 5}"#),
        reply(r#"{"word": "baleine"}"#),
    ]);
    let fixture = fixture(&provider);
    let mut args = asked("chat");
    args["response_format"] = json!({
        "type": "object", "properties": { "word": { "type": "string" } }, "required": ["word"], "additionalProperties": false,
    });
    let failure = fixture
        .fails("cache.wrap", wrapping("llm.call", args.clone()))
        .await;
    assert_eq!((failure.kind, failure.retryable), ("invalid_answer", true));
    let mut returning = wrapping("llm.call", args.clone());
    returning["on_error"] = json!("return");
    let returned = fixture.wrap(returning).await;
    assert_eq!(returned["success"], false);
    assert!(text(&returned, "error").contains("/word"), "{returned}");
    // Both were paid.
    let paid: Vec<Cost> = fixture
        .events
        .answered()
        .iter()
        .map(|reported| reported.paid.cost)
        .collect();
    assert_eq!(paid, [COST, COST]);
    let good = fixture.wrap(wrapping("llm.call", args.clone())).await;
    assert_eq!(
        (&good["_cache_stored"], &good["result"]["data"]),
        (&json!(true), &json!({ "word": "baleine" }))
    );
    assert!(is_hit(&fixture.wrap(wrapping("llm.call", args)).await));
    assert_eq!(provider.requests(), 3);
}

#[tokio::test]
async fn failures_are_never_stored() {
    for (fault, kind) in [
        (Fault::status(400).times(1), "rejected"),
        (Fault::status(429).times(18), "rate_limited"),
        (Fault::status(500).times(3), "unavailable"),
        (Fault::malformed().times(1), "cut_off"),
        (Fault::cut(2).times(1), "cut_off"),
    ] {
        for action in ["llm.call", "llm.stream"] {
            let provider =
                Provider::replies([reply("baleine").with_fault(fault.clone())]).forgiving();
            let fixture = fixture(&provider);
            let failure = fixture
                .fails("cache.wrap", wrapping(action, asked("chat")))
                .await;
            // What is malformed in a stream is malformed; what is not streamed only has no end.
            let expected = [kind, "malformed_answer"];
            assert!(expected.contains(&failure.kind), "{failure:?}");
            assert!(fixture.entries().await.is_empty());
            let after = fixture.wrap(wrapping(action, asked("chat"))).await;
            assert!(!is_hit(&after) && after["_cache_stored"] == true, "{after}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_equal_calls_pay_once() {
    let slow = Fault::slow(
        std::time::Duration::from_millis(200),
        std::time::Duration::ZERO,
    );
    let provider = Provider::replies([reply("baleine").with_fault(slow.times(100))]);
    let fixture = Arc::new(fixture(&provider));
    let mut asking = JoinSet::new();
    for _ in 0..8 {
        let fixture = Arc::clone(&fixture);
        asking.spawn(async move { fixture.wrap(wrapping("llm.call", asked("chat"))).await });
    }
    for answer in asking.join_all().await {
        assert_eq!(answer["result"]["content"], "baleine");
    }
    assert_eq!(provider.requests(), 1);
    let reported = fixture.events.answered();
    let paid: u64 = reported
        .iter()
        .map(|reported| reported.paid.cost.picodollars)
        .sum();
    let saved: u64 = reported
        .iter()
        .map(|reported| reported.saved.cost.picodollars)
        .sum();
    assert_eq!((paid, saved), (COST.picodollars, 7 * COST.picodollars));
}

#[tokio::test]
async fn an_unwrapped_call_is_in_the_ledger_with_tokens_and_money() {
    let provider = Provider::replies([reply("baleine")]);
    let fixture = fixture(&provider);
    for action in ["llm.call", "llm.stream"] {
        fixture.ok(action, asked("chat")).await;
        let row = fixture.why().await.call;
        assert_eq!((row.name.as_str(), row.kind.as_str()), (action, "action"));
        assert_eq!(
            (
                row.paid.calls,
                row.paid.input_tokens,
                row.paid.output_tokens,
                row.paid.cost
            ),
            (1, 1_000, 50, COST)
        );
        assert!(
            row.reason
                .as_deref()
                .unwrap()
                .contains("there is no cache.wrap around it"),
            "{row:?}"
        );
        assert_eq!(
            row.input,
            Some(json!({ "model": "gpt-4o-mini", "provider": "openai" }))
        );
        assert_eq!(row.handle, None);
    }
    let reported = fixture.events.answered();
    assert_eq!(reported.len(), 2);
    assert_eq!(
        (reported[0].outcome, reported[0].paid.cost),
        ("bypass", COST)
    );
    assert!(fixture.entries().await.is_empty());
}

#[tokio::test]
async fn nested_wraps_account_once() {
    let provider = Provider::replies([reply("baleine")]);
    let fixture = fixture(&provider);
    let nested = json!({
        "action": "cache.wrap", "key": "outer",
        "args": { "action": "cache.wrap", "args": { "action": "llm.call", "args": asked("chat") } },
    });
    fixture.wrap(nested.clone()).await;
    let reported = fixture.events.answered();
    assert_eq!(reported.len(), 3);
    let paid: Vec<u64> = reported
        .iter()
        .map(|reported| reported.paid.cost.picodollars)
        .collect();
    assert_eq!(paid, [COST.picodollars, 0, 0]);
    let tokens: u64 = reported
        .iter()
        .map(|reported| reported.paid.input_tokens)
        .sum();
    assert_eq!(tokens, 1_000);
    // A hit on the outermost saves everything that it took to make.
    let hit = fixture.wrap(nested).await;
    assert!(is_hit(&hit));
    assert_eq!(fixture.events.answered()[3].saved.cost, COST);
    assert_eq!(
        (fixture.runtime.meter.spent().tokens, provider.requests()),
        (1_050, 1)
    );
}

/// An answer that is not whole is not stored by any wrap around it.
#[tokio::test]
async fn outer_wrap_does_not_store_a_declined_inner_result() {
    let cut = ScriptedReply::text("The wha").with_stop(ScriptedStop::Length);
    let provider = Provider::replies([cut]);
    let fixture = fixture(&provider);
    let nested = json!({
        "action": "cache.wrap", "args": { "action": "llm.call", "args": asked("chat") },
    });
    let given = fixture.wrap(nested).await;
    assert_eq!(given["_cache_stored"], false);
    assert_eq!(given["result"]["_cache_stored"], false);
    assert!(fixture.entries().await.is_empty());
}

#[tokio::test]
async fn calls_without_a_price_are_unpriced_and_not_free() {
    let provider = Provider::replies([reply("baleine")]);
    let fixture = fixture(&provider);
    let miss = fixture.wrap(wrapping("llm.call", asked("unpriced"))).await;
    assert!(miss["result"]["cost"].is_null());
    let hit = fixture.wrap(wrapping("llm.call", asked("unpriced"))).await;
    assert!(is_hit(&hit));
    let reported = fixture.events.answered();
    assert_eq!(reported[0].paid.cost, Cost::UNPRICED);
    assert_eq!(reported[1].saved.cost, Cost::UNPRICED);
    assert_eq!(reported[1].saved.cost.to_string(), "unpriced");
}

const SECRET: &str = "hunter2-hunter2";

#[tokio::test]
async fn secrets_in_prompts_are_keyed_and_never_shown() {
    let provider = Provider::replies([reply("Fine.")]);
    let fixture = asking(Setup::default().secrets(&[SECRET]), &provider, MODELS);
    let with = |secret: &str| {
        wrapping(
            "llm.call",
            json!({ "model": "chat", "prompt": format!("The word is {secret}.") }),
        )
    };
    assert_eq!(fixture.wrap(with(SECRET)).await["_cache_stored"], true);
    assert!(is_hit(&fixture.wrap(with(SECRET)).await));
    assert!(!is_hit(&fixture.wrap(with("another")).await));
    assert!(provider.received()[0].json().to_string().contains(SECRET));
    fixture.runtime.cache.ledger().flush().await;
    let reported = fixture.events.text();
    assert!(!reported.contains(SECRET) && !reported.contains(KEY));
    fixture.runtime.cache.close().await;
    for entry in std::fs::read_dir(fixture.home()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            for secret in [SECRET, KEY] {
                let found = bytes
                    .windows(secret.len())
                    .any(|window| window == secret.as_bytes());
                assert!(!found, "{} holds {secret}", path.display());
            }
        }
    }
}

#[tokio::test]
async fn answer_with_a_secret_is_not_stored() {
    for action in ["llm.call", "llm.stream"] {
        let provider = Provider::replies([reply("You said hunter2-hunter2.")]);
        let fixture = asking(Setup::default().secrets(&[SECRET]), &provider, MODELS);
        let with = wrapping(
            action,
            json!({ "model": "chat", "prompt": format!("The word is {SECRET}.") }),
        );
        let given = fixture.wrap(with).await;
        assert_eq!(given["_cache_stored"], false);
        assert_eq!(given["result"]["content"], "You said hunter2-hunter2.");
        assert!(!text(&given, "_cache_reason").contains(SECRET));
        assert!(fixture.entries().await.is_empty());
        assert!(!fixture.events.text().contains(SECRET));
    }
}

/// Called by its handle, and by an own key, an entry of a model call is like any other.
#[tokio::test]
async fn entries_of_model_calls_can_be_shown_and_erased() {
    let provider = Provider::replies([reply("baleine")]);
    let fixture = fixture(&provider);
    let mut with = wrapping("llm.call", asked("chat"));
    with["key"] = json!("translate:whale");
    let miss = fixture.wrap(with.clone()).await;
    let looked = fixture.get("translate:whale").await;
    assert_eq!(looked["found"], true, "{looked}");
    assert_eq!(
        without(looked["value"].clone(), &[]),
        miss["result"],
        "{looked}"
    );
    let forgotten = fixture
        .invalidate(json!({ "metadata_filter": { "_cache_action": "llm.call" } }))
        .await;
    assert_eq!(forgotten["deleted_count"], 1);
    assert!(!is_hit(&fixture.wrap(with).await));
}
