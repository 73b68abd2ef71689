//! Prices of answers, computed by hand.

use cachalot_accounting::{Price, PriceChange, Rates, Terms, Unpriced, Usage, date, price};
use cachalot_core::{Cost, Millis};
use proptest::prelude::*;

const MILLION: u64 = 1_000_000;
const THOUSAND: u64 = 1_000;

/// A host of Vertex AI in one region.
const VERTEX_REGION: &str = "us-east5-aiplatform.googleapis.com";

/// Dollars per million tokens: $2, $10, reads $0.20, writes $2.50 and $4.
const RATES: Rates = Rates {
    input: 2 * MILLION,
    output: 10 * MILLION,
    cache_read: MILLION / 5,
    cache_write_5m: 5 * MILLION / 2,
    cache_write_1h: 4 * MILLION,
};

fn listed() -> Price {
    Price {
        rates: RATES,
        above: None,
        changes: Vec::new(),
    }
}

/// 10,000 tokens of each kind but that of 12 hours: input 0.02, reads 0.002, writes 0.025 and 0.04, output 0.1.
fn used() -> Usage {
    Usage {
        uncached_input: 10 * THOUSAND,
        cache_read: 10 * THOUSAND,
        cache_write_5m: 5 * THOUSAND,
        cache_write_other: 5 * THOUSAND,
        cache_write_1h: 10 * THOUSAND,
        output: 10 * THOUSAND,
        ..Usage::default()
    }
}

fn at(day: &str) -> Millis {
    date::parse(day).unwrap()
}

/// The cost in millionths of a dollar.
fn micro(model: &str, usage: &Usage, terms: &Terms) -> Result<u64, Unpriced> {
    let cost = price(usage, model, Some(&listed()), at("2026-11-28"), terms)?;
    assert_eq!((cost.unpriced, cost.picodollars % MILLION), (0, 0));
    Ok(cost.picodollars / MILLION)
}

fn tier(name: &str) -> Terms {
    Terms {
        tier: Some(name.to_owned()),
        ..Terms::default()
    }
}

fn geography(name: &str) -> Terms {
    Terms {
        geography: Some(name.to_owned()),
        ..Terms::default()
    }
}

fn speed(name: &str) -> Terms {
    Terms {
        speed: Some(name.to_owned()),
        ..Terms::default()
    }
}

fn host(name: &str) -> Terms {
    Terms {
        host: Some(name.to_owned()),
        ..Terms::default()
    }
}

#[test]
fn every_factor_applies_to_the_tokens() {
    // 0.187 dollars at the standard terms.
    let standard = 187 * THOUSAND;
    for (model, terms, expected) in [
        ("gpt-6-sol", Terms::default(), standard),
        ("gpt-6-sol", tier("default"), standard),
        ("gpt-6-sol", tier("auto"), standard),
        ("gpt-6-sol", tier("flex"), standard / 2),
        ("gpt-6-sol", tier("batch"), standard / 2),
        ("gpt-6-sol", tier("priority"), standard * 2),
        ("gpt-6-sol", tier("fast"), standard * 2),
        ("gpt-5.5", tier("priority"), standard * 5 / 2),
        ("gpt-6-astra", tier("ultrafast"), standard * 6),
        ("gpt-6.2-sol", tier("ultrafast"), standard * 3),
        ("openai/gpt-5.5", tier("priority"), standard * 5 / 2),
        // 185 for what was not read from the cache, at the half; 2 for that, at 1 and at 0.52.
        ("gemini-2.5-pro", tier("flex"), 185 * 500 + 2_000),
        ("gpt-5.4", tier("batch"), 185 * 500 + 1_040),
        ("gemini-4-argon", tier("priority"), standard * 18 / 10),
        ("claude-opus-4-8", tier("standard"), standard),
        ("claude-opus-4-8", tier("standard_only"), standard),
        ("claude-opus-4-8", tier("batch"), standard / 2),
        ("claude-opus-4-8", geography("us"), standard * 11 / 10),
        ("claude-opus-4-8", geography("global"), standard),
        ("claude-haiku-4-5", geography("not_available"), standard),
        ("claude-opus-5-5", speed("fast"), standard * 2),
        ("claude-fable-5-2", speed("fast"), standard * 2),
        ("claude-opus-4-5", speed("standard"), standard),
        ("gpt-5.4", host("eu.api.openai.com"), standard * 11 / 10),
        // Models before 2026-03-05, and Claude before 4.5, cost the same at each host.
        ("gpt-5.2", host("eu.api.openai.com"), standard),
        ("gpt-4o-mini", host("us.api.openai.com"), standard),
        (
            "text-embedding-3-small",
            host("eu.api.openai.com"),
            standard,
        ),
        ("claude-opus-4-1", host(VERTEX_REGION), standard),
        ("claude-sonnet-4-5", host(VERTEX_REGION), standard * 11 / 10),
        ("gemini-4-argon", host(VERTEX_REGION), standard * 11 / 10),
        (
            "claude-sonnet-4-5",
            host("aiplatform.googleapis.com"),
            standard,
        ),
        ("gpt-5.4", host("api.openai.com"), standard),
        // An unlisted model, at the terms of its price.
        ("my-model", Terms::default(), standard),
        ("my-model", host("api.openai.com"), standard),
    ] {
        assert_eq!(
            micro(model, &used(), &terms),
            Ok(expected),
            "{model} {terms:?}"
        );
    }
    let all = Terms {
        tier: Some("batch".to_owned()),
        geography: Some("us".to_owned()),
        speed: Some("fast".to_owned()),
        ..Terms::default()
    };
    assert_eq!(
        micro("claude-opus-5", &used(), &all),
        Ok(standard * 11 / 10)
    );
}

