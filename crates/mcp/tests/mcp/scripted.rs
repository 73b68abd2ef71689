//! An HTTP server whose answers a test scripts. It records what it receives.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use axum::routing::any;
use cachalot_core::Secret;
use cachalot_mcp::{McpSettings, McpTransport};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// A request that was received.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) http_method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) message: Value,
    pub(crate) at: Instant,
}

impl Seen {
    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn params(&self) -> &Value {
        &self.message["params"]
    }

    pub(crate) fn meta(&self, name: &str) -> &Value {
        &self.message["params"]["_meta"][format!("io.modelcontextprotocol/{name}")]
    }
}

/// An answer.
pub(crate) enum Reply {
    /// The result of the request, as JSON.
    Result(Value),
    /// The same, with the ID of a session.
    Session(&'static str, Value),
    /// An error of the protocol, with a status.
    Error(u16, Value),
    /// A status and a plain text.
    Text(u16, &'static str),
    /// The events of a stream, which ends after them.
    Events(String),
}

type Script = dyn Fn(&Seen) -> Reply + Send + Sync;

pub(crate) struct ScriptedServer {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Clone)]
struct Served {
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl ScriptedServer {
    pub(crate) async fn open(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let served = Served {
            script: Arc::new(script),
            seen: Arc::clone(&seen),
        };
        let routes = Router::new().fallback(any(receive)).with_state(served);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.unwrap();
        });
        Self {
            port,
            seen,
            serving,
        }
    }

    pub(crate) fn settings(&self) -> McpSettings {
        McpSettings::new(
            "test",
            McpTransport::Http {
                url: Secret::new(format!("http://127.0.0.1:{}/mcp", self.port)),
                headers: BTreeMap::new(),
            },
        )
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What was posted, in order.
    pub(crate) fn posted(&self) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.http_method == "POST");
        seen
    }

    /// The requests of this method, in order.
    pub(crate) fn of(&self, method: &str) -> Vec<Seen> {
        let mut posted = self.posted();
        posted.retain(|seen| seen.method() == method);
        posted
    }
}

async fn receive(
    State(served): State<Served>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let headers = headers.iter().map(|(name, value)| {
        let value = value.to_str().unwrap_or("not ASCII").to_owned();
        (name.as_str().to_owned(), value)
    });
    let seen = Seen {
        http_method: method.to_string(),
        path: uri.path().to_owned(),
        headers: headers.collect(),
        message: serde_json::from_slice(&body).unwrap_or_default(),
        at: Instant::now(),
    };
    served.seen.lock().unwrap().push(seen.clone());
    let id = seen.message.get("id");
    let mut response = Response::builder();
    let (kind, body) = match (served.script)(&seen) {
        _ if method == Method::POST && id.is_none() => {
            response = response.status(202);
            ("text/plain", String::new())
        }
        Reply::Result(result) => ("application/json", answer(id, "result", &result)),
        Reply::Session(session, result) => {
            response = response.header("mcp-session-id", session);
            ("application/json", answer(id, "result", &result))
        }
        Reply::Error(status, error) => {
            response = response.status(status);
            ("application/json", answer(id, "error", &error))
        }
        Reply::Text(status, text) => {
            response = response.status(status);
            ("text/plain", text.to_owned())
        }
        Reply::Events(events) => ("text/event-stream", events),
    };
    let response = response.header("content-type", kind);
    response.body(Body::from(body)).unwrap()
}

fn answer(id: Option<&Value>, member: &str, value: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, member: value }).to_string()
}
