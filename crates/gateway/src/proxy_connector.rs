//! Connects to upstreams, through an HTTP proxy if the environment names one.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

type Fault = Box<dyn Error + Send + Sync>;

/// A connector that asks a proxy for a tunnel (`CONNECT`) to servers for which there is one.
#[derive(Clone)]
pub(crate) struct ProxyConnector {
    direct: HttpConnector,
    proxies: Arc<Matcher>,
}

impl ProxyConnector {
    pub(crate) fn new(direct: HttpConnector, proxies: Matcher) -> Self {
        Self {
            direct,
            proxies: Arc::new(proxies),
        }
    }

    async fn connect(mut self, uri: Uri) -> Result<TokioIo<TcpStream>, Fault> {
        let Some(proxy) = self.proxies.intercept(&uri) else {
            return Ok(self.direct.call(uri).await?);
        };
        if proxy.uri().scheme_str() != Some("http") {
            let host = proxy.uri().host().unwrap_or_default();
            return Err(format!(
                "the proxy {host} is not an http:// proxy, the only kind that is used"
            )
            .into());
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.direct);
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        let stream = tunnel.call(uri).await;
        stream.map_err(|error| {
            format!(
                "through the proxy {}: {error}",
                proxy.uri().host().unwrap_or_default()
            )
            .into()
        })
    }
}

impl Service<Uri> for ProxyConnector {
    type Response = TokioIo<TcpStream>;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Fault>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
