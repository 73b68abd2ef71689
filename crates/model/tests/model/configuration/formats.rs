//! Formats, reasoning and sampling, by what a model accepts.

use cachalot_model::{ErrorKind, Format, Model, ModelSettings};
use serde_json::{Value, json};

use super::{find, models};

const GATEWAY: &str = "http://127.0.0.1:4010/v1";

/// A model `m` with these keys.
fn of(keys: &str) -> Model {
    find(&format!("models: {{m: {{{keys}}}}}"), "m").unwrap()
}

fn format(keys: &str) -> Format {
    of(keys).wire().format()
}

/// The message of the error that these keys of `m` are.
fn refused(keys: &str) -> String {
    let error = find(&format!("models: {{m: {{{keys}}}}}"), "m").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    error.message
}

/// The fields behind the messages.
fn tail(model: &Model) -> Value {
    let tail = model.wire().tail(model.parameters(), true);
    let text = String::from_utf8(tail.to_vec()).unwrap();
    serde_json::from_str(&format!("{{{}", text.trim_start_matches(','))).unwrap()
}

#[test]
fn openai_models_with_responses_support_use_it() {
    for model in [
        "gpt-5.6-terra",
        "gpt-4o-mini-2024-07-18",
        "o3",
        "gpt-5.3-codex",
    ] {
        assert_eq!(
            format(&format!("model: {model}")),
            Format::Responses,
            "{model}"
        );
        let elsewhere = models("models: {}", &[("OPENAI_BASE_URL", GATEWAY)]);
        let model = elsewhere.find(model).unwrap();
        assert_eq!(model.wire().format(), Format::Responses);
        assert_eq!(model.base_url(), GATEWAY);
    }
    // What is not known is sent as before.
    for model in [
        "gpt-3.5-turbo",
        "openai/whale",
        "azure/gpt-5.6-terra",
        "xai/grok-4.7",
    ] {
        let elsewhere = [("AZURE_OPENAI_ENDPOINT", GATEWAY)];
        let found = models("models: {}", &elsewhere).find(model).unwrap();
        assert_eq!(found.wire().format(), Format::Chat, "{model}");
    }
}

#[test]
fn base_url_in_the_file_selects_chat_unless_a_format_is_set() {
    let there = format!("base_url: '{GATEWAY}'");
    assert_eq!(
        format(&format!("model: gpt-5.6-terra, {there}")),
        Format::Chat
    );
    let both = format!("model: gpt-5.6-terra, {there}, format: responses");
    assert_eq!(format(&both), Format::Responses);
    let provider = format!("providers: {{openai: {{{there}}}}}");
    let found = find(&provider, "gpt-5.6-terra").unwrap();
    assert_eq!(found.wire().format(), Format::Chat);
    // There is no other way to ask this one.
    let codex = format!("model: gpt-5.3-codex, {there}");
    assert_eq!(format(&codex), Format::Responses);
}

#[test]
fn configured_format_and_format_specific_keys_decide() {
    assert_eq!(format("model: gpt-5.6-terra, format: chat"), Format::Chat);
    assert_eq!(format("model: gpt-4o, stop: [END]"), Format::Chat);
    assert_eq!(format("model: gpt-4o, max_tokens: 15"), Format::Chat);
    assert_eq!(
        format("model: gpt-4o, provider_opts: {seed: 7}"),
        Format::Chat
    );
    assert_eq!(
        format("model: gpt-4o, provider_opts: {service_tier: flex}"),
        Format::Responses
    );
    let message = refused("model: gpt-5.3-codex, format: chat");
    assert!(
        message.contains("openai/gpt-5.3-codex takes Responses requests only"),
        "{message}"
    );
    assert!(message.contains("`format: responses`"), "{message}");
}

/// The identity as it was before the format depended on the model: entries under it are found.
#[test]
fn default_format_is_not_part_of_the_identity() {
    let identity = models("models: {}", &[])
        .find("gpt-5.6-terra")
        .unwrap()
        .identity();
    let before = json!({
        "provider": "openai",
        "base_url": "https://api.openai.com/v1",
        "format": "chat",
        "parameters": {
            "model": "gpt-5.6-terra", "max_output_tokens": null, "temperature": null,
            "top_p": null, "stop": [], "tool_choice": null, "parallel_tool_calls": null,
            "reasoning": null, "output": null, "cache_key": null, "extra": {},
        },
        "headers": {},
    });
    assert_eq!(identity, before);
    let said = of("model: gpt-5.6-terra, format: responses").identity();
    assert_eq!(said["format"], "responses");
    // Nor is what a model is not sent.
    let identity = of("model: claude-opus-4-8, temperature: 0.5, thinking_budget: 5000").identity();
    assert_eq!(identity["parameters"]["temperature"], 0.5);
    assert_eq!(
        identity["parameters"]["reasoning"],
        json!({"budget": 5_000})
    );
}

