//! The maximum cost of a request, before it is sent.

use cachalot_core::Cost;
use cachalot_model::Catalog;
use serde_json::Value;

use crate::endpoint::Endpoint;

/// Tokens that providers add to a request: templates of messages, instructions for tools.
const ADDED_TOKENS: u64 = 8_192;

/// The longer context that clients can ask for, in tokens.
const LONG_CONTEXT: u64 = 1_000_000;

/// Returns the maximum cost of a request, in picodollars.
///
/// A token has at least one byte, so a text has at most as many tokens as bytes; with an image or a document, the
/// input is bounded by the context of the model only. `longer_context` is set if the request asks for a longer one than
/// usual.
///
/// # Errors
/// The reason why it is not known.
pub(crate) fn of_request(
    catalog: &Catalog,
    endpoint: Endpoint,
    upstream: &str,
    model: &str,
    body: &Value,
    body_bytes: usize,
    longer_context: bool,
) -> Result<u64, String> {
    if matches!(endpoint, Endpoint::CountTokens | Endpoint::Models) {
        return Ok(0);
    }
    if let Some(reason) = endpoint.extra_charge(body) {
        return Err(reason);
    }
    let entry = catalog
        .find(upstream, model)
        .or_else(|| catalog.find_by_name(model));
    let price = entry.and_then(|entry| Some((entry, entry.price.as_ref()?)));
    let (entry, price) = price.ok_or_else(|| format!("the price of `{model}` is not known"))?;
    let mut context = entry.limits.context;
    if longer_context && context.is_none_or(|usual| usual < LONG_CONTEXT) {
        if price.above.is_none() {
            return Err(format!(
                "the price of a longer context of `{model}` is not known"
            ));
        }
        context = Some(LONG_CONTEXT);
    }
    let text = body_bytes as u64 + ADDED_TOKENS;
    let input = match (endpoint.has_media(body), context) {
        (false, context) => text.min(context.unwrap_or(u64::MAX)),
        (true, Some(context)) => context,
        (true, None) => {
            return Err(format!(
                "an image or a document is in the request, and the context of `{model}` is not known"
            ));
        }
    };
    let output = match endpoint {
        Endpoint::Embeddings => 0,
        _ => {
            let asked = endpoint.max_output(body);
            let limit = entry.limits.max_output.or(context);
            let limit = match (asked, limit) {
                (Some(asked), Some(limit)) => asked.min(limit),
                (asked, limit) => asked.or(limit).ok_or_else(|| {
                    format!("neither the request nor the catalog limits the output of `{model}`")
                })?,
            };
            limit.saturating_mul(endpoint.answers(body)?)
        }
    };
    let rates = [Some(price.rates), price.above.map(|(_, rates)| rates)];
    let costs = rates.into_iter().flatten().map(|rates| {
        let inputs = [rates.input, rates.cache_write_5m, rates.cache_write_1h];
        let input_rate = inputs.into_iter().max().unwrap_or_default();
        let sum = u128::from(input) * u128::from(input_rate)
            + u128::from(output) * u128::from(rates.output);
        u64::try_from(sum).unwrap_or(u64::MAX)
    });
    Ok(costs.max().unwrap_or(u64::MAX))
}

/// Returns the cost of an answer in picodollars; `None` if it is not known.
pub(crate) fn picodollars(cost: Cost) -> Option<u64> {
    (cost.unpriced == 0).then_some(cost.picodollars)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_model::Usage;
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_are_above_the_cost_and_unknown_prices_are_named() {
        let catalog = Catalog::built_in();
        let bound = |body: &Value| {
            let model = body["model"].as_str().unwrap_or_default();
            let bytes = body.to_string().len();
            of_request(
                &catalog,
                Endpoint::Chat,
                "openai",
                model,
                body,
                bytes,
                false,
            )
        };
        let short = json!({"model": "gpt-4o-mini", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]});
        let least = bound(&short).unwrap();
        let entry = catalog.find("openai", "gpt-4o-mini").unwrap();
        let usage = Usage::from_counts(short.to_string().len() as u64, 10);
        assert!(least >= entry.price.as_ref().unwrap().cost(&usage).picodollars);
        let with = |member: &str, value: Value| {
            let mut body = short.clone();
            body[member] = value;
            bound(&body)
        };
        assert!(with("n", json!(3)).unwrap() > least);
        assert!(with("max_tokens", json!(100)).unwrap() > least);
        let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]);
        assert!(with("messages", image).unwrap() > least);
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
        assert!(two >= least);
        let mut unusual = short.clone();
        unusual["max_tokens"] = json!("10");
        unusual["max_completion_tokens"] = json!(5);
        assert!(bound(&unusual).unwrap() > with("max_tokens", json!(1_000)).unwrap());
        let gemini = |count: Value| {
            let body = json!({"contents": [], "generationConfig": {"maxOutputTokens": 1_000, "candidateCount": count}});
            of_request(
                &catalog,
                Endpoint::Gemini,
                "gemini",
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
            of_request(
                &catalog,
                Endpoint::Messages,
                "anthropic",
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
        let models = of_request(
            &catalog,
            Endpoint::Models,
            "openai",
            "",
            &Value::Null,
            0,
            false,
        );
        assert_eq!(models, Ok(0));
    }
}
