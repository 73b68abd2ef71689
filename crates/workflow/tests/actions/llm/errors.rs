//! Failures of model calls.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_simulator::{Fault, Script, ScriptedReply};
use serde_json::json;

use super::{EACH, MODELS, asking, user};
use crate::fakes::Provider;
use crate::fakes::provider::{KEY, configure};
use crate::fixture::Fixture;

#[tokio::test]
async fn every_provider_error_has_a_failure_kind() {
    for (model, _) in EACH {
        for (fault, kind, retryable, requests, says) in [
            (Fault::status(400), "rejected", false, 1, "status 400"),
            (
                Fault::status(401),
                "unauthorized",
                false,
                1,
                "check the key in the environment variable ",
            ),
            (
                Fault::status(402),
                "out_of_credit",
                false,
                1,
                "add credit to the account",
            ),
            (Fault::status(403), "unauthorized", false, 1, "status 403"),
            (
                Fault::status(404),
                "rejected",
                false,
                1,
                "check the model's name and `base_url`",
            ),
            (
                Fault::status(429).times(99),
                "rate_limited",
                true,
                18,
                "tried 18 times and waited 5m",
            ),
            (
                Fault::status(500).times(9),
                "unavailable",
                true,
                3,
                "tried 3 times",
            ),
            (
                Fault::status(503).times(9),
                "unavailable",
                true,
                3,
                "the provider failed",
            ),
            (
                Fault::malformed(),
                "cut_off",
                true,
                1,
                "the answer ended before it was complete",
            ),
        ] {
            let provider =
                Provider::replies([ScriptedReply::text("x").with_fault(fault.clone())]).forgiving();
            let fixture = asking(&provider, MODELS);
            let failure = fixture
                .fails("llm.call", json!({ "model": model, "prompt": "Hi" }))
                .await;
            assert_eq!(
                (failure.kind, failure.retryable),
                (kind, retryable),
                "{model} {fault:?}: {failure}"
            );
            assert_eq!(provider.requests(), requests, "{model} {fault:?}");
            assert!(failure.message.contains(says), "{failure}");
            let name = if model == "messages" {
                "anthropic"
            } else {
                "openai"
            };
            assert!(
                failure.message.starts_with(&format!("llm.call: {name}: ")),
                "{failure}"
            );
            assert!(!failure.message.contains(KEY), "{failure}");
        }
    }
}

#[tokio::test]
async fn transient_errors_are_retried() {
    for (model, _) in EACH {
        let fault = Fault::status(429)
            .retry_after(Duration::from_millis(1))
            .times(2);
        let provider =
            Provider::replies([ScriptedReply::text("Hi.").with_fault(fault)]).forgiving();
        let fixture = asking(&provider, MODELS);
        let answer = fixture
            .ok("llm.call", json!({ "model": model, "prompt": "Hi" }))
            .await;
        assert_eq!(
            (&answer["content"], provider.requests()),
            (&json!("Hi."), 3)
        );
    }
}

#[tokio::test]
async fn a_truncated_stream_is_a_failure() {
    let provider =
        Provider::replies([ScriptedReply::text("The whale dives.").with_fault(Fault::cut(3))]);
    let fixture = asking(&provider, MODELS);
    let failure = fixture
        .fails("llm.call", json!({ "model": "chat", "prompt": "Hi" }))
        .await;
    assert_eq!(
        (failure.kind, failure.retryable),
        ("cut_off", true),
        "{failure}"
    );
}

#[tokio::test]
async fn a_slow_provider_times_out() {
    let slow = Fault::slow(Duration::from_secs(60), Duration::ZERO);
    let provider = Provider::replies([ScriptedReply::text("Hi.").with_fault(slow)]);
    let file = "settings: {llm: {timeouts: {first_byte: 50ms}}}";
    let failure = asking(&provider, file)
        .fails("llm.call", json!({ "model": "gpt-4o", "prompt": "Hi" }))
        .await;
    assert_eq!(
        (failure.kind, failure.retryable),
        ("timeout", true),
        "{failure}"
    );
    assert!(failure.message.contains("timeouts.first_byte"), "{failure}");
}

