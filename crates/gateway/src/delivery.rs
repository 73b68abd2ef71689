//! Delivery of an answer to its client: does the client have all of it?

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::Key;
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::answer_form::AnswerForm;
use crate::body::{Body, BodyError};

/// Time that a client has to read the rest of an answer that has arrived, before the answer counts as not delivered.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of remembered lengths above which those of ended answers are removed.
const MANY_LENGTHS: usize = 1_024;

/// Number of bytes with which an answer is complete; the maximum until it is known.
type Length = AtomicU64;

/// The lengths of the answers that are being delivered, by call and form: a client that joins a run has the length of its answer.
#[derive(Default)]
pub(crate) struct Lengths(Mutex<HashMap<(Key, u8), Weak<Length>>>);

impl Lengths {
    fn of(&self, call: (Key, u8)) -> Arc<Length> {
        let mut lengths = self.0.lock();
        if let Some(length) = lengths.get(&call).and_then(Weak::upgrade) {
            return length;
        }
        if lengths.len() >= MANY_LENGTHS {
            lengths.retain(|_, length| length.strong_count() > 0);
        }
        let length = Arc::new(Length::new(u64::MAX));
        lengths.insert(call, Arc::downgrade(&length));
        length
    }
}

/// The delivery of one answer to one client.
pub(crate) struct Delivery {
    length: Arc<Length>,
    handed: AtomicU64,
    has_ended: AtomicBool,
    has_left: AtomicBool,
    changed: Notify,
}

impl Delivery {
    /// Creates the delivery of the answer to a call.
    pub(crate) fn new(lengths: &Lengths, call: Key, form: AnswerForm) -> Arc<Self> {
        Arc::new(Self {
            length: lengths.of((call, form.number())),
            handed: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Forgets the length of an answer that failed: another run begins.
    pub(crate) fn begin_run(&self) {
        self.length.store(u64::MAX, Ordering::SeqCst);
    }

    /// Sets the number of bytes with which the answer is complete, if it is not known already.
    pub(crate) fn expect(&self, length: u64) {
        let (current, new) = (u64::MAX, length);
        let _ = self
            .length
            .compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn is_complete(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
            || self.handed.load(Ordering::SeqCst) >= self.length.load(Ordering::SeqCst)
    }

    /// Waits until the client has the answer, has left, or is too slow. Returns true if it has the answer.
    pub(crate) async fn is_delivered(&self) -> bool {
        let ended = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                // Registered before the state is read, so that no notification is missed in between.
                changed.as_mut().enable();
                if self.is_complete() || self.has_left.load(Ordering::SeqCst) {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(DELIVERY_TIMEOUT, ended).await;
        self.is_complete()
    }
}

/// The client's end of a delivery. Dropping it means that the client has everything, or has left.
pub(crate) struct Recipient {
    delivery: Arc<Delivery>,
    /// Called once, with true if the client has everything.
    settle: Option<Box<dyn FnOnce(bool) + Send>>,
}

impl Recipient {
    /// Creates the client's end. `settle` is called when the delivery has ended, with true if the client has everything.
    pub(crate) fn new(delivery: Arc<Delivery>, settle: impl FnOnce(bool) + Send + 'static) -> Self {
        Self {
            delivery,
            settle: Some(Box::new(settle)),
        }
    }

    /// Returns a body that is counted as it is handed to the client's connection.
    /// `length` is the announced one.
    pub(crate) fn receive(self, body: Body, length: Option<u64>) -> TrackedBody {
        let exact = hyper::body::Body::size_hint(&body).exact();
        if let Some(length) = exact.or(length) {
            self.delivery.expect(length);
        }
        TrackedBody {
            body,
            recipient: self,
        }
    }
}

impl Drop for Recipient {
    fn drop(&mut self) {
        if let Some(settle) = self.settle.take() {
            settle(self.delivery.is_complete());
        }
        self.delivery.has_left.store(true, Ordering::SeqCst);
        self.delivery.changed.notify_waiters();
    }
}

/// A body whose delivery is tracked.
pub(crate) struct TrackedBody {
    body: Body,
    recipient: Recipient,
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let delivery = &self.recipient.delivery;
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                delivery.handed.fetch_add(bytes, Ordering::SeqCst);
                delivery.changed.notify_waiters();
            }
            Poll::Ready(None) => {
                delivery.has_ended.store(true, Ordering::SeqCst);
                delivery.changed.notify_waiters();
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
