//! A stream of events to a client, which it may read on after its connection was cut.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::relay::{Frame, FrameKind};

/// Bytes of events that wait to be sent, above which the sender waits.
const MAX_UNSENT_BYTES: usize = 8 << 20;

/// Bytes of events that were sent and are kept for a client whose connection is cut.
const MAX_KEPT_BYTES: usize = 256 << 10;

/// Maximum number of events that wait while no client reads.
const MAX_UNREAD_EVENTS: usize = 1_024;

/// Maximum number of bytes of these, but for the last one.
const MAX_UNREAD_BYTES: usize = 64 << 20;

/// The events of one stream. Numbers start at 1; 0 is the event that only has an id.
pub(super) struct EventStream {
    pub(super) number: u64,
    state: Mutex<State>,
    /// Changes with the state.
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    events: VecDeque<Frame>,
    /// The number of the first event in `events`.
    first: u64,
    /// The number of the last event that was given to a reader.
    sent: u64,
    is_ended: bool,
    /// The number of the newest reader; older ones end.
    reader: u64,
    has_reader: bool,
}

/// Reads a stream. The newest reader takes over from older ones.
pub(super) struct EventReader {
    stream: std::sync::Arc<EventStream>,
    number: u64,
    next: u64,
    changed: watch::Receiver<()>,
}

impl EventStream {
    pub(super) fn new(number: u64) -> Self {
        Self {
            number,
            state: Mutex::new(State {
                first: 1,
                ..State::default()
            }),
            changed: watch::Sender::new(()),
        }
    }

    /// Adds an event; waits while a reader is slow.
    pub(super) async fn push(&self, event: Frame) {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            {
                let mut state = self.state.lock();
                if state.unsent_bytes() < MAX_UNSENT_BYTES || !state.has_reader {
                    state.events.push_back(event);
                    state.trim();
                    break;
                }
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
        self.changed.send_replace(());
    }

    pub(super) fn end(&self) {
        self.state.lock().is_ended = true;
        self.changed.send_replace(());
    }

    pub(super) fn has_reader(&self) -> bool {
        self.state.lock().has_reader
    }

    pub(super) fn is_ended(&self) -> bool {
        self.state.lock().is_ended
    }

    /// Waits for the first event. `None` if the stream ended without one.
    pub(super) async fn first(&self) -> Option<Frame> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            {
                let state = self.state.lock();
                if let Some(event) = state.events.front() {
                    return Some(event.clone());
                }
                if state.is_ended {
                    return None;
                }
            }
            if changed.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Starts to read at the first event that no reader got.
    pub(super) fn read_unsent(self: &std::sync::Arc<Self>) -> Option<EventReader> {
        let after = {
            let state = self.state.lock();
            state.sent.max(state.first - 1)
        };
        self.read(after)
    }

    /// Starts to read after an event. `None` if events after it are no longer there.
    pub(super) fn read(self: &std::sync::Arc<Self>, after: u64) -> Option<EventReader> {
        let mut state = self.state.lock();
        if after + 1 < state.first || after >= state.first + state.events.len() as u64 {
            return None;
        }
        state.reader += 1;
        state.has_reader = true;
        let number = state.reader;
        drop(state);
        // An older reader ends.
        self.changed.send_replace(());
        Some(EventReader {
            stream: std::sync::Arc::clone(self),
            number,
            next: after + 1,
            changed: self.changed.subscribe(),
        })
    }
}

impl State {
    fn unsent_bytes(&self) -> usize {
        let sent = (self.sent + 1).saturating_sub(self.first);
        let unsent = self
            .events
            .iter()
            .skip(usize::try_from(sent).unwrap_or(usize::MAX));
        unsent.map(|event| event.bytes().len()).sum()
    }

    /// Forgets events that were sent, and the oldest ones if no client reads.
    fn trim(&mut self) {
        let mut kept: usize = self.events.iter().map(|event| event.bytes().len()).sum();
        while let Some(oldest) = self.events.front() {
            let is_sent = self.first <= self.sent;
            let is_excess =
                is_sent && (kept > MAX_KEPT_BYTES || self.events.len() > MAX_UNREAD_EVENTS);
            let is_unread = !self.has_reader
                && (self.events.len() > MAX_UNREAD_EVENTS
                    || kept > MAX_UNREAD_BYTES && self.events.len() > 1);
            if !is_excess && !is_unread {
                return;
            }
            kept -= oldest.bytes().len();
            self.events.pop_front();
            self.first += 1;
        }
    }
}

impl EventReader {
    /// Waits for the next event, with its number. `None` at the end of the stream, and when another reader took over.
    pub(super) async fn next(&mut self) -> Option<(u64, Frame)> {
        loop {
            self.changed.mark_unchanged();
            {
                let mut state = self.stream.state.lock();
                if state.reader != self.number {
                    return None;
                }
                let at = self.next.checked_sub(state.first)?;
                if let Some(event) = state.events.get(usize::try_from(at).ok()?).cloned() {
                    let number = self.next;
                    self.next += 1;
                    state.sent = state.sent.max(number);
                    state.trim();
                    drop(state);
                    // The sender may wait for room.
                    self.stream.changed.send_replace(());
                    return Some((number, event));
                }
                if state.is_ended {
                    return None;
                }
            }
            if self.changed.changed().await.is_err() {
                return None;
            }
        }
    }

    pub(super) fn stream_number(&self) -> u64 {
        self.stream.number
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut state = self.stream.state.lock();
        if state.reader == self.number {
            state.has_reader = false;
        }
        drop(state);
        self.stream.changed.send_replace(());
    }
}

/// Returns true for the event that ends the stream of a request.
pub(super) fn is_last(event: &Frame) -> bool {
    event.kind() == FrameKind::Response
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn event(number: u64) -> Frame {
        Frame::request(&number.to_string(), "a", "{}")
    }

    #[tokio::test]
    async fn a_stream_is_read_on_where_it_was_cut() {
        let stream = Arc::new(EventStream::new(1));
        for number in 1..=3 {
            stream.push(event(number)).await;
        }
        let mut reader = stream.read(0).unwrap();
        assert_eq!(reader.next().await.unwrap().0, 1);
        assert_eq!(reader.next().await.unwrap().0, 2);
        let mut second = stream.read(1).unwrap();
        assert!(reader.next().await.is_none());
        drop(reader);
        assert!(stream.has_reader());
        let (number, frame) = second.next().await.unwrap();
        assert_eq!((number, frame.id()), (2, Some("2")));
        assert_eq!(second.next().await.unwrap().0, 3);
        stream.end();
        assert!(second.next().await.is_none());
        assert!(stream.read(9).is_none());
    }
}
