//! Status of a chat in one line: agent, model, context, cost and prompt cache.

use cachalot_core::Cost;
use cachalot_model::Usage;

use crate::render::grouped;
use crate::render::visible::on_one_line;

/// Status of a chat.
#[derive(Debug, Default)]
pub(super) struct ChatStatus {
    pub(super) agent: String,
    /// `provider/model`.
    pub(super) model: String,
    /// The mode of the chat; empty for the normal one.
    pub(super) mode: &'static str,
    /// The sandbox of commands; empty if they run outside after an approval.
    pub(super) sandbox: &'static str,
    /// Tokens of the conversation.
    context: u64,
    /// The maximum number of tokens of the conversation, if it is known.
    window: Option<u64>,
    /// Usage and cost of all calls.
    usage: Usage,
    cost: Cost,
}

impl ChatStatus {
    /// Adds a call of the model. `window` is its maximum number of tokens.
    pub(super) fn add(&mut self, usage: &Usage, cost: Cost, window: Option<u64>) {
        self.usage += *usage;
        self.cost += cost;
        self.context = usage.total_input().saturating_add(usage.output);
        self.window = window;
    }

    /// Adds a call beside the conversation.
    pub(super) fn add_beside(&mut self, usage: &Usage, cost: Cost) {
        self.usage += *usage;
        self.cost += cost;
    }

    /// Forgets the conversation: another one begins.
    pub(super) fn forget_context(&mut self) {
        self.context = 0;
    }

    /// Formats the status: `coder · openai/gpt-4o · context 12% of 128,000 · $0.04 · cache 97%`.
    pub(super) fn line(&self) -> String {
        let mut parts = vec![
            self.mode.to_owned(),
            self.sandbox.to_owned(),
            on_one_line(&self.agent),
            on_one_line(&self.model),
        ];
        match (self.context, self.window) {
            (0, _) => {}
            (tokens, Some(window)) if window > 0 => {
                let share = tokens.saturating_mul(100) / window;
                parts.push(format!("context {share}% of {}", grouped(window)));
            }
            (tokens, _) => parts.push(format!("context {} tokens", grouped(tokens))),
        }
        if self.cost.picodollars > 0 {
            parts.push(self.cost.amount());
        }
        let read = self.usage.cache_read.saturating_mul(100);
        if let Some(share) = read.checked_div(self.usage.total_input()) {
            parts.push(format!("cache {share}%"));
        }
        parts.retain(|part| !part.is_empty());
        parts.join(" · ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_names_what_is_known() {
        let mut status = ChatStatus {
            agent: "root".to_owned(),
            model: "openai/gpt-4o".to_owned(),
            ..ChatStatus::default()
        };
        assert_eq!(status.line(), "root · openai/gpt-4o");
        let usage = Usage {
            uncached_input: 2_000,
            cache_read: 8_000,
            output: 500,
            ..Usage::default()
        };
        let cent = Cost::from_picodollars(10_000_000_000);
        status.add(&usage, cent, None);
        assert_eq!(
            status.line(),
            "root · openai/gpt-4o · context 10,500 tokens · $0.01 · cache 80%"
        );
        status.add(&usage, cent, Some(21_000));
        status.add_beside(&usage, cent);
        status.mode = "plan";
        assert_eq!(
            status.line(),
            "plan · root · openai/gpt-4o · context 50% of 21,000 · $0.03 · cache 80%"
        );
        status.forget_context();
        status.sandbox = "sandbox";
        assert_eq!(
            status.line(),
            "plan · sandbox · root · openai/gpt-4o · $0.03 · cache 80%"
        );
    }
}