#[tokio::test]
async fn timeout_and_max_retries_are_set_per_call() {
    let slow = || Fault::slow(Duration::from_secs(600), Duration::ZERO).times(9);
    for (more, requests) in [
        (json!({"timeout": 0.2}), 1),
        (json!({"timeout": "0.2", "max_retries": 1}), 2),
        (json!({"timeout": 0.2, "max_retries": 0}), 1),
    ] {
        for action in ["llm.call", "llm.stream"] {
            let provider = Provider::replies([ScriptedReply::text("One two.").with_fault(slow())]);
            let mut arguments = json!({ "model": "gpt-4o", "prompt": "Hi" });
            let fields = arguments.as_object_mut().unwrap();
            fields.extend(more.as_object().unwrap().clone());
            let began = std::time::Instant::now();
            let failure = asking(&provider, MODELS).fails(action, arguments).await;
            assert_eq!(
                (failure.kind, failure.retryable),
                ("timeout", true),
                "{failure}"
            );
            assert!(failure.message.contains("within 200ms"), "{failure}");
            assert!(began.elapsed() < Duration::from_secs(120), "{more}");
            assert_eq!(provider.requests(), requests, "{action} {more}");
        }
    }
    for (retries, requests) in [(0, 1), (3, 4)] {
        let down = ScriptedReply::text("Hi.").with_fault(Fault::status(500).times(9));
        let provider = Provider::replies([down]);
        let arguments = json!({"model": "gpt-4o", "prompt": "Hi", "max_retries": retries});
        let failure = asking(&provider, MODELS).fails("llm.call", arguments).await;
        assert_eq!(failure.kind, "unavailable", "{failure}");
        assert_eq!(provider.requests(), requests);
    }
    for wrong in [json!({"max_retries": 11}), json!({"timeout": 0})] {
        let mut arguments = json!({ "model": "gpt-4o", "prompt": "Hi" });
        let fields = arguments.as_object_mut().unwrap();
        fields.extend(wrong.as_object().unwrap().clone());
        let failure = asking(&Provider::built_in(), MODELS)
            .fails("llm.call", arguments)
            .await;
        assert_eq!(failure.kind, "validation_error", "{failure}");
    }
}

#[tokio::test]
async fn api_base_is_an_alias_of_base_url_without_the_key() {
    let (own, other) = (Provider::built_in(), Provider::built_in());
    let fixture = asking(&own, MODELS);
    let elsewhere = format!("{}/v1", other.url());
    let arguments = json!({ "model": "gpt-4o", "api_base": elsewhere, "prompt": "Hi" });
    fixture.ok("llm.call", arguments).await;
    let arguments = json!({
        "model": "gpt-4o", "api_base": elsewhere, "token_key": "OPENAI_API_KEY", "prompt": "Hi",
    });
    fixture.ok("llm.call", arguments).await;
    let received = other.received();
    assert_eq!(received[0].header("authorization"), None);
    let key = format!("Bearer {KEY}");
    assert_eq!(received[1].header("authorization"), Some(&*key));
    assert_eq!(own.requests(), 0);
}

#[tokio::test]
async fn a_refused_connection_is_a_connection_error() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, MODELS);
    drop(provider);
    let failure = fixture
        .fails("llm.call", json!({ "model": "chat", "prompt": "Hi" }))
        .await;
    assert_eq!(
        (failure.kind, failure.retryable),
        ("connection_error", true),
        "{failure}"
    );
}

