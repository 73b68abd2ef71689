//! Requests that must not be processed.

use std::time::Duration;

use cachalot_gateway::Limits;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Setup, chat, read};

const CHAT: &str = "/v1/chat/completions";

/// Sends bytes and returns the response to them, and whether the connection was closed.
async fn raw(setup: &Setup, request: &str) -> String {
    let mut stream = TcpStream::connect(setup.gateway.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut response)).await;
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn requests_of_web_pages_are_refused() {
    let setup = Setup::new().await;
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let answer = read(setup.post(CHAT, &chat("x")).header(name, value)).await;
        assert_eq!(answer.status, 403, "{name}: {value}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    for media in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    ] {
        let url = format!("{}{CHAT}", setup.gateway.url());
        let request = setup
            .client
            .post(url)
            .header("content-type", media)
            .body(chat("x").to_string());
        assert_eq!(read(request).await.status, 415, "{media}");
    }
    assert_eq!(setup.paid(), 0);
}

#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let setup = Setup::new().await;
    let host = setup.gateway.address();
    let body = chat("x").to_string();
    let length = body.len();
    for request in [
        format!(
            "POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nContent-Length: 5\r\nConnection: close\r\n\r\n{body}"
        ),
        format!(
            "POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
        format!(
            "POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked, identity\r\nConnection: close\r\n\r\n{body}"
        ),
        format!(
            "POST {CHAT} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ),
        format!("CONNECT evil.example:443 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        format!(
            "GET http://evil.example/v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        ),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
    ] {
        let response = raw(&setup, &request).await;
        let status = response.split(' ').nth(1).unwrap_or("closed");
        assert!(
            status == "closed" || status.starts_with('4'),
            "{request}: {response}"
        );
    }
    assert_eq!(setup.paid(), 0);
    // Both lengths: the chunks count, and the upstream sees one length only.
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer one\r\nConnection: close\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
    );
    let response = raw(&setup, &chunked).await;
    let status = response.split(' ').nth(1).unwrap_or("closed").to_owned();
    if status == "200" {
        let received = setup.simulator.received();
        assert_eq!(received.len(), 1);
        let values = |wanted: &str| -> Vec<String> {
            let headers = received[0].headers.iter();
            let found = headers.filter(|(name, _)| name == wanted);
            found.map(|(_, value)| value.clone()).collect()
        };
        assert_eq!(values("content-length"), [length.to_string()]);
        assert_eq!(values("transfer-encoding"), Vec::<String>::new());
    } else {
        assert!(status == "closed" || status.starts_with('4'), "{response}");
    }
}

#[tokio::test]
async fn other_protocols_are_not_offered() {
    let setup = Setup::new().await;
    let host = setup.gateway.address();
    let body = chat("x").to_string();
    let length = body.len();
    // As some clients ask for HTTP/2 with their first request.
    let upgrades = [
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings",
        "Upgrade: websocket\r\nConnection: upgrade",
        "Upgrade: x\r\nConnection: close",
    ];
    for upgrade in upgrades {
        let request = format!(
            "POST {CHAT} HTTP/1.1\r\nHost: {host}\r\n{upgrade}\r\nAuthorization: Bearer {length}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let response = raw(&setup, &request).await;
        assert!(
            response.starts_with("HTTP/1.1 200"),
            "{upgrade}: {response}"
        );
    }
    let received = setup.simulator.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].body, body.as_bytes());
    assert_eq!(received[0].header("upgrade"), None);
}

#[tokio::test]
async fn limits_hold() {
    let setup = Setup::new().await;
    let address = setup.simulator.address();
    let limits = Limits {
        body_bytes: 1_000,
        body_timeout: Duration::from_millis(200),
        head_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    let limited = Setup::in_front_of(address, limits).await;
    let answer = limited.ask(CHAT, &chat(&"x".repeat(2_000))).await;
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_str()),
        (413, Some("request_too_large"))
    );
    let host = limited.gateway.address();
    let slow = format!(
        "POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: 50\r\nConnection: close\r\n\r\n{{"
    );
    assert!(raw(&limited, &slow).await.starts_with("HTTP/1.1 408"));
    let start = std::time::Instant::now();
    let response = raw(&limited, "POST /v1/chat").await;
    assert!(start.elapsed() < Duration::from_secs(30), "{response}");
    assert_eq!(setup.paid(), 0);
}

#[tokio::test]
async fn unknown_paths_are_refused_with_the_remedy() {
    let setup = Setup::new().await;
    let answer = setup.ask("/chat/completions", &chat("x")).await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("/u/NAME/"), "{}", answer.body);
    let answer = setup.ask("/u/other/v1/chat/completions", &chat("x")).await;
    assert!(
        answer.status == 404 && answer.body.contains("--upstream other=URL"),
        "{}",
        answer.body
    );
    assert_eq!(
        setup
            .ask("/u/openai/v1/chat/completions", &chat("x"))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn running_answers_are_finished_when_the_gateway_stops() {
    let setup = Setup::scripted("rules:\n  - user: wait\n    steps: [{text: one two three, fault: {slow: {first_byte: 50ms, per_event: 60ms}}}]\n").await;
    let body = crate::support::streamed(chat("wait"));
    let mut response = setup.post(CHAT, &body).send().await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    let address = setup.gateway.address();
    let Setup { gateway, .. } = setup;
    let stopping = tokio::spawn(gateway.stop());
    let mut rest = String::from_utf8(first.to_vec()).unwrap();
    while let Some(chunk) = response.chunk().await.unwrap() {
        rest += std::str::from_utf8(&chunk).unwrap();
    }
    assert!(rest.ends_with("data: [DONE]\n\n"), "{rest}");
    assert!(stopping.await.unwrap());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn clients_that_announce_bodies_and_send_none_hold_nothing() {
    use tokio::io::AsyncWriteExt as _;
    let setup = Setup::new().await;
    let mut idle = Vec::new();
    for length in ["content-length: 67108864", "transfer-encoding: chunked"].repeat(8) {
        let mut stream = tokio::net::TcpStream::connect(setup.gateway.address())
            .await
            .unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
            .write_all(if length.starts_with('c') {
                b"{"
            } else {
                b"1\r\n{\r\n"
            })
            .await
            .unwrap();
        idle.push(stream);
    }
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let start = std::time::Instant::now();
    assert_eq!(
        setup
            .ask("/v1/chat/completions", &crate::support::chat("hello"))
            .await
            .status,
        200
    );
    assert!(start.elapsed() < std::time::Duration::from_secs(60));
}

#[tokio::test]
async fn bodies_with_too_many_values_are_refused() {
    let setup = Setup::new().await;
    let values = format!(
        r#"{{"model": "gpt-4o-mini", "messages": [{}[]]}}"#,
        "[],".repeat(1_100_000)
    );
    let request = setup
        .client
        .post(format!("{}/v1/chat/completions", setup.gateway.url()));
    let request = request
        .bearer_auth("one")
        .header("content-type", "application/json");
    let answer = crate::support::read(request.body(values)).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert_eq!(setup.paid(), 0);
}
