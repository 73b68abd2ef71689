//! Prices and limits of models.

mod budgets;

use cachalot_core::Cost;
use cachalot_model::{Catalog, Models, Price, Rates, Terms, Usage};
use proptest::prelude::*;

use crate::client::{Server, ask, configured, model, model_dependencies, says};

const MILLION: u64 = 1_000_000;

fn price(provider: &str, model: &str) -> Option<Price> {
    Catalog::built_in().find(provider, model)?.price.clone()
}

/// The standard cost of an answer.
fn cost(price: &Price, usage: &Usage) -> Cost {
    let cost = cachalot_model::price(usage, "", Some(price), 0, &Terms::default());
    cost.unwrap()
}

fn dollars(cost: Cost) -> f64 {
    assert_eq!(cost.unpriced, 0);
    cost.picodollars as f64 / 1e12
}

#[test]
fn built_in_prices_equal_the_published_prices() {
    let usage = Usage {
        uncached_input: MILLION,
        cache_read: MILLION,
        output: MILLION,
        ..Usage::default()
    };
    for (provider, model, expected) in [
        ("openai", "gpt-4o", 2.5 + 1.25 + 10.0),
        ("openai", "gpt-4o-mini", 0.15 + 0.075 + 0.6),
        ("openai", "gpt-5-mini", 0.25 + 0.025 + 2.0),
        ("openai", "o4-mini", 1.1 + 0.275 + 4.4),
        ("anthropic", "claude-opus-4-1", 15.0 + 1.5 + 75.0),
        ("anthropic", "claude-haiku-4-5", 1.0 + 0.1 + 5.0),
        // Two million tokens of input are above the limit.
        ("anthropic", "claude-haiku-5-5", 0.5 + 0.05 + 2.5),
        ("google", "gemini-2.5-pro", 2.5 + 0.25 + 15.0),
    ] {
        assert_eq!(
            dollars(cost(&price(provider, model).unwrap(), &usage)),
            expected,
            "{model}"
        );
    }
    let writes = Usage {
        cache_write_5m: MILLION,
        cache_write_1h: MILLION,
        cache_write_other: MILLION,
        ..Usage::default()
    };
    let sonnet = price("anthropic", "claude-sonnet-5").unwrap();
    assert_eq!(dollars(cost(&sonnet, &writes)), 2.5 + 4.0 + 2.5);
}

#[test]
fn long_context_price_applies_to_the_whole_request() {
    let price = price("anthropic", "claude-haiku-5-5").unwrap();
    let cost = |uncached_input, cache_read| {
        let usage = Usage {
            uncached_input,
            cache_read,
            output: 1_000,
            ..Usage::default()
        };
        cost(&price, &usage)
    };
    assert_eq!(
        cost(60_000, 40_000).picodollars,
        60_000 * 100_000 + 40_000 * 10_000 + 1_000 * 500_000
    );
    assert_eq!(
        cost(60_001, 40_000).picodollars,
        60_001 * 500_000 + 40_000 * 50_000 + 1_000 * 2_500_000
    );
}

#[test]
fn snapshots_have_the_price_of_their_model() {
    for (provider, model, same_as) in [
        ("openai", "gpt-4o-2024-08-06", Some("gpt-4o")),
        ("openai", "gpt-4o-mini-2024-07-18", Some("gpt-4o-mini")),
        ("openai", "gpt-4.1-2025-04-14", Some("gpt-4.1")),
        ("openai", "o3-2025-04-16", Some("o3")),
        ("anthropic", "claude-opus-4-20250514", Some("claude-opus-4")),
        (
            "anthropic",
            "claude-opus-4-1-20250805",
            Some("claude-opus-4-1"),
        ),
        (
            "anthropic",
            "claude-3-5-haiku-latest",
            Some("claude-3-5-haiku"),
        ),
        (
            "anthropic",
            "claude-haiku-4-5@20251001",
            Some("claude-haiku-4-5"),
        ),
        ("openai", "gpt-4o-audio-preview", None),
        ("openai", "gpt-4o-mini-tts", None),
        ("openai", "gpt-4-32k", None),
        ("openai", "gpt-5.9", None),
        ("openai", "o3-deep-thought", None),
        ("anthropic", "claude-opus-4-9", None),
        ("google", "gemini-2.5-flash-preview-05-20", None),
        ("openrouter", "openai/gpt-4o", None),
        ("ollama", "llama3.2", None),
        ("vllm", "gpt-4o", None),
        ("azure", "gpt-4o", None),
        ("nobody", "gpt-4o", None),
    ] {
        let expected = same_as.map(|same| price(provider, same).unwrap());
        assert_eq!(price(provider, model), expected, "{model}");
    }
    // A snapshot with a price of its own.
    assert_eq!(
        price("openai", "gpt-4o-2024-05-13").unwrap().rates.input,
        5_000_000
    );
}

