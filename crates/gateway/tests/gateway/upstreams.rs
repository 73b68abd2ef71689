//! Several upstreams: repetitions, fallbacks, pauses after failures, selection by model.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cachalot_core::Digest;
use cachalot_gateway::Upstream;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::ask::Ask;
use crate::fake_upstream::{self, FakeUpstream};
use crate::formats::Api;
use crate::support::{Answer, Setup, chat, read, until};

const CHAT: &str = "/v1/chat/completions";

/// A server that answers each request with the next of these statuses, and then always with 200.
async fn server(statuses: &'static [(u16, &'static str)]) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut received = vec![0; 65_536];
            let _ = stream.read(&mut received).await;
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let (status, header) = statuses.get(number).copied().unwrap_or((200, ""));
            let body = match status {
                200 => {
                    json!({"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini", "choices": [{"index": 0, "message": {"role": "assistant", "content": format!("answer {number}")}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
                }
                _ => json!({"error": {"message": "busy"}}),
            };
            let body = body.to_string();
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n{header}\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, asked)
}

fn key() -> String {
    format!(
        "keys: {{one: {{digest: {}}}}}",
        Digest::sha256(b"cachalot-one").to_hex()
    )
}

async fn ask(setup: &Setup, key: &str, body: &Value) -> Answer {
    let url = format!("{}{CHAT}", setup.gateway.url());
    let request = setup
        .client
        .post(url)
        .bearer_auth(key)
        .body(body.to_string());
    read(request.header("content-type", "application/json")).await
}

#[tokio::test]
async fn failures_before_the_answer_are_repeated() {
    let (address, asked) = server(&[(503, ""), (529, "retry-after: 0\r\n")]).await;
    let file = format!("upstreams: {{openai: {{url: 'http://{address}', retries: 2}}}}");
    let setup = Setup::configured(&file).await;
    let answer = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(
        (answer.status, asked.load(Ordering::SeqCst)),
        (200, 3),
        "{}",
        answer.body
    );
    assert_eq!(ask(&setup, "own", &chat("hello")).await.source(), "hit");
    // A server that asks for a long wait is not asked again; neither is one that refuses the request.
    for (status, header) in [(429, "retry-after: 600\r\n"), (400, "")] {
        let statuses: &'static [(u16, &'static str)] = match status {
            429 => &[(429, "retry-after: 600\r\n")],
            _ => &[(400, "")],
        };
        let (address, asked) = server(statuses).await;
        let file = format!("upstreams: {{openai: {{url: 'http://{address}', retries: 2}}}}");
        let setup = Setup::configured(&file).await;
        let answer = ask(&setup, "own", &chat("hello")).await;
        assert_eq!(
            (answer.status, asked.load(Ordering::SeqCst)),
            (status, 1),
            "{header}"
        );
    }
}

#[tokio::test]
async fn a_fallback_answers_clients_with_a_key_under_its_own_name() {
    let (first, first_asked) = server(&[(500, ""), (500, ""), (500, "")]).await;
    let (second, second_asked) = server(&[]).await;
    let file = format!(
        "upstreams:
  openai: {{url: 'http://{first}', credential: {{env: SECRET}}, fallbacks: [other]}}
  other: {{url: 'http://{second}', credential: {{env: SECRET}}, weight: 0}}
  own: {{url: 'http://{first}', api: anthropic, fallbacks: []}}
{}",
        key()
    );
    let setup = Setup::configured(&file).await;
    let asked = || {
        (
            first_asked.load(Ordering::SeqCst),
            second_asked.load(Ordering::SeqCst),
        )
    };
    let answer = ask(&setup, "cachalot-one", &chat("hello")).await;
    assert_eq!((answer.status, asked()), (200, (1, 1)), "{}", answer.body);
    let again = ask(&setup, "cachalot-one", &chat("hello")).await;
    assert_eq!(
        (again.source(), asked()),
        ("hit", (2, 1)),
        "the answer of the fallback has an entry of its own"
    );
    assert_eq!(again.body, answer.body);
    let third = ask(&setup, "cachalot-one", &chat("hello")).await;
    assert_eq!((third.source(), asked()), ("hit", (3, 1)));
    let fourth = ask(&setup, "cachalot-one", &chat("hello")).await;
    assert_eq!(
        (fourth.source(), asked()),
        ("miss", (4, 1)),
        "the first upstream answers again"
    );
    assert_ne!(fourth.body, answer.body);
    let reports = setup.reports.lock();
    let names: Vec<&str> = reports
        .iter()
        .map(|report| report.upstream.as_str())
        .collect();
    assert_eq!(names, ["other", "other", "other", "openai"]);
}

/// Returns the code of the error with which a request is answered.
async fn code(setup: &Setup) -> Value {
    ask(setup, "own", &chat("hello")).await.json()["error"]["code"].clone()
}

