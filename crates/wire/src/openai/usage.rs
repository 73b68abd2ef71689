//! Parses the usage that servers with OpenAI's formats report.

use serde_json::Value;

use super::Object;
use crate::terms::{has_count, text};
use crate::{Extra, Terms, Usage};

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
    let of_details = |name: &str| count(of_input?, name);

    let read = [
        of_details("cached_tokens"),
        count(reported, "cached_tokens"),
        count(reported, "prompt_cache_hit_tokens"),
    ];
    let cache_read = first_positive(&read).min(input);
    let written = [
        of_details("cache_write_tokens"),
        of_details("cache_creation_tokens"),
    ];
    let written = first_positive(&written).min(input - cache_read);
    let of_12h = of_input.and_then(|details| {
        let times = details.get("cache_write_tokens_details")?.as_object()?;
        count(times, "ttl_12h_tokens")
    });
    let cache_write_12h = of_12h.unwrap_or(0).min(written);

    let thought = of_output.and_then(|details| count(details, "reasoning_tokens"));
    let thought = thought.unwrap_or(0);
    let total = count(reported, "total_tokens");
    let output = with_reasoning(input, output.unwrap_or(0), thought, total);
    Some(Usage {
        uncached_input: input - cache_read - written,
        cache_read,
        cache_write_12h,
        cache_write_other: written - cache_write_12h,
        output,
        reasoning: thought.min(output),
        ..Usage::default()
    })
}

/// Returns the terms of an answer: its tier of service, and counters whose price is another one. Audio has a price of
/// its own.
pub(crate) fn terms(answer: &Extra) -> Terms {
    let usage = answer.get("usage");
    let mut details = ["input", "prompt", "output", "completion"].iter();
    let has_audio = details.any(|of| {
        let details = usage.and_then(|usage| usage.get(format!("{of}_tokens_details")));
        let audio = details.and_then(|details| details.get("audio_tokens"));
        audio.is_some_and(has_count)
    });
    Terms {
        tier: text(answer.get("service_tier")),
        unknown: has_audio.then(|| "audio tokens".to_owned()),
        ..Terms::default()
    }
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