#[test]
fn built_in_limits_equal_the_published_limits() {
    let catalog = Catalog::built_in();
    for (provider, model, context, minimum) in [
        ("anthropic", "claude-opus-5", 1_000_000, 512),
        ("anthropic", "claude-fable-5-1", 1_000_000, 512),
        ("anthropic", "claude-mythos-5", 1_000_000, 512),
        ("anthropic", "claude-opus-4-8", 1_000_000, 1_024),
        ("anthropic", "claude-sonnet-4-6", 1_000_000, 1_024),
        ("anthropic", "claude-sonnet-4-5", 200_000, 1_024),
        ("anthropic", "claude-opus-4-7", 1_000_000, 2_048),
        ("anthropic", "claude-3-5-haiku-20241022", 200_000, 2_048),
        ("anthropic", "claude-opus-4-6", 1_000_000, 4_096),
        ("anthropic", "claude-haiku-4-5", 200_000, 4_096),
        ("openai", "gpt-4o", 128_000, 1_024),
        ("openai", "gpt-5", 400_000, 1_024),
        ("google", "gemini-2.5-flash", 1_048_576, 1_024),
    ] {
        let limits = catalog.find(provider, model).unwrap().limits;
        assert_eq!(
            (limits.context, limits.minimum_cacheable),
            (Some(context), Some(minimum)),
            "{model}"
        );
        assert!(limits.max_output.is_some());
    }
}