#[tokio::test]
async fn non_api_response_is_malformed() {
    let page = axum::Router::new().fallback(|| async { "<html>Welcome to nginx!</html>" });
    let server = crate::fakes::Server::start(page);
    let fixture = alone("name: a");
    let arguments = json!({ "model": "whale", "base_url": server.base_url(), "prompt": "Hi" });
    let failure = fixture.fails("llm.call", arguments).await;
    assert_eq!(
        (failure.kind, failure.retryable),
        ("malformed_answer", false)
    );
    assert!(
        failure.message.contains("check `base_url` and `format`"),
        "{failure}"
    );
}

/// A run without any provider in its environment.
fn alone(file: &str) -> Fixture {
    let mut fixture = Fixture::new();
    configure(&mut fixture.runtime, &BTreeMap::new(), file);
    fixture
}

#[tokio::test]
async fn a_missing_key_is_named_and_nothing_is_sent() {
    for (model, variable) in [
        ("gpt-4o", "OPENAI_API_KEY"),
        ("claude-sonnet-5", "ANTHROPIC_API_KEY"),
    ] {
        let failure = alone("name: a")
            .fails(
                "llm.call",
                json!({ "model": model, "messages": user("Hi") }),
            )
            .await;
        assert_eq!(failure.kind, "unauthorized");
        assert!(
            failure.message.contains(&format!("the environment variable {variable} is not set; set it, or name another one with `token_key`")),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn an_unknown_model_is_reported_with_suggestions() {
    let fixture = alone("models: {fast: gpt-4o-mini}");
    for (arguments, says) in [
        (
            json!({ "model": "fsat", "prompt": "Hi" }),
            "there is no model `fsat`: did you mean `fast`?",
        ),
        (
            json!({ "model": "opnai/gpt-4o", "prompt": "Hi" }),
            "did you mean `openai/gpt-4o`?",
        ),
        (
            json!({ "model": "whale", "provider": "opnai", "prompt": "Hi" }),
            "there is no provider `opnai`: did you mean `openai`?",
        ),
        (
            json!({ "prompt": "Hi" }),
            "no model is named: write `model: …` in `settings.llm`",
        ),
        (json!({ "model": "", "prompt": "Hi" }), "no model is named"),
        (
            json!({ "model": "gpt-4o", "base_url": "api.example.com", "prompt": "Hi" }),
            "which is not a URL",
        ),
    ] {
        let failure = fixture.fails("llm.call", arguments).await;
        assert_eq!(failure.kind, "configuration_error");
        assert!(failure.message.contains(says), "{failure}");
    }
}

/// A file cannot redirect the key by setting an address only.
#[tokio::test]
async fn a_base_url_gets_a_key_only_with_token_key() {
    let (own, other) = (Provider::built_in(), Provider::built_in());
    let fixture = asking(&own, MODELS);
    let elsewhere = format!("{}/v1", other.url());
    for model in ["chat", "gpt-4o"] {
        let arguments = json!({ "model": model, "base_url": elsewhere, "prompt": "Hi" });
        fixture.ok("llm.call", arguments).await;
        let received = other.received();
        let last = received.last().unwrap();
        assert!(!format!("{:?}", last.headers).contains(KEY), "{model}");
        assert_eq!(last.header("authorization"), None, "{model}");
    }
    let arguments = json!({
        "model": "gpt-4o", "base_url": elsewhere, "token_key": "OPENAI_API_KEY", "prompt": "Hi",
    });
    fixture.ok("llm.call", arguments).await;
    let received = other.received();
    assert_eq!(
        received[2].header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    assert_eq!(own.requests(), 0);

    let strict = Provider::start(Script::built_in().with_required_key(KEY)).forgiving();
    let arguments = json!({
        "model": "gpt-4o", "base_url": format!("{}/v1", strict.url()), "prompt": "Hi",
    });
    let failure = fixture.fails("llm.call", arguments).await;
    assert_eq!(failure.kind, "unauthorized");
    assert!(
        failure
            .message
            .contains("write `token_key: OPENAI_API_KEY` if that key may go there"),
        "{failure}"
    );
}