#[test]
fn what_is_not_known_is_named_and_never_standard() {
    let named = |of: fn(String) -> Unpriced, name: &str| of(name.to_owned());
    for (model, terms, expected) in [
        ("gpt-6-sol", tier("scale"), named(Unpriced::Tier, "scale")),
        (
            "gpt-6-sol",
            tier("ultrafast"),
            named(Unpriced::Tier, "ultrafast"),
        ),
        ("gpt-6.2-sol", tier("flex"), named(Unpriced::Tier, "flex")),
        (
            "gpt-5.2-codex",
            tier("priority"),
            named(Unpriced::Tier, "priority"),
        ),
        // A contract.
        (
            "claude-opus-4-8",
            tier("priority"),
            named(Unpriced::Tier, "priority"),
        ),
        (
            "gemini-4-argon",
            tier("deferred"),
            named(Unpriced::Tier, "deferred"),
        ),
        // The largest factors of a provider bound a cost only.
        ("gpt-9", tier("priority"), named(Unpriced::Tier, "priority")),
        (
            "claude-opus-9",
            geography("us"),
            named(Unpriced::Geography, "us"),
        ),
        (
            "claude-haiku-4-5",
            geography("us"),
            named(Unpriced::Geography, "us"),
        ),
        (
            "claude-opus-4-8",
            geography("eu"),
            named(Unpriced::Geography, "eu"),
        ),
        (
            "claude-sonnet-4-5",
            speed("fast"),
            named(Unpriced::Speed, "fast"),
        ),
        (
            "claude-opus-4-8",
            speed("warp"),
            named(Unpriced::Speed, "warp"),
        ),
        (
            "gpt-5.6-cyber",
            host("us.api.openai.com"),
            named(Unpriced::Host, "us.api.openai.com"),
        ),
        (
            "gpt-9",
            host("us.api.openai.com"),
            named(Unpriced::Host, "us.api.openai.com"),
        ),
        (
            "my-model",
            host(VERTEX_REGION),
            named(Unpriced::Host, VERTEX_REGION),
        ),
        (
            "gemini-2.5-pro",
            host(VERTEX_REGION),
            named(Unpriced::Host, VERTEX_REGION),
        ),
    ] {
        let found = micro(model, &used(), &terms);
        assert_eq!(found, Err(expected), "{model} {terms:?}");
    }
    let unknown = Terms {
        unknown: Some("image_gen".to_owned()),
        ..Terms::default()
    };
    let found = micro("gpt-6-sol", &used(), &unknown).unwrap_err();
    assert_eq!(found.to_string(), "the price of `image_gen` is not known");
    let found = price(&used(), "gpt-6-sol", None, 0, &Terms::default()).unwrap_err();
    assert_eq!(found.to_string(), "the price of `gpt-6-sol` is not known");
    let found = price(&used(), "", None, 0, &Terms::default()).unwrap_err();
    assert_eq!(found.to_string(), "the model is not known");
}