/// Facts of the providers' documentation, to which the generated catalog is held.
#[test]
fn built_in_capabilities_equal_the_published_capabilities() {
    use cachalot_model::{Format, Thinking};
    let catalog = Catalog::built_in();
    let of = |provider, model| &catalog.find(provider, model).unwrap().capabilities;
    let five = ["low", "medium", "high", "xhigh", "max"].as_slice();
    let four = ["low", "medium", "high", "max"].as_slice();
    for (model, thinking, efforts, default, sampling) in [
        ("claude-haiku-4-5", Thinking::Legacy, &[][..], None, None),
        (
            "claude-sonnet-4-5-20250929",
            Thinking::Legacy,
            &[],
            None,
            None,
        ),
        (
            "claude-opus-4-5",
            Thinking::Legacy,
            &["low", "medium", "high"],
            Some("high"),
            None,
        ),
        (
            "claude-opus-4-6",
            Thinking::AdaptiveOrLegacy,
            four,
            Some("high"),
            None,
        ),
        (
            "claude-sonnet-4-6",
            Thinking::AdaptiveOrLegacy,
            four,
            Some("high"),
            None,
        ),
        (
            "claude-opus-4-7",
            Thinking::Adaptive,
            five,
            Some("high"),
            Some(false),
        ),
        (
            "claude-opus-4-8",
            Thinking::Adaptive,
            five,
            Some("high"),
            Some(false),
        ),
        (
            "claude-opus-5",
            Thinking::Adaptive,
            five,
            Some("high"),
            Some(false),
        ),
        (
            "claude-sonnet-5",
            Thinking::Adaptive,
            five,
            Some("high"),
            Some(false),
        ),
        (
            "claude-haiku-5-5",
            Thinking::Adaptive,
            five,
            Some("medium"),
            Some(false),
        ),
        (
            "claude-opus-5-5",
            Thinking::AlwaysOn,
            five,
            Some("medium"),
            Some(false),
        ),
        (
            "claude-sonnet-5-5",
            Thinking::AlwaysOn,
            five,
            Some("high"),
            Some(false),
        ),
        (
            "claude-fable-5-1",
            Thinking::AlwaysOn,
            five,
            Some("high"),
            Some(false),
        ),
        (
            "claude-mythos-5",
            Thinking::AlwaysOn,
            five,
            Some("high"),
            Some(false),
        ),
    ] {
        let found = of("anthropic", model);
        assert_eq!(found.thinking, Some(thinking), "{model}");
        assert_eq!(found.efforts.as_deref().unwrap(), efforts, "{model}");
        assert_eq!(found.default_effort.as_deref(), default, "{model}");
        assert_eq!(found.sampling, sampling, "{model}");
        assert_eq!(found.endpoints.as_deref(), Some(&[Format::Messages][..]));
    }
    let both = [Format::Chat, Format::Responses];
    let six = ["none", "low", "medium", "high", "xhigh", "max"].as_slice();
    for (model, endpoints, efforts, default) in [
        ("gpt-4o-mini", &both[..], None, None),
        (
            "gpt-5",
            &both,
            Some(&["minimal", "low", "medium", "high"][..]),
            Some("medium"),
        ),
        ("gpt-5-pro", &both[1..], Some(&["high"]), Some("high")),
        (
            "gpt-5.1",
            &both,
            Some(&["none", "low", "medium", "high"]),
            Some("none"),
        ),
        ("gpt-5.3-codex", &both[1..], Some(&six[..5]), None),
        ("gpt-5.6-terra", &both, Some(six), Some("medium")),
        ("gpt-6.1-sol", &both, Some(&six[1..]), None),
        ("o3", &both, Some(&six[1..4]), Some("medium")),
    ] {
        let found = of("openai", model);
        assert_eq!(found.endpoints.as_deref(), Some(endpoints), "{model}");
        let taken = found
            .efforts
            .as_ref()
            .map(|efforts| efforts.iter().map(String::as_str));
        let taken = taken.map(Iterator::collect::<Vec<_>>);
        assert_eq!(taken.as_deref(), efforts, "{model}");
        assert_eq!(found.default_effort.as_deref(), default, "{model}");
    }
    assert_eq!(
        of("openai", "gpt-5.4-mini").chat_tools_with_effort,
        Some(false)
    );
    assert_eq!(of("openai", "gpt-5.2").chat_tools_with_effort, None);
    // What the facts do not say stays unknown.
    assert_eq!(of("openai", "gpt-4.1").thinking, None);
    assert_eq!(of("google", "gemini-3.5-flash").efforts, None);
}

/// Values of the user's file win one by one; a file without the newer keys reads as before.
#[test]
fn capabilities_of_a_user_file_take_precedence() {
    use cachalot_model::{Format, Thinking};
    let own = "models: {openai: {gpt-5.6-terra: {endpoints: [responses], efforts: [low]},
  o3: {context: 7}}, vllm: {whale: {thinking: legacy, sampling: false}}}";
    let catalog = Catalog::built_in().with_text("models.yaml", own).unwrap();
    let of = |provider, model| catalog.find(provider, model).unwrap().clone();
    let terra = of("openai", "gpt-5.6-terra");
    assert_eq!(terra.capabilities.takes(Format::Chat), Some(false));
    assert_eq!(terra.capabilities.efforts.unwrap(), ["low"]);
    assert_eq!(terra.capabilities.default_effort.as_deref(), Some("medium"));
    assert_eq!(terra.price.unwrap().rates.input, 2_000_000);
    let o3 = of("openai", "o3");
    assert_eq!(
        (o3.limits.context, o3.capabilities.takes(Format::Chat)),
        (Some(7), Some(true))
    );
    let whale = of("vllm", "whale").capabilities;
    assert_eq!(
        (whale.thinking, whale.sampling),
        (Some(Thinking::Legacy), Some(false))
    );
    assert_eq!(whale.takes(Format::Chat), None);
    for (wrong, help) in [
        ("endpoints: [chatt]", "`chat`"),
        ("thinking: always-on", "`always_on`"),
        ("efforts: low", ""),
    ] {
        let text = format!("models: {{openai: {{x: {{{wrong}}}}}}}");
        let problems = Catalog::empty()
            .with_text("models.yaml", &text)
            .unwrap_err();
        assert_eq!(problems.len(), 1, "{wrong}");
        assert!(
            problems[0]
                .help
                .as_deref()
                .unwrap_or_default()
                .contains(help),
            "{problems:?}"
        );
        assert!(problems[0].place.is_some());
    }
}