#[tokio::test]
async fn an_unreachable_upstream_is_left_out_for_a_while() {
    // Held without listening, so that no other test gets the port.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let paused_for = async |pause: &str| {
        let file = format!(
            "upstreams: {{openai: {{url: 'http://{address}', breaker: {{failures: 2, pause: {pause}}}}}}}"
        );
        let setup = Setup::configured(&file).await;
        for _ in 0..2 {
            assert_eq!(code(&setup).await, "upstream_unreachable");
        }
        setup
    };
    let setup = paused_for("1h").await;
    let paused = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(
        (paused.status, &paused.json()["error"]["code"]),
        (503, &json!("upstream_paused"))
    );
    let seconds: u32 = paused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((3_000..=3_600).contains(&seconds), "{seconds}");
    assert_eq!(code(&setup).await, "upstream_paused");
    // After the pause, a request tries again.
    let setup = paused_for("200ms").await;
    until(async || code(&setup).await == "upstream_unreachable").await;
}

#[tokio::test]
async fn a_timeout_of_an_upstream_is_its_own() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let file = format!("upstreams: {{openai: {{url: 'http://{address}', timeout: 100ms}}}}");
    let setup = Setup::configured(&file).await;
    let start = Instant::now();
    let answer = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(answer.status, 504);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
async fn models_select_an_upstream() {
    let (usual, usual_asked) = server(&[]).await;
    let (local, local_asked) = server(&[]).await;
    let file = format!(
        "upstreams:
  openai: {{url: 'http://{usual}'}}
  local: {{url: 'http://{local}', models: ['llama*']}}
"
    );
    let setup = Setup::configured(&file).await;
    let mut body = chat("hello");
    assert_eq!(ask(&setup, "own", &body).await.status, 200);
    body["model"] = json!("llama-4");
    assert_eq!(ask(&setup, "own", &body).await.status, 200);
    let asked = [&usual_asked, &local_asked].map(|count| count.load(Ordering::SeqCst));
    assert_eq!(asked, [1, 1]);
}

#[tokio::test]
async fn an_expired_answer_takes_the_place_of_an_error() {
    let (address, asked) = server(&[(200, ""), (503, ""), (503, ""), (503, ""), (200, "")]).await;
    let file = format!(
        "upstreams: {{openai: {{url: 'http://{address}'}}}}
cache: {{max_ttl: 1s, stale_if_error: 1h}}"
    );
    let setup = Setup::configured(&file).await;
    let first = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(first.status, 200);
    setup.clock.advance(Duration::from_secs(1));
    let stale = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(
        (stale.status, &stale.body),
        (200, &first.body),
        "{}",
        stale.cache_status()
    );
    assert!(
        stale.cache_status().contains("hit; ttl="),
        "{}",
        stale.cache_status()
    );
    assert!(stale.headers.contains_key("age"));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let url = format!("{}{CHAT}", setup.gateway.url());
    let request = setup
        .client
        .post(url)
        .bearer_auth("own")
        .body(chat("hello").to_string());
    let request = request.header("content-type", "application/json");
    let strict = read(request.header("cache-control", "stale-if-error=0")).await;
    assert_eq!(strict.status, 503, "the client accepts no expired answer");
    let other = ask(&setup, "another", &chat("hello")).await;
    assert_eq!(other.status, 503, "an answer of another client");
    let fresh = ask(&setup, "own", &chat("hello")).await;
    assert_eq!((fresh.status, fresh.source()), (200, "miss"));
    assert_ne!(fresh.body, first.body);
    assert_eq!(setup.reports.lock()[1].answered, "stale");
}

#[tokio::test]
async fn an_expired_answer_is_served_while_a_new_one_is_received() {
    let (address, asked) = server(&[]).await;
    let file = format!(
        "upstreams: {{openai: {{url: 'http://{address}'}}}}
cache: {{max_ttl: 1m, stale_while_revalidate: 1h}}"
    );
    let setup = Setup::configured(&file).await;
    let first = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(first.status, 200);
    setup.clock.advance(Duration::from_secs(61));
    let stale = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(stale.body, first.body);
    assert!(
        stale.cache_status().contains("hit; ttl="),
        "{}",
        stale.cache_status()
    );
    until(async || ask(&setup, "own", &chat("hello")).await.body != first.body).await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    let refreshed = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(refreshed.source(), "hit");
    assert_ne!(refreshed.body, first.body);
}

