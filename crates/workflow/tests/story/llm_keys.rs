//! Inputs of the key of a model call.

use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::fakes::Provider;
use crate::fakes::provider::configure;
use crate::fixture::{Fixture, Setup, is_hit};
use crate::llm::asking;

const FILE: &str = "
settings:
  llm: {temperature: 0.5, provider_opts: {seed: 1}}
providers:
  lab: {base_url: '${OPENAI_BASE_URL}', headers: {X-Team: whales}}
models:
  fast: {provider: openai, model: gpt-4o-mini}
";

fn call() -> Value {
    json!({ "action": "llm.call", "args": { "model": "fast", "prompt": "Hi" } })
}

/// A run of this file in a home in which `call` was made under [`FILE`].
async fn later(provider: &Provider, file: &str) -> Fixture {
    later_than(provider, FILE, file).await
}

/// A run of this file in a home in which `call` was made under the file `before`.
async fn later_than(provider: &Provider, before: &str, file: &str) -> Fixture {
    let first = asking(Setup::default(), provider, before);
    assert!(!is_hit(&first.wrap(call()).await));
    let again = asking(first.end().await, provider, before);
    assert!(is_hit(&again.wrap(call()).await));
    asking(again.end().await, provider, file)
}

#[tokio::test]
async fn configuration_of_the_model_is_keyed() {
    let provider = Provider::built_in();
    for (from, to) in [
        ("temperature: 0.5", "temperature: 0.6"),
        ("temperature: 0.5, ", ""),
        ("temperature: 0.5", "temperature: 0.5, top_p: 0.9"),
        ("temperature: 0.5", "temperature: 0.5, max_tokens: 5"),
        ("temperature: 0.5", "temperature: 0.5, stop: [x]"),
        (
            "temperature: 0.5",
            "temperature: 0.5, parallel_tool_calls: false",
        ),
        (
            "temperature: 0.5",
            "temperature: 0.5, structured_output: {schema: {type: object, properties: {}, additionalProperties: false}}",
        ),
        ("model: gpt-4o-mini", "model: gpt-4o"),
        (
            "model: gpt-4o-mini",
            "model: gpt-4o-mini, format: responses",
        ),
        (
            "model: gpt-4o-mini",
            "model: gpt-4o-mini, provider_opts: {seed: 2}",
        ),
        (
            "model: gpt-4o-mini",
            "model: gpt-4o-mini, provider_opts: {user: ada}",
        ),
        (
            "model: gpt-4o-mini",
            "model: gpt-4o-mini, headers: {X-Team: whales}",
        ),
        ("provider: openai", "provider: lab"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let fixture = later(&provider, &FILE.replacen(from, to, 1)).await;
        let answer = fixture.wrap(call()).await;
        assert!(!is_hit(&answer), "{to}");
    }
    // Of a model that has efforts.
    let file = FILE.replace("gpt-4o-mini", "gpt-5-mini");
    let file = file.replace("temperature: 0.5", "temperature: 1");
    let changed = file.replace("temperature: 1", "temperature: 1, reasoning_effort: low");
    let fixture = later_than(&provider, &file, &changed).await;
    assert!(!is_hit(&fixture.wrap(call()).await));
}

#[tokio::test]
async fn settings_without_effect_on_answers_are_not_keyed() {
    let provider = Provider::built_in();
    for (from, to) in [
        (
            "temperature: 0.5",
            "temperature: 0.5, retries: 5, timeouts: {idle: 5s}",
        ),
        (
            "model: gpt-4o-mini",
            "model: gpt-4o-mini, cost: {input: 5, output: 5}",
        ),
        (
            "model: gpt-4o-mini",
            "model: gpt-4o-mini, token_key: ANTHROPIC_API_KEY",
        ),
        ("fast:", "slow: {provider: openai, model: gpt-4o}\n  fast:"),
        ("X-Team: whales", "X-Team: dolphins"),
        ("settings:", "budget: {max_tokens: 100000}\nsettings:"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let fixture = later(&provider, &FILE.replacen(from, to, 1)).await;
        assert!(is_hit(&fixture.wrap(call()).await), "{to}");
    }
}

#[tokio::test]
async fn timeout_and_retries_are_not_keyed() {
    let provider = Provider::built_in();
    let fixture = later(&provider, FILE).await;
    for more in [
        json!({ "timeout": 30 }),
        json!({ "max_retries": 5 }),
        json!({ "timeout": 31.5, "max_retries": 0 }),
    ] {
        let mut call = call();
        let args = call["args"].as_object_mut().unwrap();
        args.extend(more.as_object().unwrap().clone());
        assert!(is_hit(&fixture.wrap(call).await), "{more}");
    }
}

#[tokio::test]
async fn parameter_aliases_have_one_key() {
    let provider = Provider::built_in();
    let fixture = asking(Setup::default(), &provider, FILE);
    let elsewhere = format!("{}/v1", provider.url().replace("127.0.0.1", "localhost"));
    let call = |name: &str| {
        let mut args = json!({ "model": "gpt-4o", "provider": "openai", "token_key": "OPENAI_API_KEY", "prompt": "Hi" });
        args[name] = json!(elsewhere);
        json!({ "action": "llm.call", "args": args })
    };
    assert!(!is_hit(&fixture.wrap(call("base_url")).await));
    assert!(is_hit(&fixture.wrap(call("api_base")).await));
}

#[tokio::test]
async fn api_key_is_not_keyed_and_base_url_is() {
    let provider = Provider::built_in();
    let mut fixture = later(&provider, FILE).await;
    let mut environment = provider.environment();
    environment.insert("OPENAI_API_KEY".to_owned(), "sk-another".to_owned());
    configure(&mut fixture.runtime, &environment, FILE);
    assert!(is_hit(&fixture.wrap(call()).await));
    let elsewhere = Provider::built_in();
    configure(&mut fixture.runtime, &elsewhere.environment(), FILE);
    assert!(!is_hit(&fixture.wrap(call()).await));
}

/// Which header says what is nobody's business, but that it differs is.
#[tokio::test]
async fn header_values_are_keyed_and_not_shown() {
    let provider = Provider::built_in();
    let lab = |team: &str| {
        let file = FILE.replace("X-Team: whales", &format!("X-Team: {team}"));
        file.replace("provider: openai", "provider: lab")
    };
    let setup = Setup::default().secrets(&[]);
    let fixture = asking(setup, &provider, &lab("whales-of-the-north"));
    assert!(!is_hit(&fixture.wrap(call()).await));
    let again = asking(
        fixture.end().await.secrets(&[]),
        &provider,
        &lab("whales-of-the-north"),
    );
    assert!(is_hit(&again.wrap(call()).await));
    let other = asking(again.end().await.secrets(&[]), &provider, &lab("dolphins"));
    assert!(!is_hit(&other.wrap(call()).await));
    let row = other.why().await.call;
    assert!(!format!("{row:?}").contains("whales-of-the-north"));
}

#[tokio::test]
async fn every_argument_is_keyed() {
    let provider = Provider::start(Script::answers([r#"{"a": 1}"#]));
    let fixture = asking(Setup::default(), &provider, FILE);
    let shape = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"], "additionalProperties": false });
    let tools = json!([{ "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": {}, "additionalProperties": false } }]);
    let elsewhere = format!("{}/v1", provider.url().replace("127.0.0.1", "localhost"));
    let base = json!({ "model": "fast", "prompt": "Hi" });
    let with = |field: &str, value: Value| {
        let mut args = base.clone();
        args[field] = value;
        args
    };
    let mut seen: Vec<Value> = vec![
        base.clone(),
        with("prompt", json!("Hello")),
        with("system", json!("Be brief.")),
        with("messages", json!([{ "role": "user", "content": "One." }])),
        with(
            "messages",
            json!([{ "role": "user", "content": "One." }, { "role": "assistant", "content": "Two." }]),
        ),
        with(
            "messages",
            json!([{ "role": "user", "content": "One.", "name": "ada" }]),
        ),
        with("temperature", json!(0.5)),
        with("temperature", json!(1)),
        with("max_tokens", json!(5)),
        with("top_p", json!(0.5)),
        with("stop", json!(["x"])),
        json!({ "model": "gpt-5-mini", "prompt": "Hi", "temperature": 1 }),
        json!({ "model": "gpt-5-mini", "prompt": "Hi", "temperature": 1, "reasoning_effort": "low" }),
        with("tools", tools.clone()),
        with("provider_opts", json!({ "user": "ada" })),
        with("response_format", shape),
        with("base_url", json!(elsewhere)),
        with("model", json!("gpt-4o-mini")),
        with("model", json!("gpt-4o")),
    ];
    let mut chosen = with("tools", tools);
    chosen["tool_choice"] = json!("none");
    seen.push(chosen);
    for args in &seen {
        let with = json!({ "action": "llm.call", "args": args });
        assert!(!is_hit(&fixture.wrap(with).await), "{args}");
    }
    for args in &seen {
        let with = json!({ "action": "llm.call", "args": args });
        assert!(is_hit(&fixture.wrap(with).await), "{args}");
    }
    // The two ways to ask are two actions.
    let with = json!({ "action": "llm.stream", "args": base });
    assert!(!is_hit(&fixture.wrap(with).await));
}

/// A model sees the order of the fields of a schema and of what is sent as it is; it does not see the
/// order in which a message is written.
#[tokio::test]
async fn field_order_of_sent_mappings_is_keyed() {
    let provider = Provider::start(Script::answers([r#"{"b": 1, "a": 1}"#]));
    let fixture = asking(Setup::default(), &provider, MODELS_WITHOUT_STRICT);
    let text = |order: &str| -> Value { serde_json::from_str(order).unwrap() };
    let one = r#"{"b": {"type": "integer"}, "a": {"type": "integer"}}"#;
    let other = r#"{"a": {"type": "integer"}, "b": {"type": "integer"}}"#;
    let shape = |properties: &str| json!({ "type": "object", "properties": text(properties), "required": ["a", "b"], "additionalProperties": false });
    let tool = |properties: &str| json!([{ "name": "look", "description": "Looks.", "parameters": shape(properties) }]);
    let ask = |field: &str, value: Value| json!({ "action": "llm.call", "args": { "model": "fast", "prompt": "Hi", field: value } });
    for (field, first, second) in [
        ("response_format", shape(one), shape(other)),
        ("tools", tool(one), tool(other)),
        (
            "provider_opts",
            text(r#"{"metadata": {"b": "1", "a": "2"}}"#),
            text(r#"{"metadata": {"a": "2", "b": "1"}}"#),
        ),
    ] {
        assert!(
            !is_hit(&fixture.wrap(ask(field, first.clone())).await),
            "{field}"
        );
        assert!(!is_hit(&fixture.wrap(ask(field, second)).await), "{field}");
        assert!(is_hit(&fixture.wrap(ask(field, first)).await), "{field}");
    }
    let messages = |call: &str, message: &str| {
        let mut spoken = text(message);
        spoken["tool_calls"] =
            json!([{ "id": "1", "function": { "name": "look", "arguments": text(call) } }]);
        let result = json!({ "role": "tool", "tool_call_id": "1", "content": "x" });
        json!([{ "role": "user", "content": "Hi" }, spoken, result])
    };
    let first = messages(
        r#"{"b": 1, "a": 2}"#,
        r#"{"role": "assistant", "content": "One."}"#,
    );
    let second = messages(
        r#"{"a": 2, "b": 1}"#,
        r#"{"content": "One.", "role": "assistant"}"#,
    );
    assert!(!is_hit(&fixture.wrap(ask("messages", first)).await));
    let sent = provider.last();
    assert!(is_hit(&fixture.wrap(ask("messages", second.clone())).await));
    fixture
        .ok(
            "llm.call",
            json!({ "model": "fast", "prompt": "Hi", "messages": second }),
        )
        .await;
    assert_eq!(provider.last().to_string(), sent.to_string());
}

const MODELS_WITHOUT_STRICT: &str = "models: {fast: {provider: openai, model: gpt-4o-mini}}";

/// The configured shape counts with its order, too.
#[tokio::test]
async fn field_order_of_a_configured_schema_is_keyed() {
    let provider = Provider::start(Script::answers([r#"{"b": 1, "a": 1}"#]));
    let file = |properties: &str| {
        format!(
            "models: {{fast: {{provider: openai, model: gpt-4o-mini, structured_output: {{schema: {{type: object, properties: {properties}, required: [a, b], additionalProperties: false}}}}}}}}"
        )
    };
    let one = asking(
        Setup::default(),
        &provider,
        &file("{a: {type: integer}, b: {type: integer}}"),
    );
    assert!(!is_hit(&one.wrap(call()).await));
    let other = asking(
        one.end().await,
        &provider,
        &file("{b: {type: integer}, a: {type: integer}}"),
    );
    assert!(!is_hit(&other.wrap(call()).await));
}

/// A key of one's own stands for the arguments, and not for the model.
#[tokio::test]
async fn custom_key_does_not_replace_the_model() {
    let provider = Provider::built_in();
    let fixture = asking(Setup::default(), &provider, FILE);
    let ask = |args: Value| json!({ "action": "llm.call", "key": "mine", "args": args });
    assert!(!is_hit(
        &fixture
            .wrap(ask(json!({ "model": "fast", "prompt": "Hi" })))
            .await
    ));
    assert!(is_hit(
        &fixture
            .wrap(ask(json!({ "model": "fast", "prompt": "Hello" })))
            .await
    ));
    assert!(!is_hit(
        &fixture
            .wrap(ask(json!({ "model": "gpt-4o", "prompt": "Hi" })))
            .await
    ));
    assert!(!is_hit(
        &fixture
            .wrap(ask(
                json!({ "model": "fast", "prompt": "Hi", "temperature": 0 })
            ))
            .await
    ));
}

/// A call with an unknown model has no key: it fails as unwrapped, and nothing is stored.
#[tokio::test]
async fn unknown_model_fails_as_in_an_unwrapped_call() {
    let provider = Provider::built_in();
    let fixture = asking(Setup::default(), &provider, FILE);
    let args = json!({ "model": "fsat", "prompt": "Hi" });
    let wrapped = fixture
        .fails("cache.wrap", json!({ "action": "llm.call", "args": args }))
        .await;
    let plain = fixture.fails("llm.call", args).await;
    assert_eq!(
        (wrapped.kind, &wrapped.message),
        (plain.kind, &plain.message)
    );
    assert!(
        wrapped.message.contains("did you mean `fast`?"),
        "{wrapped}"
    );
}
