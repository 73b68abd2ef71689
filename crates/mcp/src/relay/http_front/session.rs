//! The session of a client that uses HTTP, in revisions that have sessions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::stream::{EventReader, EventStream, is_last};
use crate::relay::connection::Connection;
use crate::relay::report::{CallObserver, CallTimer};
use crate::relay::{Exchange, Frame};

/// Number of finished streams that are kept for clients whose connection is cut.
const MAX_FINISHED: usize = 8;

/// The stream of messages that belong to no request.
const UNATTACHED: u64 = 0;

/// A session: a connection to the server, and the streams to the client.
pub(super) struct ClientSession {
    pub(super) id: Arc<str>,
    pub(super) connection: Connection,
    streams: Mutex<Streams>,
    unattached: Arc<EventStream>,
    last_used: Mutex<Instant>,
    /// Requests in flight, and open streams.
    active: Arc<AtomicUsize>,
    /// Counts the session as long as it lives.
    _permit: OwnedSemaphorePermit,
}

struct Streams {
    next: u64,
    /// Streams of requests, oldest first.
    requests: VecDeque<Arc<EventStream>>,
}

/// Counts as long as it lives.
pub(super) struct Active(Arc<AtomicUsize>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ClientSession {
    pub(super) fn new(
        id: Arc<str>,
        connection: Connection,
        permit: OwnedSemaphorePermit,
    ) -> Arc<Self> {
        let unattached = connection.upstream.take_unattached();
        let session = Arc::new(Self {
            id,
            connection,
            streams: Mutex::new(Streams {
                next: UNATTACHED + 1,
                requests: VecDeque::new(),
            }),
            unattached: Arc::new(EventStream::new(UNATTACHED)),
            last_used: Mutex::new(Instant::now()),
            active: Arc::default(),
            _permit: permit,
        });
        if let Some(unattached) = unattached {
            tokio::spawn(Self::pass_unattached(Arc::downgrade(&session), unattached));
        }
        session
    }

    async fn pass_unattached(session: std::sync::Weak<Self>, mut messages: mpsc::Receiver<Frame>) {
        while let Some(message) = messages.recv().await {
            let Some(session) = session.upgrade() else {
                return;
            };
            session.destination().push(message).await;
        }
    }

    /// Returns the stream for a message that belongs to no request: the one for such messages if the client reads it,
    /// otherwise that of the newest request in flight.
    fn destination(&self) -> Arc<EventStream> {
        if self.unattached.has_reader() {
            return Arc::clone(&self.unattached);
        }
        let streams = self.streams.lock();
        let mut requests = streams.requests.iter().rev();
        let open = requests.find(|stream| !stream.is_ended());
        Arc::clone(open.unwrap_or(&self.unattached))
    }

    pub(super) fn activity(&self) -> Active {
        *self.last_used.lock() = Instant::now();
        self.active.fetch_add(1, Ordering::Relaxed);
        Active(Arc::clone(&self.active))
    }

    /// Returns the time for which the client has not used the session; zero if requests are in flight.
    pub(super) fn idle(&self) -> Duration {
        match self.active.load(Ordering::Relaxed) {
            0 => self.last_used.lock().elapsed(),
            _ => Duration::ZERO,
        }
    }

    /// Opens the stream of a request, and passes on what its exchange yields, also while no client reads.
    pub(super) fn stream(
        self: &Arc<Self>,
        mut exchange: Exchange,
        mut observed: Option<(CallObserver, CallTimer)>,
    ) -> Arc<EventStream> {
        let stream = {
            let mut streams = self.streams.lock();
            let stream = Arc::new(EventStream::new(streams.next));
            streams.next += 1;
            streams.requests.push_back(Arc::clone(&stream));
            stream
        };
        let (session, pushed) = (Arc::clone(self), Arc::clone(&stream));
        let activity = self.activity();
        tokio::spawn(async move {
            while let Some(message) = exchange.next().await {
                if is_last(&message)
                    && let Some((observe, timer)) = observed.take()
                {
                    observe(timer.report(&message));
                }
                pushed.push(message).await;
            }
            pushed.end();
            drop(activity);
            session.forget_finished();
        });
        stream
    }

    fn forget_finished(&self) {
        let mut streams = self.streams.lock();
        let requests = &mut streams.requests;
        let mut finished = requests.iter().filter(|stream| stream.is_ended()).count();
        requests.retain(|stream| {
            let is_kept = !stream.is_ended() || finished <= MAX_FINISHED;
            finished -= usize::from(stream.is_ended());
            is_kept
        });
    }

    /// Forgets a stream whose events the client cannot resume: they were sent as one response.
    pub(super) fn forget(&self, number: u64) {
        let mut streams = self.streams.lock();
        streams.requests.retain(|stream| stream.number != number);
    }

    /// Starts to read the messages that belong to no request. `None` if the client reads them already.
    pub(super) fn read_unattached(&self) -> Option<EventReader> {
        if self.unattached.has_reader() {
            return None;
        }
        // From the first event that was not sent.
        self.unattached.read_unsent()
    }

    /// Reads on after an event (`STREAM-EVENT`). `None` if it is no longer there.
    pub(super) fn resume(&self, event: &str) -> Option<EventReader> {
        let (stream, event) = event.split_once('-')?;
        let (stream, event): (u64, u64) = (stream.parse().ok()?, event.parse().ok()?);
        if stream == UNATTACHED {
            return self.unattached.read(event);
        }
        let streams = self.streams.lock();
        let mut requests = streams.requests.iter();
        requests.find(|known| known.number == stream)?.read(event)
    }

    /// Ends the streams and the connection to the server.
    pub(super) async fn close(&self) {
        self.connection.closer.close().await;
        self.unattached.end();
    }
}
