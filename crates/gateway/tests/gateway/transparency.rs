//! Requests and answers are passed on unchanged.

use std::sync::Arc;

use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Setup, chat, messages, read, streamed};
use cachalot_gateway::Limits;

/// Headers that differ from answer to answer.
fn comparable(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [
        "cache-status",
        "date",
        "request-id",
        "x-request-id",
        "openai-processing-ms",
        "x-ratelimit-remaining-requests",
        "content-length",
    ] {
        headers.remove(name);
    }
    headers
}

/// Removes what differs from answer to answer: ids and times.
fn without_ids(body: &str) -> String {
    let mut out = String::new();
    for part in body.split('"') {
        let is_id = ["chatcmpl-", "msg_", "resp_", "req_", "rs_"]
            .iter()
            .any(|prefix| part.starts_with(prefix));
        out += if is_id { "ID" } else { part };
        out.push('"');
    }
    let digits = |text: &str| {
        text.chars()
            .filter(|character| !character.is_ascii_digit())
            .collect::<String>()
    };
    digits(&out)
}

#[tokio::test]
async fn answers_equal_those_of_the_upstream() {
    let setup = Setup::new().await;
    for (path, body) in [
        ("/v1/chat/completions", chat("hello")),
        ("/v1/chat/completions", streamed(chat("hello again"))),
        ("/v1/messages", messages("hello")),
        ("/v1/messages", streamed(messages("hello again"))),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": "hello"}),
        ),
        (
            "/v1/chat/completions",
            json!({"model": "gpt-4o-mini", "messages": "malformed"}),
        ),
        (
            "/v1/chat/completions",
            json!({"model": "gpt-4o-mini", "messages": [], "nonsense": 1}),
        ),
        ("/v1/chat/unknown", json!({})),
    ] {
        let direct = format!("{}{path}", setup.simulator.url());
        let request = setup
            .client
            .post(direct)
            .bearer_auth("one")
            .header("content-type", "application/json");
        let request = if path.contains("/messages") {
            request
                .header("x-api-key", "one")
                .header("anthropic-version", "2023-06-01")
        } else {
            request
        };
        let direct = read(request.body(body.to_string())).await;
        let through = setup.ask(path, &body).await;
        assert_eq!(through.status, direct.status, "{path}");
        assert_eq!(
            without_ids(&through.body),
            without_ids(&direct.body),
            "{path}"
        );
        assert_eq!(
            comparable(&through.headers),
            comparable(&direct.headers),
            "{path}"
        );
        let received = setup.simulator.received();
        let [.., one, two] = received.as_slice() else {
            panic!()
        };
        assert_eq!(one.body, two.body, "{path}");
        let mut headers = [one.headers.clone(), two.headers.clone()];
        for headers in &mut headers {
            headers.retain(|(name, _)| !matches!(&**name, "host" | "accept-encoding"));
            headers.sort();
        }
        assert_eq!(headers[0], headers[1], "{path}");
    }
}

/// Reads one request with its body.
async fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else {
            return request;
        };
        request.push(byte);
    }
    let head = String::from_utf8_lossy(&request).to_lowercase();
    let length = head.split("content-length: ").nth(1);
    let length = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    request.extend(body);
    request
}

/// A server that records the requests that it receives, answers each with fixed bytes, and returns
/// what it receives in another protocol.
async fn raw_server(answer: &'static [u8]) -> (std::net::SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&received);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let record = Arc::clone(&record);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                loop {
                    let request = read_request(&mut stream).await;
                    if request.is_empty() {
                        return;
                    }
                    record.lock().extend_from_slice(&request);
                    let _ = stream.write_all(answer).await;
                    while answer.starts_with(b"HTTP/1.1 101") {
                        let count = stream.read(&mut buffer).await.unwrap_or(0);
                        if count == 0 {
                            return;
                        }
                        let _ = stream.write_all(&buffer[..count]).await;
                    }
                }
            });
        }
    });
    (address, received)
}

#[tokio::test]
async fn other_protocols_are_passed_on_in_both_directions() {
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n";
    let (address, received) = raw_server(answer).await;
    let setup = Setup::in_front_of(address, Limits::default()).await;
    let mut client = TcpStream::connect(setup.gateway.address()).await.unwrap();
    let request = format!(
        "GET /v1/realtime?model=m HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
        setup.gateway.address()
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    assert!(
        head.starts_with("http/1.1 101")
            && head.contains("upgrade: websocket")
            && head.contains("sec-websocket-accept: x"),
        "{head}"
    );
    client.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    client.read_exact(&mut echo).await.unwrap();
    assert_eq!(&echo, b"ping");
    let sent = String::from_utf8(received.lock().clone())
        .unwrap()
        .to_lowercase();
    assert!(
        sent.starts_with("get /v1/realtime?model=m ")
            && sent.contains("upgrade: websocket")
            && sent.contains("sec-websocket-key: k"),
        "{sent}"
    );
    assert!(sent.contains(&format!("host: {address}")), "{sent}");
}

#[tokio::test]
async fn redirects_and_cookies_of_upstreams_are_passed_on_and_not_stored() {
    let answer = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n";
    let (address, _) = raw_server(answer).await;
    let setup = Setup::in_front_of(address, Limits::default()).await;
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    for _ in 0..2 {
        let url = format!("{}/v1/chat/completions", setup.gateway.url());
        let request = client
            .post(url)
            .header("content-type", "application/json")
            .body(chat("x").to_string());
        let answer = read(request).await;
        assert_eq!(
            (answer.status, answer.source()),
            (302, "miss"),
            "{}",
            answer.cache_status()
        );
        assert_eq!(answer.headers["set-cookie"], "a=b");
    }
    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\nX-RateLimit-Remaining-Requests: 9\r\nOpenAI-Organization: o\r\nX-Request-Id: r\r\nContent-Length: 131\r\n\r\n{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"x\"},\"finish_reason\":\"stop\"}]}";
    let length = answer.len()
        - answer
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap()
        - 4;
    let answer = String::from_utf8(answer.to_vec())
        .unwrap()
        .replace("131", &length.to_string());
    let (address, _) = raw_server(answer.leak().as_bytes()).await;
    let setup = Setup::in_front_of(address, Limits::default()).await;
    let first = setup.ask("/v1/chat/completions", &chat("x")).await;
    assert_eq!(
        (first.status, first.source()),
        (200, "miss"),
        "{}",
        first.body
    );
    for name in [
        "set-cookie",
        "x-ratelimit-remaining-requests",
        "openai-organization",
    ] {
        assert!(first.headers.contains_key(name), "{name}");
    }
    let hit = setup.ask("/v1/chat/completions", &chat("x")).await;
    assert_eq!(hit.source(), "hit");
    for name in [
        "set-cookie",
        "x-ratelimit-remaining-requests",
        "openai-organization",
    ] {
        assert!(!hit.headers.contains_key(name), "{name}");
    }
    assert_eq!(hit.headers["x-request-id"], "r");
}
