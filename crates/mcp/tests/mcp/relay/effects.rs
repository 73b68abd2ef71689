//! Responses to requests that the server may still work on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{ManualClock, Secret, SecretSet};
use cachalot_mcp::oauth::ServerAuthorization;
use cachalot_mcp::relay::{
    AuthorizedConnector, Connector, Frame, FrameKind, RemoteConnector, RequestContext,
    ServerAddress, SeveralConnector,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::servers::HttpPuppet;
use crate::ReportRecorder;
use crate::cache_fixture::START;
use crate::proxy_caching::fake::{Proxy, engine, is_served, response, until};

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

/// The JSON-RPC error of a server that does not know the id.
const REFUSAL: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}"#;

/// A server on loopback that sends the same bytes to each connection, and closes it.
struct RawServer {
    port: u16,
    serving: JoinHandle<()>,
}

impl RawServer {
    async fn open(answer: String) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = answer.clone();
                tokio::spawn(async move {
                    read_request(&mut stream).await;
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    // An error means that the client has closed it before.
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { port, serving }
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Reads a request with its body: a connection with unread bytes is reset when it is closed.
async fn read_request(stream: &mut TcpStream) {
    let mut text = Vec::new();
    loop {
        assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0);
        let text = String::from_utf8_lossy(&text).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        if body.len() >= length.unwrap().trim().parse().unwrap() {
            return;
        }
    }
}

/// An HTTP response whose `content-length` is larger than its body by this.
fn http(status: u16, kind: &str, body: &str, missing: usize) -> String {
    let length = body.len() + missing;
    format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// The ways to reach a server at this port. `home` is the folder of a user without logins.
fn connectors(port: u16, home: &Path) -> [(&'static str, Arc<dyn Connector>); 3] {
    let reporter = Arc::new(ReportRecorder::default());
    let url = format!("http://127.0.0.1:{port}/mcp");
    let plain = || -> Arc<dyn Connector> {
        let address = ServerAddress {
            name: "raw".to_owned(),
            url: Secret::new(url.clone()),
            headers: BTreeMap::new(),
        };
        let connector = RemoteConnector::new(address, &BTreeMap::new(), reporter.clone());
        Arc::new(connector.unwrap())
    };
    let authorized = || -> Arc<dyn Connector> {
        let home = home.to_string_lossy().into_owned();
        let environment = Arc::new(BTreeMap::from([("XDG_DATA_HOME".to_owned(), home)]));
        let secret_set = Arc::new(SecretSet::empty());
        let authorization = ServerAuthorization::new(&url, &environment, &secret_set);
        Arc::new(AuthorizedConnector {
            inner: plain(),
            authorization: Arc::new(authorization.unwrap()),
            server: "raw".to_owned(),
        })
    };
    let several = Arc::new(SeveralConnector {
        servers: vec![("one".to_owned(), authorized())],
        reporter: reporter.clone(),
    });
    [
        ("plain", plain()),
        ("authorized", authorized()),
        ("several", several),
    ]
}

/// Returns the response to the first request of a connection.
async fn ask(connector: &Arc<dyn Connector>) -> Frame {
    let upstream = connector.connect(None).await.unwrap().upstream;
    let request = Frame::request("\"a\"", "com.example/x", "{}");
    let asking = async {
        let mut exchange = upstream.request(request, RequestContext::default()).await;
        loop {
            let message = exchange.next().await.unwrap();
            if message.kind() == FrameKind::Response {
                return message;
            }
        }
    };
    tokio::time::timeout(LONG, asking).await.unwrap()
}

#[tokio::test]
async fn requests_that_a_server_behind_http_may_still_work_on_are_marked() {
    let home = tempfile::tempdir().unwrap();
    let of_server = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#;
    let (json, events) = ("application/json", "text/event-stream");
    let page = |status| http(status, "text/html", "<html>no</html>", 0);
    let mut cases = vec![
        ("no answer".to_owned(), String::new(), true),
        (
            "a cut message".to_owned(),
            http(200, json, r#"{"jsonrpc""#, 50),
            true,
        ),
        (
            "a cut stream".to_owned(),
            http(200, events, ": x\n\n", 50),
            true,
        ),
        (
            "a stream that ends early".to_owned(),
            http(200, events, ": x\n\n", 0),
            true,
        ),
        (
            "a cut refusal".to_owned(),
            http(502, json, r#"{"jsonrpc""#, 50),
            true,
        ),
        ("an error".to_owned(), http(200, json, of_server, 0), false),
        (
            "a refusal of the server".to_owned(),
            http(503, json, REFUSAL, 0),
            false,
        ),
    ];
    for status in [500, 502, 503, 504, 520, 521, 522, 523, 524] {
        cases.push((format!("HTTP {status}"), page(status), true));
    }
    for status in [502, 504] {
        let refusal = http(status, json, REFUSAL, 0);
        cases.push((format!("HTTP {status} with a message"), refusal, true));
        let empty = http(status, json, "", 0);
        cases.push((format!("HTTP {status} without a body"), empty, true));
    }
    for status in [400, 404, 429] {
        cases.push((format!("HTTP {status}"), page(status), false));
    }
    for (what, answer, is_marked) in cases {
        let server = RawServer::open(answer).await;
        for (way, connector) in connectors(server.port, home.path()) {
            let response = ask(&connector).await;
            assert_eq!(response.id(), Some("\"a\""), "{what}, {way}");
            assert!(response.error().is_some(), "{what}, {way}: {response:?}");
            assert_eq!(
                response.has_unknown_effect(),
                is_marked,
                "{what}, {way}: {response:?}"
            );
        }
    }
}

#[tokio::test]
async fn requests_that_were_not_sent_are_not_marked() {
    let home = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for (way, connector) in connectors(port, home.path()) {
        let response = ask(&connector).await;
        let error = response.error().unwrap();
        assert!(error.contains("cannot be reached"), "{way}: {error}");
        assert!(!response.has_unknown_effect(), "{way}");
    }
}

#[tokio::test]
async fn a_write_of_a_session_that_was_closed_may_still_run() {
    const POLICY: &str = "{stateless: true, tools: {t: {ttl: 1h, assume_read_only: true}}}";
    let remote = HttpPuppet::open(&Arc::new(ReportRecorder::default())).await;
    let clock = Arc::new(ManualClock::at(START));
    let cache = engine(&clock);
    let open = async |session: &str| {
        let connection = remote.connector.connect(Some(session.into())).await;
        let connection = connection.unwrap();
        let secret_set = Arc::new(SecretSet::empty());
        let proxy = Proxy::around(
            connection.upstream,
            POLICY,
            &cache,
            &clock,
            Path::new("/"),
            secret_set,
        );
        let context = proxy.initialize(session).await;
        (proxy, context, connection.closer)
    };
    let (one, of_one, closer) = open("one").await;
    let (two, of_two, _other) = open("two").await;
    let read = async || {
        let params = r#"{"name":"t","arguments":{}}"#;
        is_served(&two.ask("tools/call", params, &of_two).await)
    };
    assert!(!read().await);
    assert!(read().await);
    let was_sent = |what: &str| remote.requests().iter().any(|(sent, _)| sent == what);
    let write = Frame::request("\"w\"", "test/wait", "{}");
    let mut write = one.begin(write, &of_one).await;
    until("the write runs", || was_sent("POST test/wait")).await;
    assert!(!read().await);
    closer.close().await;
    assert!(was_sent("DELETE"));
    let response = response(&mut write).await;
    assert!(response.error().is_some() && response.has_unknown_effect());
    for _ in 0..5 {
        assert!(!read().await);
    }
}