#[test]
fn effort_with_tools_never_uses_chat_completions() {
    let there = format!("base_url: '{GATEWAY}'");
    for (keys, has_tools, expected) in [
        ("model: gpt-5.6-terra", true, Format::Responses),
        // Its default effort counts, unlike that of gpt-5.4, which is `none`.
        ("model: gpt-5.6-terra", false, Format::Chat),
        ("model: gpt-5.4", true, Format::Chat),
        (
            "model: gpt-5.4, reasoning_effort: low",
            true,
            Format::Responses,
        ),
        (
            "model: gpt-5.4, thinking_budget: 3000",
            true,
            Format::Responses,
        ),
        ("model: gpt-5.4, reasoning_effort: low", false, Format::Chat),
        (
            "model: gpt-5.6-terra, reasoning_effort: none",
            true,
            Format::Chat,
        ),
        ("model: gpt-5.2, reasoning_effort: high", true, Format::Chat),
    ] {
        let model = of(&format!("{keys}, {there}"))
            .for_tools(has_tools)
            .unwrap();
        assert_eq!(model.wire().format(), expected, "{keys} {has_tools}");
    }
    let fixed = of("model: gpt-5.6-terra, format: chat, reasoning_effort: high");
    assert_eq!(
        fixed.for_tools(false).unwrap().wire().format(),
        Format::Chat
    );
    let error = fixed.for_tools(true).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configuration);
    assert!(error.message.contains("`format: responses`"), "{error}");
}

#[test]
fn stored_session_keeps_its_format_if_the_model_accepts_it() {
    let continuing = |keys: &str, stored| of(keys).continuing(stored).wire().format();
    assert_eq!(
        continuing("model: gpt-5.6-terra", Format::Chat),
        Format::Chat
    );
    assert_eq!(
        continuing("model: gpt-3.5-turbo", Format::Responses),
        Format::Responses
    );
    assert_eq!(
        continuing("model: gpt-5.3-codex", Format::Chat),
        Format::Responses
    );
    assert_eq!(
        continuing("model: gpt-4o, format: responses", Format::Chat),
        Format::Responses
    );
    assert_eq!(
        continuing("model: gpt-4o", Format::Messages),
        Format::Responses
    );
    assert_eq!(
        continuing("model: claude-opus-5", Format::Chat),
        Format::Messages
    );
}

#[test]
fn unsupported_effort_is_a_problem_with_the_allowed_values() {
    for (keys, listed) in [
        (
            "model: gpt-5, reasoning_effort: none",
            "minimal, low, medium, high",
        ),
        (
            "model: gpt-5.1, reasoning_effort: xhigh",
            "did you mean `high`? It takes none, low, medium, high",
        ),
        ("model: gpt-5-pro, reasoning_effort: low", "high"),
        ("model: gpt-5-pro, thinking_budget: 100", "high"),
        (
            "model: claude-opus-5-5, reasoning_effort: none",
            "low, medium, high, xhigh, max",
        ),
        (
            "model: claude-opus-4-6, reasoning_effort: minimal",
            "none, low, medium, high, max",
        ),
        (
            "model: claude-haiku-4-5, reasoning_effort: max",
            "none, low, medium, high",
        ),
        ("model: claude-3-5-haiku, reasoning_effort: low", "none"),
    ] {
        let message = refused(keys);
        assert!(
            message.contains("does not take the reasoning effort"),
            "{message}"
        );
        assert!(message.ends_with(listed), "{message}");
    }
    // What is not known is not refused.
    for keys in [
        "model: gpt-4.1, reasoning_effort: whale",
        "model: ollama/llama3.2, reasoning_effort: whale",
        "model: gpt-5.6-terra, reasoning_effort: max",
        "model: claude-opus-4-8, reasoning_effort: none",
        "model: claude-haiku-4-5, reasoning_effort: high",
    ] {
        of(keys);
    }
}

