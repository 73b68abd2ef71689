//! A server behind streamable HTTP.

mod call;
mod cursor;
mod endpoint;
mod event_stream;
mod headers;
mod listening;
mod refusal;
mod server;
mod session;
mod shared;
mod tool_headers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::Secret;
use cachalot_storage::{GuardedClient, HttpClient, HttpOptions};
use http::{HeaderMap, Method};
use tokio::sync::mpsc;

use self::endpoint::Endpoint;
pub(super) use self::headers::own_header;
use self::server::RemoteServer;
use self::shared::Shared;
use self::tool_headers::ToolHeaders;
use super::connection::{Connection, Connector};
use crate::Reporter;

/// Idle timeout. Long, because clients have timeouts of their own, and the stream of announcements may stay silent.
const IDLE_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Messages that wait to be read.
const WAITING: usize = 64;

/// Where a server is, and how it is reached.
#[derive(Clone)]
pub struct ServerAddress {
    /// The name of the server in messages.
    pub name: String,
    /// The URL of its endpoint.
    pub url: Secret<String>,
    /// Headers of every request.
    pub headers: BTreeMap<String, Secret<String>>,
}

/// Opens sessions of a server behind HTTP.
pub struct RemoteConnector {
    address: ServerAddress,
    own_headers: HeaderMap,
    http: GuardedClient,
    reporter: Arc<dyn Reporter>,
}

impl RemoteConnector {
    /// Creates a connector. `environment` names the proxies of HTTP.
    ///
    /// # Errors
    /// If the URL or a header is none, as a sentence for the user.
    pub fn new(
        address: ServerAddress,
        environment: &BTreeMap<String, String>,
        reporter: Arc<dyn Reporter>,
    ) -> Result<Self, String> {
        let mut own_headers = HeaderMap::new();
        for (name, value) in &address.headers {
            let (name, value) = own_header(name, value)?;
            own_headers.insert(name, value);
        }
        let refused = |error: cachalot_storage::Error| error.to_string();
        let url = url::Url::parse(address.url.expose());
        let host = url.as_ref().ok().and_then(|url| url.host_str());
        let host = host.map(|host| host.trim_matches(['[', ']']).to_owned());
        let origin = url.map(|url| url.origin());
        // Servers redirect to the same path with a slash. Headers of the client may be credentials, and stay there.
        let stays = move |next: &url::Url| match &origin {
            Ok(origin) if next.origin() == *origin => Ok(()),
            _ => Err(cachalot_storage::Error::new(
                cachalot_storage::ErrorKind::Refused,
                format!("it redirects to {next}; if that is the server, name its URL"),
            )),
        };
        let http = HttpClient::new(HttpOptions {
            environment: environment.clone(),
            idle_timeout: IDLE_TIMEOUT,
            redirects: 5,
            // The user has named it, wherever it is.
            allow: host.into_iter().collect(),
            ..HttpOptions::default()
        })
        .map_err(refused)?
        .guarded()
        .with_redirect_check(Arc::new(stays));
        // Checks the URL.
        drop(
            http.request(Method::POST, address.url.expose())
                .map_err(refused)?,
        );
        Ok(Self {
            address,
            own_headers,
            http,
            reporter,
        })
    }
}

#[async_trait]
impl Connector for RemoteConnector {
    async fn connect(&self, _session: Option<Arc<str>>) -> Result<Connection, String> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let endpoint = Endpoint {
            url: self.address.url.clone(),
            own_headers: self.own_headers.clone(),
            http: self.http.clone(),
            tool_headers: ToolHeaders::default(),
        };
        let name = self.address.name.clone();
        let shared = Shared::new(name, endpoint, Arc::clone(&self.reporter), sender);
        let server = Arc::new(RemoteServer::new(shared, receiver));
        Ok(Connection {
            upstream: server.clone(),
            closer: server,
        })
    }

    fn allows_requests_without_session(&self) -> bool {
        true
    }
}
