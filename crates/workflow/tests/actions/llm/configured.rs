//! Effects of `settings.llm`, `models` and `providers` on a call.

use serde_json::json;

use super::asking;
use crate::fakes::Provider;

const DEFAULTS: &str = "
settings:
  llm: {model: gpt-4o-mini, temperature: 0.3, max_tokens: 77, stop: [END], provider_opts: {seed: 5}}
models:
  warm: {provider: openai, model: gpt-4o, temperature: 0.9}
";

#[tokio::test]
async fn model_of_the_settings_is_the_default() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, DEFAULTS);
    fixture.ok("llm.call", json!({ "prompt": "Hi" })).await;
    let sent = provider.last();
    assert_eq!(
        (
            &sent["model"],
            &sent["temperature"],
            &sent["stop"],
            &sent["seed"]
        ),
        (
            &json!("gpt-4o-mini"),
            &json!(0.3),
            &json!(["END"]),
            &json!(5)
        )
    );
}

/// By the name that it has in the file, too; what else the settings say still holds.
#[tokio::test]
async fn settings_can_name_a_configured_model() {
    let provider = Provider::built_in();
    let file = DEFAULTS.replace(
        "model: gpt-4o-mini, temperature: 0.3",
        "model: warm, top_p: 0.5",
    );
    let fixture = asking(&provider, &file);
    fixture.ok("llm.call", json!({ "prompt": "Hi" })).await;
    let sent = provider.last();
    assert_eq!(
        (&sent["model"], &sent["temperature"], &sent["top_p"]),
        (&json!("gpt-4o"), &json!(0.9), &json!(0.5))
    );
}

#[tokio::test]
async fn llm_defaults_apply_to_wrapped_and_unwrapped_calls() {
    for model in [
        json!(null),
        json!("gpt-4o"),
        json!("warm"),
        json!("openai/gpt-4o"),
    ] {
        let provider = Provider::built_in();
        let fixture = asking(&provider, DEFAULTS);
        let arguments = json!({ "model": model, "prompt": "Hi", "top_p": 0.5 });
        fixture.ok("llm.call", arguments.clone()).await;
        let plain = provider.last();
        let (hit, _) = fixture
            .wrapped(json!({ "action": "llm.call", "args": arguments }))
            .await;
        assert!(!hit);
        assert_eq!(provider.last(), plain, "{model}");
        assert_eq!(provider.requests(), 2);
        let temperature = if model == "warm" { 0.9 } else { 0.3 };
        assert_eq!(
            (&plain["temperature"], &plain["stop"]),
            (&json!(temperature), &json!(["END"])),
            "{model}"
        );
    }
}

#[tokio::test]
async fn call_overrides_model_and_model_overrides_settings() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, DEFAULTS);
    for (arguments, temperature) in [
        (
            json!({ "model": "warm", "prompt": "Hi", "temperature": 0.1 }),
            0.1,
        ),
        (json!({ "model": "warm", "prompt": "Hi" }), 0.9),
        (json!({ "prompt": "Hi" }), 0.3),
        (json!({ "prompt": "Hi", "temperature": 0 }), 0.0),
    ] {
        fixture.ok("llm.call", arguments).await;
        assert_eq!(provider.last()["temperature"].as_f64(), Some(temperature));
    }
}

#[tokio::test]
async fn provider_is_given_in_the_model_or_as_an_argument() {
    let provider = Provider::built_in();
    let fixture = asking(&provider, "name: a");
    for arguments in [
        json!({ "model": "anthropic/whale", "prompt": "Hi" }),
        json!({ "model": "whale", "provider": "anthropic", "prompt": "Hi" }),
    ] {
        fixture.ok("llm.call", arguments).await;
        let received = provider.received();
        let last = received.last().unwrap();
        assert_eq!(
            (last.path.as_str(), &last.json()["model"]),
            ("/v1/messages", &json!("whale"))
        );
    }
    // Slashes belong to the name.
    let lab = format!("providers: {{lab: {{base_url: '{}/v1'}}}}", provider.url());
    let fixture = asking(&provider, &lab);
    let arguments = json!({ "model": "openai/whale", "provider": "lab", "prompt": "Hi" });
    fixture.ok("llm.call", arguments).await;
    assert_eq!(provider.last()["model"], "openai/whale");
}