#[test]
fn anthropic_thinking_matches_the_model() {
    let adaptive = json!({"type": "adaptive"});
    let summarized = json!({"type": "adaptive", "display": "summarized"});
    let off = json!({"type": "disabled"});
    let budget = |tokens: u64| json!({"type": "enabled", "budget_tokens": tokens});
    let null = Value::Null;
    for (model, wish, thinking, effort) in [
        (
            "claude-haiku-4-5",
            "thinking_budget: 9000",
            budget(9_000),
            null.clone(),
        ),
        (
            "claude-haiku-4-5",
            "reasoning_effort: medium",
            budget(8_192),
            null.clone(),
        ),
        (
            "claude-haiku-4-5",
            "reasoning_effort: none",
            off.clone(),
            null.clone(),
        ),
        (
            "claude-opus-4-5",
            "reasoning_effort: low",
            budget(2_048),
            json!("low"),
        ),
        (
            "claude-opus-4-6",
            "thinking_budget: 9000",
            budget(9_000),
            null.clone(),
        ),
        (
            "claude-sonnet-4-6",
            "reasoning_effort: max",
            adaptive.clone(),
            json!("max"),
        ),
        (
            "claude-opus-4-8",
            "thinking_budget: 9000",
            summarized.clone(),
            json!("medium"),
        ),
        (
            "claude-opus-4-8",
            "reasoning_effort: xhigh",
            summarized.clone(),
            json!("xhigh"),
        ),
        (
            "claude-opus-4-8",
            "reasoning_effort: none",
            off.clone(),
            null.clone(),
        ),
        (
            "claude-haiku-5-5",
            "reasoning_effort: low",
            summarized.clone(),
            json!("low"),
        ),
        (
            "claude-opus-5-5",
            "reasoning_effort: low",
            null.clone(),
            json!("low"),
        ),
        (
            "claude-fable-5-1",
            "thinking_budget: 1000",
            null.clone(),
            json!("low"),
        ),
        // Nothing is known of it.
        (
            "claude-whale-9",
            "thinking_budget: 1000",
            budget(1_000),
            null.clone(),
        ),
        (
            "claude-whale-9",
            "reasoning_effort: low",
            adaptive,
            json!("low"),
        ),
    ] {
        let tail = tail(&of(&format!("model: {model}, {wish}")));
        assert_eq!(tail["thinking"], thinking, "{model} {wish}");
        assert_eq!(tail["output_config"]["effort"], effort, "{model} {wish}");
    }
    // The budget leaves room for the answer.
    let short = of("model: claude-haiku-4-5, reasoning_effort: high, max_tokens: 4000");
    assert_eq!(tail(&short)["thinking"], budget(3_000));
    let shorter = of("model: claude-haiku-4-5, reasoning_effort: high, max_tokens: 900");
    assert_eq!(tail(&shorter)["thinking"], null);
    // Nothing is asked for: nothing is sent.
    assert_eq!(tail(&of("model: claude-opus-4-8"))["thinking"], null);
    // The user's own field wins.
    let own =
        "model: claude-opus-5-5, provider_opts: {thinking: {type: adaptive, display: omitted}}";
    assert_eq!(tail(&of(own))["thinking"]["display"], "omitted");
}

#[test]
fn sampling_parameters_are_omitted_where_refused() {
    for (model, sent) in [
        ("claude-haiku-4-5", json!([0.5, 0.9])),
        ("claude-opus-4-6", json!([0.5, 0.9])),
        ("claude-opus-4-7", json!([null, null])),
        ("claude-opus-4-8", json!([null, null])),
        ("claude-haiku-5-5", json!([null, null])),
        ("claude-mythos-5-1", json!([null, null])),
        ("claude-whale-9", json!([0.5, 0.9])),
        ("gpt-4o", json!([0.5, 0.9])),
    ] {
        let tail = tail(&of(&format!(
            "model: {model}, temperature: 0.5, top_p: 0.9"
        )));
        assert_eq!(json!([tail["temperature"], tail["top_p"]]), sent, "{model}");
    }
}

