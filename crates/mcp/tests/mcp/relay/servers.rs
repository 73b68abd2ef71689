//! The server of the tests, as a program and behind HTTP.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, Write as _};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use cachalot_core::Secret;
use cachalot_mcp::relay::{
    Connector, ProgramConnector, RemoteConnector, ServerAddress, ServerCommand,
};
use futures_util::{StreamExt as _, stream};
use tokio::task::JoinHandle;

use super::puppet::Puppet;
use crate::ReportRecorder;

/// Says that the test is to be the server.
const SERVE: &str = "CACHALOT_TEST_PUPPET";

/// Not a test: the program that [`program`] describes.
#[test]
fn serve() {
    if std::env::var(SERVE).is_err() {
        return;
    }
    let mut puppet = Puppet::default();
    let mut out = std::io::stdout();
    // The test harness has written half a line before.
    writeln!(out).unwrap();
    for line in std::io::stdin().lock().lines() {
        for answer in puppet.answer(&line.unwrap()) {
            writeln!(out, "{answer}").unwrap();
        }
        out.flush().unwrap();
    }
    std::process::exit(0);
}

/// The server as a program.
pub(crate) fn program(reporter: &Arc<ReportRecorder>) -> Arc<dyn Connector> {
    let arguments = ["relay::servers::serve", "--exact", "--nocapture"];
    Arc::new(ProgramConnector {
        command: ServerCommand {
            name: "puppet".to_owned(),
            program: std::env::current_exe().unwrap().into(),
            arguments: arguments.map(Into::into).into(),
            environment: BTreeMap::from([(SERVE.to_owned(), "yes".to_owned())]),
            directory: None,
            launcher: Vec::new(),
        },
        reporter: reporter.clone(),
    })
}

/// A server that cannot be started.
pub(crate) fn missing(reporter: &Arc<ReportRecorder>) -> Arc<dyn Connector> {
    Arc::new(ProgramConnector {
        command: ServerCommand {
            name: "missing".to_owned(),
            program: "no-such-program-anywhere".into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: None,
            launcher: Vec::new(),
        },
        reporter: reporter.clone(),
    })
}

/// The server behind HTTP.
pub(crate) struct HttpPuppet {
    pub(crate) connector: Arc<dyn Connector>,
    served: Served,
    serving: JoinHandle<()>,
}

#[derive(Clone, Default)]
struct Served {
    puppet: Arc<Mutex<Puppet>>,
    requests: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    /// Set when all sessions have expired.
    has_expired: Arc<Mutex<bool>>,
    /// The end of the text of the stream that was cut.
    rest: Arc<Mutex<String>>,
    /// The answers to the next requests for a stream.
    streams: Arc<Mutex<VecDeque<(StatusCode, String)>>>,
}

const SESSION: &str = "a-session";

impl HttpPuppet {
    pub(crate) async fn open(reporter: &Arc<ReportRecorder>) -> Self {
        let served = Served::default();
        let methods = post(receive).get(listen).delete(end);
        let routes = Router::new()
            .route("/mcp", methods)
            .with_state(served.clone());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.unwrap();
        });
        let address = ServerAddress {
            name: "puppet".to_owned(),
            url: Secret::new(format!("http://127.0.0.1:{port}/mcp")),
            headers: BTreeMap::new(),
        };
        let connector = RemoteConnector::new(address, &BTreeMap::new(), reporter.clone()).unwrap();
        Self {
            connector: Arc::new(connector),
            served,
            serving,
        }
    }

    /// The methods of the HTTP requests so far, with their headers.
    pub(crate) fn requests(&self) -> Vec<(String, HeaderMap)> {
        self.served.requests.lock().unwrap().clone()
    }

    /// Sets the answers to the next requests for a stream: a status, and the events of a success.
    pub(crate) fn set_streams(&self, streams: &[(StatusCode, &str)]) {
        let streams = streams.iter();
        let streams = streams.map(|(status, events)| (*status, (*events).to_owned()));
        *self.served.streams.lock().unwrap() = streams.collect();
    }

    pub(crate) fn expire(&self) {
        *self.served.has_expired.lock().unwrap() = true;
    }
}

