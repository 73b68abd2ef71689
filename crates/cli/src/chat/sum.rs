//! Usage and savings of a turn or a whole chat, as one line or as JSON.

use cachalot_agent::UsageTotals;
use cachalot_core::Cost;
use serde_json::{Value, json};

use crate::render::{self, grouped};

/// `1,204 tokens in (1,024 of them cached by the provider), 88 out · $0.03 · saved 2 tool calls, 12 ms`.
///
/// `cut_off` is the number of incomplete answers, whose usage is unknown.
pub(crate) fn line(sum: &UsageTotals, cut_off: u32) -> String {
    let mut line = format!("{} tokens in", grouped(sum.usage.total_input()));
    if sum.usage.cache_read > 0 {
        let cached = grouped(sum.usage.cache_read);
        line += &format!(" ({cached} of them cached by the provider)");
    }
    line += &format!(", {} out · {}", grouped(sum.usage.output), sum.paid.cost);
    if sum.saved.calls > 0 {
        line += &format!(" · saved {}, {}", saved(sum), render::spend(&sum.saved));
    }
    if cut_off > 0 {
        let answers = render::count(u64::from(cut_off), "answer that was", "answers that were");
        line += &format!(" · without {answers} cut off, which the provider may charge for");
    }
    line
}

/// Formats the number of saved calls: `1 answer, 2 tool calls`.
fn saved(sum: &UsageTotals) -> String {
    let answers = u64::from(sum.saved_answers);
    let tool_calls = sum.saved.calls.saturating_sub(answers);
    let answers = (answers > 0).then(|| render::count(answers, "answer", "answers"));
    let tools = (tool_calls > 0).then(|| render::count(tool_calls, "tool call", "tool calls"));
    let saved: Vec<String> = answers.into_iter().chain(tools).collect();
    saved.join(", ")
}

/// Returns the same as JSON.
pub(crate) fn json(sum: &UsageTotals, cut_off: u32) -> Value {
    json!({
        "model_calls": sum.model_calls,
        "tool_calls": sum.tool_calls,
        "saved_answers": sum.saved_answers,
        "input_tokens": sum.usage.total_input(),
        "cached_input_tokens": sum.usage.cache_read,
        "output_tokens": sum.usage.output,
        "dollars": dollars(sum.paid.cost),
        "unpriced_calls": sum.paid.cost.unpriced,
        "cut_off_answers": cut_off,
        "saved": render::spend_json(&sum.saved),
    })
}

/// Returns the known part of a cost; `None` (null in JSON) if no part is known.
pub(crate) fn dollars(cost: Cost) -> Option<f64> {
    (cost.picodollars > 0 || cost.unpriced == 0).then(|| cost.dollars())
}
