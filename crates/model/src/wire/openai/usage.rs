//! Parses the usage that servers with OpenAI's formats report.

use serde_json::Value;

use super::Object;
use crate::Usage;

/// Parses the usage; `None` if none was reported. `input` and `output` are the names of its counters, whose
/// parts are in members with the suffix `_details`.
///
/// The input that these servers report includes the cached input. The input that was read from a cache is
/// in the details (OpenAI and most), next to the input (`cached_tokens`: Moonshot, StepFun) or in
/// `prompt_cache_hit_tokens` (DeepSeek, SiliconFlow); the first value that is not zero wins. Contradictory
/// values are reduced so that the total input is the reported one. If the total shows that the output was
/// counted without its reasoning (xAI), the reasoning is added.
pub(crate) fn usage(reported: &Value, input: &str, output: &str) -> Option<Usage> {
    let reported = reported.as_object()?;
    let details = |name: &str| reported.get(&format!("{name}_details"))?.as_object();
    let (of_input, of_output) = (details(input), details(output));
    let input = count(reported, input);
    let output = count(reported, output);
    input.or(output)?;
    let input = input.unwrap_or(0);
    let of_input = |name: &str| count(of_input?, name);

    let read = [
        of_input("cached_tokens"),
        count(reported, "cached_tokens"),
        count(reported, "prompt_cache_hit_tokens"),
    ];
    let cache_read = first_positive(&read).min(input);
    let written = [
        of_input("cache_write_tokens"),
        of_input("cache_creation_tokens"),
    ];
    let cache_write_other = first_positive(&written).min(input - cache_read);

    let thought = of_output.and_then(|details| count(details, "reasoning_tokens"));
    let thought = thought.unwrap_or(0);
    let total = count(reported, "total_tokens");
    let output = with_reasoning(input, output.unwrap_or(0), thought, total);
    Some(Usage {
        uncached_input: input - cache_read - cache_write_other,
        cache_read,
        cache_write_other,
        output,
        reasoning: thought.min(output),
        ..Usage::default()
    })
}

fn with_reasoning(input: u64, output: u64, reasoning: u64, total: Option<u64>) -> u64 {
    let all = output.saturating_add(reasoning);
    if total == Some(input.saturating_add(all)) {
        all
    } else {
        output
    }
}

fn first_positive(counts: &[Option<u64>]) -> u64 {
    let mut counts = counts.iter().flatten().copied();
    counts.find(|count| *count > 0).unwrap_or(0)
}

/// Returns a count; servers in dynamic languages also send `12.0`. Negative counts become 0.
fn count(object: &Object, name: &str) -> Option<u64> {
    let value = object.get(name)?;
    value
        .as_u64()
        .or_else(|| value.as_f64().map(|count| count.max(0.0) as u64))
}
