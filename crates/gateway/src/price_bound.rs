//! The maximum cost of a request, before it is sent.

use cachalot_accounting::{Factor, ModelFactors, PriceFactors, Terms};
use cachalot_core::{Cost, Millis};
use cachalot_model::wire::{Operation, requested_terms};
use cachalot_model::{Catalog, Rates};

use crate::endpoint::{Endpoint, UnknownCost};
use crate::parsed_body::ParsedBody;
use crate::upstream::Upstream;

/// Tokens that providers add to a request: templates of messages, instructions for tools.
const ADDED_TOKENS: u64 = 8_192;

/// The longer context that clients can ask for, in tokens.
const LONG_CONTEXT: u64 = 1_000_000;

/// Time after which a request has its answer: a day.
const LONGEST_ANSWER: Millis = 86_400_000;

/// Returns the maximum cost of a request, in picodollars.
///
/// A token has at least one byte, so a text has at most as many tokens as bytes; with an image or a document, the
/// input is bounded by the context of the model only. `longer_context` is set if the request asks for a longer one than
/// usual. What the request leaves to the account counts as the dearest that the account may have set, unless the file
/// of the gateway states it. So does a price that changes within a day.
///
/// # Errors
/// The reason why it is not known.
pub(crate) fn of_request(
    (catalog, now): (&Catalog, Millis),
    upstream: &Upstream,
    model: &str,
    parsed: &ParsedBody,
    body_bytes: usize,
    longer_context: bool,
) -> Result<u64, UnknownCost> {
    let (endpoint, body) = (parsed.endpoint, parsed.priced());
    if endpoint.is_free() && endpoint != Endpoint::Other {
        return Ok(0);
    }
    if let Some(reason) = parsed.extra_charge() {
        return Err(UnknownCost(reason.to_owned()));
    }
    if let Some(reason) = endpoint.differing_model(model, parsed.value()) {
        return Err(UnknownCost(reason));
    }
    let entry = catalog
        .find(upstream.name(), model)
        .or_else(|| catalog.find_by_name(model));
    let price = entry.and_then(|entry| Some((entry, entry.price.as_ref()?)));
    let (entry, price) =
        price.ok_or_else(|| UnknownCost(format!("the price of `{model}` is not known")))?;
    let mut context = entry.limits.context;
    if longer_context && context.is_none_or(|usual| usual < LONG_CONTEXT) {
        if price.at(now).1.is_none() {
            return Err(UnknownCost(format!(
                "the price of a longer context of `{model}` is not known"
            )));
        }
        context = Some(LONG_CONTEXT);
    }
    let text = body_bytes as u64 + ADDED_TOKENS;
    let is_embedding = endpoint.operation() == Some(Operation::Embed);
    // The tokens of earlier answers that the provider keeps are not in the body, and charged again.
    let has_more = parsed.has_media() || parsed.object_reference().is_some();
    let input = match (has_more, context) {
        (true, _) if is_embedding => {
            return Err(UnknownCost(
                "an image has a price of its own in an embedding".to_owned(),
            ));
        }
        // Each input of several has the context for itself.
        (false, _) if is_embedding => text,
        (false, context) => text.min(context.unwrap_or(u64::MAX)),
        (true, Some(context)) => context,
        (true, None) => {
            return Err(UnknownCost(format!(
                "an image, a document or an earlier answer is in the request, and the context of `{model}` is not known"
            )));
        }
    };
    let output = if is_embedding {
        0
    } else {
        // A provider refuses a limit above that of the model, and then nothing is paid; or it accepts it, because the
        // catalog is older than the model's limit, and then the answer may have as many tokens. What is asked for
        // is the bound in both cases. What is not used of it is returned when the answer is complete.
        let limit = endpoint.max_output(body);
        let limit = limit.or(entry.limits.max_output).or(context);
        let limit = limit.ok_or_else(|| {
            UnknownCost(format!(
                "neither the request nor the catalog limits the output of `{model}`"
            ))
        })?;
        limit.saturating_mul(endpoint.answers(body)?)
    };
    let region = PriceFactors::published().at_host(upstream.host(), model);
    let is_written_12h = endpoint.writes_for_12h(body)?;
    let requested = body.as_object().map(requested_terms).unwrap_or_default();
    let mut maximum = 0;
    // The price may change before the answer is complete.
    for at in [now, now.saturating_add(LONGEST_ANSWER)] {
        let (rates, above) = price.at(at);
        let factors = PriceFactors::published().model(model, at);
        let by_account = account_factors(upstream, &requested, &factors);
        let all = by_account.into_iter().chain([region]);
        // The length of the input in tokens is not known yet, so the rates of longer requests count, too.
        for rates in [Some(rates), above.map(|(_, rates)| rates)]
            .into_iter()
            .flatten()
        {
            let input_rate = input_rate(&rates, &factors, is_written_12h).ok_or_else(|| {
                UnknownCost(format!(
                    "the price of a cache write for 12 hours of `{model}` is not known"
                ))
            })?;
            let sum = u128::from(input) * u128::from(input_rate)
                + u128::from(output) * u128::from(rates.output);
            let sum = u64::try_from(sum).unwrap_or(u64::MAX);
            let cost = all.clone().fold(sum, |cost, factor| factor.times(cost));
            maximum = maximum.max(cost);
        }
    }
    Ok(maximum)
}

