//! Reservation of the input of the next model call.

use cachalot_model::Model;
use cachalot_model::budget::Reservation;

use super::context::TurnContext;
use crate::active_session::ActiveSession;
use crate::chat_state::ChatState;
use crate::fork_limits::ForkReservation;
use crate::report::Stop;

/// Estimated bytes per token.
pub(super) const BYTES_PER_TOKEN: u64 = 4;

/// A reservation in the chat's budget, and in the limits of a fork.
pub(super) type CallReservation = (Reservation, Option<ForkReservation>);

/// Reserves the estimated input of the next model call, so that concurrent calls do not spend it. The caller
/// holds the reservation until the call is counted. `text` is the user's message.
///
/// # Errors
/// The limit that prevents another model call.
pub(super) fn reserve(
    context: &TurnContext<'_>,
    session: &ActiveSession,
    text: &str,
) -> Result<CallReservation, Stop> {
    reserve_for(context, session, session.conversation.model(), text)
}

/// Reserves like [`reserve`], for a call of another model with the conversation.
///
/// # Errors
/// The limit that prevents the call.
pub(super) fn reserve_for(
    context: &TurnContext<'_>,
    session: &ActiveSession,
    model: &Model,
    text: &str,
) -> Result<CallReservation, Stop> {
    reserve_tokens(context.shared, model, estimate_next_input(session, text))
}

/// Reserves this number of input tokens for a call of a model.
///
/// # Errors
/// The limit that prevents the call.
pub(super) fn reserve_tokens(
    shared: &ChatState,
    model: &Model,
    next: u64,
) -> Result<CallReservation, Stop> {
    let reserved = shared.meter.reserve(model, next);
    let of_chat = reserved.map_err(|over| Stop::Budget(over.message))?;
    let limits = shared.limits.as_ref();
    // Without room in the fork, the drop of `of_chat` releases the tokens of the chat.
    let of_fork = limits.map(|limits| limits.reserve(next)).transpose()?;
    Ok((of_chat, of_fork))
}

/// Estimated input tokens of the next request: those of the last request, or an estimate from its bytes if
/// that is unknown.
fn estimate_next_input(session: &ActiveSession, text: &str) -> u64 {
    if let Some(last) = session.last_input() {
        return last;
    }
    let conversation = &session.conversation;
    let said = match conversation.held() {
        Some(message) => serde_json::to_vec(message).map_or(0, |bytes| bytes.len()),
        None => text.len(),
    };
    let said = u64::try_from(said).unwrap_or(u64::MAX);
    conversation.prompt().bytes().saturating_add(said) / BYTES_PER_TOKEN
}
