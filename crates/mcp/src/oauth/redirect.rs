//! The redirect of the browser to this machine: a listener on loopback that serves one path, for one login.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use url::Url;

use super::{OauthError, OauthErrorKind};

/// The only path that is served.
const PATH: &str = "/callback";

/// Maximum size of the head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Maximum time for a request: browsers open connections in advance that they never use.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of connections at the same time.
const MAX_CONNECTIONS: usize = 32;

/// The response of an authorization, as the browser brings it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AuthorizationResponse {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
    pub(super) error_description: Option<String>,
}

impl AuthorizationResponse {
    /// Reads the response in a URL.
    pub(super) fn from_url(url: &Url) -> Self {
        let parameter = |name: &str| {
            let mut pairs = url.query_pairs();
            let found = pairs.find(|(key, _)| key == name);
            found.map(|(_, value)| value.into_owned())
        };
        Self {
            code: parameter("code").filter(|code| !code.is_empty()),
            state: parameter("state"),
            issuer: parameter("iss"),
            error: parameter("error"),
            error_description: parameter("error_description"),
        }
    }
}

/// The verdict about a response, for the page that the browser shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// The response belongs to the login.
    Received,
    /// The response belongs to no login that goes on here.
    Foreign,
}

/// A response, and where its page is sent to.
pub(super) struct Received {
    pub(super) response: AuthorizationResponse,
    pub(super) page: oneshot::Sender<Page>,
}

/// A listener.
pub(super) struct RedirectListener {
    listener: TcpListener,
    port: u16,
}

impl RedirectListener {
    /// Listens on this port of the loopback interface, or on any free one.
    pub(super) async fn bind(port: Option<u16>) -> Result<Self, OauthError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0)));
        let fault = |error: std::io::Error| {
            OauthError::new(
                OauthErrorKind::Unavailable,
                format!("cannot listen for the browser at {address}: {error}"),
            )
        };
        let listener = TcpListener::bind(address).await.map_err(fault)?;
        let port = listener.local_addr().map_err(fault)?.port();
        Ok(Self { listener, port })
    }

    /// The address for the browser.
    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Passes responses on, until the receiver is dropped and the last page is sent.
    pub(super) async fn serve(self, responses: mpsc::Sender<Received>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => {
                    let Ok((stream, _)) = accepted else { break };
                    if connections.len() < MAX_CONNECTIONS {
                        let responses = responses.clone();
                        connections.spawn(async move {
                            // A connection that breaks brings no response.
                            let _ = tokio::time::timeout(REQUEST_TIMEOUT, answer(stream, responses)).await;
                        });
                    }
                }
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                () = responses.closed() => break,
            }
        }
        // The page of the response that ended the login.
        while connections.join_next().await.is_some() {}
    }
}

/// Answers one request.
async fn answer(mut stream: TcpStream, responses: mpsc::Sender<Received>) -> std::io::Result<()> {
    let target = tokio::select! {
        target = read_target(&mut stream) => target?,
        // Connections that browsers open in advance do not keep the login from its end.
        () = responses.closed() => None,
    };
    let Some(target) = target else {
        return Ok(());
    };
    let base = format!("http://127.0.0.1{target}");
    let url = Url::parse(&base).ok().filter(|url| url.path() == PATH);
    let (status, text) = match url {
        None => ("404 Not Found", "There is nothing here."),
        Some(url) => {
            let (page, verdict) = oneshot::channel();
            let response = AuthorizationResponse::from_url(&url);
            let sent = responses.send(Received { response, page }).await;
            match (sent, verdict.await) {
                (Ok(()), Ok(Page::Received)) => (
                    "200 OK",
                    "Cachalot has received the answer. You can close this page and go back to the terminal.",
                ),
                _ => (
                    "400 Bad Request",
                    "This answer belongs to no login that is going on. Go back to the terminal.",
                ),
            }
        }
    };
    let page =
        format!("<!doctype html><meta charset=\"utf-8\"><title>Cachalot</title><p>{text}</p>\n");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n\
         Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n",
        page.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.as_bytes()).await?;
    stream.shutdown().await
}

/// Reads a request, and returns its target if it is a GET request.
async fn read_target(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0_u8; 2_048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut buffer).await?;
        if count == 0 || head.len() + count > MAX_HEAD_BYTES {
            return Ok(None);
        }
        head.extend_from_slice(&buffer[..count]);
    }
    let line = head.split(|byte| *byte == b'\r').next();
    let line = std::str::from_utf8(line.unwrap_or_default()).unwrap_or_default();
    let mut words = line.split(' ');
    Ok(match (words.next(), words.next()) {
        (Some("GET"), Some(target)) if target.starts_with('/') => Some(target.to_owned()),
        _ => Some("/".to_owned()),
    })
}
