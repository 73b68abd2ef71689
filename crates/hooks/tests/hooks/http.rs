//! Requests, to a server that is there.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use cachalot_hooks::{Action, Dialect, Event, HookEntry, Input};
use serde_json::{Value, json};

use crate::handler_fixture::{HandlerFixture, entry};

type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A server that answers all the same.
struct Server {
    url: String,
    seen: Seen,
}

impl Server {
    async fn answering(status: u16, body: impl Into<Bytes>) -> Self {
        let (seen, body) = (Seen::default(), body.into());
        let status = StatusCode::from_u16(status).unwrap();
        let answer = move |State(seen): State<Seen>, headers: HeaderMap, reported: Bytes| async move {
            seen.lock().unwrap().push((headers, reported));
            (status, body.clone())
        };
        let hang = || std::future::pending::<()>();
        let router = Router::new()
            .route("/hook", post(answer))
            .route("/hang", post(hang))
            .with_state(Arc::clone(&seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, seen }
    }

    fn hook(&self, event: Event) -> HookEntry {
        hook(event, &format!("{}/hook", self.url), &[])
    }
}

fn hook(event: Event, url: &str, headers: &[(&str, &str)]) -> HookEntry {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    entry(
        event,
        Action::Http {
            url: url.to_owned(),
            headers: headers.iter().map(owned).collect(),
        },
    )
}

#[tokio::test]
async fn an_http_hook_posts_its_input_and_reads_the_response() {
    let said = json!({ "decision": "block", "reason": "not on sundays" });
    let server = Server::answering(200, said.to_string()).await;
    let handler_fixture = HandlerFixture::new().with("TOKEN", "t-12345");
    let headers = [
        ("Authorization", "Bearer ${env.TOKEN}"),
        ("X-Plain", "$TOKEN"),
    ];
    let entry = hook(
        Event::UserPromptSubmit,
        &format!("{}/hook", server.url),
        &headers,
    );
    let input = Input {
        session_id: "s-1".to_owned(),
        ..Input::default()
    };
    let verdict = handler_fixture.verdict(entry, input).await;
    assert_eq!(verdict.denial(), Some("not on sundays"));
    let seen = server.seen.lock().unwrap();
    let [(headers, reported)] = seen.as_slice() else {
        panic!("one request");
    };
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["authorization"], "Bearer t-12345");
    assert_eq!(headers["x-plain"], "$TOKEN");
    let reported: Value = serde_json::from_slice(reported).unwrap();
    assert_eq!(reported["hook_event_name"], "user_prompt_submit");
    assert_eq!(reported["session_id"], "s-1");
}

#[tokio::test]
async fn empty_response_is_no_output() {
    let server = Server::answering(204, "").await;
    let verdict = HandlerFixture::new()
        .verdict(server.hook(Event::PreToolUse), Input::default())
        .await;
    assert_eq!((verdict.decision, verdict.messages), (None, Vec::new()));
}

#[tokio::test]
async fn http_hook_uses_its_dialect() {
    let said = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "why not",
    } });
    let server = Server::answering(200, said.to_string()).await;
    let mut entry = server.hook(Event::PreToolUse);
    entry.dialect = Dialect::Claude;
    entry.event_name = "PreToolUse".into();
    let verdict = HandlerFixture::new().verdict(entry, Input::default()).await;
    assert_eq!(verdict.denial(), Some("why not"));
    let seen = server.seen.lock().unwrap();
    let reported: Value = serde_json::from_slice(&seen[0].1).unwrap();
    assert_eq!(reported["hook_event_name"], "PreToolUse");
}

#[tokio::test]
async fn error_status_is_a_fault_with_a_masked_excerpt() {
    let echo = format!(
        "no\n  such\u{7} key: t-12345, Bearer abcdefghijkl, {}",
        "x".repeat(100_000)
    );
    for status in [400, 401, 404, 500, 503] {
        let server = Server::answering(status, echo.clone()).await;
        let handler_fixture = HandlerFixture::new().with("TOKEN", "t-12345");
        let url = format!("{}/hook?token=hunter2hunter2", server.url);
        let entry = hook(Event::Stop, &url, &[("X-Key", "${env.TOKEN}")]);
        let fault = handler_fixture.fault(entry, Input::default()).await;
        assert!(fault.contains(&format!("answered {status}")), "{fault}");
        assert!(
            fault.contains("no such key: [secret], Bearer [secret]"),
            "{fault}"
        );
        assert!(!fault.contains("hunter2"), "{fault}");
        assert!(fault.len() < 600, "{fault}");
        assert_eq!(server.seen.lock().unwrap().len(), 1, "asked once");
    }
}

#[tokio::test]
async fn endless_response_is_a_fault() {
    let server = Server::answering(200, vec![b' '; (1 << 20) + 1]).await;
    let fault = HandlerFixture::new()
        .fault(server.hook(Event::Stop), Input::default())
        .await;
    assert!(
        fault.contains("1048576") || fault.contains("1 MiB"),
        "{fault}"
    );
}

#[tokio::test]
async fn connection_failure_is_a_fault_without_the_password() {
    // Held without listening, so that no other test gets the port.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let url = format!("http://bob:hunter2@{address}/hook");
    let fault = HandlerFixture::new()
        .fault(hook(Event::Stop, &url, &[]), Input::default())
        .await;
    assert!(fault.contains("cannot connect"), "{fault}");
    assert!(!fault.contains("hunter2"), "{fault}");
}

#[tokio::test]
async fn unresponsive_server_is_a_fault_after_the_timeout() {
    let server = Server::answering(200, "").await;
    let mut entry = hook(Event::PreToolUse, &format!("{}/hang", server.url), &[]);
    entry.definition.timeout = Duration::from_millis(100);
    let verdict = HandlerFixture::new().verdict(entry, Input::default()).await;
    assert!(verdict.denial().is_some());
    assert!(verdict.reports[0].elapsed < Duration::from_secs(60));
}

#[tokio::test]
async fn unset_variable_is_a_fault_and_nothing_is_sent() {
    let server = Server::answering(200, "").await;
    let url = format!("{}/hook", server.url);
    let handler_fixture = HandlerFixture::new().with("BROKEN", "a\nb");
    for (text, part) in [
        ("Bearer ${env.NO_SUCH}", "`NO_SUCH`, which is not set"),
        ("${env.BROKEN}", "line ends"),
    ] {
        let entry = hook(Event::Stop, &url, &[("Authorization", text)]);
        let fault = handler_fixture.fault(entry, Input::default()).await;
        assert!(
            fault.contains(part) && fault.contains("authorization"),
            "{fault}"
        );
    }
    assert!(server.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn invalid_url_is_a_problem_at_load() {
    let handler_fixture = HandlerFixture::new();
    for url in ["", "localhost:80/x", "ftp://host/x", "/hook", "http://"] {
        let problem = handler_fixture.problem(hook(Event::Stop, url, &[]));
        assert_eq!(problem.code, "bad-value", "{url}");
    }
    let problem = handler_fixture.problem(hook(Event::Stop, "http://bob:hunter2@", &[]));
    assert!(!problem.to_string().contains("hunter2"), "{problem}");
    let problem = handler_fixture.problem(hook(Event::Stop, "http://h/", &[("a b", "c")]));
    assert!(problem.message.contains("`a b`"), "{problem}");
}