/// Returns the dearest rate of input; `None` if it is not known.
fn input_rate(rates: &Rates, factors: &ModelFactors, is_written_12h: bool) -> Option<u64> {
    // Any part of the input may be written to the cache, at a price of its own.
    let usual = [rates.input, rates.cache_write_5m, rates.cache_write_1h];
    let usual = usual.into_iter().max().unwrap_or_default();
    if is_written_12h {
        Some(usual.max(factors.cache_write_12h?.times(rates.input)))
    } else {
        Some(usual)
    }
}

/// Returns the factors for what a request leaves to the account. Other tiers and geographies than the usual ones are
/// refused ([`Endpoint::extra_charge`]).
fn account_factors(upstream: &Upstream, requested: &Terms, factors: &ModelFactors) -> [Factor; 2] {
    let (tier, geography) = (requested.tier.as_deref(), requested.geography.as_deref());
    let tier = match (tier, upstream.account.service_tier) {
        (None | Some("auto" | "unspecified"), None) => factors.dearest_default_tier(),
        (None | Some("auto" | "unspecified"), Some(tier)) => {
            factors.tier(tier).unwrap_or(Factor::ONE)
        }
        (Some(_), _) => Factor::ONE,
    };
    let geography = match (geography, upstream.account.inference_geo) {
        (None, None) => factors.dearest_default_geography(),
        (None, Some(geography)) => factors.geography(geography),
        (Some(_), _) => Factor::ONE,
    };
    [tier, geography]
}

