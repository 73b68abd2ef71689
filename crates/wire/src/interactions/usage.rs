//! Parses the usage of an answer, and what changes its price beside the tokens.

use serde_json::Value;

use crate::gemini::{paid_searches, tier, usage_of};
use crate::openai::Object;
use crate::terms::{has_count, text};
use crate::{Extra, Terms, Usage};

/// Grounding by searches of the web. Other tools of grounding have prices of their own.
const SEARCHES: &str = "google_search";

/// Members of the usage with the tokens of each modality, and the modality that has a price of its own there. All but
/// text have one in the output: <https://ai.google.dev/gemini-api/docs/pricing>, 2026-11-28.
const MODALITIES: [(&str, Option<&str>); 4] = [
    ("input_tokens_by_modality", Some("audio")),
    ("cached_tokens_by_modality", Some("audio")),
    ("tool_use_tokens_by_modality", Some("audio")),
    ("output_tokens_by_modality", None),
];

/// Parses a usage; `None` if it has no token counts. The input includes the cached input. Thoughts, and what the
/// provider's tools gave the model to read, are counted apart.
pub(super) fn usage(reported: &Value) -> Option<Usage> {
    let count = |name: &str| reported.get(name).and_then(Value::as_u64);
    let prompt = count("total_input_tokens");
    let said = count("total_output_tokens");
    prompt.or(said)?;
    let read_of_tools = count("total_tool_use_tokens").unwrap_or(0);
    let input = prompt.unwrap_or(0).saturating_add(read_of_tools);
    let cached = count("total_cached_tokens");
    Some(usage_of(input, cached, said, count("total_thought_tokens")))
}

/// Returns the number of paid searches of the web: as reported, or that of the queries in the calls of `steps`.
pub(super) fn web_searches<'a>(
    interaction: &Object,
    steps: impl Iterator<Item = &'a Object>,
    model: &str,
) -> u64 {
    let reported = interaction
        .get("usage")
        .and_then(|usage| usage.get("grounding_tool_count"));
    let counted = match reported {
        Some(Value::Array(tools)) => {
            let searches = tools.iter().filter(|tool| kind(tool) == Some(SEARCHES));
            searches
                .filter_map(|tool| tool.get("count")?.as_u64())
                .fold(0, u64::saturating_add)
        }
        _ => {
            let calls = steps.filter(|step| {
                let kind = step.get("type").and_then(Value::as_str);
                kind == Some("google_search_call")
            });
            let queries = calls.filter_map(|step| step.get("arguments")?.get("queries"));
            let queries = queries.filter_map(Value::as_array).map(Vec::len);
            queries.fold(0_u64, |sum, count| sum.saturating_add(count as u64))
        }
    };
    paid_searches(counted, model)
}

/// Returns the terms of an answer: its tier of service, and tools and media with a price of their own.
pub(super) fn terms(answer: &Extra) -> Terms {
    let usage = answer.get("usage");
    let tools = usage.and_then(|usage| usage.get("grounding_tool_count")?.as_array());
    let mut tools = tools.into_iter().flatten();
    let tool = tools.find_map(|tool| {
        let is_used = tool.get("count").is_some_and(has_count);
        let name = kind(tool).unwrap_or("a tool of grounding");
        (is_used && name != SEARCHES).then(|| name.replace('_', " "))
    });
    Terms {
        tier: text(answer.get("service_tier")).as_deref().and_then(tier),
        unknown: tool.or_else(|| usage.and_then(medium)),
        ..Terms::default()
    }
}

/// Returns the medium of tokens whose price is not that of text.
fn medium(usage: &Value) -> Option<String> {
    MODALITIES.iter().find_map(|(name, priced)| {
        let rows = usage.get(name)?.as_array()?;
        let mut rows = rows
            .iter()
            .filter(|row| row.get("tokens").is_some_and(has_count));
        rows.find_map(|row| {
            let modality = row.get("modality")?.as_str()?.to_lowercase();
            let is_priced = match priced {
                Some(priced) => modality == *priced,
                None => modality != "text",
            };
            is_priced.then(|| format!("{modality} tokens"))
        })
    })
}

fn kind(tool: &Value) -> Option<&str> {
    tool.get("type")?.as_str()
}
