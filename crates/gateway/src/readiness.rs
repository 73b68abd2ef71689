//! Readiness of the gateway: does its store answer, and does it know the digest key of this process?

use std::sync::Arc;
use std::time::Duration;

use cachalot_store::{Error, Store};
use futures_util::future::BoxFuture;
use http::{HeaderValue, Response, StatusCode, header};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout};

use crate::body::{self, Body};

/// Asks the store for the digest key of the other machines. Returns true if it is that of this process.
pub type DigestKeyCheck =
    Arc<dyn Fn(Arc<dyn Store>) -> BoxFuture<'static, Result<bool, Error>> + Send + Sync>;

/// Maximum time of an answer of the store. Kubernetes waits one second for an answer by default.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Time for which an answer counts, so that clients that ask often do not load the store.
const VALID_FOR: Duration = Duration::from_secs(1);

/// The state of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreState {
    /// It answers, and other machines have the same digest key.
    Ready,
    /// The gateway was started without a store, because it could not be opened.
    NoStore,
    /// It does not answer, or with an error; the name of its kind. Messages of errors name hosts, which clients need not
    /// know.
    Failing(&'static str),
    /// Other machines have another digest key: they do not find what this process stores, and the reverse.
    OtherKey,
}

impl StoreState {
    /// Returns true if the store has answered.
    pub(crate) fn is_answering(self) -> bool {
        matches!(self, Self::Ready | Self::OtherKey)
    }

    /// Returns the reason why the gateway is not ready.
    fn reason(self) -> Option<String> {
        match self {
            Self::Ready => None,
            Self::NoStore => Some("there is no store: nothing is cached".to_owned()),
            Self::Failing(kind) => {
                let kind = kind.replace('_', " ");
                Some(format!("the store does not answer: {kind}"))
            }
            Self::OtherKey => Some(
                "the digest key is not that of the store: answers are not shared with other machines"
                    .to_owned(),
            ),
        }
    }
}

/// Asks the store for its state, at most once a second.
pub(crate) struct Readiness {
    store: Option<Arc<dyn Store>>,
    check: DigestKeyCheck,
    /// Becomes true when the gateway stops.
    stopping: watch::Receiver<bool>,
    /// The last state, and the time of its answer. Locked while the store is asked, so that one task does.
    last: Mutex<Option<(Instant, StoreState)>>,
}

impl Readiness {
    pub(crate) fn new(
        store: Option<Arc<dyn Store>>,
        check: DigestKeyCheck,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            store,
            check,
            stopping,
            last: Mutex::default(),
        }
    }

    /// Returns the state of the store, which is at most about a second old.
    pub(crate) async fn store(&self) -> StoreState {
        let Some(store) = &self.store else {
            return StoreState::NoStore;
        };
        let mut last = self.last.lock().await;
        if let Some((at, state)) = *last
            && at.elapsed() < VALID_FOR
        {
            return state;
        }
        let state = match timeout(ANSWER_WITHIN, (self.check)(Arc::clone(store))).await {
            Ok(Ok(true)) => StoreState::Ready,
            Ok(Ok(false)) => StoreState::OtherKey,
            Ok(Err(error)) => {
                tracing::debug!(%error, "the store does not answer");
                StoreState::Failing(error.kind.name())
            }
            Err(_) => StoreState::Failing("timed_out"),
        };
        let before = last.replace((Instant::now(), state));
        if before.is_none_or(|(_, before)| before != state) {
            tracing::info!(?state, "the store's state has changed");
        }
        state
    }

    /// Returns the response to `/readyz`.
    pub(crate) async fn response(&self) -> Response<Body> {
        let is_stopping = *self.stopping.borrow();
        let reason = if is_stopping {
            Some("the gateway is stopping".to_owned())
        } else {
            self.store().await.reason()
        };
        let (status, text) = match reason {
            None => (StatusCode::OK, "ok\n".to_owned()),
            Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
        };
        let mut response = Response::new(body::full(text));
        *response.status_mut() = status;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, plain);
        response
    }
}
