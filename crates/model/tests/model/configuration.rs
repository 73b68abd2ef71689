//! `models:` and `providers:`, and the owners of model names.

mod formats;
mod identity;
mod keys;

use cachalot_core::Problem;
use cachalot_core::config::{Settings as _, Table};
use cachalot_core::tree;
use cachalot_model::{
    Catalog, ComparisonParameter, Error, ErrorKind, Format, MODEL_KEYS, Model, ModelConfiguration,
    ModelSettings, Models, PROVIDER_KEYS, Parameters, RequestedReasoning,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{KEY, configured, model_dependencies};

fn models(yaml: &str, environment: &[(&str, &str)]) -> Models {
    Models::new(model_dependencies(environment), configured(yaml))
}

fn find(yaml: &str, name: &str) -> Result<Model, Error> {
    models(yaml, &[]).find(name)
}

fn problems(yaml: &str) -> Vec<Problem> {
    let node = tree::parse("agent.yaml", yaml).unwrap();
    let mut problems = Vec::new();
    ModelConfiguration::read(node.get("models"), node.get("providers"), &mut problems);
    problems
}

/// The models that docker-agent names for after a refusal are not sent as fields of the request.
#[test]
fn fallbacks_of_docker_agent_are_reported() {
    let yaml = |list| {
        format!("models: {{m: {{model: claude-opus-5, provider_opts: {{fallbacks: {list}}}}}}}")
    };
    let found = problems(&yaml("[claude-opus-4-8]"));
    assert_eq!(found.len(), 1);
    assert!(found[0].is_warning && found[0].code == "no-effect");
    let help = found[0].help.as_deref().unwrap();
    assert!(help.starts_with("write `fallbacks: […]`"), "{help}");
    let sent = |list| {
        let model = find(&yaml(list), "m").unwrap();
        model.parameters().extra.get("fallbacks").cloned()
    };
    assert_eq!(sent("[claude-opus-4-8]"), None);
    // Fields of the API are sent as they are.
    let own = json!([{ "model": "claude-opus-4-8" }]);
    assert_eq!(problems(&yaml("[{model: claude-opus-4-8}]")), []);
    assert_eq!(sent("[{model: claude-opus-4-8}]"), Some(own));
}

#[test]
fn model_is_found_by_alias_provider_and_bare_name() {
    let yaml = "
models:
  fast: {provider: openai, model: gpt-4o-mini}
  short: openrouter/meta-llama/llama-3.3-70b-instruct
  mine: {provider: lab, model: whale-7b}
  gpt-4o: {provider: lab, model: disguised}
  local: {base_url: 'http://127.0.0.1:9/v1', model: whale-7b}
providers:
  lab: {base_url: 'http://lab.example/v1', format: responses}
";
    for (name, provider, known_as, base_url) in [
        ("fast", "openai", "gpt-4o-mini", "https://api.openai.com/v1"),
        (
            "short",
            "openrouter",
            "meta-llama/llama-3.3-70b-instruct",
            "https://openrouter.ai/api/v1",
        ),
        ("mine", "lab", "whale-7b", "http://lab.example/v1"),
        ("gpt-4o", "lab", "disguised", "http://lab.example/v1"),
        (
            "openai/gpt-4o",
            "openai",
            "gpt-4o",
            "https://api.openai.com/v1",
        ),
        ("local", "custom", "whale-7b", "http://127.0.0.1:9/v1"),
        (
            "lab/anything/at:all",
            "lab",
            "anything/at:all",
            "http://lab.example/v1",
        ),
        (
            "ollama/llama3.2",
            "ollama",
            "llama3.2",
            "http://localhost:11434/v1",
        ),
        ("gpt-5", "openai", "gpt-5", "https://api.openai.com/v1"),
        ("o3-mini", "openai", "o3-mini", "https://api.openai.com/v1"),
        (
            "claude-opus-4-1",
            "anthropic",
            "claude-opus-4-1",
            "https://api.anthropic.com/",
        ),
        (
            "gemini-2.5-pro",
            "google",
            "gemini-2.5-pro",
            "https://generativelanguage.googleapis.com/v1beta/openai",
        ),
    ] {
        let model = find(yaml, name).unwrap();
        assert_eq!(
            (model.provider(), model.name(), model.base_url()),
            (provider, known_as, base_url)
        );
        assert_eq!(model.parameters().model, known_as);
    }
    let format = |name| find(yaml, name).unwrap().wire().format();
    assert_eq!(format("mine"), Format::Responses);
    assert_eq!(format("claude-sonnet-5"), Format::Messages);
    assert_eq!(format("gpt-5"), Format::Responses);
    assert_eq!(format("grok-4.7"), Format::Chat);
}

#[test]
fn unknown_model_is_reported_with_a_remedy() {
    let yaml = "models: {summariser: {provider: openai, model: gpt-4o}}";
    for (name, part) in [
        ("sumariser", "did you mean `summariser`?"),
        ("opnai/gpt-4o", "did you mean `openai/gpt-4o`?"),
        ("meta-llama/Llama-3", "`ollama/meta-llama/Llama-3`"),
        ("whale-7b", "add it to `models:`"),
        ("", "no model is named"),
        ("azure/gpt", "AZURE_OPENAI_ENDPOINT"),
    ] {
        let error = find(yaml, name).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Configuration);
        assert!(error.message.contains(part), "{name}: {error}");
    }
}

