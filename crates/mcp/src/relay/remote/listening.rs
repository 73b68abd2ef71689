//! The stream of messages that belong to no request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;

use super::cursor::Cursor;
use super::endpoint::Opening;
use super::event_stream::{Events, is_cut};
use super::shared::Shared;
use crate::relay::RequestContext;

/// Time after which the end of a stream is no failure.
const LONG_STREAM: Duration = Duration::from_secs(5);

/// Reads the messages that belong to no request in a task, until the session ends.
pub(super) fn listen(shared: &Arc<Shared>, context: &RequestContext) {
    let (weak, context) = (Arc::downgrade(shared), context.clone());
    let mut session = shared.session.lock();
    if !session.is_open || session.listening.is_some() {
        return;
    }
    let task = tokio::spawn(async move {
        let mut cursor = Cursor::default();
        let mut is_first = true;
        loop {
            let Some(shared) = weak.upgrade() else {
                return;
            };
            match shared.open_stream(&cursor, &context).await {
                Opening::Open(events) => {
                    // From its end, and again up to here, as answers of the meantime may be out of date, too.
                    if !is_first && cursor.id.is_none() {
                        shared.note_loss();
                    }
                    let start = Instant::now();
                    read(&shared, events, &mut cursor).await;
                    if cursor.id.is_none() {
                        shared.note_loss();
                    }
                    // Servers and intermediaries end silent streams after a while.
                    if start.elapsed() >= LONG_STREAM {
                        cursor.attempts = 0;
                    }
                }
                Opening::Absent => {
                    if !is_first {
                        shared.note_loss();
                    }
                    return;
                }
                Opening::Failed => {}
            }
            is_first = false;
            drop(shared);
            cursor.pause().await;
        }
    });
    session.listening = Some(task.abort_handle());
}

/// Passes on the messages of a stream that belongs to no request, up to its end.
async fn read(shared: &Shared, mut events: Events, cursor: &mut Cursor) {
    while let Some(event) = events.next().await {
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                if !is_cut(&error) {
                    shared.note_loss();
                }
                return;
            }
        };
        cursor.note(&event);
        cursor.attempts = 0;
        if let Some(message) = shared.message(&event) {
            shared.pass(message, None).await;
        }
    }
}
