//! The HTTP client for requests of the authorization: guarded, because the server names the addresses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_storage::{ErrorKind, HttpClient, HttpOptions, Method};
use http::{HeaderMap, Request, Response};
use parking_lot::Mutex;
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use serde_json::Value;
use url::{Host, Url};

use super::{OauthError, OauthErrorKind, is_loopback, is_protected};

/// Maximum size of a response.
const MAX_BODY_BYTES: u64 = 1 << 20;

/// Timeout for silence of a server.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Private networks, which are reached if the server itself is in one.
const PRIVATE_NETWORKS: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];

/// A client. It reaches public addresses, the host of the server, private addresses of its kind (loopback, private
/// network) if it is written as one, and hosts that the user allows. Requests to other machines are encrypted.
pub(super) struct GuardedHttp {
    client: HttpClient,
    /// The last failure, for messages: the library keeps no causes.
    last_failure: Mutex<Option<String>>,
}

impl GuardedHttp {
    pub(super) fn new(
        server: &Url,
        allowed: &[String],
        environment: &BTreeMap<String, String>,
    ) -> Result<Arc<Self>, OauthError> {
        let mut allow = allowed.to_vec();
        if let Some(host) = server.host_str() {
            allow.push(host.trim_matches(['[', ']']).to_owned());
        }
        let is_private = match server.host() {
            Some(Host::Ipv4(address)) => address.is_private(),
            Some(Host::Ipv6(address)) => address.is_unique_local(),
            _ => false,
        };
        if is_loopback(server) {
            allow.extend(["127.0.0.0/8", "::1", "localhost"].map(str::to_owned));
        } else if is_private {
            allow.extend(PRIVATE_NETWORKS.map(str::to_owned));
        }
        let client = HttpClient::new(HttpOptions {
            environment: environment.clone(),
            idle_timeout: IDLE_TIMEOUT,
            redirects: 5,
            allow,
            ..HttpOptions::default()
        })
        .map_err(|error| OauthError::new(OauthErrorKind::Invalid, error.to_string()))?;
        Ok(Arc::new(Self {
            client,
            last_failure: Mutex::default(),
        }))
    }

    /// Returns the last failure, once.
    pub(super) fn take_failure(&self) -> Option<String> {
        self.last_failure.lock().take()
    }

    /// Posts JSON; returns the status, the headers, and the body.
    pub(super) async fn post_json(
        &self,
        url: &str,
        headers: HeaderMap,
        body: &Value,
    ) -> Result<Response<Bytes>, OauthError> {
        let mut request = Request::new(body.to_string().into_bytes());
        *request.method_mut() = Method::POST;
        *request.headers_mut() = headers;
        let json = http::HeaderValue::from_static("application/json");
        request
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, json);
        self.send(url, request)
            .await
            .map_err(|error| OauthError::new(OauthErrorKind::Unavailable, error.to_string()))
    }

    async fn send(
        &self,
        url: &str,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Bytes>, cachalot_storage::Error> {
        let refused = |what: String| cachalot_storage::Error::new(ErrorKind::Refused, what);
        let target = Url::parse(url).map_err(|error| {
            cachalot_storage::Error::new(ErrorKind::Invalid, format!("invalid URL: {error}"))
        })?;
        if !is_protected(&target) {
            return Err(refused(format!(
                "refused to send credentials to `{target}`, which is not https://"
            )));
        }
        let (parts, body) = request.into_parts();
        // Credentials are sent to the address that the metadata names, and to no other.
        let origin = (parts.method == Method::GET).then(|| target.origin());
        let client =
            self.client
                .guarded()
                .with_redirect_check(Arc::new(move |next| match &origin {
                    Some(origin) if *origin == next.origin() => Ok(()),
                    _ => Err(refused("it redirects to another address".to_owned())),
                }));
        let request = client
            .request(parts.method, url)?
            .headers(parts.headers)
            .body(body);
        let response = client.send(request).await?;
        let status = response.status();
        let headers = response.headers().clone();
        let is_stream = headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        // A stream of events may never end, and says nothing about an authorization.
        let body = if is_stream {
            Bytes::new()
        } else {
            cachalot_storage::body(response, MAX_BODY_BYTES).await?
        };
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

impl OAuthHttpClient for GuardedHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = request.request;
            let url = request.uri().to_string();
            match self.send(&url, request).await {
                Ok(answer) => Ok(answer.map(|body| body.to_vec())),
                Err(error) => {
                    *self.last_failure.lock() = Some(error.to_string());
                    Err(Box::new(error) as OAuthHttpClientError)
                }
            }
        })
    }
}