#[test]
fn every_model_key_is_read() {
    let yaml = "
models:
  m:
    provider: openai
    model: gpt-5
    format: responses
    base_url: https://example.com/v1
    token_key: MY_KEY
    key_header: x-key
    headers: {X-A: b}
    temperature: 0.7
    top_p: 0.9
    max_tokens: 1000
    stop: [END]
    reasoning_effort: high
    parallel_tool_calls: false
    structured_output: {name: depth, schema: {type: object}, strict: false}
    provider_opts: {service_tier: flex, n: 1}
    cost: {input: 1.25, output: 10, cache_read: 0.125, cache_write: 0}
    context: 5000
    timeouts: {connect: 1, first_byte: 2m, idle: 1500ms}
    retries: 5
";
    let model = find(yaml, "m").unwrap();
    let parameters = model.parameters();
    assert_eq!(parameters.max_output_tokens, Some(1_000));
    assert_eq!(
        (parameters.temperature, parameters.top_p),
        (Some(0.7), Some(0.9))
    );
    assert_eq!(parameters.stop, ["END"]);
    assert_eq!(
        parameters.reasoning,
        Some(RequestedReasoning::Effort("high".into()))
    );
    assert_eq!(parameters.parallel_tool_calls, Some(false));
    let output = parameters.output.clone().unwrap();
    assert_eq!((output.name.as_str(), output.strict), ("depth", false));
    assert_eq!(
        Value::Object(parameters.extra.clone()),
        json!({"service_tier": "flex", "n": 1})
    );
    assert_eq!(model.price().unwrap().rates.cache_read, 125_000);
    assert_eq!(model.price().unwrap().rates.cache_write_1h, 0);
    assert_eq!(model.limits().context, Some(5_000));
    assert_eq!(model.limits().max_output, Some(128_000));
    let thinking = |written: &str| {
        let yaml = format!("models: {{m: {{model: claude-opus-4-1, thinking_budget: {written}}}}}");
        find(&yaml, "m").unwrap().parameters().clone()
    };
    assert_eq!(
        thinking("9000").reasoning,
        Some(RequestedReasoning::Budget(9_000))
    );
    assert_eq!(thinking("9000").max_output_tokens, Some(32_000));
    assert_eq!(
        thinking("low").reasoning,
        Some(RequestedReasoning::Effort("low".into()))
    );
}