/// Returns the cost of an answer in picodollars; `None` if it is not known.
pub(crate) fn picodollars(cost: Cost) -> Option<u64> {
    (cost.unpriced == 0).then_some(cost.picodollars)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use cachalot_accounting::price;
    use cachalot_model::Usage;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::upstream::AccountDefaults;

    fn upstream(name: &str, host: &str) -> Upstream {
        Upstream::new(name, &format!("https://{host}")).unwrap()
    }

    /// The bound of a request for a model with a body of so many bytes, in picodollars.
    fn bound_of(
        upstream: &Upstream,
        endpoint: Endpoint,
        model: &str,
        body: &Value,
        bytes: usize,
        longer_context: bool,
    ) -> Result<u64, UnknownCost> {
        let parsed = ParsedBody::of(endpoint, &body.to_string().into(), Arc::default());
        let catalog = Catalog::built_in();
        of_request(
            (&catalog, 0),
            upstream,
            model,
            &parsed,
            bytes,
            longer_context,
        )
    }

    /// The bound of a request at OpenAI or Anthropic, in picodollars.
    fn bound_at(upstream: &Upstream, endpoint: Endpoint, body: &Value) -> Result<u64, UnknownCost> {
        let model = body["model"].as_str().unwrap_or_default();
        bound_of(
            upstream,
            endpoint,
            model,
            body,
            body.to_string().len(),
            false,
        )
    }

    #[test]
    fn what_a_request_leaves_to_the_account_counts_as_the_dearest() {
        let with = |account: AccountDefaults, endpoint, body: &Value| {
            let mut upstream = upstream("openai", "api.openai.com");
            upstream.account = account;
            bound_at(&upstream, endpoint, body).unwrap()
        };
        let unknown = AccountDefaults::default();
        let tier = |tier| AccountDefaults {
            service_tier: Some(tier),
            ..unknown
        };
        let geography = |geography| AccountDefaults {
            inference_geo: Some(geography),
            ..unknown
        };
        let chat = |tier: Value| json!({"model": "gpt-5.5", "max_tokens": 100, "service_tier": tier, "messages": []});
        let auto = chat(json!("auto"));
        let standard = with(tier("default"), Endpoint::chat(), &auto);
        assert_eq!(with(tier("flex"), Endpoint::chat(), &auto), standard);
        assert_eq!(
            with(tier("priority"), Endpoint::chat(), &auto),
            standard * 5 / 2
        );
        assert_eq!(with(unknown, Endpoint::chat(), &auto), standard * 5 / 2);
        let named = with(unknown, Endpoint::chat(), &chat(json!("default")));
        assert!(named < standard * 11 / 10, "{named} {standard}");
        let left_out = json!({"model": "gpt-5.5", "max_tokens": 100, "messages": []});
        assert!(with(unknown, Endpoint::chat(), &left_out) > named * 2);
        let claude = |geo: Value| json!({"model": "claude-opus-5-5", "max_tokens": 100, "inference_geo": geo, "messages": []});
        let global = with(
            geography("global"),
            Endpoint::messages(),
            &claude(json!(null)),
        );
        let us = (global * 11).div_ceil(10);
        assert_eq!(
            with(geography("us"), Endpoint::messages(), &claude(json!(null))),
            us
        );
        assert_eq!(
            with(unknown, Endpoint::messages(), &claude(json!(null))),
            us
        );
        assert!(with(unknown, Endpoint::messages(), &claude(json!("global"))) < us);
        let old = json!({"model": "claude-haiku-4-5", "max_tokens": 100, "messages": []});
        assert_eq!(
            with(unknown, Endpoint::messages(), &old),
            with(geography("us"), Endpoint::messages(), &old)
        );
        let body = json!({"model": "gpt-5.4", "max_tokens": 100, "service_tier": "default", "messages": []});
        let global = bound_at(
            &upstream("openai", "api.openai.com"),
            Endpoint::chat(),
            &body,
        );
        let regional = bound_at(
            &upstream("openai", "eu.api.openai.com"),
            Endpoint::chat(),
            &body,
        );
        assert_eq!(regional.unwrap(), (global.unwrap() * 11).div_ceil(10));
    }

    #[test]
    fn tier_of_gemini_has_the_spelling_of_its_api() {
        let gemini = upstream("gemini", "generativelanguage.googleapis.com");
        let bound = |tier: Value| {
            let mut body = json!({"contents": [], "generationConfig": {"maxOutputTokens": 100}});
            body.as_object_mut()
                .unwrap()
                .extend(tier.as_object().unwrap().clone());
            bound_of(
                &gemini,
                Endpoint::gemini(),
                "gemini-2.5-flash",
                &body,
                100,
                false,
            )
            .unwrap()
        };
        let standard = bound(json!({"serviceTier": "standard"}));
        assert_eq!(bound(json!({"service_tier": "standard"})), standard);
        let unspecified = json!({"serviceTier": "unspecified"});
        assert_eq!(bound(unspecified), bound(json!({})));
        // The dearest tier costs 1.8 times as much.
        assert_eq!(bound(json!({})), (standard * 9).div_ceil(5));
    }

    #[test]
    fn limit_above_that_of_the_catalog_is_the_bound() {
        let at = upstream("openai", "api.openai.com");
        let bound = |limit: Value| {
            let body =
                json!({"service_tier": "default", "messages": [], "max_completion_tokens": limit});
            bound_of(&at, Endpoint::chat(), "gpt-4o-mini", &body, 1_000, false).unwrap()
        };
        // 1,000 bytes and what providers add, at 150,000 picodollars, and the output at 600,000 picodollars.
        let with = |output: u64| 9_192 * 150_000 + output * 600_000;
        assert_eq!(bound(json!(10)), with(10));
        // The maximum of the model in the catalog.
        assert_eq!(bound(json!(null)), with(16_384));
        assert_eq!(bound(json!("10")), with(16_384));
        assert_eq!(bound(json!(16_385)), with(16_385));
        assert_eq!(bound(json!(1_000_000)), with(1_000_000));
    }

    #[test]
    fn writes_for_twelve_hours_have_their_price() {
        let at = upstream("openai", "api.openai.com");
        let written = |model: &str, ttl: Value| {
            let part = json!({"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit", "ttl": ttl}});
            let body = json!({"model": model, "service_tier": "default", "store": false, "max_output_tokens": 1,
                "input": [{"role": "user", "content": [part]}]});
            bound_at(&at, Endpoint::responses(), &body)
        };
        let short = written("gpt-6-sol", json!("30m")).unwrap();
        let long = written("gpt-6-sol", json!("12h")).unwrap();
        // 2.5 times the price of input, where the catalog has 1.25 times, with one token of output.
        assert!(long > short * 199 / 100, "{short} {long}");
        for (model, ttl) in [
            ("gpt-5.5", json!("12h")),
            ("gpt-6-sol", json!("24h")),
            ("gpt-6-sol", json!(43_200)),
        ] {
            let error = written(model, ttl).unwrap_err();
            assert!(error.0.contains("cache write"), "{error}");
        }
        // Data of the client.
        let body = json!({"model": "gpt-5.5", "messages": [], "max_tokens": 1, "metadata": {"ttl": "24h"}});
        assert!(bound_at(&at, Endpoint::chat(), &body).is_ok());
    }

    #[test]
    fn embeddings_are_bounded_by_their_text() {
        let at = upstream("openai", "api.openai.com");
        let embed = |model: &str, input: Value| {
            bound_at(
                &at,
                Endpoint::embeddings(),
                &json!({"model": model, "input": input}),
            )
        };
        let short = embed("text-embedding-3-small", json!("x")).unwrap();
        // 20,000 picodollars for each token.
        assert!((8_192 * 20_000..9_000 * 20_000).contains(&short), "{short}");
        let long = vec!["word ".repeat(1_000); 40];
        let long = embed("text-embedding-3-small", json!(long)).unwrap();
        assert!(
            long > 200_000 * 20_000,
            "each text has the context for itself: {long}"
        );
        assert!(embed("text-embedding-3-large", json!("x")).unwrap() > short);
        assert!(embed("text-embedding-unknown", json!("x")).is_err());
        let image =
            json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]);
        assert!(embed("text-embedding-3-small", image).is_err());
    }

    proptest! {
        /// No answer to an admitted request costs more than the bound of the request.
        #[test]
        fn no_answer_costs_more_than_the_bound(
            model in prop::sample::select(vec!["gpt-4o-mini", "gpt-5.5", "gpt-6-sol", "gpt-6.1-sol", "claude-opus-5-5", "claude-haiku-4-5", "claude-sonnet-4"]),
            (is_auto, is_regional, is_long) in any::<(bool, bool, bool)>(),
            tier in prop::sample::select(vec!["default", "priority"]),
            geography in prop::sample::select(vec!["global", "us"]),
            split in prop::array::uniform5(0_u64..1_000),
            bytes in 0_usize..2_000_000,
            output in 0_u64..100,
        ) {
            let host = if is_regional { "us.api.openai.com" } else { "api.openai.com" };
            let is_claude = model.starts_with("claude");
            let (endpoint, name) = if is_claude {
                (Endpoint::messages(), "anthropic")
            } else {
                (Endpoint::chat(), "openai")
            };
            let at = upstream(name, host);
            let mut body = json!({"model": model, "max_tokens": 100, "messages": []});
            if !is_auto && !is_claude {
                body["service_tier"] = json!("default");
            }
            if is_long {
                body["messages"] = json!([{"role": "user", "content": [
                    {"type": "text", "text": "x", "prompt_cache_breakpoint": {"ttl": "12h"}}]}]);
            }
            let catalog = Catalog::built_in();
            let bound = bound_of(&at, endpoint, model, &body, bytes, false);
            let Ok(bound) = bound else {
                prop_assert!(is_long, "{bound:?}");
                return Ok(());
            };
            let all: u64 = split.iter().sum::<u64>().max(1);
            let tokens = bytes as u64 + ADDED_TOKENS;
            let entry = catalog.find_by_name(model).unwrap();
            let tokens = tokens.min(entry.limits.context.unwrap_or(u64::MAX));
            let [uncached_input, cache_read, cache_write_5m, cache_write_1h, written] =
                split.map(|part| tokens * part / all);
            let (cache_write_12h, cache_write_other) = if is_long { (written, 0) } else { (0, written) };
            let usage = Usage {
                uncached_input, cache_read, cache_write_5m, cache_write_1h, cache_write_12h, cache_write_other, output,
                ..Usage::default()
            };
            let terms = if is_claude {
                Terms {
                    geography: Some(geography.to_owned()),
                    ..Terms::default()
                }
            } else {
                Terms {
                    tier: Some(if is_auto { tier } else { "default" }.to_owned()),
                    host: Some(host.to_owned()),
                    ..Terms::default()
                }
            };
            let Ok(cost) = price(&usage, model, entry.price.as_ref(), 0, &terms) else {
                // Older models have no geographies.
                prop_assert!(is_claude && geography == "us", "{terms:?}");
                return Ok(());
            };
            let cost = cost.picodollars;
            // Each factor rounds up by itself, for each kind of tokens.
            prop_assert!(cost <= bound + 16, "{cost} > {bound}");
        }
    }

    #[test]
    fn bounds_are_above_the_cost_and_unknown_prices_are_named() {
        let catalog = Catalog::built_in();
        let openai = upstream("openai", "api.openai.com");
        let gemini_api = upstream("gemini", "generativelanguage.googleapis.com");
        let anthropic = upstream("anthropic", "api.anthropic.com");
        let bound = |body: &Value| bound_at(&openai, Endpoint::chat(), body);
        let short = json!({"model": "gpt-4o-mini", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]});
        let minimum = bound(&short).unwrap();
        let entry = catalog.find("openai", "gpt-4o-mini").unwrap();
        let usage = Usage::from_counts(short.to_string().len() as u64, 10);
        let cost = price(
            &usage,
            "gpt-4o-mini",
            entry.price.as_ref(),
            0,
            &Terms::default(),
        );
        assert!(minimum >= cost.unwrap().picodollars);
        let with = |member: &str, value: Value| {
            let mut body = short.clone();
            body[member] = value;
            bound(&body)
        };
        assert!(with("n", json!(3)).unwrap() > minimum);
        assert!(with("max_tokens", json!(100)).unwrap() > minimum);
        let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]);
        assert!(with("messages", image).unwrap() > minimum);
        for (member, value) in [
            ("model", json!("unknown-model")),
            ("web_search_options", json!({})),
            ("service_tier", json!("priority")),
            ("plugins", json!([])),
            ("tools", json!([{"type": "web_search"}])),
            ("n", json!(10_u64.pow(18))),
            ("n", json!("8")),
            ("n", json!(8.0)),
            ("modalities", json!(["text", "audio"])),
            ("prediction", json!({"type": "content", "content": "x"})),
            (
                "messages",
                json!([{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA=="}}]}]),
            ),
        ] {
            assert!(with(member, value).is_err(), "{member}");
        }
        // The larger of two limits counts, and one in an unusual form as none.
        let two = with("max_completion_tokens", json!(5)).unwrap();
        assert!(two >= minimum);
        let mut unusual = short.clone();
        unusual["max_tokens"] = json!("10");
        unusual["max_completion_tokens"] = json!(5);
        assert!(bound(&unusual).unwrap() > with("max_tokens", json!(1_000)).unwrap());
        let gemini = |count: Value| {
            let body = json!({"contents": [], "generationConfig": {"maxOutputTokens": 1_000, "candidateCount": count}});
            bound_of(
                &gemini_api,
                Endpoint::gemini(),
                "gemini-2.5-flash",
                &body,
                100,
                false,
            )
        };
        assert!(gemini(json!(8)).unwrap() > 2 * gemini(json!(1)).unwrap());
        assert!(gemini(json!("8")).is_err());
        let with_image = json!({"max_tokens": 10, "messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]}]});
        let text = json!({"max_tokens": 10});
        let claude = |model, longer_context, body: &Value| {
            bound_of(
                &anthropic,
                Endpoint::messages(),
                model,
                body,
                500_000,
                longer_context,
            )
        };
        for body in [&text, &with_image] {
            let usual = claude("claude-sonnet-4", false, body).unwrap();
            assert!(claude("claude-sonnet-4", true, body).unwrap() > 2 * usual);
            assert!(claude("claude-sonnet-4-5", true, body).is_err());
            assert!(claude("claude-sonnet-4-6", true, body).is_ok());
        }
        assert_eq!(bound_at(&openai, Endpoint::Models, &Value::Null), Ok(0));
        assert!(bound_at(&openai, Endpoint::Other, &Value::Null).is_err());
    }
}
