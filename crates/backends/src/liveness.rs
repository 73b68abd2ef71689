//! Recognition of connections on which nothing comes back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time without any answer after which further calls use another connection. A proxy that has lost its server, or
/// a server that has stopped, keeps a connection open without answering.
const MAX_SILENCE: Duration = Duration::from_secs(3);

/// How long a connection has been silent since a call was sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Liveness(Arc<Mutex<Option<Instant>>>);

impl Liveness {
    /// Awaits the answer to a call. If the caller does not wait for it, the connection counts as silent until another
    /// answer.
    pub(crate) async fn watch<T>(&self, call: impl Future<Output = T>) -> T {
        self.set(|since| since.or_else(|| Some(Instant::now())));
        let answer = call.await;
        self.set(|_| None);
        answer
    }

    /// True if calls have to use another connection.
    pub(crate) fn is_silent(&self) -> bool {
        let since = self.0.lock();
        since.is_some_and(|since| since.elapsed() > MAX_SILENCE)
    }

    fn set(&self, change: impl FnOnce(Option<Instant>) -> Option<Instant>) {
        let mut since = self.0.lock();
        *since = change(*since);
    }
}
