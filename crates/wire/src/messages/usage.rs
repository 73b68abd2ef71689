//! Parses the usage of answers, and what else changes their price.

use serde_json::{Map, Value};

use crate::terms::{has_count, text};
use crate::{Extra, ModelUsage, Reply, Terms, Usage};

type Fields = Map<String, Value>;

/// Kinds of rows of `iterations` whose tokens [`further_usages`] counts, or which are counted in the answer.
const KNOWN_ITERATIONS: [&str; 4] = [
    "message",
    "fallback_message",
    "compaction",
    "advisor_message",
];

/// Calls of tools that the provider ran whose price is known.
const PRICED_TOOLS: [&str; 2] = ["web_search_requests", "web_fetch_requests"];

/// Parses the usage; also returns the unknown fields. `None` if there are no token counts. `input_tokens`
/// is the input after the last breakpoint, without the input that the provider's cache read or wrote.
pub(super) fn usage(value: Value) -> Option<(Usage, Extra)> {
    let Value::Object(mut rest) = value else {
        return None;
    };
    let mut written_by_time = take_object(&mut rest, "cache_creation");
    let mut output_details = take_object(&mut rest, "output_tokens_details");
    let input = take_count(&mut rest, "input_tokens");
    let output = take_count(&mut rest, "output_tokens");
    input.or(output)?;
    let for_5m = take_count(&mut written_by_time, "ephemeral_5m_input_tokens").unwrap_or(0);
    let for_1h = take_count(&mut written_by_time, "ephemeral_1h_input_tokens").unwrap_or(0);
    let written = take_count(&mut rest, "cache_creation_input_tokens").unwrap_or(0);
    let searches = rest.get("server_tool_use");
    let searches = searches.and_then(|counts| counts.get("web_search_requests")?.as_u64());
    let usage = Usage {
        uncached_input: input.unwrap_or(0),
        cache_read: take_count(&mut rest, "cache_read_input_tokens").unwrap_or(0),
        cache_write_5m: for_5m,
        cache_write_1h: for_1h,
        cache_write_other: written.saturating_sub(for_5m.saturating_add(for_1h)),
        output: output.unwrap_or(0),
        reasoning: take_count(&mut output_details, "thinking_tokens").unwrap_or(0),
        web_searches: searches.unwrap_or(0),
        ..Usage::default()
    };
    for (name, fields) in [
        ("cache_creation", written_by_time),
        ("output_tokens_details", output_details),
    ] {
        if !fields.is_empty() {
            rest.insert(name.into(), Value::Object(fields));
        }
    }
    Some((usage, rest))
}

/// Returns the usage in an answer's `usage`.
pub(crate) fn reported(value: &Value) -> Option<Usage> {
    usage(value.clone()).map(|(usage, _)| usage)
}

/// Returns the terms of an answer, whose members are given: tier, geography and speed are in its `usage`.
#[must_use]
pub fn terms(answer: &Map<String, Value>) -> Terms {
    let usage = answer.get("usage");
    let member = |name: &str| usage.and_then(|usage| usage.get(name));
    let tools = member("server_tool_use").and_then(Value::as_object);
    let mut tools = tools.into_iter().flatten();
    let other =
        tools.find(|(name, calls)| !PRICED_TOOLS.contains(&name.as_str()) && has_count(calls));
    // The bill of an answer that redeemed a credit is not that of its tokens.
    let credit = usage.and_then(|usage| usage.pointer("/fallback_credit/status/type"));
    let credit = credit.filter(|status| *status == "redeemed");
    let credit = credit.map(|_| "fallback_credit".to_owned());
    let iteration = iterations(answer).map(kind);
    let mut iteration = iteration.filter(|kind| !KNOWN_ITERATIONS.contains(kind));
    Terms {
        tier: text(member("service_tier")).or_else(|| text(answer.get("service_tier"))),
        geography: text(member("inference_geo")),
        speed: text(member("speed")),
        unknown: other
            .map(|(name, _)| name.clone())
            .or(credit)
            .or_else(|| Some(format!("iteration {:.60}", iteration.next()?))),
        ..Terms::default()
    }
}

/// Returns the tokens by model. After a refusal, another model than the one that was asked may have answered.
pub(super) fn by_model(reply: &Reply) -> Vec<ModelUsage> {
    let Some(usage) = reply.usage else {
        return Vec::new();
    };
    let is_fallback = iterations(&reply.extra)
        .any(|row| kind(row) == "fallback_message" && is_of(row, &reply.model) == Some(true));
    let own = ModelUsage {
        model: is_fallback.then(|| reply.model.clone()),
        usage,
    };
    let further = further_usages(&reply.extra, &reply.model);
    std::iter::once(own).chain(further).collect()
}

