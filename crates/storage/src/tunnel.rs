//! Guarded connections and requests through a proxy.
//!
//! A proxy that receives a host name resolves it itself, possibly to another address than the checked one. It
//! is therefore asked for a tunnel (`CONNECT`) to a checked address, for both `http` and `https`. Requests in
//! the tunnel still contain the host name: in `Host`, and in TLS, where the certificate is verified against
//! it.

use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use cachalot_core::causes::{cause_in, root_cause};
use http::Uri;
use hyper_rustls::builderstates::WantsProtocols2;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::header::{HeaderValue, USER_AGENT};
use reqwest::{Body, Request, Response, ResponseBuilderExt as _, Url};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::guard::{AllowList, BlockedHost};
use crate::proxy::are_disabled;

type Fault = Box<dyn StdError + Send + Sync>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// A connection to a checked address of a host.
pub type Connection = TokioIo<Stream>;

/// Sends guarded requests through the proxies of an environment.
pub(crate) struct Tunnels {
    matcher: Matcher,
    allow: Arc<AllowList>,
    tls: OnceLock<ClientConfig>,
}

/// The reason why a guarded request failed.
pub(crate) enum TunnelError {
    /// The host is private.
    Refused(BlockedHost),
    /// Another error, as text.
    Failed(String),
}

impl Tunnels {
    /// Creates a sender for the proxies in these variables.
    pub(crate) fn new(environment: &BTreeMap<String, String>, allow: Arc<AllowList>) -> Self {
        Self {
            matcher: proxies(environment),
            allow,
            tls: OnceLock::new(),
        }
    }

    /// Returns the proxy for a URL, if there is one.
    pub(crate) fn proxy(&self, url: &Url) -> Option<Intercept> {
        self.matcher.intercept(&url.as_str().parse().ok()?)
    }

    /// Sends one request through a proxy, and waits for the response headers. Redirects are not followed.
    pub(crate) async fn send(
        &self,
        request: Request,
        proxy: &Intercept,
    ) -> Result<Response, TunnelError> {
        let url = request.url().clone();
        let failed = |error: &dyn StdError| TunnelError::Failed(error.to_string());
        let mut request: http::Request<Body> = request
            .try_into()
            .map_err(|error: reqwest::Error| failed(&error))?;
        let agent = HeaderValue::from_static(concat!("cachalot/", env!("CARGO_PKG_VERSION")));
        request.headers_mut().entry(USER_AGENT).or_insert(agent);
        let client = Client::builder(TokioExecutor::new())
            // The client ends with this request, so that no connection has to wait for another one.
            .pool_max_idle_per_host(0)
            .build::<_, Body>(self.connector(proxy));
        let answered = client.request(request).await;
        let response = answered.map_err(|error| match cause_in::<BlockedHost>(&error) {
            Some(refusal) => TunnelError::Refused(refusal.clone()),
            None => TunnelError::Failed(root_cause(&error)),
        })?;
        let (head, body) = response.into_parts();
        let mut response = http::Response::builder()
            .status(head.status)
            .version(head.version)
            .url(url)
            .body(Body::wrap(body))
            .map_err(|error| failed(&error))?;
        *response.headers_mut() = head.headers;
        Ok(response.into())
    }

    /// Connects to the host of a URL, through a proxy if there is one for it.
    pub(crate) async fn connect(&self, url: &Url) -> Result<Connection, TunnelError> {
        let connector = CheckedConnector {
            tunnel: self.proxy(url).map(|proxy| self.tunnel(&proxy)),
            allow: Arc::clone(&self.allow),
        };
        let connected = async { connector.connect(url.as_str().parse()?).await };
        let connected =
            connected
                .await
                .map_err(|error| match cause_in::<BlockedHost>(error.as_ref()) {
                    Some(refusal) => TunnelError::Refused(refusal.clone()),
                    None => TunnelError::Failed(root_cause(error.as_ref())),
                });
        connected.map(TokioIo::new)
    }

