//! Recognition of connections on which nothing comes back, and of idle ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time without any answer after which further calls use another connection. A proxy that has lost its server, or
/// a server that has stopped, keeps a connection open without answering.
const MAX_SILENCE: Duration = Duration::from_secs(3);

/// The calls of an open connection, and their answers.
#[derive(Debug, Clone)]
pub(crate) struct Liveness(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// The time of the first call since the last answer.
    silent_since: Option<Instant>,
    /// The time of the last answer that was no failure.
    answered: Instant,
}

impl Default for Liveness {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            silent_since: None,
            answered: Instant::now(),
        })))
    }
}

impl Liveness {
    /// Awaits the answer to a call. If the caller does not wait for it, the connection counts as silent until another
    /// answer.
    pub(crate) async fn watch<T, E>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        // Later calls must not postpone the time since which nothing has come back.
        self.0.lock().silent_since.get_or_insert_with(Instant::now);
        let answer = call.await;
        let mut state = self.0.lock();
        // A failure is an answer, too: the connection is not silent.
        state.silent_since = None;
        if answer.is_ok() {
            state.answered = Instant::now();
        }
        answer
    }

    /// True if calls have to use another connection.
    pub(crate) fn is_silent(&self) -> bool {
        let since = self.0.lock().silent_since;
        since.is_some_and(|since| since.elapsed() > MAX_SILENCE)
    }

    /// True if there has been no answer for this time.
    pub(crate) fn is_idle(&self, time: Duration) -> bool {
        self.0.lock().answered.elapsed() >= time
    }
}