#[test]
fn image_support_is_known_and_extended_by_a_user_file() {
    let takes = |catalog: &Catalog, provider: &str, model: &str| {
        catalog.find(provider, model).unwrap().limits.images
    };
    let built_in = Catalog::built_in();
    assert_eq!(
        takes(&built_in, "openai", "o3-mini-2025-01-31"),
        Some(false)
    );
    assert_eq!(takes(&built_in, "openai", "gpt-3.5-turbo"), Some(false));
    assert_eq!(takes(&built_in, "openai", "gpt-4o"), None);
    let own = "models: {ollama: {llama3.2: {images: false}}, openai: {o3-mini: {images: true}}}";
    let catalog = built_in.with_text("models.yaml", own).unwrap();
    assert_eq!(takes(&catalog, "ollama", "llama3.2"), Some(false));
    assert_eq!(takes(&catalog, "openai", "o3-mini"), Some(true));
    // What the file says nothing of stays.
    let limits = catalog.find("openai", "o3-mini").unwrap().limits;
    assert_eq!(limits.context, Some(200_000));
    let wrong = "models: {ollama: {llama3.2: {images: no}}}";
    let problems = built_in.with_text("models.yaml", wrong).unwrap_err();
    assert_eq!(problems[0].code, "wrong-type");
    let place = problems[0].place.as_ref().unwrap();
    assert_eq!(&wrong[place.start..place.start + place.len], "no");
}

/// 2026-11-28 and the day after the price of a model changes.
const TODAY: i64 = 1_795_824_000_000;
const DECEMBER: i64 = 1_796_083_200_000;

