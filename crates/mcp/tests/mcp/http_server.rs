//! The server behind streamable HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use cachalot_core::Secret;
use cachalot_mcp::{McpSettings, McpTransport};
use serde_json::Value;
use tokio::task::JoinHandle;

use super::server::{Server, ServerBehavior};

/// A server on loopback.
pub(crate) struct HttpServer {
    pub(crate) port: u16,
    pub(crate) got: Arc<Mutex<Vec<Value>>>,
    /// Set when it wants other credentials.
    pub(crate) challenges: Arc<AtomicBool>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Served {
    server: Arc<Mutex<Server>>,
    got: Arc<Mutex<Vec<Value>>>,
    challenges: Arc<AtomicBool>,
}

/// Its challenge.
const CHALLENGE: &str = r#"Bearer error="invalid_token", resource_metadata="https://auth.example/.well-known/oauth-protected-resource""#;

/// The key that it wants.
pub(crate) const KEY: &str = "open-sesame-key";

impl HttpServer {
    /// On any port, or on this one.
    pub(crate) async fn open(port: u16) -> Self {
        let got = Arc::new(Mutex::new(Vec::new()));
        let served = Served {
            server: Arc::new(Mutex::new(Server::new(ServerBehavior::default()))),
            got: Arc::clone(&got),
            challenges: Arc::default(),
        };
        let challenges = Arc::clone(&served.challenges);
        let routes = Router::new()
            .route("/mcp", post(receive))
            .with_state(served);
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.unwrap();
        });
        Self {
            port,
            got,
            challenges,
            serving,
        }
    }

    pub(crate) fn settings(&self, name: &str, key: &str) -> McpSettings {
        McpSettings::new(
            name,
            McpTransport::Http {
                url: Secret::new(format!("http://127.0.0.1:{}/mcp", self.port)),
                headers: BTreeMap::from([("X-Key".to_owned(), Secret::new(key.to_owned()))]),
            },
        )
    }

    pub(crate) fn methods(&self) -> Vec<String> {
        let got = self.got.lock().unwrap();
        got.iter()
            .map(|message| message["method"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Closes it, and every connection.
    pub(crate) async fn close(self) -> u16 {
        self.serving.abort();
        let _ = self.serving.await;
        self.port
    }
}

async fn receive(State(served): State<Served>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get("x-key").is_none_or(|key| key != KEY) {
        return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
    }
    if served.challenges.load(Ordering::SeqCst) {
        let challenge = [(WWW_AUTHENTICATE, CHALLENGE)];
        return (StatusCode::UNAUTHORIZED, challenge).into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    served.got.lock().unwrap().push(message.clone());
    let answers = served.server.lock().unwrap().answer(&message);
    let events = |answers: &[Value]| -> String {
        answers
            .iter()
            .map(|answer| format!("event: message\ndata: {answer}\n\n"))
            .collect()
    };
    match answers.as_slice() {
        [] if message["id"].is_null() => StatusCode::ACCEPTED.into_response(),
        // A request that is not answered: the stream stays open.
        [] => {
            let never = futures_util::stream::pending::<Result<Bytes, Infallible>>();
            (
                [(CONTENT_TYPE, "text/event-stream")],
                Body::from_stream(never),
            )
                .into_response()
        }
        [answer] => ([(CONTENT_TYPE, "application/json")], answer.to_string()).into_response(),
        several => ([(CONTENT_TYPE, "text/event-stream")], events(several)).into_response(),
    }
}
