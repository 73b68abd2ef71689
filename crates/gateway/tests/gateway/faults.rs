//! Faults of upstreams: nothing wrong is stored, and the client sees what the upstream sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cachalot_gateway::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Setup, chat, messages, streamed, until};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn errors_and_incomplete_answers_are_not_stored() {
    for (fault, body) in [
        ("{status: 429, retry_after: 1s, times: 1}", chat("x")),
        ("{status: 500, times: 1}", chat("x")),
        ("{malformed: true, times: 1}", chat("x")),
        (
            "{error_event: {after_events: 2}, times: 1}",
            streamed(chat("x")),
        ),
        ("{cut: {after_events: 2}, times: 1}", streamed(chat("x"))),
        (
            "{cut: {after_events: 2}, times: 1}",
            streamed(messages("x")),
        ),
        ("{malformed: true, times: 1}", streamed(messages("x"))),
    ] {
        let script = format!(
            "rules:\n  - user: x\n    steps: [{{text: a b c d, fault: {fault}}}, {{text: a b c d}}]\n"
        );
        let setup = Setup::scripted(&script).await;
        let path = if body.get("max_tokens").is_some() {
            "/v1/messages"
        } else {
            CHAT
        };
        let first = setup.post(path, &body).send().await.unwrap();
        let status = first.headers()["cache-status"].to_str().unwrap();
        assert!(!status.contains("hit"), "{status}");
        // The body may be cut off.
        let _ = first.bytes().await;
        let second = setup.ask(path, &body).await;
        assert_eq!(
            (second.status, second.source()),
            (200, "miss"),
            "{fault}: {}",
            second.cache_status()
        );
        assert!(second.body.contains('d'), "{fault}: {}", second.body);
        let third = setup.ask(path, &body).await;
        assert_eq!(
            (third.source(), third.body),
            ("hit", second.body),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn answers_cut_off_at_the_token_limit_are_not_stored() {
    let setup = Setup::new().await;
    let mut body = chat("hello, this is a longer text to be repeated");
    body["max_completion_tokens"] = json!(1);
    for _ in 0..2 {
        let answer = setup.ask(CHAT, &body).await;
        assert_eq!(
            (answer.status, answer.source()),
            (200, "miss"),
            "{}",
            answer.body
        );
        assert_eq!(answer.json()["choices"][0]["finish_reason"], "length");
    }
}

#[tokio::test]
async fn followers_of_a_failed_run_ask_themselves() {
    let script = "rules:\n  - user: x\n    steps: [{text: a b c d, fault: {status: 429, times: 1}}, {text: a b c d}]\n";
    let setup = Setup::scripted(script).await;
    let body = chat("x");
    let answers = futures_util::future::join_all((0..8).map(|_| setup.ask(CHAT, &body))).await;
    let failed = answers.iter().filter(|answer| answer.status == 429).count();
    assert_eq!(failed, 1);
    for answer in answers.iter().filter(|answer| answer.status != 429) {
        assert_eq!(answer.json()["choices"][0]["message"]["content"], "a b c d");
    }
}

#[tokio::test]
async fn unreachable_upstream_is_named() {
    // Held without listening, so that no other test gets the port.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let setup = Setup::in_front_of(address, Limits::default()).await;
    let mut sampled = chat("x");
    sampled.as_object_mut().unwrap().remove("temperature");
    for body in [chat("x"), sampled] {
        let answer = setup.ask(CHAT, &body).await;
        assert_eq!(answer.status, 502);
        let message = answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(message.contains(&address.to_string()), "{message}");
    }
    let reports = setup.reports.lock();
    assert!(
        reports
            .iter()
            .all(|report| report.answered == "refused" && report.status == 502),
        "{reports:?}"
    );
}

/// An upstream that answers each request with a head and `events` events of more than 1,000 bytes, or the events
/// alone if the status is an error. Counts the bytes that it has sent.
async fn long_answers(status: u16, events: usize) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let event =
                    json!({"choices": [{"index": 0, "delta": {"content": "x".repeat(1000)}}]});
                let event = format!("data: {event}\n\n");
                for _ in 0..events {
                    if stream.write_all(event.as_bytes()).await.is_err() {
                        return;
                    }
                    counted.fetch_add(event.len() as u64, Ordering::SeqCst);
                }
                let event =
                    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
                let end = format!("data: {event}\n\ndata: [DONE]\n\n");
                let _ = stream.write_all(end.as_bytes()).await;
            });
        }
    });
    (address, sent)
}

fn small_answers() -> Limits {
    Limits {
        answer_bytes: 100_000,
        ..Limits::default()
    }
}