/// Parameters that the API of a provider does not have are not sent, and are reported; those that it has
/// under another name are sent there.
#[test]
fn parameters_are_sent_where_the_api_has_them() {
    const ALL: &str = "temperature: 0.5, frequency_penalty: 0.1, presence_penalty: 0.2, provider_opts: {top_k: 40, seed: 7, min_p: 0.05, typical_p: 0.9, repetition_penalty: 1.1}";
    let all = json!({
        "temperature": 0.5, "frequency_penalty": 0.1, "presence_penalty": 0.2, "top_k": 40,
        "seed": 7, "min_p": 0.05, "typical_p": 0.9, "repetition_penalty": 1.1,
    });
    let of_open_models = ["min_p", "repetition_penalty", "top_k", "typical_p"];
    let of_chat = ["frequency_penalty", "presence_penalty", "seed"];
    let gateway = format!("model: gpt-4o, base_url: '{GATEWAY}'");
    let without = |names: &[&str]| {
        let mut sent = all.clone();
        names.iter().for_each(|name| {
            sent.as_object_mut().unwrap().remove(*name);
        });
        sent
    };
    for (keys, sent, unsent) in [
        (gateway.as_str(), all.clone(), vec![]),
        ("provider: ollama, model: whale", all.clone(), vec![]),
        (
            "model: gpt-4o",
            without(&of_open_models),
            of_open_models.to_vec(),
        ),
        (
            "model: gpt-4o, format: responses, stop: [END]",
            json!({ "temperature": 0.5 }),
            [&of_open_models[..], &of_chat[..], &["stop"]].concat(),
        ),
        (
            "model: claude-haiku-4-5",
            json!({ "temperature": 0.5, "top_k": 40 }),
            ["min_p", "repetition_penalty", "typical_p"]
                .into_iter()
                .chain(of_chat)
                .collect(),
        ),
        (
            "model: claude-opus-4-8",
            json!({}),
            [&["temperature"], &of_open_models[..], &of_chat[..]].concat(),
        ),
        (
            "model: gemini-2.5-flash",
            without(&of_open_models),
            of_open_models.to_vec(),
        ),
        (
            "model: gemini-2.5-flash, format: gemini",
            json!({ "generationConfig": {
                "temperature": 0.5, "frequencyPenalty": 0.1, "presencePenalty": 0.2, "topK": 40, "seed": 7,
            } }),
            vec!["min_p", "repetition_penalty", "typical_p"],
        ),
        (
            "model: gemini-2.5-flash, format: interactions",
            json!({ "generation_config": { "temperature": 0.5, "seed": 7 } }),
            [
                &of_open_models[..],
                &["frequency_penalty", "presence_penalty"],
            ]
            .concat(),
        ),
        (
            "provider: amazon-bedrock, model: amazon.nova-pro-v1:0",
            json!({
                "inferenceConfig": { "temperature": 0.5 },
                "additionalModelRequestFields": { "inferenceConfig": { "topK": 40 } },
            }),
            ["min_p", "repetition_penalty", "typical_p"]
                .into_iter()
                .chain(of_chat)
                .collect(),
        ),
    ] {
        let yaml = format!("models: {{m: {{{keys}, {ALL}}}}}");
        let models = models(&yaml, &[]);
        let model = models.find("m").unwrap();
        let mut tail = tail(&model);
        for other in [
            "model",
            "stream",
            "stream_options",
            "max_tokens",
            "store",
            "include",
        ] {
            tail.as_object_mut().unwrap().remove(other);
        }
        assert_eq!(tail, sent, "{keys}");
        let reported = models.unsent(Some("m"), &ModelSettings::default());
        let mut names: Vec<&str> = reported.iter().map(|field| field.name).collect();
        let mut unsent = unsent;
        names.sort_unstable();
        unsent.sort_unstable();
        assert_eq!(names, unsent, "{keys}");
    }
    // What the environment names is another server.
    let elsewhere = [("OPENAI_BASE_URL", GATEWAY)];
    let models = models(
        &format!("models: {{m: {{model: gpt-4o, {ALL}}}}}"),
        &elsewhere,
    );
    assert_eq!(models.unsent(Some("m"), &ModelSettings::default()), []);
    assert_eq!(tail(&models.find("m").unwrap())["top_k"], 40);
}

/// A model that is called in the Responses format for its tools gets no field of Chat Completions.
#[test]
fn parameters_follow_the_format_of_requests_with_tools() {
    let model = of("model: gpt-5.6-terra, provider_opts: {seed: 7}");
    assert_eq!(tail(&model)["seed"], 7);
    let with_tools = model.for_tools(true).unwrap();
    assert_eq!(with_tools.wire().format(), Format::Responses);
    assert_eq!(tail(&with_tools)["seed"], Value::Null);
}
