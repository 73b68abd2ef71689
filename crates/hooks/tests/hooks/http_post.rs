//! `http_post`: tells a server what happens.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use cachalot_hooks::{Event, Input, Output};
use serde_json::{Value, json};

use crate::seam::Fixture;

/// A received request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Posted {
    pub(crate) path: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

#[derive(Clone)]
struct Shared {
    posted: Arc<Mutex<Vec<Posted>>>,
    status: Arc<Mutex<StatusCode>>,
}

/// A server that takes note and answers as it is told to.
pub(crate) struct Server {
    pub(crate) url: String,
    shared: Shared,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let shared = Shared {
            posted: Arc::default(),
            status: Arc::new(Mutex::new(StatusCode::OK)),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(take_note).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, shared }
    }

    pub(crate) fn answer(&self, status: StatusCode) {
        *self.shared.status.lock().unwrap() = status;
    }

    /// The requests since the last call.
    pub(crate) fn posted(&self) -> Vec<Posted> {
        std::mem::take(&mut *self.shared.posted.lock().unwrap())
    }
}

async fn take_note(
    State(shared): State<Shared>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    assert_eq!(method, Method::POST);
    shared.posted.lock().unwrap().push(Posted {
        path: uri.to_string(),
        content_type: headers["content-type"].to_str().unwrap().to_owned(),
        body: String::from_utf8(body.to_vec()).unwrap(),
    });
    *shared.status.lock().unwrap()
}

#[tokio::test]
async fn http_post_sends_a_text_with_its_content_type() {
    let (server, fixture) = (Server::start().await, Fixture::new());
    let url = format!("{}/done?a=b", server.url);
    let input = fixture.input(Event::Stop);
    for (text, content_type) in [
        ("The agent has finished.", "text/plain; charset=utf-8"),
        (r#"{"text": "finished"}"#, "application/json"),
        ("", "text/plain; charset=utf-8"),
    ] {
        let output = fixture.run("http_post", &[&url, text], &input).await;
        assert_eq!(output.unwrap(), Output::default());
        let expected = Posted {
            path: "/done?a=b".to_owned(),
            content_type: content_type.to_owned(),
            body: text.to_owned(),
        };
        assert_eq!(server.posted(), [expected]);
    }
}

#[tokio::test]
async fn http_post_sends_the_hook_input_without_a_text() {
    let (server, fixture) = (Server::start().await, Fixture::new());
    let input = fixture.input(Event::PostToolUse);
    let output = fixture.run("http_post", &[&server.url], &input).await;
    assert_eq!(output.unwrap(), Output::default());
    let posted = server.posted().remove(0);
    assert_eq!(posted.content_type, "application/json");
    let reported: Value = serde_json::from_str(&posted.body).unwrap();
    assert_eq!(reported["hook_event_name"], json!("post_tool_use"));
    assert_eq!(reported["session_id"], json!("s-1"));
    assert_eq!(reported["tool_name"], json!("read_file"));
}

#[tokio::test]
async fn http_post_failure_does_not_affect_the_turn_and_is_reported_once() {
    let (server, fixture) = (Server::start().await, Fixture::new());
    server.answer(StatusCode::INTERNAL_SERVER_ERROR);
    let input = fixture.input(Event::TurnEnd);
    let arguments = [server.url.as_str(), "x"];
    let first = fixture.run("http_post", &arguments, &input).await.unwrap();
    let message = first.system_message.clone().unwrap();
    assert!(message.contains("`http_post` at turn_end"), "{message}");
    assert!(message.contains("500"), "{message}");
    let silent = Output::default();
    assert_eq!(
        Output {
            system_message: None,
            ..first
        },
        silent
    );
    let again = fixture.run("http_post", &arguments, &input).await.unwrap();
    assert_eq!(again, silent);
    // Another session has not heard of it.
    let other = Input {
        session_id: "s-2".to_owned(),
        ..input.clone()
    };
    let said = fixture.run("http_post", &arguments, &other).await.unwrap();
    assert!(said.system_message.is_some());
    // It works, and then fails once more.
    server.answer(StatusCode::NO_CONTENT);
    assert_eq!(
        fixture.run("http_post", &arguments, &input).await.unwrap(),
        silent
    );
    server.answer(StatusCode::NOT_FOUND);
    let said = fixture.run("http_post", &arguments, &input).await.unwrap();
    assert!(said.system_message.unwrap().contains("404"));
    assert_eq!(server.posted().len(), 5);
}

#[tokio::test]
async fn http_post_connection_error_hides_secrets_of_the_url() {
    let fixture = Fixture::new();
    let url = "http://user:hunter2@127.0.0.1:1/hook?token=hunter3";
    let input = fixture.input(Event::SessionEnd);
    let output = fixture.run("http_post", &[url, "x"], &input).await.unwrap();
    let message = output.system_message.unwrap();
    assert!(message.contains("127.0.0.1:1/hook"), "{message}");
    assert!(!message.contains("hunter"), "{message}");
}

#[test]
fn http_post_requires_a_valid_url() {
    let fixture = Fixture::new();
    for (arguments, expected) in [
        (&[][..], "where to"),
        (&["example.com/hook"], "`example.com/hook` is no URL"),
        (&["ftp://example.com"], "begins with https://"),
        (
            &["https://example.com", "one", "two"],
            "is given `two`, too",
        ),
    ] {
        let refusal = fixture.refusal("http_post", arguments);
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.contains("; "), "no remedy: {refusal}");
    }
    let refusal = fixture.refusal("http_post", &["ftp://user:hunter2@example.com"]);
    assert!(!refusal.contains("hunter2"), "{refusal}");
}

#[test]
fn http_post_supports_every_event() {
    let fixture = Fixture::new();
    let events: Vec<Event> = Event::all().collect();
    assert_eq!(fixture.builtin("http_post").events(), events);
}
