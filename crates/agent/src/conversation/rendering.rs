//! Messages as the provider of a model gets them.

use std::sync::Arc;

use cachalot_model::wire::Rendered;
use cachalot_model::{Message, Model};

use crate::media;

/// Adapts messages that follow `before` to what the provider of `model` accepts, and adds the notes on which
/// their rendering depends.
pub(super) async fn adapted(
    model: &Model,
    messages: Vec<Message>,
    before: impl Fn() -> Vec<Arc<Message>>,
) -> Vec<Message> {
    let mut messages = media::fit_to_limits(messages, &before, model.media()).await;
    let wire = model.wire();
    if wire.needs_notes() {
        wire.prepare(&before(), &mut messages);
    }
    messages
}

/// A message with the pieces to which it is rendered.
pub(super) type RenderedMessage = (Arc<Message>, Vec<Rendered>);

/// Renders messages for `model`.
pub(super) fn rendered(
    model: &Model,
    messages: Vec<Message>,
) -> Result<Vec<RenderedMessage>, cachalot_model::Error> {
    let messages = messages.into_iter().map(|message| {
        let pieces = model.wire().message(&message)?;
        Ok((Arc::new(message), pieces))
    });
    messages.collect()
}