#[test]
fn long_writes_and_searches_have_their_price() {
    let written = |tokens| Usage {
        cache_write_12h: tokens,
        ..Usage::default()
    };
    // 10,000 tokens at $2, times 2.5 for 12 hours.
    let long = written(10 * THOUSAND);
    assert_eq!(
        micro("gpt-6-sol", &long, &Terms::default()),
        Ok(50 * THOUSAND)
    );
    assert_eq!(
        micro("gpt-6-sol", &long, &tier("priority")),
        Ok(100 * THOUSAND)
    );
    let unknown = micro("gpt-5.5", &long, &Terms::default()).unwrap_err();
    assert_eq!(
        unknown,
        Unpriced::Member("cache write for 12 hours".to_owned())
    );
    assert_eq!(micro("gpt-5.5", &written(0), &Terms::default()), Ok(0));
    let searched = Usage {
        uncached_input: THOUSAND,
        web_searches: 3,
        ..Usage::default()
    };
    for (model, terms, expected) in [
        // 1,000 tokens at $2 per million, and three searches at 1, 3.5, 1.4 and 2.5 cents, in every tier.
        ("claude-sonnet-4-5", Terms::default(), 2_000 + 30_000),
        ("claude-opus-4-8", speed("fast"), 4_000 + 30_000),
        ("gpt-6-sol", tier("flex"), 1_000 + 30_000),
        ("gemini-2.5-flash", Terms::default(), 2_000 + 105_000),
        ("gemini-4-argon", Terms::default(), 2_000 + 42_000),
        ("gpt-4.1", Terms::default(), 2_000 + 75_000),
        ("gpt-5.4", Terms::default(), 2_000 + 30_000),
    ] {
        assert_eq!(micro(model, &searched, &terms), Ok(expected), "{model}");
    }
    let unknown = micro("gpt-4o", &searched, &Terms::default()).unwrap_err();
    assert_eq!(unknown, Unpriced::Member("web search".to_owned()));
}

#[test]
fn prices_and_factors_change_at_their_dates() {
    let doubled = Rates {
        input: 4 * MILLION,
        output: 20 * MILLION,
        ..RATES
    };
    let long = Rates {
        input: 8 * MILLION,
        ..doubled
    };
    let listed = Price {
        rates: RATES,
        above: None,
        changes: vec![
            PriceChange {
                from: at("2026-12-01"),
                rates: doubled,
                above: Some((200 * THOUSAND, long)),
            },
            PriceChange {
                from: at("2027-06-01"),
                rates: RATES,
                above: None,
            },
        ],
    };
    let cost = |day: Millis, input: u64, terms: &Terms| {
        let usage = Usage::from_counts(input, 0);
        let cost = price(&usage, "gpt-6.2-sol", Some(&listed), day, terms);
        cost.unwrap().picodollars / MILLION
    };
    let standard = Terms::default();
    let change = at("2026-12-01");
    assert_eq!(cost(0, 1_000, &standard), 2_000);
    assert_eq!(cost(change - 1, 1_000, &standard), 2_000);
    assert_eq!(cost(change, 1_000, &standard), 4_000);
    // The price of longer requests is that of the day, too.
    assert_eq!(cost(change - 1, 300_000, &standard), 600_000);
    assert_eq!(cost(change, 200_000, &standard), 800_000);
    assert_eq!(cost(change, 200_001, &standard), 1_600_008);
    assert_eq!(cost(at("2027-06-01"), 300_000, &standard), 600_000);
    let ultrafast = tier("ultrafast");
    assert_eq!(cost(at("2027-03-01") - 1, 1_000, &ultrafast), 12_000);
    assert_eq!(cost(at("2027-03-01"), 1_000, &ultrafast), 24_000);
}

#[test]
fn terms_of_an_answer_come_before_those_of_its_request() {
    let answer = Terms {
        tier: Some("default".to_owned()),
        ..Terms::default()
    };
    let request = Terms {
        tier: Some("priority".to_owned()),
        speed: Some("fast".to_owned()),
        ..Terms::default()
    };
    let both = answer.or(request);
    assert_eq!(both.tier.as_deref(), Some("default"));
    assert_eq!(both.speed.as_deref(), Some("fast"));
}

proptest! {
    /// No counter makes an answer cheaper, and nothing overflows.
    #[test]
    fn cost_is_monotone_in_each_counter(
        counts in prop::array::uniform8(any::<u64>()),
        more in any::<u64>(),
        which in 0_usize..8,
        tier in prop::sample::select(vec!["default", "flex", "batch", "priority", "ultrafast"]),
        model in prop::sample::select(vec!["gpt-6-astra", "claude-opus-5", "gemini-2.5-pro", "gpt-5.4"]),
    ) {
        let usage = |counts: [u64; 8]| {
            let [uncached_input, cache_read, cache_write_5m, cache_write_1h, cache_write_other, output, long, web_searches] = counts;
            Usage {
                uncached_input, cache_read, cache_write_5m, cache_write_1h, cache_write_other, output, web_searches,
                cache_write_12h: long,
                reasoning: 0,
            }
        };
        let mut larger = counts;
        larger[which] = larger[which].saturating_add(more);
        let terms = Terms { tier: Some(tier.to_owned()), ..Terms::default() };
        let listed = listed();
        let cost = |counts| price(&usage(counts), model, Some(&listed), 0, &terms);
        if let (Ok(less), Ok(more)) = (cost(counts), cost(larger)) {
            prop_assert!(less.picodollars <= more.picodollars, "{less:?} {more:?}");
            prop_assert_eq!(less.unpriced, Cost::default().unpriced);
        }
    }
}
