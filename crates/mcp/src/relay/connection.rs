//! Connections to servers: how they are opened and closed.

use std::sync::Arc;

use async_trait::async_trait;

use super::Upstream;

/// Ends a connection to a server in order.
#[async_trait]
pub trait Close: Send + Sync {
    /// Ends the session and waits for the end of the server's program, which is killed after a grace period. Requests in
    /// flight may still be answered meanwhile.
    async fn close(&self);
}

/// A connection to a server.
#[derive(Clone)]
pub struct Connection {
    /// Answers requests: the server, or decorators around it.
    pub upstream: Arc<dyn Upstream>,
    /// Ends the connection.
    pub closer: Arc<dyn Close>,
}

/// Opens connections to a server.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Opens a connection for one session, or (`None`) for all requests that belong to no session.
    ///
    /// # Errors
    /// If the server cannot be started, as a sentence for the user.
    async fn connect(&self, session: Option<Arc<str>>) -> Result<Connection, String>;

    /// Returns true if a request of a revision with sessions may be sent outside of one: a server behind HTTP decides
    /// itself.
    fn allows_requests_without_session(&self) -> bool {
        false
    }
}
