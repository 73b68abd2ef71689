//! The session of a revision that has sessions.

use http::HeaderValue;
use tokio::task::AbortHandle;

/// The session with a server, if there is one.
#[derive(Default)]
pub(super) struct Session {
    /// Set by a response to `initialize`.
    pub(super) is_open: bool,
    pub(super) headers: SessionHeaders,
    /// The task that reads the stream of messages that belong to no request.
    pub(super) listening: Option<AbortHandle>,
}

/// The headers of the requests of a session.
#[derive(Clone, Default)]
pub(super) struct SessionHeaders {
    pub(super) id: Option<HeaderValue>,
    /// The revision of the protocol.
    pub(super) version: Option<HeaderValue>,
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}