impl Drop for HttpPuppet {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn note(served: &Served, what: &str, headers: &HeaderMap) {
    let noted = (what.to_owned(), headers.clone());
    served.requests.lock().unwrap().push(noted);
}

async fn receive(State(served): State<Served>, headers: HeaderMap, body: Bytes) -> Response {
    let text = std::str::from_utf8(&body).unwrap();
    let message: serde_json::Value = serde_json::from_str(text).unwrap();
    let method = message["method"].as_str().unwrap_or_default();
    note(&served, &format!("POST {method}"), &headers);
    let has_session = headers
        .get("mcp-session-id")
        .is_some_and(|id| id == SESSION);
    if has_session && *served.has_expired.lock().unwrap() {
        return (StatusCode::NOT_FOUND, "gone").into_response();
    }
    if method == "test/login" {
        let challenge = [(WWW_AUTHENTICATE, "Bearer scope=\"a\"")];
        return (StatusCode::UNAUTHORIZED, challenge, "who?").into_response();
    }
    if method == "test/cut" {
        // The stream ends before the response, which waits for the client to come back.
        let id = &message["id"];
        let rest = format!(
            "id: e2\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"resumed\":1.10}}}}\n\n"
        );
        *served.rest.lock().unwrap() = rest;
        let start = "id: e1\nretry: 10\ndata: \n\n";
        return ([(CONTENT_TYPE, "text/event-stream")], start).into_response();
    }
    let mut answers = served.puppet.lock().unwrap().answer(text);
    let session = [("mcp-session-id", SESSION)];
    match (method, answers.as_slice()) {
        ("initialize", [answer]) => (
            session,
            [(CONTENT_TYPE, "application/json")],
            answer.clone(),
        )
            .into_response(),
        (_, []) if message["id"].is_null() || method.is_empty() => {
            StatusCode::ACCEPTED.into_response()
        }
        ("test/ask" | "test/wait", _) => {
            // The stream stays open; the response to the client's answer comes on it in time.
            let asked = stream::iter(answers.pop().map(|asked| format!("data: {asked}\n\n")));
            let puppet = Arc::clone(&served.puppet);
            let id = message["id"].clone();
            let answered = stream::unfold(false, move |is_done| {
                let (puppet, id) = (Arc::clone(&puppet), id.clone());
                async move {
                    loop {
                        if is_done {
                            return None;
                        }
                        if let Some(text) = puppet.lock().unwrap().take_response(&id) {
                            return Some((format!("data: {text}\n\n"), true));
                        }
                        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                    }
                }
            });
            let events = asked.chain(answered).map(Ok::<_, std::convert::Infallible>);
            (
                [(CONTENT_TYPE, "text/event-stream")],
                Body::from_stream(events),
            )
                .into_response()
        }
        ("", [answer]) => {
            // The response to the request that asks.
            served.puppet.lock().unwrap().keep_response(answer.clone());
            StatusCode::ACCEPTED.into_response()
        }
        (_, [answer]) => ([(CONTENT_TYPE, "application/json")], answer.clone()).into_response(),
        (_, several) => {
            let events: String = several
                .iter()
                .map(|answer| format!("data: {answer}\n\n"))
                .collect();
            ([(CONTENT_TYPE, "text/event-stream")], events).into_response()
        }
    }
}

async fn listen(State(served): State<Served>, headers: HeaderMap) -> Response {
    note(&served, "GET", &headers);
    if headers.get("last-event-id").is_some_and(|id| id == "e1") {
        let rest = std::mem::take(&mut *served.rest.lock().unwrap());
        return ([(CONTENT_TYPE, "text/event-stream")], rest).into_response();
    }
    match served.streams.lock().unwrap().pop_front() {
        Some((StatusCode::OK, events)) => {
            ([(CONTENT_TYPE, "text/event-stream")], events).into_response()
        }
        Some((status, _)) => status.into_response(),
        None => StatusCode::METHOD_NOT_ALLOWED.into_response(),
    }
}

async fn end(State(served): State<Served>, headers: HeaderMap) -> StatusCode {
    note(&served, "DELETE", &headers);
    StatusCode::OK
}