#[test]
fn every_model_with_a_price_is_priced() {
    let catalog = Catalog::built_in();
    let usage = Usage::from_counts(1_000, 100);
    let mut count = 0;
    for provider in catalog.providers() {
        for model in catalog.models(provider) {
            let listed = catalog.find(provider, model).unwrap();
            let terms = Terms::default();
            for at in [0, TODAY, 2 * TODAY] {
                let cost = cachalot_model::price(&usage, model, listed.price.as_ref(), at, &terms);
                let cost = cost.unwrap_or_else(|error| panic!("{provider}/{model}: {error}"));
                assert!(cost.picodollars > 0, "{provider}/{model}");
            }
            count += 1;
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn announced_prices_apply_from_their_dates() {
    let cost = |provider: &str, model: &str, at| {
        let listed = price(provider, model);
        let usage = Usage {
            uncached_input: MILLION,
            cache_read: MILLION,
            output: MILLION,
            ..Usage::default()
        };
        let cost = cachalot_model::price(&usage, model, listed.as_ref(), at, &Terms::default());
        dollars(cost.unwrap())
    };
    for model in ["gemini-4-argon", "gemini-4-carbon"] {
        assert_eq!(cost("google", model, TODAY), 12.1, "{model}");
        assert_eq!(cost("google", model, DECEMBER - 1), 12.1, "{model}");
        assert_eq!(cost("google", model, DECEMBER), 24.2, "{model}");
    }
    let january = DECEMBER + 31 * 86_400_000;
    for model in ["gemini-3.6-flash", "gemini-3.7-flash", "gemini-3.8-flash"] {
        assert_eq!(cost("google", model, january - 1), 4.575, "{model}");
        assert_eq!(cost("google", model, january), 9.15, "{model}");
    }
    assert_eq!(cost("anthropic", "claude-fable-5-2", TODAY), 48.2);
}

#[test]
fn later_prices_of_a_file_are_read_in_their_order() {
    let file = "models:
  lab:
    whale: {input: 1, output: 2, changes: [{from: 2026-12-01, input: 2, output: 4, cache_read: 1}, {from: '2027-01-01', input: 3, output: 6, above: {tokens: 10, input: 4, output: 8}}]}
";
    let catalog = Catalog::built_in().with_text("own.yaml", file).unwrap();
    let price = catalog.find("lab", "whale").unwrap().price.clone().unwrap();
    let rates = |at| price.at(at).0;
    assert_eq!(
        (rates(TODAY).input, rates(TODAY).cache_read),
        (MILLION, MILLION)
    );
    assert_eq!(
        (rates(DECEMBER).input, rates(DECEMBER).cache_read),
        (2 * MILLION, MILLION)
    );
    let later = DECEMBER + 31 * 86_400_000;
    assert_eq!(price.at(later).0.input, 3 * MILLION);
    assert_eq!(price.at(later).1.unwrap().1.output, 8 * MILLION);
    for (keys, code) in [
        (
            "changes: [{from: 2026-12-01, input: 1, output: 1}]",
            "missing-key",
        ),
        (
            "input: 1, output: 1, changes: [{from: 2026-12-01, input: 1}]",
            "missing-key",
        ),
        (
            "input: 1, output: 1, changes: [{from: 2026-12-01}]",
            "missing-key",
        ),
        (
            "input: 1, output: 1, changes: [{input: 1, output: 1}]",
            "missing-key",
        ),
        (
            "input: 1, output: 1, changes: [{from: tomorrow, input: 1, output: 1}]",
            "bad-value",
        ),
        ("input: 1, output: 1, changes: {}", "wrong-type"),
        (
            "input: 1, output: 1, changes: [{from: 2026-12-01, input: 1, output: 1}, {from: 2026-11-01, input: 1, output: 1}]",
            "bad-value",
        ),
    ] {
        let text = format!("models: {{lab: {{x: {{{keys}}}}}}}");
        let problems = Catalog::empty().with_text("own.yaml", &text).unwrap_err();
        assert!(
            problems.iter().any(|problem| problem.code == code),
            "{keys}: {problems:?}"
        );
    }
}

#[test]
fn names_of_clients_find_the_price_of_their_platform() {
    let catalog = Catalog::built_in();
    let usage = Usage::from_counts(100_000, 10_000);
    for (name, expected) in [
        ("claude-sonnet-4-5-20250929", Some(0.45)),
        ("claude-sonnet-4-5-20250929[1m]", Some(0.45)),
        (
            "global.anthropic.claude-sonnet-4-5-20250929-v1:0",
            Some(0.45),
        ),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some(0.495)),
        (
            "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            Some(0.495),
        ),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            Some(0.495),
        ),
        ("claude-sonnet-4-5@20250929", Some(0.45)),
        ("vertex/claude-sonnet-4-5@20250929", Some(0.45)),
        ("anthropic/claude-sonnet-4.5", Some(0.45)),
        ("claude-opus-5-5", Some(0.6)),
        ("claude-sonnet-9", None),
        ("xx.anthropic.claude-sonnet-4-5-20250929-v1:0", None),
        ("claude-sonnet-9@20270101", None),
        ("claude-sonnet-4-5[", None),
    ] {
        let listed = catalog.find_by_name(name);
        let listed = listed.and_then(|entry| entry.price.as_ref());
        let cost = cachalot_model::price(&usage, name, listed, TODAY, &Terms::default());
        assert_eq!(cost.ok().map(dollars), expected, "{name}");
    }
}

#[test]
fn built_in_prices_are_plausible() {
    let catalog = Catalog::built_in();
    let mut count = 0;
    for provider in ["openai", "anthropic", "google", "deepseek"] {
        for model in catalog.models(provider) {
            count += 1;
            let listed = catalog.find(provider, model).unwrap();
            let Price { rates, above, .. } = listed.price.clone().unwrap();
            let sane = |rates: Rates| {
                assert!(rates.cache_read <= rates.input, "{model}");
                assert!(rates.input <= rates.output, "{model}");
                assert!(rates.cache_write_5m >= rates.input, "{model}");
                assert!(rates.cache_write_1h >= rates.cache_write_5m, "{model}");
            };
            sane(rates);
            if let Some((tokens, above)) = above {
                sane(above);
                assert!(
                    above.input > rates.input && above.output > rates.output,
                    "{model}"
                );
                assert!(tokens >= 100_000, "{model}");
            }
            let limits = listed.limits;
            assert!(limits.max_output <= limits.context, "{model}");
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn embeddings_have_prices_and_are_not_listed_as_models() {
    let built_in = Catalog::built_in();
    let rates = |catalog: &Catalog, model: &str| {
        let entry = catalog.find_by_name(model)?;
        Some(entry.price.as_ref()?.rates.input)
    };
    for (model, rate) in [
        ("text-embedding-3-small", 20_000),
        ("openai/text-embedding-3-large", 130_000),
        ("mistral-embed", 100_000),
        ("codestral-embed-2505", 150_000),
        ("gemini-embedding-001", 150_000),
    ] {
        assert_eq!(rates(&built_in, model), Some(rate), "{model}");
    }
    assert_eq!(rates(&built_in, "text-embedding-4"), None);
    let mut names = built_in.models("openai");
    assert!(!names.any(|name| name.starts_with("text-embedding")));
    let text = "embeddings: {openai: {text-embedding-3-small: {input: 1, output: 0}}}";
    let own = built_in.with_text("prices.yaml", text).unwrap();
    assert_eq!(rates(&own, "text-embedding-3-small"), Some(1_000_000));
    assert_eq!(rates(&own, "text-embedding-3-large"), Some(130_000));
}

#[test]
fn user_file_overrides_the_built_in_catalog() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("prices.yaml");
    let built_in = Catalog::built_in();
    // There need be none.
    assert!(
        built_in
            .with_file(&path)
            .unwrap()
            .find("openai", "gpt-4o")
            .is_some()
    );
    std::fs::write(
        &path,
        "models:
  openai:
    gpt-4o: {input: 1, output: 2}
    gpt-4o-mini: {context: 1000}
    whale: {input: 0.000001, output: 1000000, above: {tokens: 10, input: 2, output: 3}}
  ollama:
    llama3.2: {input: 0, output: 0}
",
    )
    .unwrap();
    let catalog = built_in.with_file(&path).unwrap();
    let find = |provider, model| catalog.find(provider, model).unwrap().clone();
    let rates = find("openai", "gpt-4o").price.unwrap().rates;
    // What is not said of the new price is not taken from the old one.
    assert_eq!(
        (rates.input, rates.output, rates.cache_read),
        (1_000_000, 2_000_000, 1_000_000)
    );
    assert_eq!(find("openai", "gpt-4o").limits.context, Some(128_000));
    let mini = find("openai", "gpt-4o-mini");
    assert_eq!(mini.limits.context, Some(1_000));
    assert_eq!(mini.price.unwrap().rates.input, 150_000);
    let whale = find("openai", "whale").price.unwrap();
    assert_eq!((whale.rates.input, whale.above.unwrap().0), (1, 10));
    let free = find("ollama", "llama3.2").price.unwrap();
    assert_eq!(cost(&free, &Usage::from_counts(0, 5)), Cost::default());
    for (text, code) in [
        ("models: {openai: {x: {input: 1}}}", "missing-key"),
        (
            "models: {openai: {x: {above: {tokens: 5, input: 1, output: 1}}}}",
            "missing-key",
        ),
        ("models: {openai: {x: {inptu: 1}}}", "unknown-key"),
        ("models: {openai: {x: {context: -1}}}", "out-of-range"),
        ("models: {openai: [x]}", "wrong-type"),
        ("prices: {}", "unknown-key"),
        ("a: [", "yaml-syntax"),
    ] {
        let problems = built_in.with_text("prices.yaml", text).unwrap_err();
        assert!(
            problems.iter().any(|problem| problem.code == code),
            "{text}: {problems:?}"
        );
    }
    std::fs::create_dir(directory.path().join("folder")).unwrap();
    let problems = built_in
        .with_file(&directory.path().join("folder"))
        .unwrap_err();
    assert_eq!(problems[0].code, "unreadable");
}

#[test]
fn unpriced_model_has_an_unpriced_cost() {
    let yaml = "
models:
  local: {provider: ollama, model: llama3.2}
  free: {provider: ollama, model: llama3.2, cost: {input: 0, output: 0}}
  mine: {provider: lab, model: gpt-4o, prices: openai}
  dear: {provider: openai, model: gpt-4o, cost: {input: 100, output: 100, cache_write_5m: 1}}
providers: {lab: {base_url: 'http://lab.example'}}
";
    let models = Models::new(model_dependencies(&[]), configured(yaml));
    let usage = Usage {
        uncached_input: 1_000,
        output: 1_000,
        ..Usage::default()
    };
    let cost = |name| models.find(name).unwrap().cost(&usage);
    assert_eq!(cost("local"), Cost::UNPRICED);
    assert_eq!(cost("free"), Cost::default());
    assert_eq!(cost("mine"), cost("openai/gpt-4o"));
    assert_eq!(models.find("mine").unwrap().limits().context, Some(128_000));
    assert_eq!(cost("dear"), Cost::from_picodollars(2_000 * 100 * MILLION));
    assert_eq!(cost("openai/gpt-9"), Cost::UNPRICED);
}

#[tokio::test]
async fn cost_of_an_answer_is_computed_from_its_usage() {
    let silent =
        r#"{"choices":[{"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}"#;
    let server = Server::start([says("x"), crate::client::Answer::json(200, silent)]).await;
    let model = model(&server);
    let reply = ask(&model).await.unwrap();
    assert_eq!(
        model.cost_of(&reply).picodollars,
        12 * 150_000 + 3 * 600_000
    );
    let reply = ask(&model).await.unwrap();
    assert_eq!(model.cost_of(&reply), Cost::UNPRICED, "no usage, no price");
}

proptest! {
    /// Money is exact: the cost of a sum is the sum of the costs, and nothing overflows.
    #[test]
    fn costs_are_summed(one in any::<[u32; 5]>(), other in any::<[u32; 5]>(), rates in any::<[u32; 5]>()) {
        let usage = |counts: [u32; 5]| {
            let [uncached_input, cache_read, cache_write_5m, cache_write_1h, output] = counts.map(u64::from);
            Usage { uncached_input, cache_read, cache_write_5m, cache_write_1h, output, ..Usage::default() }
        };
        let [input, output, cache_read, cache_write_5m, cache_write_1h] = rates.map(|rate| u64::from(rate >> 8));
        let rates = Rates { input, output, cache_read, cache_write_5m, cache_write_1h };
        let price = Price { rates, above: None, changes: Vec::new() };
        let mut sum = usage(one);
        sum += usage(other);
        let mut costs = cost(&price, &usage(one));
        costs += cost(&price, &usage(other));
        prop_assert_eq!(cost(&price, &sum), costs);
    }

    /// No usage overflows.
    #[test]
    fn cost_is_never_negative(input in any::<u64>(), output in any::<u64>()) {
        let price = price("openai", "gpt-4o").unwrap();
        let cost = cost(&price, &Usage::from_counts(input, output));
        prop_assert!(cost.picodollars >= input.min(u64::MAX / 4_000_000));
    }
}
