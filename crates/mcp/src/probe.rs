//! The probe for the era of a server: `server/discover` as the first request, by the rules of the specification.
//!
//! The protocol library falls back to the handshake if discovery is refused with an error that is not one of the newer
//! protocol. This transport turns everything else that identifies an older server into such an error: no answer in
//! time, an answer to another request, and a result that is no result of discovery.

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage,
    ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::time::Instant;

/// A transport that probes.
pub(super) struct ProbingTransport<T> {
    inner: T,
    /// The maximum time to wait for the answer to discovery.
    limit: Duration,
    /// The discovery that was sent, and the time until which its answer counts.
    probe: Option<(RequestId, Instant)>,
    /// The discovery whose answer did not come in time.
    abandoned: Option<RequestId>,
    late: LateDiscovery,
}

/// Set when a server has answered discovery, but too late. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct LateDiscovery(Arc<AtomicBool>);

impl LateDiscovery {
    /// True if the server has answered discovery too late.
    pub(super) fn has_come(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The error of a transport that probes.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError<E: Error + 'static> {
    /// The server has not taken the request in time.
    #[error("no answer to `server/discover` within {} seconds", .0.as_secs_f64())]
    Silent(Duration),
    /// The error of the transport.
    #[error("{0}")]
    Transport(#[source] E),
}

impl<T> ProbingTransport<T> {
    pub(super) fn new(inner: T, limit: Duration, late: LateDiscovery) -> Self {
        Self {
            inner,
            limit,
            probe: None,
            abandoned: None,
            late,
        }
    }

    /// Returns the message for the library: the answer to discovery, or an error in its place. `None` if the message
    /// comes too late.
    fn judged(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let (id, result) = match &message {
            ServerJsonRpcMessage::Response(answer) => (Some(&answer.id), Some(&answer.result)),
            ServerJsonRpcMessage::Error(error) => (error.id.as_ref(), None),
            _ => return Some(message),
        };
        let discovers = matches!(result, Some(ServerResult::DiscoverResult(_)));
        if let Some((probe, _)) = self.probe.take() {
            // No other request was sent: this is the answer, also with another ID.
            return Some(match message {
                ServerJsonRpcMessage::Response(mut answer) if discovers => {
                    answer.id = probe;
                    ServerJsonRpcMessage::Response(answer)
                }
                ServerJsonRpcMessage::Error(error) => {
                    ServerJsonRpcMessage::error(recognized(error.error), Some(probe))
                }
                _ => refusal("the answer to `server/discover` is no result of it", probe),
            });
        }
        if self.abandoned.is_some() && self.abandoned.as_ref() == id {
            self.abandoned = None;
            self.late.0.store(discovers, Ordering::Release);
            return None;
        }
        Some(message)
    }
}

/// Returns an error as it is, unless it claims to list the supported versions and does not: it is then no error of the
/// newer protocol.
fn recognized(error: ErrorData) -> ErrorData {
    let lists_versions = || {
        let supported = error.data.as_ref()?.get("supported")?.as_array()?;
        supported
            .iter()
            .all(|version| version.is_string())
            .then_some(())
    };
    if error.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION || lists_versions().is_some() {
        return error;
    }
    ErrorData {
        code: ErrorCode::INVALID_REQUEST,
        ..error
    }
}

/// An error that identifies an older server.
fn refusal(why: &'static str, id: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData {
        code: ErrorCode::METHOD_NOT_FOUND,
        message: Cow::Borrowed(why),
        data: None,
    };
    ServerJsonRpcMessage::error(error, Some(id))
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for ProbingTransport<T> {
    type Error = ProbeError<T::Error>;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let mut limit = None;
        if let ClientJsonRpcMessage::Request(request) = &message
            && let ClientRequest::DiscoverRequest(_) = request.request
        {
            self.probe = Some((request.id.clone(), Instant::now() + self.limit));
            limit = Some(self.limit);
        }
        let sending = self.inner.send(message);
        async move {
            match limit {
                None => sending.await,
                // Over HTTP, a request is sent when the answer begins.
                Some(limit) => tokio::time::timeout(limit, sending)
                    .await
                    .map_err(|_| ProbeError::Silent(limit))?,
            }
            .map_err(ProbeError::Transport)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let until = self.probe.as_ref().map(|(_, until)| *until);
            let received = match until {
                None => self.inner.receive().await,
                Some(until) => match tokio::time::timeout_at(until, self.inner.receive()).await {
                    Ok(received) => received,
                    Err(_) => {
                        let (id, _) = self.probe.take()?;
                        self.abandoned = Some(id.clone());
                        return Some(refusal("no answer to `server/discover` in time", id));
                    }
                },
            };
            if let Some(judged) = self.judged(received?) {
                return Some(judged);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await.map_err(ProbeError::Transport)
    }
}
