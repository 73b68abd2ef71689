//! The order in which the requests of a session reach the server.
//!
//! A request that may be answered from the cache takes a while before it is sent: tools are listed, files are read. A
//! request behind it that is passed on, a write for example, waits until then. Requests that may be answered from the
//! cache do not wait for each other.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The number of sessions above which those without requests are forgotten.
const MAX_SESSIONS: usize = 1_024;

/// The queues of the sessions.
#[derive(Default)]
pub(super) struct SessionOrder(Mutex<HashMap<Arc<str>, Arc<RwLock<()>>>>);

/// The place of a request at the head of the queue. Dropped when the request was sent, or needs not be sent.
#[derive(Default)]
pub(super) struct Place {
    _shared: Option<OwnedRwLockReadGuard<()>>,
    _exclusive: Option<OwnedRwLockWriteGuard<()>>,
}

/// A request in the queue.
pub(super) enum Turn {
    Now(Place),
    Later(Pin<Box<dyn Future<Output = Place> + Send>>),
}

impl SessionOrder {
    /// Enters a request that may be answered from the cache. It waits for earlier ones that are passed on.
    pub(super) fn enter_cacheable(&self, session: Option<&Arc<str>>) -> Turn {
        let Some(queue) = self.queue(session) else {
            return Turn::Now(Place::default());
        };
        Turn::new(async move {
            Place {
                _shared: Some(queue.read_owned().await),
                _exclusive: None,
            }
        })
    }

    /// Enters a request that is passed on, or may be. It waits for all earlier ones.
    pub(super) fn enter_passed(&self, session: Option<&Arc<str>>) -> Turn {
        let Some(queue) = self.queue(session) else {
            return Turn::Now(Place::default());
        };
        Turn::new(async move {
            Place {
                _shared: None,
                _exclusive: Some(queue.write_owned().await),
            }
        })
    }

    /// Returns the queue of a session. Requests without a session have no order.
    fn queue(&self, session: Option<&Arc<str>>) -> Option<Arc<RwLock<()>>> {
        let session = session?;
        let mut queues = self.0.lock();
        if queues.len() >= MAX_SESSIONS && !queues.contains_key(session) {
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        }
        Some(Arc::clone(queues.entry(Arc::clone(session)).or_default()))
    }
}

impl Turn {
    /// Takes the place in the queue at once: the first poll enters the lock's queue, which is in order of arrival.
    fn new(place: impl Future<Output = Place> + Send + 'static) -> Self {
        // Not constrained: a task that has used up its budget would not enter the queue.
        let mut place = Box::pin(tokio::task::unconstrained(place));
        match (&mut place).now_or_never() {
            Some(place) => Self::Now(place),
            None => Self::Later(place),
        }
    }

    /// Waits for the earlier requests.
    pub(super) async fn wait(self) -> Place {
        match self {
            Self::Now(place) => place,
            Self::Later(place) => place.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_that_are_passed_on_wait_for_all_earlier_ones() {
        let order = SessionOrder::default();
        let session: Arc<str> = "s".into();
        let (one, two) = (
            order.enter_cacheable(Some(&session)),
            order.enter_cacheable(Some(&session)),
        );
        let (Turn::Now(one), Turn::Now(two)) = (one, two) else {
            panic!("they do not wait for each other");
        };
        let mut passed = Box::pin(order.enter_passed(Some(&session)).wait());
        let mut behind = Box::pin(order.enter_cacheable(Some(&session)).wait());
        assert!(matches!(
            order.enter_passed(Some(&"other".into())),
            Turn::Now(_)
        ));
        assert!(matches!(order.enter_passed(None), Turn::Now(_)));
        drop(one);
        assert!((&mut passed).now_or_never().is_none());
        drop(two);
        assert!((&mut behind).now_or_never().is_none());
        drop(passed.await);
        behind.await;
    }
}
