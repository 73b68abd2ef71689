//! Answers that hooks give in place of the model.

use cachalot_hooks::Synthetic;
use cachalot_model::Message;

use super::context::TurnContext;
use crate::Error;
use crate::conversation::Conversation;
use crate::event::Event;
use crate::normalized_reply::is_visible;
use crate::provenance::Provenance;
use crate::report::UsageTotals;

/// Returns a hook's answer if it has text; otherwise warns.
pub(super) async fn usable_answer(
    context: &TurnContext<'_>,
    synthetic: Option<Synthetic>,
) -> Option<Synthetic> {
    let synthetic = synthetic?;
    if is_visible(&synthetic.content) {
        return Some(synthetic);
    }
    let nothing = "a hook gave an empty answer, which is left out";
    context.hook_emitter.warn(nothing).await;
    None
}

/// Appends a hook's answer in place of a model's, after the message that it answers, and reports it.
pub(super) async fn append_answer(
    context: &TurnContext<'_>,
    conversation: &mut Conversation,
    said: Option<Message>,
    synthetic: &Synthetic,
) -> Result<Provenance, Error> {
    let (provenance, message) = Provenance::message(synthetic);
    let messages = said.into_iter().chain([message]).collect();
    conversation.append_all_unsent(messages).await?;
    context.shared.add(UsageTotals {
        saved_answers: u32::from(synthetic.saved.calls > 0),
        saved: synthetic.saved,
        ..UsageTotals::default()
    });
    let agent = context.agent.name.as_str();
    let text = synthetic.content.as_str();
    context.report(&Event::Text { agent, text });
    context.report(&Event::Synthetic {
        agent,
        provenance: &provenance,
    });
    Ok(provenance)
}
