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
    /// Usage and cost of the conversation and of calls beside it.
    usage: Usage,
    cost: Cost,
}

impl ChatStatus {
    /// Adds a call of the model. `window` is its maximum number of tokens.
    pub(super) fn add(&mut self, usage: &Usage, cost: Cost, window: Option<u64>) {
        self.usage += *usage;
        self.cost += cost;
        self.context = context(usage);
        self.window = window;
    }

    /// Adds a call beside the conversation.
    pub(super) fn add_beside(&mut self, usage: &Usage, cost: Cost) {
        self.usage += *usage;
        self.cost += cost;
    }

    /// Begins with another conversation, which is empty.
    pub(super) fn forget_conversation(&mut self) {
        self.resume(&Usage::default(), Cost::default(), None, None);
    }

    /// Continues a conversation: its usage and cost so far, and the usage of its last answer. `window` is the maximum
    /// number of tokens of the model.
    pub(super) fn resume(
        &mut self,
        usage: &Usage,
        cost: Cost,
        last: Option<&Usage>,
        window: Option<u64>,
    ) {
        (self.usage, self.cost, self.window) = (*usage, cost, window);
        self.context = last.map_or(0, context);
    }

    /// Formats the status, the longest form first: `coder · openai/gpt-4o · context 12% of 128,000 · $0.04 · cache 97%`.
    /// The shorter forms leave out names and the size of the context window, and never the mode, the cost and the cache.
    pub(super) fn forms(&self) -> Vec<String> {
        let (agent, model) = (on_one_line(&self.agent), on_one_line(&self.model));
        let short_model = match model.rsplit_once('/') {
            Some((_, name)) => name.to_owned(),
            None => model.clone(),
        };
        let (context, short_context) = self.context();
        let form = |names: [&str; 3], context: &str| {
            let [sandbox, agent, model] = names;
            let cost = (self.cost.picodollars > 0).then(|| self.cost.amount());
            let read = self.usage.cache_read.saturating_mul(100);
            let share = read.checked_div(self.usage.total_input());
            let parts = [
                self.mode.to_owned(),
                sandbox.to_owned(),
                agent.to_owned(),
                model.to_owned(),
                context.to_owned(),
                cost.unwrap_or_default(),
                share.map_or_else(String::new, |share| format!("cache {share}%")),
            ];
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            parts.collect::<Vec<_>>().join(" · ")
        };
        vec![
            form([self.sandbox, &agent, &model], &context),
            form([self.sandbox, &agent, &model], &short_context),
            form([self.sandbox, &agent, &short_model], &short_context),
            form([self.sandbox, "", &short_model], &short_context),
            form([self.sandbox, "", ""], &short_context),
            form(["", "", ""], &short_context),
        ]
    }

    /// Returns the size of the conversation, and a short form of it.
    fn context(&self) -> (String, String) {
        match (self.context, self.window) {
            (0, _) => (String::new(), String::new()),
            (tokens, Some(window)) if window > 0 => {
                let share = tokens.saturating_mul(100) / window;
                let short = format!("context {share}%");
                (format!("{short} of {}", grouped(window)), short)
            }
            (tokens, _) => {
                let size = format!("context {} tokens", grouped(tokens));
                (size.clone(), size)
            }
        }
    }
}

/// Returns the tokens of the conversation after an answer.
fn context(usage: &Usage) -> u64 {
    usage.total_input().saturating_add(usage.output)
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
        assert_eq!(status.forms()[0], "root · openai/gpt-4o");
        let usage = Usage {
            uncached_input: 2_000,
            cache_read: 8_000,
            output: 500,
            ..Usage::default()
        };
        let cent = Cost::from_picodollars(10_000_000_000);
        status.add(&usage, cent, None);
        assert_eq!(
            status.forms()[0],
            "root · openai/gpt-4o · context 10,500 tokens · $0.01 · cache 80%"
        );
        status.add(&usage, cent, Some(21_000));
        status.add_beside(&usage, cent);
        status.mode = "plan";
        assert_eq!(
            status.forms()[0],
            "plan · root · openai/gpt-4o · context 50% of 21,000 · $0.03 · cache 80%"
        );
        status.sandbox = "sandbox";
        assert_eq!(
            status.forms()[1..],
            [
                "plan · sandbox · root · openai/gpt-4o · context 50% · $0.03 · cache 80%",
                "plan · sandbox · root · gpt-4o · context 50% · $0.03 · cache 80%",
                "plan · sandbox · gpt-4o · context 50% · $0.03 · cache 80%",
                "plan · sandbox · context 50% · $0.03 · cache 80%",
                "plan · context 50% · $0.03 · cache 80%",
            ]
        );
        status.forget_conversation();
        assert_eq!(status.forms()[0], "plan · sandbox · root · openai/gpt-4o");
        status.resume(&usage, cent, Some(&usage), Some(105_000));
        assert_eq!(
            status.forms()[0],
            "plan · sandbox · root · openai/gpt-4o · context 10% of 105,000 · $0.01 · cache 80%"
        );
    }
}
