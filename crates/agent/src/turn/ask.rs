//! One model call.

use std::time::Instant;

use cachalot_core::Spend;
use cachalot_model::{Delta, Reply, Usage};

use super::Turn;
use crate::event::Event;
use crate::report::Sum;

/// Of so many percent of what the model takes, the user is told that there is not much left.
const NEARLY_FULL: u64 = 80;

impl Turn<'_> {
    /// Asks the model what comes next. What comes is shown as it comes.
    pub(super) async fn ask(&mut self, iteration: u32) -> Result<Reply, cachalot_model::Error> {
        let Self {
            shared,
            agent,
            desk,
            partial,
            ..
        } = self;
        let (agent, listener) = (agent.name.as_str(), &shared.house.listener);
        listener.tell(&Event::Asked { agent, iteration });
        let body = desk.conversation.body();
        let model = desk.conversation.model().clone();
        partial.clear();
        let began = Instant::now();
        let mut on = |delta: Delta| match &delta {
            Delta::Text(text) => {
                partial.push_str(text);
                listener.tell(&Event::Text { agent, text });
            }
            Delta::Reasoning(text) => listener.tell(&Event::Reasoning { agent, text }),
            Delta::ToolUse { .. } | Delta::Arguments { .. } => {}
        };
        let reply = model.stream(body, &mut on).await?;
        let elapsed = began.elapsed();
        let usage = reply.usage.unwrap_or_default();
        let cost = model.cost_of(&reply);
        let paid = Spend {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            cost,
            ..Spend::one(elapsed)
        };
        desk.conversation.count(usage, paid);
        shared.meter.record(reply.usage.as_ref(), cost);
        shared.add(Sum {
            model_calls: 1,
            usage,
            paid,
            ..Sum::default()
        });
        listener.tell(&Event::Answered {
            agent,
            usage: reply.usage.as_ref(),
            cost,
            elapsed,
        });
        if let Some(warning) = nearly_full(usage, model.limits().context, desk.fullness()) {
            shared.warn(agent, &warning);
        }
        Ok(reply)
    }
}

/// What to say when a conversation comes near to what its model takes; once in a session.
fn nearly_full(usage: Usage, takes: Option<u64>, warned: &mut bool) -> Option<String> {
    let takes = takes.filter(|takes| *takes > 0)?;
    let used = usage.total_input().saturating_add(usage.output);
    let percent = used.saturating_mul(100) / takes;
    if percent < NEARLY_FULL || std::mem::replace(warned, true) {
        return None;
    }
    Some(format!(
        "the conversation takes {used} of the {takes} tokens that the model takes; begin a new session before it is full"
    ))
}