#[tokio::test]
async fn a_proxy_of_the_environment_is_asked_for_a_tunnel() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = vec![0; 4_096];
        let length = stream.read(&mut received).await.unwrap();
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        stream.write_all(refusal).await.unwrap();
        String::from_utf8_lossy(&received[..length]).into_owned()
    });
    let file = "upstreams: {openai: {url: 'https://upstream.invalid/v1'}, near: {url: '{url}'}}";
    let setup = Setup::behind_proxy(file, &format!("http://user:word@{address}")).await;
    let answer = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(answer.status, 502);
    assert!(
        answer.body.contains("proxy") && !answer.body.contains("word"),
        "{}",
        answer.body
    );
    let asked = asked.await.unwrap();
    assert!(
        asked.starts_with("CONNECT upstream.invalid:443 HTTP/1.1"),
        "{asked}"
    );
    assert!(
        asked
            .to_ascii_lowercase()
            .contains("proxy-authorization: basic"),
        "{asked}"
    );
    // The client's credential stays in the tunnel.
    assert!(!asked.contains("own"), "{asked}");
    let near = setup
        .client
        .post(format!("{}/u/near{CHAT}", setup.gateway.url()));
    let near = near
        .bearer_auth("own")
        .header("content-type", "application/json");
    assert_eq!(read(near.body(chat("hello").to_string())).await.status, 200);
}