    fn connector(&self, proxy: &Intercept) -> HttpsConnector<CheckedConnector> {
        self.https().wrap_connector(CheckedConnector {
            tunnel: Some(self.tunnel(proxy)),
            allow: Arc::clone(&self.allow),
        })
    }

    fn tunnel(&self, proxy: &Intercept) -> ProxyTunnel {
        let tunnel = Tunnel::new(proxy.uri().clone(), self.https().build());
        match proxy.basic_auth() {
            Some(auth) => tunnel.with_auth(auth.clone()),
            None => tunnel,
        }
    }

    fn https(&self) -> HttpsConnectorBuilder<WantsProtocols2> {
        HttpsConnectorBuilder::new()
            .with_tls_config(self.tls.get_or_init(tls_config).clone())
            .https_or_http()
            .enable_http1()
    }
}

/// Returns the proxies of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. Lower-case names take precedence.
#[must_use]
pub fn proxies(environment: &BTreeMap<String, String>) -> Matcher {
    if are_disabled(environment) {
        return Matcher::builder().build();
    }
    let find = |name: &str| {
        let names = [name.to_ascii_lowercase(), name.to_owned()];
        let mut found = names.iter().filter_map(|name| environment.get(name));
        found.find(|value| !value.trim().is_empty()).cloned()
    };
    // Under CGI, `HTTP_PROXY` is set from a header of the client.
    let http = if environment.contains_key("REQUEST_METHOD") {
        environment.get("http_proxy").cloned()
    } else {
        find("HTTP_PROXY")
    };
    Matcher::builder()
        .all(find("ALL_PROXY").unwrap_or_default())
        .http(http.unwrap_or_default())
        .https(find("HTTPS_PROXY").unwrap_or_default())
        .no(find("NO_PROXY").unwrap_or_default())
        .build()
}

/// Returns the TLS configuration of all connections: the platform's trusted certificates. A minimal container has
/// none, but connections without TLS must work there.
#[must_use]
pub fn tls_config() -> ClientConfig {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // This build has only one provider; another thread may have installed it first.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    ClientConfig::with_platform_verifier().unwrap_or_else(|_| {
        ClientConfig::builder()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth()
    })
}

type ProxyTunnel = Tunnel<HttpsConnector<HttpConnector>>;

/// Connects to a checked address of a host.
#[derive(Clone)]
struct CheckedConnector {
    /// The proxy on the way.
    tunnel: Option<ProxyTunnel>,
    allow: Arc<AllowList>,
}

impl CheckedConnector {
    async fn connect(mut self, uri: Uri) -> Result<Stream, Fault> {
        let host = uri.host().unwrap_or_default();
        let port = uri.port_u16().unwrap_or(match uri.scheme_str() {
            Some("https") => 443,
            _ => 80,
        });
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let found: Vec<SocketAddr> = tokio::net::lookup_host((bare, port)).await?.collect();
        self.allow.check(bare, found.iter().map(SocketAddr::ip))?;
        let mut failure: Fault = format!("`{bare}` has no address").into();
        for address in found {
            let connected = match &mut self.tunnel {
                Some(tunnel) => through(tunnel, address).await,
                None => direct(address).await,
            };
            match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

async fn through(tunnel: &mut ProxyTunnel, address: SocketAddr) -> Result<Stream, Fault> {
    // The scheme has no meaning: the proxy receives address and port.
    let target: Uri = format!("http://{address}/").parse()?;
    std::future::poll_fn(|context| tunnel.poll_ready(context)).await?;
    Ok(tunnel.call(target).await?)
}

async fn direct(address: SocketAddr) -> Result<Stream, Fault> {
    let stream = TcpStream::connect(address).await?;
    Ok(MaybeHttpsStream::Http(TokioIo::new(stream)))
}

impl Service<Uri> for CheckedConnector {
    type Response = Stream;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Fault>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