/// A base URL of the settings does not apply to another provider.
#[tokio::test]
async fn base_url_of_the_settings_applies_only_to_its_provider() {
    let (own, gateway) = (Provider::built_in(), Provider::built_in());
    let file = format!("settings: {{llm: {{base_url: '{}/v1'}}}}", gateway.url());
    let fixture = asking(&own, &file);
    fixture
        .ok("llm.call", json!({ "model": "gpt-4o", "prompt": "Hi" }))
        .await;
    assert_eq!((own.requests(), gateway.requests()), (0, 1));
    for arguments in [
        json!({ "model": "anthropic/claude-sonnet-5", "prompt": "Hi" }),
        json!({ "model": "claude-sonnet-5", "provider": "anthropic", "prompt": "Hi" }),
    ] {
        fixture.ok("llm.call", arguments).await;
    }
    assert_eq!((own.requests(), gateway.requests()), (2, 1));
}

#[tokio::test]
async fn headers_of_a_provider_are_sent() {
    let provider = Provider::built_in();
    let file = format!(
        "providers: {{lab: {{base_url: '{}/v1', headers: {{X-Team: whales}}, token_key: LAB_TOKEN}}}}",
        provider.url()
    );
    let mut fixture = crate::fixture::Fixture::new();
    let environment = [("LAB_TOKEN".to_owned(), "lab-token-1234".to_owned())].into();
    crate::fakes::provider::configure(&mut fixture.runtime, &environment, &file);
    fixture
        .ok("llm.call", json!({ "model": "lab/whale", "prompt": "Hi" }))
        .await;
    let received = provider.received();
    assert_eq!(received[0].header("x-team"), Some("whales"));
    assert_eq!(
        received[0].header("authorization"),
        Some("Bearer lab-token-1234")
    );
}

#[tokio::test]
async fn a_plan_reports_a_miss() {
    use cachalot_workflow::Planned;
    let provider = Provider::built_in();
    let fixture = asking(&provider, DEFAULTS);
    for action in ["llm.call", "llm.stream"] {
        let planned = fixture
            .plan(action, json!({ "prompt": "Hi" }))
            .await
            .unwrap();
        let reason = "there is no cache.wrap around it".to_owned();
        assert_eq!(
            planned,
            Planned::Miss {
                handle: None,
                reason
            }
        );
        let failure = fixture
            .plan(action, json!({ "prompt": "Hi", "model": "nothing" }))
            .await;
        assert_eq!(failure.unwrap_err().kind, "configuration_error");
    }
    assert_eq!(provider.requests(), 0);
}

/// Tool settings are not sent without tools: providers refuse them.
#[tokio::test]
async fn tool_settings_of_a_model_apply_only_with_tools() {
    let provider = Provider::built_in();
    let fixture = asking(
        &provider,
        "settings: {llm: {model: gpt-4o-mini, parallel_tool_calls: false}}",
    );
    for choice in ["auto", "none"] {
        let arguments = json!({ "prompt": "Hi", "tool_choice": choice });
        fixture.ok("llm.call", arguments).await;
        let sent = provider.last();
        assert!(sent.get("parallel_tool_calls").is_none() && sent.get("tool_choice").is_none());
    }
    let tool = json!({ "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": {}, "additionalProperties": false } });
    let arguments = json!({ "prompt": "Hi", "tools": [tool], "tool_choice": "auto" });
    fixture.ok("llm.call", arguments).await;
    assert_eq!(provider.last()["parallel_tool_calls"], false);
}