#[tokio::test]
async fn answer_over_the_limit_arrives_whole_and_is_not_stored() {
    let (address, sent) = long_answers(200, 3_000).await;
    let setup = Setup::in_front_of(address, small_answers()).await;
    for runs in 1..=2 {
        let answer = setup.ask(CHAT, &streamed(chat("x"))).await;
        assert_eq!(
            (answer.status, answer.source()),
            (200, "miss"),
            "{}",
            answer.cache_status()
        );
        assert!(answer.body.ends_with("data: [DONE]\n\n"));
        let events = answer.body.matches("delta").count();
        assert_eq!((events, answer.body.contains("xxx")), (3_001, true));
        assert!(sent.load(Ordering::SeqCst) > runs * 3_000_000);
    }
    setup.cache.ledger().flush().await;
    let rows = setup.cache.ledger().recent(9).unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let reason = row.not_stored.unwrap();
        assert!(reason.starts_with("too large: 3"), "{reason}");
        assert!(row.paid.cost.unpriced > 0 || row.paid.cost.picodollars > 0);
    }
    // The same of an answer below the limit is stored.
    let (address, _) = long_answers(200, 20).await;
    let setup = Setup::in_front_of(address, small_answers()).await;
    let sources = [
        setup.ask(CHAT, &streamed(chat("x"))).await.source(),
        setup.ask(CHAT, &streamed(chat("x"))).await.source(),
    ];
    assert_eq!(sources, ["miss", "hit"]);
}

#[tokio::test]
async fn long_error_arrives_whole_and_ends_with_its_client() {
    let (address, sent) = long_answers(500, 3_000).await;
    let setup = Setup::in_front_of(address, small_answers()).await;
    let answer = setup.ask(CHAT, &streamed(chat("x"))).await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.ends_with("data: [DONE]\n\n"));
    assert!(sent.load(Ordering::SeqCst) > 3_000_000);
    let (address, sent) = long_answers(500, 1_000_000).await;
    let setup = Setup::in_front_of(address, small_answers()).await;
    let mut response = setup.post(CHAT, &streamed(chat("x"))).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    // A client that does not read: the gateway requests no more than the buffers of the connections take.
    let mut before = u64::MAX;
    while sent.load(Ordering::SeqCst) != before {
        before = sent.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(before < 500_000_000, "{before}");
    drop(response);
    until(async || {
        setup.cache.ledger().flush().await;
        !setup.cache.ledger().recent(1).unwrap().is_empty()
    })
    .await;
    let row = &setup.cache.ledger().recent(1).unwrap()[0];
    assert_eq!(row.not_stored.as_deref(), Some("the work was abandoned"));
}

#[tokio::test]
async fn unusual_answers_are_not_stored() {
    for (media, path, body, answer) in [
        (
            "text/event-stream",
            CHAT,
            chat("x"),
            "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
        ),
        (
            "application/json",
            CHAT,
            streamed(chat("x")),
            "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"stop\"}]}",
        ),
        (
            "application/json",
            CHAT,
            chat("x"),
            "{\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":null}]}",
        ),
        (
            "application/json",
            CHAT,
            chat("x"),
            "{\"citations\":[\"https://a.example\"],\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"stop\"}]}",
        ),
        (
            "application/json",
            CHAT,
            chat("x"),
            "{\"error\":{\"message\":\"x\"}}",
        ),
        // Which of two members counts depends on the reader.
        (
            "application/json",
            CHAT,
            chat("x"),
            "{\"error\":{\"message\":\"x\"},\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"stop\"}],\"error\":null}",
        ),
        ("text/plain", CHAT, chat("x"), "ok"),
        (
            "application/json",
            "/v1/embeddings",
            json!({"model": "m", "input": "x"}),
            "{\"object\":\"list\",\"data\":[],\"error\":{\"message\":\"x\"}}",
        ),
        (
            "application/json",
            "/v1/embeddings",
            json!({"model": "m", "input": "x"}),
            "{\"object\":\"list\",\"data\":[]}",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut buffer = [0; 8192];
                    let _ = stream.read(&mut buffer).await;
                    let response = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{answer}",
                        answer.len()
                    );
                    let _ = stream.write_all(response.as_bytes()).await;
                    while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
                });
            }
        });
        let setup = Setup::in_front_of(address, Limits::default()).await;
        for _ in 0..2 {
            let got = setup.ask(path, &body).await;
            assert_eq!(
                (got.status, got.source(), &*got.body),
                (200, "miss", answer),
                "{}",
                got.cache_status()
            );
        }
    }
}
