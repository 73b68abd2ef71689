//! What `settings.llm`, `models` and `providers` say of a call.

use serde_json::json;

use super::asking;
use crate::stand_ins::Provider;

const DEFAULTS: &str = "
settings:
  llm: {model: gpt-4o-mini, temperature: 0.3, max_tokens: 77, stop: [END], provider_opts: {seed: 5}}
models:
  warm: {provider: openai, model: gpt-4o, temperature: 0.9}
";

#[tokio::test]
async fn the_model_of_the_settings_is_the_default() {
    let provider = Provider::built_in();
    let world = asking(&provider, DEFAULTS);
    world.ok("llm.call", json!({ "prompt": "Hi" })).await;
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
async fn the_settings_may_name_a_model_of_the_file() {
    let provider = Provider::built_in();
    let file = DEFAULTS.replace(
        "model: gpt-4o-mini, temperature: 0.3",
        "model: warm, top_p: 0.5",
    );
    let world = asking(&provider, &file);
    world.ok("llm.call", json!({ "prompt": "Hi" })).await;
    let sent = provider.last();
    assert_eq!(
        (&sent["model"], &sent["temperature"], &sent["top_p"]),
        (&json!("gpt-4o"), &json!(0.9), &json!(0.5))
    );
}

#[tokio::test]
async fn defaults_hold_for_calls_that_are_wrapped_as_for_those_that_are_not() {
    for model in [
        json!(null),
        json!("gpt-4o"),
        json!("warm"),
        json!("openai/gpt-4o"),
    ] {
        let provider = Provider::built_in();
        let world = asking(&provider, DEFAULTS);
        let arguments = json!({ "model": model, "prompt": "Hi", "top_p": 0.5 });
        world.ok("llm.call", arguments.clone()).await;
        let plain = provider.last();
        let (hit, _) = world
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
async fn the_call_wins_over_the_model_and_the_model_over_the_settings() {
    let provider = Provider::built_in();
    let world = asking(&provider, DEFAULTS);
    for (arguments, temperature) in [
        (
            json!({ "model": "warm", "prompt": "Hi", "temperature": 0.1 }),
            0.1,
        ),
        (json!({ "model": "warm", "prompt": "Hi" }), 0.9),
        (json!({ "prompt": "Hi" }), 0.3),
        (json!({ "prompt": "Hi", "temperature": 0 }), 0.0),
    ] {
        world.ok("llm.call", arguments).await;
        assert_eq!(provider.last()["temperature"].as_f64(), Some(temperature));
    }
}

#[tokio::test]
async fn a_provider_is_named_in_the_model_or_beside_it() {
    let provider = Provider::built_in();
    let world = asking(&provider, "name: a");
    for arguments in [
        json!({ "model": "anthropic/whale", "prompt": "Hi" }),
        json!({ "model": "whale", "provider": "anthropic", "prompt": "Hi" }),
    ] {
        world.ok("llm.call", arguments).await;
        let received = provider.received();
        let last = received.last().unwrap();
        assert_eq!(
            (last.path.as_str(), &last.json()["model"]),
            ("/v1/messages", &json!("whale"))
        );
    }
    // Slashes belong to the name.
    let lab = format!("providers: {{lab: {{base_url: '{}/v1'}}}}", provider.url());
    let world = asking(&provider, &lab);
    let arguments = json!({ "model": "openai/whale", "provider": "lab", "prompt": "Hi" });
    world.ok("llm.call", arguments).await;
    assert_eq!(provider.last()["model"], "openai/whale");
}

/// Where the settings say of no provider where it is, they say nothing of another one.
#[tokio::test]
async fn base_url_of_the_settings_applies_only_to_its_provider() {
    let (own, gateway) = (Provider::built_in(), Provider::built_in());
    let file = format!("settings: {{llm: {{base_url: '{}/v1'}}}}", gateway.url());
    let world = asking(&own, &file);
    world
        .ok("llm.call", json!({ "model": "gpt-4o", "prompt": "Hi" }))
        .await;
    assert_eq!((own.requests(), gateway.requests()), (0, 1));
    for arguments in [
        json!({ "model": "anthropic/claude-sonnet-5", "prompt": "Hi" }),
        json!({ "model": "claude-sonnet-5", "provider": "anthropic", "prompt": "Hi" }),
    ] {
        world.ok("llm.call", arguments).await;
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
    let mut world = crate::world::World::new();
    let environment = [("LAB_TOKEN".to_owned(), "lab-token-1234".to_owned())].into();
    crate::stand_ins::provider::configure(&mut world.runtime, &environment, &file);
    world
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
    let world = asking(&provider, DEFAULTS);
    for action in ["llm.call", "llm.stream"] {
        let planned = world.plan(action, json!({ "prompt": "Hi" })).await.unwrap();
        let reason = "there is no cache.wrap around it".to_owned();
        assert_eq!(
            planned,
            Planned::Miss {
                handle: None,
                reason
            }
        );
        let failure = world
            .plan(action, json!({ "prompt": "Hi", "model": "nothing" }))
            .await;
        assert_eq!(failure.unwrap_err().kind, "configuration_error");
    }
    assert_eq!(provider.requests(), 0);
}

/// What is said of tools where there are none is not sent: providers refuse it.
#[tokio::test]
async fn settings_of_tools_wait_for_tools() {
    let provider = Provider::built_in();
    let world = asking(
        &provider,
        "settings: {llm: {model: gpt-4o-mini, parallel_tool_calls: false}}",
    );
    for choice in ["auto", "none"] {
        let arguments = json!({ "prompt": "Hi", "tool_choice": choice });
        world.ok("llm.call", arguments).await;
        let sent = provider.last();
        assert!(sent.get("parallel_tool_calls").is_none() && sent.get("tool_choice").is_none());
    }
    let tool = json!({ "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": {}, "additionalProperties": false } });
    let arguments = json!({ "prompt": "Hi", "tools": [tool], "tool_choice": "auto" });
    world.ok("llm.call", arguments).await;
    assert_eq!(provider.last()["parallel_tool_calls"], false);
}
