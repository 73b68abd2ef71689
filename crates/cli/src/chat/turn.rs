//! A turn that can be interrupted.

use cachalot_agent::{Cancel, Chat, Error, Stop, Sum, TurnReport};
use cachalot_model::ErrorKind;

use super::REVIEW;
use super::show::Show;
use crate::interrupts::{Interrupts, Signal};

/// How a turn ended.
pub(super) enum Ended {
    /// By itself, or in order after it was interrupted.
    Report(Box<TurnReport>),
    /// It could not be carried out.
    Failed(Error),
    /// It was interrupted, and interrupted again while it ended.
    Left,
}

/// A turn, and whether the process is to end after it.
pub(super) struct Turned {
    pub(super) ended: Ended,
    pub(super) leave: bool,
    /// How many answers were cut off in it.
    pub(super) cut_off: u32,
}

/// What the user says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    /// Whether a new answer is wanted, whatever was answered before.
    pub(super) is_fresh: bool,
}

/// Carries a turn out. Ctrl-C cancels it, and it ends in order; another one leaves it at once.
pub(super) async fn turn(
    chat: &mut Chat,
    said: Said<'_>,
    cancel: &Cancel,
    show: &Show,
    interrupts: &mut Interrupts,
) -> Turned {
    let mut leave = false;
    let mut interrupted = false;
    chat.typed(said.text);
    let ended = {
        let turn = async {
            match said.is_fresh {
                true => chat.turn_afresh(said.text, cancel).await,
                false => chat.turn(said.text, cancel).await,
            }
        };
        tokio::pin!(turn);
        loop {
            tokio::select! {
                ended = &mut turn => break match ended {
                    Ok(report) => Ended::Report(Box::new(report)),
                    Err(error) => Ended::Failed(overtaken(error)),
                },
                signal = interrupts.next() => {
                    leave |= signal == Signal::End;
                    cancel.cancel();
                    if std::mem::replace(&mut interrupted, true) {
                        break Ended::Left;
                    }
                }
            }
        }
    };
    let under_way = match &ended {
        // Also by Ctrl-C in answer to a question.
        Ended::Report(report) => report.stop == Stop::Interrupted,
        Ended::Failed(error) => interrupted || broke_off(error),
        Ended::Left => true,
    };
    Turned {
        ended,
        leave,
        cut_off: show.end_turn(under_way),
    }
}

/// Ends a chat; what all of it used. A review that runs is waited for. Who presses Ctrl-C waits neither
/// for that nor, if pressed again, for what hooks do at its end.
pub(super) async fn end(mut chat: Chat, show: &Show, interrupts: &mut Interrupts) -> Sum {
    if chat.is_reviewing() && !interrupts.is_over() {
        tokio::select! {
            () = chat.reviewed() => {}
            _ = interrupts.next() => {}
        }
    }
    if chat.is_reviewing() {
        // It is cancelled in the middle of its answer.
        show.end_fork(REVIEW, true);
    }
    let so_far = chat.total();
    tokio::select! {
        total = chat.close() => total,
        _ = interrupts.next() => so_far,
    }
}

/// The session tells that its newest message was not written. What was said before that was.
fn overtaken(error: Error) -> Error {
    match error.kind {
        cachalot_agent::ErrorKind::Conflict => Error::new(
            error.kind,
            "the session was continued elsewhere in the middle of the turn, and goes on from there: what came of the answer is not part of it; ask again",
        ),
        _ => error,
    }
}

/// Whether a model had begun to answer, or may have.
pub(super) fn broke_off(error: &Error) -> bool {
    let kind = error.model.as_ref().map(|error| error.kind);
    matches!(
        kind,
        Some(ErrorKind::CutOff | ErrorKind::Malformed | ErrorKind::TimedOut)
    )
}
