//! `http_post`: tells a server what happens.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use cachalot_hooks::{Event, Input, Output};
use serde_json::{Value, json};

use crate::seam::World;

/// What came in.
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

    /// What came in since this was last asked.
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
async fn a_text_is_posted_as_what_it_is() {
    let (server, world) = (Server::start().await, World::new());
    let url = format!("{}/done?a=b", server.url);
    let input = world.input(Event::Stop);
    for (text, content_type) in [
        ("The agent has finished.", "text/plain; charset=utf-8"),
        (r#"{"text": "finished"}"#, "application/json"),
        ("", "text/plain; charset=utf-8"),
    ] {
        let output = world.run("http_post", &[&url, text], &input).await;
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
async fn without_a_text_the_hook_input_is_posted() {
    let (server, world) = (Server::start().await, World::new());
    let input = world.input(Event::PostToolUse);
    let output = world.run("http_post", &[&server.url], &input).await;
    assert_eq!(output.unwrap(), Output::default());
    let posted = server.posted().remove(0);
    assert_eq!(posted.content_type, "application/json");
    let told: Value = serde_json::from_str(&posted.body).unwrap();
    assert_eq!(told["hook_event_name"], json!("post_tool_use"));
    assert_eq!(told["session_id"], json!("s-1"));
    assert_eq!(told["tool_name"], json!("read_file"));
}

#[tokio::test]
async fn a_failing_server_does_not_affect_the_turn_and_is_reported_once() {
    let (server, world) = (Server::start().await, World::new());
    server.answer(StatusCode::INTERNAL_SERVER_ERROR);
    let input = world.input(Event::TurnEnd);
    let arguments = [server.url.as_str(), "x"];
    let first = world.run("http_post", &arguments, &input).await.unwrap();
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
    let again = world.run("http_post", &arguments, &input).await.unwrap();
    assert_eq!(again, silent);
    // Another session has not heard of it.
    let other = Input {
        session_id: "s-2".to_owned(),
        ..input.clone()
    };
    let said = world.run("http_post", &arguments, &other).await.unwrap();
    assert!(said.system_message.is_some());
    // It works, and then fails once more.
    server.answer(StatusCode::NO_CONTENT);
    assert_eq!(
        world.run("http_post", &arguments, &input).await.unwrap(),
        silent
    );
    server.answer(StatusCode::NOT_FOUND);
    let said = world.run("http_post", &arguments, &input).await.unwrap();
    assert!(said.system_message.unwrap().contains("404"));
    assert_eq!(server.posted().len(), 5);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_the_secrets_of_its_address() {
    let world = World::new();
    let url = "http://user:hunter2@127.0.0.1:1/hook?token=hunter3";
    let input = world.input(Event::SessionEnd);
    let output = world.run("http_post", &[url, "x"], &input).await.unwrap();
    let message = output.system_message.unwrap();
    assert!(message.contains("127.0.0.1:1/hook"), "{message}");
    assert!(!message.contains("hunter"), "{message}");
}

#[test]
fn a_url_is_needed_that_can_be_posted_to() {
    let world = World::new();
    for (arguments, expected) in [
        (&[][..], "where to"),
        (&["example.com/hook"], "`example.com/hook` is no URL"),
        (&["ftp://example.com"], "begins with https://"),
        (
            &["https://example.com", "one", "two"],
            "is given `two`, too",
        ),
    ] {
        let refusal = world.refusal("http_post", arguments);
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.contains("; "), "no remedy: {refusal}");
    }
    let refusal = world.refusal("http_post", &["ftp://user:hunter2@example.com"]);
    assert!(!refusal.contains("hunter2"), "{refusal}");
}

#[test]
fn it_is_for_every_event() {
    let world = World::new();
    let events: Vec<Event> = Event::all().collect();
    assert_eq!(world.builtin("http_post").events(), events);
}
