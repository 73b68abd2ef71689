//! Turns that can be interrupted.

use cachalot_agent::{CancellationToken, Chat, Error, Stop, TurnReport, UsageTotals};
use cachalot_model::ErrorKind;

use super::show::Show;
use crate::agent_names::REVIEW;
use crate::interrupts::{Interrupts, Signal};

/// End of a turn.
pub(super) enum TurnEnd {
    /// The turn ended normally, or cleanly after an interrupt.
    Report(Box<TurnReport>),
    /// The turn failed.
    Failed(Error),
    /// The turn was interrupted twice and abandoned.
    Left,
}

/// Result of a turn; `leave` is set when the process is to end after it.
pub(super) struct TurnResult {
    pub(super) ended: TurnEnd,
    pub(super) leave: bool,
    /// The number of answers that were cut off in the turn.
    pub(super) cut_off: u32,
}

/// Message of the user.
#[derive(Debug, Clone, Copy)]
pub(super) struct UserMessage<'a> {
    pub(super) text: &'a str,
    /// The part of the text that the user typed: tools may fetch the URLs in it. A command of an agent assembles
    /// its message from texts of the file and results of tools.
    pub(super) typed: &'a str,
    /// Bypasses the response cache.
    pub(super) is_fresh: bool,
}

/// Runs a turn. Ctrl-C cancels it, and it ends cleanly; a second Ctrl-C abandons it at once.
pub(super) async fn turn(
    chat: &mut Chat,
    said: UserMessage<'_>,
    cancel: &CancellationToken,
    show: &Show,
    interrupts: &mut Interrupts,
) -> TurnResult {
    let mut leave = false;
    let mut interrupted = false;
    chat.allow_typed_urls(said.typed);
    let ended = {
        let turn = async {
            if said.is_fresh {
                chat.fresh_turn(said.text, cancel).await
            } else {
                chat.turn(said.text, cancel).await
            }
        };
        tokio::pin!(turn);
        loop {
            tokio::select! {
                ended = &mut turn => break match ended {
                    Ok(report) => TurnEnd::Report(Box::new(report)),
                    Err(error) => TurnEnd::Failed(session_conflict(error)),
                },
                signal = interrupts.next() => {
                    leave |= signal == Signal::End;
                    cancel.cancel();
                    if std::mem::replace(&mut interrupted, true) {
                        break TurnEnd::Left;
                    }
                }
            }
        }
    };
    let under_way = match &ended {
        // Also set by Ctrl-C as the answer to a question.
        TurnEnd::Report(report) => report.stop == Stop::Interrupted,
        TurnEnd::Failed(error) => interrupted || is_truncated(error),
        TurnEnd::Left => true,
    };
    TurnResult {
        ended,
        leave,
        cut_off: show.end_turn(under_way),
    }
}

/// Ends a chat and returns its total usage. Waits for a running review; Ctrl-C ends this wait, and a second
/// Ctrl-C ends the wait for hooks at the end of the chat.
pub(super) async fn end(mut chat: Chat, show: &Show, interrupts: &mut Interrupts) -> UsageTotals {
    if chat.is_reviewing() && !interrupts.is_ending() {
        tokio::select! {
            () = chat.wait_for_review() => {}
            _ = interrupts.next() => {}
        }
    }
    if chat.is_reviewing() {
        // The review is cancelled in the middle of its answer.
        show.end_fork(REVIEW, true);
    }
    // `close` consumes the chat. If it is interrupted, these totals are all that is known.
    let so_far = chat.total();
    tokio::select! {
        total = chat.close() => total,
        _ = interrupts.next() => so_far,
    }
}

/// Replaces the message of a conflict: the newest message of the session was not written, earlier ones were.
fn session_conflict(error: Error) -> Error {
    match error.kind {
        cachalot_agent::ErrorKind::Conflict => Error::new(
            error.kind,
            "the session was continued elsewhere during the turn: the answer of this turn is not part of it; send the message again",
        ),
        _ => error,
    }
}

/// Returns true if a model had begun to answer, or may have.
pub(super) fn is_truncated(error: &Error) -> bool {
    let kind = error.model.as_ref().map(|error| error.kind);
    matches!(
        kind,
        Some(ErrorKind::CutOff | ErrorKind::Malformed | ErrorKind::TimedOut)
    )
}