#[test]
fn problems_have_place_and_remedy_and_no_secret() {
    for (yaml, code, part) in [
        ("models: {m: {provider: openai}}", "missing-key", "`model`"),
        (
            "models: {m: {provider: opnai, model: x}}",
            "bad-value",
            "`opnai`",
        ),
        (
            "models: {m: {model: x, temprature: 1}}",
            "unknown-key",
            "`temprature`",
        ),
        (
            "models: {m: {model: x, temperature: -1}}",
            "out-of-range",
            "`temperature`",
        ),
        (
            "models: {m: {model: x, top_p: 1.5}}",
            "out-of-range",
            "`top_p`",
        ),
        (
            "models: {m: {model: x, max_tokens: 0}}",
            "out-of-range",
            "`max_tokens`",
        ),
        (
            "models: {m: {model: x, format: chatty}}",
            "bad-value",
            "`chatty`",
        ),
        (
            "models: {m: {model: x, base_url: api.example.com}}",
            "bad-value",
            "`base_url`",
        ),
        (
            "models: {m: {model: x, base_url: 'https://u:hunter2@a'}}",
            "bad-value",
            "`base_url`",
        ),
        (
            "models: {m: {model: x, token_key: sk-hunter2}}",
            "bad-value",
            "`token_key`",
        ),
        (
            "models: {m: {model: x, headers: {'a b': c}}}",
            "bad-value",
            "`a b`",
        ),
        (
            "models: {m: {model: x, headers: {a: \"hunter2\\n\"}}}",
            "bad-value",
            "`a`",
        ),
        (
            "models: {m: {model: x, headers: {host: hunter2}}}",
            "bad-value",
            "`host`",
        ),
        (
            "models: {m: {model: x, headers: {a: 1}}}",
            "wrong-type",
            "`a`",
        ),
        (
            "models: {m: {model: x, timeouts: {idle: soon}}}",
            "bad-value",
            "`idle`",
        ),
        (
            "models: {m: {model: x, timeouts: {idles: 1}}}",
            "unknown-key",
            "`idles`",
        ),
        (
            "models: {m: {model: x, retries: 11}}",
            "out-of-range",
            "`retries`",
        ),
        (
            "models: {m: {model: x, cost: {input: 1}}}",
            "missing-key",
            "`output`",
        ),
        ("models: {m: {model: x, cost: {}}}", "missing-key", "`cost`"),
        (
            "models: {m: {model: x, cost: {input: -1, output: 1}}}",
            "out-of-range",
            "`input`",
        ),
        (
            "models: {m: {model: x, cost: {input: 0.0000001, output: 1}}}",
            "out-of-range",
            "decimals",
        ),
        (
            "models: {m: {model: x, reasoning_effort: low, thinking_budget: 5}}",
            "bad-value",
            "exclude each other",
        ),
        (
            "models: {m: {model: x, structured_output: {name: a}}}",
            "missing-key",
            "`schema`",
        ),
        (
            "models: {m: {model: x, structured_output: {schema: [1]}}}",
            "wrong-type",
            "`schema`",
        ),
        ("models: {m: [1]}", "wrong-type", "a model"),
        ("models: [1]", "wrong-type", "`models`"),
        ("providers: {lab: {format: chat}}", "missing-key", "`lab`"),
        (
            "providers: {lab: {base_url: 'http://a', model: x}}",
            "unknown-key",
            "`model`",
        ),
    ] {
        let found = problems(yaml);
        assert_eq!(found.len(), 1, "{yaml}: {found:?}");
        let text = found[0].to_string();
        assert_eq!(found[0].code, code, "{text}");
        assert!(text.contains(part), "{yaml}: {text}");
        assert!(
            found[0].place.is_some() && found[0].help.is_some(),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert_eq!(problems("models:\nproviders:\n"), []);
}

#[test]
fn more_specific_settings_take_precedence() {
    let yaml = "
providers:
  lab: {base_url: 'http://lab.example/v1', token_key: LAB, temperature: 0.1, max_tokens: 10, headers: {A: '1', B: '1'}, provider_opts: {x: 1, y: 1}}
models:
  plain: {provider: lab, model: m}
  other: {provider: lab, model: m, temperature: 0.2, headers: {b: '2'}, provider_opts: {y: 2}}
";
    let models = models(yaml, &[("LAB", KEY)]);
    let plain = models.find("plain").unwrap();
    assert_eq!(plain.parameters().temperature, Some(0.1));
    let other = models.find("other").unwrap();
    assert_eq!(other.parameters().temperature, Some(0.2));
    assert_eq!(other.parameters().max_output_tokens, Some(10));
    assert_eq!(
        Value::Object(other.parameters().extra.clone()),
        json!({"x": 1, "y": 2})
    );
    let call = ModelSettings {
        temperature: Some(0.3),
        ..ModelSettings::default()
    };
    let called = models.choose(Some("other"), &call).unwrap();
    assert_eq!(called.parameters().temperature, Some(0.3));
    assert_eq!(called.base_url(), "http://lab.example/v1");
}

static SETTINGS: Table = Table::new("`settings.llm`", "", &[MODEL_KEYS, PROVIDER_KEYS]);

fn settings(yaml: &str) -> ModelSettings {
    let node = tree::parse("agent.yaml", yaml).unwrap();
    let mut problems = Vec::new();
    let values = SETTINGS.read(&node, &mut problems).unwrap();
    let settings = ModelSettings::from_values(values, &mut problems).unwrap();
    assert_eq!(problems, []);
    settings
}

#[test]
fn default_base_url_applies_to_provider_models_by_name() {
    let yaml = "
models:
  mine: {provider: anthropic, model: claude-opus-4-8}
";
    let defaults = settings("base_url: 'http://127.0.0.1:9/v1'\ntemperature: 0.5\n");
    let models = Models::new(
        model_dependencies(&[]),
        configured(yaml).with_defaults(defaults),
    );
    let base_url = |name: &str| models.find(name).unwrap().base_url().to_owned();
    assert_eq!(base_url("gpt-4o"), "http://127.0.0.1:9/v1");
    assert_eq!(base_url("whale-7b"), "http://127.0.0.1:9/v1");
    // An explicit provider is used.
    assert_eq!(base_url("groq/whale-7b"), "https://api.groq.com/openai/v1");
    assert_eq!(base_url("mine"), "https://api.anthropic.com/");
    for name in ["gpt-4o", "groq/whale-7b", "mine"] {
        assert_eq!(
            models.find(name).unwrap().parameters().temperature,
            Some(0.5)
        );
    }
}

#[test]
fn defaults_apply_without_configuration() {
    let defaults = settings(
        "{provider: ollama, model: llama3.2, temperature: 0, retries: 1, base_url: 'http://gpu:1/v1', token_key: GPU, cost: {input: 0, output: 0}}",
    );
    let configured = configured("models: {fast: {provider: openai, model: gpt-4o-mini}, warm: {model: gpt-4o, temperature: 1}}")
        .with_defaults(defaults);
    let models = Models::new(model_dependencies(&[]), configured);
    let nothing = ModelSettings::default();
    let default = models.choose(None, &nothing).unwrap();
    assert_eq!(
        (default.provider(), default.base_url()),
        ("ollama", "http://gpu:1/v1")
    );
    assert_eq!(default.parameters().temperature, Some(0.0));
    assert!(default.price().is_some());
    // How to answer holds for all, which model and where only for itself.
    let fast = models.find("fast").unwrap();
    assert_eq!(
        (fast.provider(), fast.base_url()),
        ("openai", "https://api.openai.com/v1")
    );
    assert_eq!(fast.parameters().temperature, Some(0.0));
    assert_eq!(fast.price().unwrap().rates.input, 150_000);
    assert_eq!(
        models.find("warm").unwrap().parameters().temperature,
        Some(1.0)
    );
    // A call may name its model itself.
    let call = settings("{model: claude-sonnet-5, max_tokens: 5}");
    let called = models.choose(None, &call).unwrap();
    assert_eq!(
        (called.provider(), called.parameters().max_output_tokens),
        ("anthropic", Some(5))
    );
    let call = settings("{provider: openai, model: gpt-4o}");
    assert_eq!(
        models.choose(None, &call).unwrap().base_url(),
        "https://api.openai.com/v1"
    );
    let none = Models::new(model_dependencies(&[]), ModelConfiguration::default());
    assert!(
        none.choose(None, &nothing)
            .unwrap_err()
            .message
            .contains("no model is named")
    );
}

proptest! {
    /// No name makes it fall over, and no name finds a provider that it does not say.
    #[test]
    fn arbitrary_names_do_not_panic(name in "\\PC{0,40}") {
        if let Ok(model) = find("{}", &name) {
            prop_assert!(name.ends_with(model.name()));
        }
    }

    /// Whatever is under a model, reading it ends with a model or a problem.
    #[test]
    fn arbitrary_yaml_does_not_panic(key in "[a-z_]{1,12}", value in "\\PC{0,20}") {
        let text = serde_json::to_string(&value).unwrap();
        let yaml = format!("models: {{m: {{model: gpt-4o, {key}: {text}}}}}");
        if let Ok(node) = tree::parse("x.yaml", &yaml) {
            let mut found = Vec::new();
            let read = ModelConfiguration::read(node.get("models"), None, &mut found);
            if found.is_empty() {
                let _ = Models::new(model_dependencies(&[]), read).find("m");
            }
        }
    }
}

/// The blocks of a document whose fence begins like this.
fn blocks(document: &str, fence: &str) -> Vec<String> {
    let fence = format!("```{fence}\n");
    let after = document.split(fence.as_str()).skip(1);
    after
        .map(|rest| rest.split("\n```").next().unwrap().to_owned())
        .collect()
}

/// The examples of the documentation are valid, and its statements about providers hold.
#[test]
fn documentation_of_model_settings_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers.md");
    let document = std::fs::read_to_string(path).unwrap();
    let examples = blocks(&document, "yaml fragment=file");
    assert!(examples.len() > 10, "{}", examples.len());
    let mut found = 0;
    for example in &examples {
        assert_eq!(problems(example), [], "{example}");
        let models = models(example, &[("GOOGLE_CLOUD_PROJECT", "whales")]);
        for (name, _) in &models.configured().models {
            models
                .find(name)
                .unwrap_or_else(|error| panic!("{example}: {error}"));
            found += 1;
        }
    }
    assert!(found > 12, "{found}");
    let prices = blocks(&document, "text")
        .into_iter()
        .find(|block| block.starts_with("models:"))
        .unwrap();
    let catalog = Catalog::built_in()
        .with_text("models.yaml", &prices)
        .unwrap();
    assert!(catalog.find("openai", "my-fine-tune").is_some());
    let mut rows = 0;
    for row in document
        .lines()
        .filter(|line| line.contains("://") && line.starts_with("| `"))
    {
        let cells: Vec<&str> = row
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        // The name of a variable stands for its value.
        let variables = ["CLOUDFLARE_ACCOUNT_ID", "CLOUDFLARE_GATEWAY_ID"].map(|name| (name, name));
        let model = models("{}", &variables)
            .find(&format!("{}/x", cells[1]))
            .unwrap();
        assert_eq!(model.base_url().trim_end_matches('/'), cells[2], "{row}");
        let told = model
            .ready()
            .err()
            .map(|error| error.message)
            .unwrap_or_default();
        let key = cells[4].split('`').next().unwrap();
        let needed = !cells[4].ends_with(" requires one") && key != "none";
        assert_eq!(told.contains(key), needed, "{row}: {told}");
        rows += 1;
    }
    assert!(rows > 15, "{rows}");
}

#[test]
fn custom_provider_gets_the_markers_of_its_prices_provider() {
    let of = |keys: &str| {
        let yaml = format!(
            "models: {{m: {{provider: mine, model: anthropic/claude-opus-5{keys}}}}}\n\
             providers: {{mine: {{base_url: 'https://gateway.example/v1'}}}}"
        );
        let model = find(&yaml, "m").unwrap();
        let marker = model
            .wire()
            .marker(cachalot_model::wire::MarkerTime::FiveMinutes);
        (marker.is_some(), model.marker_rules().max_markers)
    };
    assert_eq!(of(""), (false, 0));
    assert_eq!(of(", prices: openrouter"), (true, 4));
    assert_eq!(of(", format: messages"), (true, 4));
}

#[test]
fn comparison_is_used_for_official_providers_only() {
    let terra = "provider: openai, model: gpt-5.6-terra";
    let claude = "provider: anthropic, model: claude-sonnet-5";
    for (model, expected) in [
        (claude.to_owned(), Some(ComparisonParameter::Anthropic)),
        (terra.to_owned(), Some(ComparisonParameter::OpenAi)),
        (format!("{terra}, format: chat"), None),
        ("provider: openai, model: gpt-5-mini".to_owned(), None),
        (
            "provider: openrouter, model: anthropic/claude-sonnet-5".to_owned(),
            None,
        ),
        (
            format!("{claude}, base_url: 'http://127.0.0.1:1'"),
            Some(ComparisonParameter::Anthropic),
        ),
        (
            format!("{claude}, base_url: 'https://gateway.example.com'"),
            None,
        ),
        (
            format!("{terra}, format: responses, base_url: 'https://gateway.example.com/v1'"),
            None,
        ),
    ] {
        let found = find(&format!("models: {{m: {{{model}}}}}"), "m").unwrap();
        assert_eq!(found.comparison(), expected, "{model}");
    }
}

#[test]
fn comparison_keeps_the_options_of_the_user() {
    let named = |comparison: ComparisonParameter, extra: Value, previous: Option<&str>| {
        let mut parameters = Parameters {
            extra: extra.as_object().unwrap().clone(),
            ..Parameters::default()
        };
        comparison.name(&mut parameters, previous);
        Value::from(parameters.extra)
    };
    let (anthropic, openai) = (ComparisonParameter::Anthropic, ComparisonParameter::OpenAi);
    let asked = |id: Option<&str>| json!({"diagnostics": {"previous_message_id": id}});
    assert_eq!(named(anthropic, json!({}), None), asked(None));
    assert_eq!(named(anthropic, json!({}), Some("a")), asked(Some("a")));
    assert_eq!(
        named(anthropic, asked(Some("b")), Some("a")),
        asked(Some("b"))
    );
    assert_eq!(named(openai, json!({}), None), json!({}));
    let options = |options: Value| json!({"prompt_cache_options": options});
    let implicit = options(json!({"mode": "implicit"}));
    assert_eq!(
        named(openai, implicit, Some("a")),
        options(json!({"mode": "implicit", "comparison_response_id": "a"}))
    );
    let off = options(Value::Null);
    assert_eq!(named(openai, off.clone(), Some("a")), off);
}

#[test]
fn fallbacks_are_models_and_not_part_of_the_identity() {
    let yaml = "models:\n  a: {provider: openai, model: gpt-4o, fallbacks: [b, anthropic/claude-sonnet-5, a]}\n  b: {provider: openai, model: gpt-4o-mini, fallbacks: [a]}\n  alone: {provider: openai, model: gpt-4o}\n";
    let models = Models::new(model_dependencies(&[]), configured(yaml));
    let model = models.find("a").unwrap();
    let named: Vec<(&str, &str)> = model
        .fallbacks()
        .map(|(name, model)| (name, model.name()))
        .collect();
    assert_eq!(
        named,
        [
            ("b", "gpt-4o-mini"),
            ("anthropic/claude-sonnet-5", "claude-sonnet-5")
        ]
    );
    assert!(
        model
            .fallbacks()
            .all(|(_, model)| model.fallbacks().len() == 0)
    );
    assert_eq!(model.identity(), models.find("alone").unwrap().identity());

    let defaults = "fallbacks: [anthropic/claude-sonnet-5]";
    let models = Models::new(
        model_dependencies(&[]),
        configured(yaml).with_defaults(settings(defaults)),
    );
    assert_eq!(models.find("alone").unwrap().fallbacks().len(), 1);
    assert_eq!(models.find("a").unwrap().fallbacks().len(), 2);
    let call = settings("fallbacks: []");
    assert_eq!(
        models.choose(Some("a"), &call).unwrap().fallbacks().len(),
        0
    );
    let call = settings("temperature: 0.5\nfallbacks: [b]");
    let model = models.choose(Some("alone"), &call).unwrap();
    let (_, fallback) = model.fallbacks().next().unwrap();
    assert_eq!(fallback.parameters().temperature, Some(0.5));

    let yaml = "models: {a: {provider: openai, model: gpt-4o, fallbacks: [nonsense]}}";
    let models = Models::new(model_dependencies(&[]), configured(yaml));
    let error = models.find("a").unwrap_err();
    assert_eq!(error.kind, cachalot_model::ErrorKind::Configuration);
    assert!(error.message.contains("the fallback `nonsense`"), "{error}");
}

#[test]
fn provider_extends_a_known_one_under_another_name() {
    let yaml = "
providers:
  mine: {provider: anthropic, token_key: MY_KEY, thinking_budget: adaptive/low}
  other: {api_type: openai_responses, base_url: 'https://x.example/v1', track_usage: true}
";
    let model = find(yaml, "mine/claude-opus-4-6").unwrap();
    assert_eq!(model.provider(), "mine");
    assert_eq!(model.wire().format(), Format::Messages);
    assert_eq!(model.base_url(), "https://api.anthropic.com/");
    assert!(model.price().is_some());
    let low = RequestedReasoning::Effort("low".to_owned());
    assert_eq!(model.parameters().reasoning, Some(low));
    let other = find(yaml, "other/x").unwrap();
    assert_eq!(other.wire().format(), Format::Responses);
    let codes: Vec<&str> = problems(yaml).iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["no-effect"]);
    let model = find("{}", "amazon-bedrock/amazon.nova-pro-v1:0").unwrap();
    assert_eq!(model.provider(), "bedrock");
    assert_eq!(model.wire().format(), Format::Converse);
}

