//! What a turn, or a whole chat, used and saved, as one line.

use cachalot_agent::Sum;

use crate::render;

/// `1204 tokens in (1024 of them cached by the provider), 88 out · $0.0031 · saved 2 tool calls, 12 ms`.
pub(crate) fn line(sum: &Sum) -> String {
    let input = sum.usage.total_input();
    let mut line = format!("{input} tokens in");
    if sum.usage.cache_read > 0 {
        line += &format!(" ({} of them cached by the provider)", sum.usage.cache_read);
    }
    line += &format!(", {} out · {}", sum.usage.output, sum.paid.cost);
    if sum.saved.calls > 0 {
        line += &format!(
            " · saved {}, {}",
            render::count(sum.saved.calls, "tool call", "tool calls"),
            render::spend(&sum.saved)
        );
    }
    line
}