/// Returns the tokens of an answer of `model` that its counters do not include, from the `iterations` of its `usage`:
///
/// - `compaction`: a summary that the provider made,
/// - `advisor_message`: another model that was asked for advice,
/// - `message` and `fallback_message` of another model than the one that answered: attempts before it.
///
/// The counters of the answer are the sum of the other `message` rows. Calls of tools are counted in the answer.
#[must_use]
pub fn further_usages(answer: &Map<String, Value>, model: &str) -> Vec<ModelUsage> {
    let further = iterations(answer).filter_map(|row| {
        let is_own = is_of(row, model);
        let counts = match kind(row) {
            "compaction" | "advisor_message" => true,
            "message" | "fallback_message" => is_own == Some(false),
            _ => false,
        };
        let usage = reported(row).filter(|_| counts)?;
        let other = text(row.get("model")).filter(|_| is_own == Some(false));
        Some(ModelUsage {
            model: other,
            usage: Usage {
                web_searches: 0,
                ..usage
            },
        })
    });
    further.collect()
}

fn iterations(answer: &Fields) -> impl Iterator<Item = &Value> {
    let rows = answer
        .get("usage")
        .and_then(|usage| usage.get("iterations")?.as_array());
    rows.into_iter().flatten()
}

fn kind(row: &Value) -> &str {
    row.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a row is of a model; `None` if it names none. One of the names may be that of a snapshot.
fn is_of(row: &Value, model: &str) -> Option<bool> {
    fn family(name: &str) -> &str {
        let is_date = |end: &str| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_digit());
        match name.rsplit_once(['-', '@']) {
            Some((before, end)) if is_date(end) => before,
            _ => name,
        }
    }
    let named = row.get("model")?.as_str()?;
    Some(family(named) == family(model))
}

fn take_object(fields: &mut Fields, name: &str) -> Fields {
    match fields.shift_remove(name) {
        Some(Value::Object(object)) => object,
        _ => Fields::new(),
    }
}

fn take_count(fields: &mut Fields, name: &str) -> Option<u64> {
    fields.shift_remove(name).as_ref().and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn further(model: &str, iterations: Value) -> Vec<(Option<String>, u64)> {
        let answer = json!({"usage": {"iterations": iterations}});
        let rows = further_usages(answer.as_object().unwrap_or(&Map::new()), model);
        let rows = rows.into_iter();
        rows.map(|row| (row.model, row.usage.uncached_input))
            .collect()
    }

    #[test]
    fn rows_that_the_counters_lack_are_counted_once() {
        let row = |kind: &str, input: u64| json!({"type": kind, "input_tokens": input, "output_tokens": 1});
        let of = |kind: &str, model: &str, input: u64| {
            let mut row = row(kind, input);
            row["model"] = model.into();
            row
        };
        let opus = |input| (Some("claude-opus-4-8".to_owned()), input);
        // The rows of the answer's own model are its counters.
        let own = json!([row("message", 5), row("message", 6)]);
        assert!(further("claude-sonnet-4-5", own).is_empty());
        assert_eq!(
            further(
                "claude-sonnet-4-5-20250929",
                json!([
                    of("message", "claude-sonnet-4-5", 5),
                    row("compaction", 150_000),
                    of("advisor_message", "claude-opus-4-8", 100_000),
                    row("unknown", 7),
                ])
            ),
            [(None, 150_000), opus(100_000)]
        );
        // A refused attempt is paid, too; the model that answered has the counters.
        let rows = json!([
            of("message", "claude-opus-4-8", 2),
            of("fallback_message", "claude-opus-5", 3),
        ]);
        assert_eq!(further("claude-opus-5", rows), [opus(2)]);
        for malformed in [
            json!(null),
            json!({}),
            json!([1, "x", {"type": "compaction"}]),
        ] {
            assert!(further("claude-opus-5", malformed).is_empty());
        }
    }

    #[test]
    fn terms_are_in_the_usage_and_unknown_tools_are_named() {
        let read = |answer: Value| terms(answer.as_object().unwrap_or(&Map::new()));
        let usage = json!({"service_tier": "batch", "inference_geo": "us", "speed": "fast",
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1}});
        let expected = Terms {
            tier: Some("batch".to_owned()),
            geography: Some("us".to_owned()),
            speed: Some("fast".to_owned()),
            ..Terms::default()
        };
        assert_eq!(read(json!({"usage": usage})), expected);
        assert_eq!(read(json!({})), Terms::default());
        let usage =
            json!({"server_tool_use": {"code_execution_requests": 1, "tool_search_requests": 0}});
        let unknown = read(json!({"usage": usage})).unknown;
        assert_eq!(unknown.as_deref(), Some("code_execution_requests"));
    }
}
