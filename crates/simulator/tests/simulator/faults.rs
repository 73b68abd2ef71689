//! Injected faults, and the responses that clients get.

use std::time::{Duration, Instant};

use cachalot_simulator::{Fault, FaultKind, Script, ScriptedReply};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, client, post, smallest, start, until, with};

const ALL: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

fn streamed(path: &str) -> Value {
    with(smallest(path, "Hello"), json!({"stream": true}))
}

async fn failing(fault: Fault) -> cachalot_simulator::RunningSimulator {
    let text = "an answer that takes more than a few events to be told";
    start(Script::replies(vec![
        ScriptedReply::text(text).with_fault(fault),
    ]))
    .await
}

#[tokio::test]
async fn error_response_has_the_schema_of_its_provider() {
    let expected = [
        (429, "requests", "rate_limit_error"),
        (500, "server_error", "api_error"),
        (503, "server_error", "overloaded_error"),
        (529, "server_error", "overloaded_error"),
        (401, "invalid_request_error", "authentication_error"),
        (404, "invalid_request_error", "not_found_error"),
    ];
    for (status, openai, anthropic) in expected {
        let running = failing(Fault::status(status)).await;
        for path in ALL {
            for request in [smallest(path, "Hello"), streamed(path)] {
                let got = post(&running, path, &request).await;
                assert_eq!(got.status, status);
                let kind = if path == MESSAGES { anthropic } else { openai };
                assert_eq!(got.json()["error"]["type"], kind, "{status} {path}");
                assert_eq!(got.header("retry-after"), "");
            }
        }
        assert!(running.violations().is_empty());
        assert!(
            running
                .received()
                .iter()
                .all(|received| received.status == status)
        );
    }
}

#[tokio::test]
async fn rate_limit_sets_retry_after_and_ends() {
    let fault = Fault::status(429)
        .retry_after(Duration::from_millis(1_500))
        .times(2);
    let running = failing(fault).await;
    for _ in 0..2 {
        let got = post(&running, CHAT, &smallest(CHAT, "Hello")).await;
        assert_eq!(got.status, 429);
        assert_eq!(
            (got.header("retry-after"), got.header("retry-after-ms")),
            ("2", "1500")
        );
    }
    let got = post(&running, CHAT, &smallest(CHAT, "Hello")).await;
    assert_eq!(got.status, 200);
}

/// Reads a stream as far as it comes: the bytes, and whether it ended in order.
async fn read(
    running: &cachalot_simulator::RunningSimulator,
    path: &str,
    request: &Value,
) -> (String, bool) {
    let mut builder = client().post(format!("{}{path}", running.url()));
    if path == MESSAGES {
        builder = builder.header("anthropic-version", "2023-06-01");
    }
    let response = builder.body(request.to_string()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut stream = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(_) => return (String::from_utf8(bytes).unwrap(), false),
        }
    }
    (String::from_utf8(bytes).unwrap(), true)
}

#[tokio::test]
async fn truncated_stream_arrives_up_to_the_cut() {
    for path in ALL {
        for after in [0, 1, 3] {
            let running = failing(Fault::cut(after)).await;
            let (text, is_whole) = read(&running, path, &streamed(path)).await;
            assert!(!is_whole, "{path}");
            assert_eq!(text.matches("\n\n").count(), after, "{path}: {text}");
            let received = &running.received()[0];
            assert_eq!((received.status, received.disconnected), (200, false));
        }
        let running = failing(Fault::cut(0)).await;
        let (text, is_whole) = read(&running, path, &smallest(path, "Hello")).await;
        assert!(!is_whole && text.starts_with('{'), "{path}: {text}");
    }
}

#[tokio::test]
async fn malformed_json_is_truncated() {
    for path in ALL {
        let running = failing(Fault::malformed()).await;
        let (text, is_whole) = read(&running, path, &smallest(path, "Hello")).await;
        assert!(is_whole && serde_json::from_str::<Value>(&text).is_err());
        let got = post(&running, path, &streamed(path)).await;
        let events = got.events();
        let broken = events
            .iter()
            .filter(|(_, data)| data != "[DONE]" && serde_json::from_str::<Value>(data).is_err());
        assert_eq!(broken.count(), 1, "{path}: {}", got.text);
    }
}

#[tokio::test]
async fn error_event_is_sent_within_a_stream() {
    for path in ALL {
        let running = failing(FaultKind::ErrorEvent { after_events: 2 }.into()).await;
        let got = post(&running, path, &streamed(path)).await;
        let events = got.events();
        assert_eq!(events.len(), 3);
        let last: Value = serde_json::from_str(&events[2].1).unwrap();
        match path {
            CHAT => assert_eq!(last["error"]["type"], "server_error"),
            RESPONSES => assert_eq!(
                (&last["type"], &last["sequence_number"]),
                (&json!("error"), &json!(2))
            ),
            _ => assert_eq!(
                (events[2].0.as_str(), &last["error"]["type"]),
                ("error", &json!("api_error"))
            ),
        }
        assert_eq!(
            post(&running, path, &smallest(path, "Hello")).await.status,
            500
        );
    }
}

#[tokio::test]
async fn slow_answer_is_delayed() {
    let pause = Duration::from_millis(40);
    let running = failing(Fault::slow(Duration::from_millis(100), pause)).await;
    let begun = Instant::now();
    let got = post(&running, MESSAGES, &streamed(MESSAGES)).await;
    let pauses = u32::try_from(got.events().len() - 1).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(100) + pause * pauses);
}

#[tokio::test]
async fn client_disconnect_stops_the_response() {
    for path in ALL {
        // It would take minutes.
        let running = failing(Fault::slow(Duration::ZERO, Duration::from_secs(60))).await;
        let mut builder = client().post(format!("{}{path}", running.url()));
        builder = builder.header("anthropic-version", "2023-06-01");
        let response = builder
            .body(streamed(path).to_string())
            .send()
            .await
            .unwrap();
        let mut stream = response.bytes_stream();
        assert!(stream.next().await.unwrap().is_ok());
        assert!(!running.received()[0].disconnected);
        drop(stream);
        until(|| running.received()[0].disconnected).await;
    }
    // Before the first byte.
    let running = failing(Fault::slow(Duration::from_secs(60), Duration::ZERO)).await;
    let request = client()
        .post(format!("{}{CHAT}", running.url()))
        .timeout(Duration::from_millis(200))
        .body(smallest(CHAT, "Hello").to_string());
    assert!(request.send().await.unwrap_err().is_timeout());
    until(|| running.received()[0].disconnected).await;
    assert_eq!(running.received()[0].status, 0);
    // Who stays is not.
    let running = failing(Fault::slow(Duration::ZERO, Duration::from_millis(1))).await;
    for path in ALL {
        post(&running, path, &streamed(path)).await;
        post(&running, path, &smallest(path, "Hello")).await;
    }
    assert!(
        running
            .received()
            .iter()
            .all(|received| !received.disconnected)
    );
}
