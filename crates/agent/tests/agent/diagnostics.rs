//! The provider compares each request with the one before, if the agent asks for it:
//! `prefix: {diagnostics: true}`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use cachalot_agent::{CancellationToken, Chat, ForkSpec, Inherit};
use cachalot_prefix::diagnosis::Reason;
use cachalot_simulator::ScriptedReply;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::fixture::{Fixture, Wire};
use crate::review::Counting;
use crate::review::reload::ExtensibleToolboxes;

fn file(model: &str, prefix: &str) -> String {
    format!(
        "agents:\n  root:\n    model: {model}\n    instruction: {}\n{prefix}",
        "Be brief. ".repeat(500)
    )
}

const ON: &str = "    prefix: {diagnostics: true}\n";

fn replies() -> Vec<ScriptedReply> {
    ["one", "two", "three", "four"]
        .map(ScriptedReply::text)
        .into()
}

fn fork() -> ForkSpec {
    ForkSpec {
        holder: "the question".to_owned(),
        tools: None,
        approved: false,
        inherit: Inherit::Full,
        max_iterations: 1,
        max_input_tokens: None,
        max_output_tokens: None,
    }
}

/// A further model, `other`, at this address.
fn other(model: &str, url: &str) -> String {
    format!("}}\n  other: {{{model}, base_url: '{url}', token_key: TEST_KEY")
}

const TERRA: &str = "provider: openai, model: gpt-5.6-terra, format: responses";

#[tokio::test]
async fn diagnostics_requests_name_the_previous_answer() {
    for (model, member, id) in [
        ("test", "diagnostics", "previous_message_id"),
        ("other", "prompt_cache_options", "comparison_response_id"),
    ] {
        let mut fixture = Fixture::new(Wire::Messages, &file(model, ON), replies()).await;
        fixture.model_keys = other(TERRA, &format!("{}/v1", fixture.simulator.url()));
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "First.").await;
        fixture.turn(&mut chat, "Second.").await;
        for _ in 0..2 {
            let aside = chat.fork(fork()).unwrap();
            aside
                .run("Aside.", &CancellationToken::default())
                .await
                .unwrap();
        }

        let bodies = fixture.bodies();
        let named: Vec<&Value> = bodies.iter().map(|body| &body[member][id]).collect();
        assert_eq!(named[0], &Value::Null);
        match model {
            "test" => assert_eq!(bodies[0][member], json!({"previous_message_id": null})),
            _ => assert_eq!(bodies[0][member]["mode"], "explicit"),
        }
        assert!(named[1..].iter().all(|id| id.is_string()), "{named:?}");
        // Both forks continue the same request.
        assert_eq!(named[2], named[3]);
        assert_ne!(named[1], named[2]);
        // Requests are the same up to the end of their messages.
        fixture.check();
    }
}

#[tokio::test]
async fn diagnostics_are_requested_only_when_enabled_and_supported() {
    for (wire, prefix) in [
        (Wire::Messages, ""),
        (Wire::Messages, "    prefix: {diagnostics: false}\n"),
        (Wire::Chat, ON),
        (Wire::Responses, ON),
    ] {
        let fixture = Fixture::new(wire, &file("test", prefix), replies()).await;
        let mut chat = fixture.chat().await;
        fixture.turn(&mut chat, "First.").await;
        fixture.turn(&mut chat, "Second.").await;
        for body in fixture.bodies() {
            for member in ["diagnostics", "prompt_cache_options"] {
                assert_eq!(body.get(member), None, "{wire:?} {prefix}");
            }
        }
        fixture.check();
    }
}

#[tokio::test]
async fn break_is_reported_from_the_diagnosis_of_the_provider() {
    for (prefix, by_provider) in [(ON, true), ("", false)] {
        let fixture = Fixture::new(Wire::Messages, &file("test", prefix), replies()).await;
        let mut dependencies = fixture.dependencies();
        let growing = Arc::new(ExtensibleToolboxes {
            inner: Arc::clone(&dependencies.toolboxes),
            later: Mutex::default(),
        });
        dependencies.toolboxes = Arc::clone(&growing) as _;
        let mut chat = Chat::begin(dependencies, fixture.team(), None)
            .await
            .unwrap();
        assert_eq!(fixture.turn(&mut chat, "First.").await.breaks, []);
        let late = Counting::new("late");
        growing.later.lock().unwrap().push_back(late as _);
        chat.reload().await.unwrap().unwrap();
        let breaks = fixture.turn(&mut chat, "Second.").await.breaks;
        assert_eq!(breaks.len(), 1, "{breaks:?}");
        assert_eq!(breaks[0].reason, Reason::ToolsChanged);
        assert_eq!(breaks[0].by_provider, by_provider);
        let reported = "by its own comparison";
        assert_eq!(breaks[0].to_string().contains(reported), by_provider);
        assert_eq!(fixture.turn(&mut chat, "Third.").await.breaks, []);
        fixture.check_from(1);
    }
}

/// Passes requests on, and refuses those with a member that it does not know, as servers do that are
/// compatible with an earlier version of an API.
pub(crate) async fn strict(upstream: SocketAddr, unknown: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let request = whole_request(&mut client).await;
            if request.contains(unknown) {
                let body = json!({"type": "error", "error": {"type": "invalid_request_error",
                    "message": format!("{unknown}: Extra inputs are not permitted")}})
                .to_string();
                let answer = format!(
                    "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
                client.write_all(answer.as_bytes()).await.unwrap();
                continue;
            }
            let request = request.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            let mut server = TcpStream::connect(upstream).await.unwrap();
            server.write_all(request.as_bytes()).await.unwrap();
            tokio::io::copy(&mut server, &mut client).await.unwrap();
        }
    });
    url
}

async fn whole_request(client: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        client.read_buf(&mut request).await.unwrap();
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length = head.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() >= length {
            return text.into_owned();
        }
    }
}

#[tokio::test]
async fn diagnostics_are_dropped_when_the_provider_refuses_them() {
    for (model, path, unknown) in [
        (
            "provider: anthropic, model: claude-sonnet-4-5",
            "",
            "diagnostics",
        ),
        (TERRA, "/v1", "comparison_response_id"),
    ] {
        let mut fixture = Fixture::new(Wire::Messages, &file("other", ON), replies()).await;
        let upstream = fixture.simulator.address();
        let url = strict(upstream, unknown).await;
        fixture.model_keys = other(model, &format!("{url}{path}"));
        let mut chat = fixture.chat().await;
        for said in ["First.", "Second."] {
            let report = fixture.turn(&mut chat, said).await;
            assert_eq!(report.breaks, [], "{model}");
        }
        let aside = chat.fork(fork()).unwrap();
        aside
            .run("Aside.", &CancellationToken::default())
            .await
            .unwrap();
        let warnings = fixture.reported.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("continuing without `prefix.diagnostics`"));
        // The simulator has seen none of it.
        assert_eq!(fixture.bodies().len(), 3);
        fixture.check();
    }
}