#[test]
fn first_available_is_the_first_model_with_a_key() {
    let yaml = "
models:
  any: {first_available: [anthropic/claude-sonnet-5, openai/gpt-4o-mini]}
  loop: {first_available: [any]}
";
    for (variable, expected) in [
        ("OPENAI_API_KEY", "openai"),
        ("ANTHROPIC_API_KEY", "anthropic"),
        ("NO_KEY", "anthropic"),
    ] {
        let model = models(yaml, &[(variable, "sk-test-1234")])
            .find("any")
            .unwrap();
        assert_eq!(model.provider(), expected, "{variable}");
    }
    let models = models(yaml, &[]);
    assert!(models.find("loop").is_err());
    // The last of `auto` needs no key.
    assert_eq!(models.find("auto").unwrap().provider(), "dmr");
}

#[test]
fn address_that_needs_a_variable_is_known_without_it() {
    let name = "cloudflare-workers-ai/llama";
    let model = models("{}", &[("CLOUDFLARE_API_TOKEN", "t")])
        .find(name)
        .unwrap();
    let error = model.ready().unwrap_err();
    assert!(error.message.contains("CLOUDFLARE_ACCOUNT_ID"), "{error}");
    let all = [
        ("CLOUDFLARE_API_TOKEN", "t"),
        ("CLOUDFLARE_ACCOUNT_ID", "a1"),
    ];
    let model = models("{}", &all).find(name).unwrap();
    model.ready().unwrap();
    assert!(
        model.base_url().ends_with("/accounts/a1/ai/v1"),
        "{}",
        model.base_url()
    );
}
