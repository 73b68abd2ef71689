//! A server behind HTTP whose requests have the token of the user's login.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::mpsc;

use super::connection::{Connection, Connector};
use super::program::CONNECTION_CLOSED;
use super::{Exchange, ExchangeSender, Frame, FrameKind, RequestContext, Upstream};
use crate::oauth::{Attempts, Bearer, OauthError, Refusal, ServerAuthorization};

const AUTHORIZATION: &str = "authorization";

/// Opens connections whose requests have the token of the user's login at the server. For a proxy whose only client is
/// a process of that user. A request that has credentials of its own keeps them; without a login, nothing changes.
pub struct AuthorizedConnector {
    /// Opens the connections.
    pub inner: Arc<dyn Connector>,
    /// The login.
    pub authorization: Arc<ServerAuthorization>,
    /// The name of the server in messages.
    pub server: String,
}

#[async_trait]
impl Connector for AuthorizedConnector {
    async fn connect(&self, session: Option<Arc<str>>) -> Result<Connection, String> {
        let connection = self.inner.connect(session).await?;
        Ok(Connection {
            upstream: Arc::new(AuthorizedServer(Arc::new(Shared {
                inner: connection.upstream,
                authorization: Arc::clone(&self.authorization),
                server: self.server.clone(),
            }))),
            closer: connection.closer,
        })
    }

    fn allows_requests_without_session(&self) -> bool {
        self.inner.allows_requests_without_session()
    }
}

struct AuthorizedServer(Arc<Shared>);

struct Shared {
    inner: Arc<dyn Upstream>,
    authorization: Arc<ServerAuthorization>,
    server: String,
}

#[async_trait]
impl Upstream for AuthorizedServer {
    async fn request(&self, request: Frame, context: RequestContext) -> Exchange {
        let shared = &self.0;
        if context.headers.contains_key(AUTHORIZATION) {
            return shared.inner.request(request, context).await;
        }
        let bearer = match shared.authorization.bearer().await {
            Ok(bearer) => bearer,
            Err(error) => return Exchange::answered(shared.failed(&request, &error)),
        };
        // Sent before this returns, so that messages keep their order.
        let first = shared
            .inner
            .request(request.clone(), with_token(&context, bearer.as_ref()))
            .await;
        let (sender, exchange) = Exchange::new();
        let shared = Arc::clone(shared);
        tokio::spawn(async move { shared.pass(request, context, bearer, first, sender).await });
        exchange
    }

    async fn notify(&self, message: Frame, context: RequestContext) {
        // A login that cannot be read is reported by the next request.
        let bearer = if context.headers.contains_key(AUTHORIZATION) {
            None
        } else {
            self.0.authorization.bearer().await.ok().flatten()
        };
        let context = with_token(&context, bearer.as_ref());
        self.0.inner.notify(message, context).await;
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        self.0.inner.take_unattached()
    }

    fn ends(&self) -> u64 {
        self.0.inner.ends()
    }

    fn losses(&self) -> u64 {
        self.0.inner.losses()
    }
}

impl Shared {
    /// Passes the messages of an exchange on. A request that the server has refused for its token was not executed, and
    /// is sent again when there is another one.
    async fn pass(
        &self,
        request: Frame,
        context: RequestContext,
        mut bearer: Option<Bearer>,
        mut exchange: Exchange,
        sender: ExchangeSender,
    ) {
        let mut attempts = Attempts::default();
        loop {
            let next = tokio::select! {
                next = exchange.next() => next,
                // Dropping the exchange cancels the request.
                () = sender.cancelled() => return,
            };
            let Some(message) = next else { return };
            if message.kind() != FrameKind::Response {
                if !sender.send(message) {
                    return;
                }
                continue;
            }
            let answered = match refused(&message) {
                None => Ok(None),
                Some((status, headers)) => {
                    let refusal = Refusal {
                        status,
                        headers: &headers,
                    };
                    self.other_token(&refusal, bearer.as_ref(), &mut attempts)
                        .await
                }
            };
            match answered {
                Ok(None) => {
                    sender.send(message);
                    return;
                }
                Ok(Some(other)) => {
                    let context = with_token(&context, Some(&other));
                    bearer = Some(other);
                    exchange = self.inner.request(request.clone(), context).await;
                }
                Err(error) => {
                    sender.send(self.failed(&request, &error));
                    return;
                }
            }
        }
    }

    /// Returns another token after a refusal; `None` if the refusal is not about the login.
    async fn other_token(
        &self,
        refusal: &Refusal<'_>,
        sent: Option<&Bearer>,
        attempts: &mut Attempts,
    ) -> Result<Option<Bearer>, OauthError> {
        if self.authorization.recover(refusal, sent, attempts).await? {
            self.authorization.bearer().await
        } else {
            Ok(None)
        }
    }

    fn failed(&self, request: &Frame, error: &OauthError) -> Frame {
        let id = request.id().unwrap_or("null");
        let why = format!("the MCP server `{}` {error}", self.server);
        Frame::error_response(id, CONNECTION_CLOSED, &why)
    }
}

fn with_token(context: &RequestContext, bearer: Option<&Bearer>) -> RequestContext {
    let Some(bearer) = bearer else {
        return context.clone();
    };
    let mut headers = (*context.headers).clone();
    let value = format!("Bearer {}", bearer.token.expose());
    headers.insert(AUTHORIZATION.to_owned(), value);
    RequestContext {
        headers: Arc::new(headers),
        ..context.clone()
    }
}

/// Returns status and headers of a response that refuses credentials.
fn refused(response: &Frame) -> Option<(u16, HeaderMap)> {
    let answer = response.http_answer()?;
    if !matches!(answer.status, 401 | 403) {
        return None;
    }
    let headers = answer.headers.iter().filter_map(|(name, value)| {
        let name = HeaderName::try_from(name.as_str()).ok()?;
        Some((name, HeaderValue::from_bytes(value).ok()?))
    });
    Some((answer.status, headers.collect()))
}
