//! Fallbacks of a model call: who answers, what is stored under which key, and what the ledger shows.

use cachalot_cache::CacheMode;
use cachalot_simulator::{Fault, FaultKind, ScriptedReply};
use serde_json::{Value, json};

use crate::fakes::Provider;
use crate::fakes::provider::configure;
use crate::fixture::{Fixture, Setup, is_hit};
use crate::llm::asking;

/// A provider that is overloaded for one call with its retry, and another one.
struct TwoProviders {
    first: Provider,
    second: Provider,
}

impl TwoProviders {
    fn of(first: Vec<ScriptedReply>) -> Self {
        Self {
            first: Provider::replies(first),
            second: Provider::replies([ScriptedReply::text("the second")]),
        }
    }

    fn overloaded() -> Self {
        Self::of(vec![
            ScriptedReply::text("the first").with_fault(Fault::status(529).times(2)),
        ])
    }

    fn file(&self) -> String {
        format!(
            "
providers:
  backup: {{base_url: '{}', token_key: OPENAI_API_KEY, format: messages}}
models:
  main: {{provider: openai, model: gpt-4o-mini, retries: 1, fallbacks: [spare], cost: {{input: 1, output: 1}}}}
  spare: {{provider: backup, model: claude-haiku-4-5, cost: {{input: 1000, output: 0}}}}
",
            self.second.url()
        )
    }

    fn fixture(&self, setup: Setup) -> Fixture {
        asking(setup, &self.first, &self.file())
    }

    fn requests(&self) -> (usize, usize) {
        (self.first.requests(), self.second.requests())
    }
}

fn call(model: &str) -> Value {
    json!({ "action": "llm.call", "args": { "model": model, "prompt": "Who?", "temperature": 0.5 } })
}

#[tokio::test]
async fn fallback_answers_a_wrapped_call() {
    for action in ["llm.call", "llm.stream"] {
        let pair = TwoProviders::overloaded();
        let fixture = pair.fixture(Setup::default());
        let answer = fixture.ok(action, call("main")["args"].clone()).await;
        assert_eq!(answer["content"], "the second");
        assert_eq!(answer["model"], "claude-haiku-4-5");
        let tokens = answer["usage"]["input_tokens"].as_u64().unwrap();
        assert_eq!(answer["cost"].as_f64().unwrap(), tokens as f64 / 1_000.0);
        assert_eq!(pair.requests(), (2, 1));
        assert_eq!(pair.second.last()["temperature"], 0.5);
        let spent = fixture.runtime.meter.spent();
        assert_eq!(spent.cost.picodollars, tokens * 1_000_000_000);
    }
}

#[tokio::test]
async fn answer_is_stored_under_the_key_of_its_model() {
    let pair = TwoProviders::overloaded();
    let fixture = pair.fixture(Setup::default());
    let answer = fixture.wrap(call("main")).await;
    assert!(!is_hit(&answer));
    assert_eq!(answer["result"]["content"], "the second");
    assert_eq!(answer["_cache_stored"], true, "{answer}");
    assert_eq!(pair.requests(), (2, 1));
    // By its own name it is found.
    let spare = fixture.wrap(call("spare")).await;
    assert!(is_hit(&spare));
    assert_eq!(spare["_cache_key"], answer["_cache_key"]);
    // The first model has answered nothing yet, and is asked.
    let main = fixture.wrap(call("main")).await;
    assert!(!is_hit(&main));
    assert_eq!(main["result"]["content"], "the first");
    assert_ne!(main["_cache_key"], answer["_cache_key"]);
    assert_eq!(pair.requests(), (3, 1));
    assert!(is_hit(&fixture.wrap(call("main")).await));
}

#[tokio::test]
async fn fallback_is_paid_once_while_the_first_model_fails() {
    let pair = TwoProviders::of(vec![
        ScriptedReply::default().with_fault(Fault::status(503).times(4)),
    ]);
    let fixture = pair.fixture(Setup::default());
    assert!(!is_hit(&fixture.wrap(call("main")).await));
    let again = fixture.wrap(call("main")).await;
    assert!(is_hit(&again), "{again}");
    assert_eq!(again["result"]["content"], "the second");
    assert_eq!(pair.requests(), (4, 1));
}

#[tokio::test]
async fn a_frozen_run_hits_the_entry_of_the_fallback() {
    let pair = TwoProviders::overloaded();
    let fixture = pair.fixture(Setup::default());
    fixture.wrap(call("main")).await;
    let mut frozen = fixture.end().await.mode(CacheMode::Frozen).start();
    configure(&mut frozen.runtime, &pair.first.environment(), &pair.file());
    let answer = frozen.wrap(call("main")).await;
    assert!(is_hit(&answer), "{answer}");
    assert_eq!(pair.requests(), (2, 1));
    let mut other = call("main");
    other["args"]["prompt"] = json!("Who else?");
    let missed = frozen.fails("cache.wrap", other).await;
    assert_eq!(missed.kind, "frozen_miss");
}

#[tokio::test]
async fn fallbacks_argument_replaces_or_disables_fallbacks() {
    let pair = TwoProviders::overloaded();
    let fixture = pair.fixture(Setup::default());
    let mut none = call("main")["args"].clone();
    none["fallbacks"] = json!([]);
    let failure = fixture.fails("llm.call", none).await;
    assert_eq!(failure.kind, "unavailable");
    assert_eq!(pair.requests(), (2, 0));
    let pair = TwoProviders::overloaded();
    let fixture = pair.fixture(Setup::default());
    let named = json!({ "model": "openai/gpt-4o", "prompt": "Who?", "fallbacks": ["spare"] });
    assert_eq!(fixture.ok("llm.call", named).await["content"], "the first");
    assert_eq!(pair.requests(), (3, 0), "retried twice, as is usual");
}

#[tokio::test]
async fn invalid_requests_are_not_sent_to_fallbacks() {
    for (reply, action, asks) in [
        (ScriptedReply::error(400), "llm.call", 0),
        (ScriptedReply::error(401), "llm.call", 0),
        (
            ScriptedReply::text("A long answer that breaks off in the middle of what it says.")
                .with_fault(FaultKind::ErrorEvent { after_events: 7 }.into()),
            "llm.stream",
            0,
        ),
    ] {
        let pair = TwoProviders::of(vec![reply]);
        let fixture = pair.fixture(Setup::default());
        fixture.fails(action, call("main")["args"].clone()).await;
        assert_eq!(pair.second.requests(), asks);
    }
}