#[tokio::test]
async fn a_further_server_of_the_command_line_is_asked_by_its_name_only() {
    let (usual, usual_asked) = server(&[]).await;
    let (further, further_asked) = server(&[]).await;
    let upstreams = [
        format!("openai=http://{usual}/v1"),
        format!("further=http://{further}/v1"),
    ];
    let upstreams = upstreams
        .iter()
        .map(|upstream| Upstream::parse(upstream).unwrap());
    let setup = Setup::with_upstreams(upstreams.collect()).await;
    let asked = || [&usual_asked, &further_asked].map(|count| count.load(Ordering::SeqCst));
    for number in 0..16 {
        let answer = ask(&setup, "sk-own", &chat(&format!("text {number}"))).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let passed = Ask::new("/v1/audio/speech", "{}").send(&setup).await;
    assert_eq!((passed.status, asked()), (200, [17, 0]));
    let named = Ask::new(&format!("/u/further{CHAT}"), chat("named"));
    assert_eq!((named.send(&setup).await.status, asked()), (200, [17, 1]));
}

#[tokio::test]
async fn a_server_without_name_pattern_and_api_gets_no_traffic() {
    let (further, asked) = server(&[]).await;
    let url = format!("http://{further}");
    for file in [
        format!("upstreams: {{further: {{url: '{url}'}}}}"),
        format!("upstreams: {{further: {{url: '{url}', models: ['llama*']}}}}"),
        format!("upstreams: {{openai: {{url: '{url}', weight: 0}}}}"),
    ] {
        let setup = Setup::configured(&file).await;
        for path in [CHAT, "/v1/audio/speech"] {
            let answer = Ask::new(path, chat("hello")).send(&setup).await;
            let code = &answer.json()["error"]["code"];
            assert_eq!(
                (answer.status, code),
                (404, &json!("unknown_upstream")),
                "{file}"
            );
            assert!(answer.body.contains("/u/NAME/"), "{}", answer.body);
        }
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    // An API of its own, or a share that the operator gives, is enough.
    for options in [
        "api: openai, models: ['llama*']",
        "weight: 1",
        "models: ['gpt*']",
    ] {
        let file = format!("upstreams: {{further: {{url: '{url}', {options}}}}}");
        let setup = Setup::configured(&file).await;
        assert_eq!(
            ask(&setup, "sk-own", &chat("hello")).await.status,
            200,
            "{options}"
        );
    }
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

/// The base URL of an upstream is the one that a client of the server would have, for clients with and without `/v1`.
#[tokio::test]
async fn base_urls_are_used_as_they_are() {
    for (base, root) in [
        ("", "/v1"),
        ("/v1", "/v1"),
        ("/api/paas/v4", "/api/paas/v4"),
        ("/v1beta/openai", "/v1beta/openai"),
        ("/backend-api/codex", "/backend-api/codex"),
    ] {
        let upstream = FakeUpstream::start(|received| {
            let api = if received.line.contains("/responses") {
                Api::Responses
            } else {
                Api::Chat
            };
            let body = api.answer(&format!("answer {}", received.number), false);
            fake_upstream::answer("200 OK", fake_upstream::media(false), &body)
        })
        .await;
        let url = format!("http://{}{base}", upstream.address);
        let upstreams = ["openai", "further"].map(|name| Upstream::new(name, &url).unwrap());
        let setup = Setup::with_upstreams(upstreams.to_vec()).await;
        for api in [Api::Chat, Api::Responses] {
            let (path, body) = (api.path(false), api.request("hello", false));
            let without_version = path.strip_prefix("/v1").unwrap();
            let first = Ask::new(path, &body);
            let answer = first.send(&setup).await;
            assert_eq!((answer.status, answer.source()), (200, "miss"), "{base}");
            first.stored(&setup).await;
            let line = format!("POST {root}{without_version}");
            assert_eq!(upstream.received().last().unwrap().line, line);
            for named in [
                format!("/u/openai{path}"),
                format!("/u/further{path}"),
                format!("/u/further{without_version}"),
                format!("/p/coder/u/further{without_version}"),
            ] {
                let again = Ask::new(&named, &body).send(&setup).await;
                let is_of_agent = named.starts_with("/p/");
                let expected = if is_of_agent { "miss" } else { "hit" };
                assert_eq!(
                    again.source(),
                    expected,
                    "{base} {named} {}",
                    again.cache_status()
                );
                assert_eq!(
                    upstream.received().last().unwrap().line,
                    line,
                    "{base} {named}"
                );
            }
        }
        assert_eq!(upstream.count(), 4, "{base}");
        let models = Ask::new("/u/further/models", "").method(reqwest::Method::GET);
        models.send(&setup).await;
        assert_eq!(
            upstream.received().last().unwrap().line,
            format!("GET {root}/models")
        );
    }
}

#[tokio::test]
async fn a_conversation_stays_with_one_of_several_upstreams_while_it_is_healthy() {
    let servers = [server(&[]).await, server(&[]).await, server(&[]).await];
    let rows = servers.iter().enumerate().map(|(number, (address, _))| {
        format!("  s{number}: {{url: 'http://{address}', api: openai, weight: 1, breaker: {{failures: 1, pause: 1h}}}}\n")
    });
    let setup = Setup::configured(&format!("upstreams:\n{}", String::from_iter(rows))).await;
    let counts = || {
        servers
            .each_ref()
            .map(|(_, asked)| asked.load(Ordering::SeqCst))
    };
    let mut used = [0; 3];
    for conversation in 0..12 {
        let before = counts();
        let mut body = chat(&format!("conversation {conversation}"));
        for turn in 0..4 {
            let answer = ask(&setup, "own", &body).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            let messages = body["messages"].as_array_mut().unwrap();
            messages.push(json!({"role": "assistant", "content": "ok"}));
            messages.push(json!({"role": "user", "content": format!("turn {turn}")}));
        }
        let after = counts();
        let asked: Vec<usize> = (0..3).filter(|at| after[*at] > before[*at]).collect();
        assert_eq!(asked.len(), 1, "{before:?} {after:?}");
        used[asked[0]] += 1;
    }
    assert!(used.iter().all(|count| *count > 0), "{used:?}");
}

#[tokio::test]
async fn an_upstream_that_is_left_out_is_replaced_by_an_equal_one() {
    let (failing, failing_asked) = server(&[(500, ""), (500, "")]).await;
    let (healthy, healthy_asked) = server(&[]).await;
    let file = format!(
        "upstreams:
  a: {{url: 'http://{failing}', api: openai, weight: 1000000, breaker: {{failures: 1, pause: 1h}}}}
  b: {{url: 'http://{healthy}', api: openai, weight: 1}}
"
    );
    let setup = Setup::configured(&file).await;
    // Which one is first depends on the text: by far most go to the first one.
    assert_eq!(ask(&setup, "own", &chat("hello")).await.status, 500);
    let answer = ask(&setup, "own", &chat("hello")).await;
    assert_eq!(
        (answer.status, answer.source()),
        (200, "miss"),
        "{}",
        answer.body
    );
    let asked = [failing_asked, healthy_asked].map(|asked| asked.load(Ordering::SeqCst));
    assert_eq!(asked, [1, 1]);
}

#[tokio::test]
async fn an_expired_answer_that_does_not_fit_takes_the_place_of_no_error() {
    let (address, asked) = server(&[(200, ""), (500, ""), (500, ""), (500, "")]).await;
    let file = format!(
        "upstreams: {{openai: {{url: 'http://{address}'}}}}\ncache: {{stale_if_error: 10d}}\n"
    );
    let setup = Setup::configured(&file).await;
    // The answer contains the word `answer`, which is the ID of a call of the second request.
    let with_call = |id: &str| {
        let mut body = chat("hello");
        let messages = body["messages"].as_array_mut().unwrap();
        messages.push(json!({"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": "r"}));
        body
    };
    let path = "/p/coder/v1/chat/completions";
    let first = setup.ask(path, &with_call("call_a")).await;
    assert_eq!(
        (first.status, first.source()),
        (200, "miss"),
        "{}",
        first.body
    );
    setup.clock.advance(Duration::from_secs(25 * 60 * 60));
    let failed = read(setup.post(path, &with_call("answer"))).await;
    assert_eq!((failed.status, asked.load(Ordering::SeqCst)), (500, 3));
    // For the request that it fits, it does.
    let stale = read(setup.post(path, &with_call("call_b"))).await;
    assert_eq!(
        (stale.status, stale.source(), stale.body),
        (200, "hit", first.body)
    );
}
