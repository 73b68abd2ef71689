//! `http.get` and `http.post`, against a server on loopback.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use serde_json::{Value, json};

use crate::fakes::Server;
use crate::fixture::Fixture;

/// The received request, returned as JSON.
async fn echo(
    method: axum::http::Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> axum::Json<Value> {
    let headers: serde_json::Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().into()))
        .collect();
    axum::Json(
        json!({"method": method.as_str(), "query": uri.query(), "headers": headers, "body": body}),
    )
}

fn typed(kind: &'static str, body: impl Into<Body>) -> Response {
    ([("content-type", kind)], body.into()).into_response()
}

fn server() -> Server {
    Server::start(
        Router::new()
            .route("/echo", any(echo))
            .route("/text", get(|| async { "plain \u{e9}" }))
            .route(
                "/latin",
                get(|| async { typed("text/plain; charset=ISO-8859-1", b"caf\xe9".to_vec()) }),
            )
            .route(
                "/bytes",
                get(|| async { typed("image/png", b"\x89PNG\xff".to_vec()) }),
            )
            .route(
                "/problem",
                get(|| async { typed("application/problem+json; charset=utf-8", "{\"a\": 1}") }),
            )
            .route(
                "/long",
                get(|| async {
                    typed(
                        "application/json",
                        "[9007199254740993, 123456789012345678901234, 1.5]",
                    )
                }),
            )
            .route(
                "/broken",
                get(|| async { typed("application/json", "{oops") }),
            )
            .route("/empty", get(|| async { typed("application/json", "") }))
            .route(
                "/slow",
                get(|| async { tokio::time::sleep(Duration::from_secs(600)).await }),
            )
            .route(
                "/redirect",
                get(|| async { (StatusCode::FOUND, [("location", "/text")]) }),
            )
            .route(
                "/status/{code}",
                any(
                    |axum::extract::Path(code): axum::extract::Path<u16>| async move {
                        (
                            StatusCode::from_u16(code).unwrap(),
                            [("retry-after", "7")],
                            format!("no: {}", "x".repeat(5_000)),
                        )
                    },
                ),
            )
            .route(
                "/secret",
                get(|headers: HeaderMap| async move {
                    (
                        StatusCode::FORBIDDEN,
                        format!("not with {}", headers["authorization"].to_str().unwrap()),
                    )
                }),
            ),
    )
}

#[tokio::test]
async fn json_responses_are_data_and_others_text() {
    let (server, fixture) = (server(), Fixture::new());
    let get = async |path: &str| {
        fixture
            .ok(
                "http.get",
                json!({"url": format!("{}{path}", server.base_url())}),
            )
            .await
    };
    assert_eq!(get("/text").await, "plain é");
    assert_eq!(get("/redirect").await, "plain é");
    assert_eq!(get("/latin").await, "café");
    assert_eq!(get("/problem").await, json!({"a": 1}));
    assert_eq!(
        get("/long").await,
        json!([9_007_199_254_740_993_u64, "123456789012345678901234", 1.5])
    );
    assert_eq!(get("/empty").await, "");
}

#[tokio::test]
async fn headers_and_query_parameters_are_sent() {
    let (server, fixture) = (server(), Fixture::new());
    let seen = fixture
        .ok(
            "http.get",
            json!({
                "url": format!("{}/echo?first=1", server.base_url()),
                "params": {"q": "a b&c", "n": 5, "tag": ["x", "y"], "none": null},
                "headers": {"x-number": 5, "Accept": "text/plain", "x-none": null},
            }),
        )
        .await;
    assert_eq!(seen["method"], "GET");
    assert_eq!(seen["query"], "first=1&q=a+b%26c&n=5&tag=x&tag=y");
    assert_eq!(seen["headers"]["x-number"], "5");
    assert_eq!(seen["headers"]["accept"], "text/plain");
    assert!(seen["headers"].get("x-none").is_none());
    assert!(
        seen["headers"]["user-agent"]
            .as_str()
            .unwrap()
            .starts_with("cachalot/"),
        "{seen}"
    );
}

#[tokio::test]
async fn bodies_are_sent_as_json_text_or_form() {
    let (server, fixture) = (server(), Fixture::new());
    let url = format!("{}/echo", server.base_url());
    let post = async |extra: Value| {
        let mut arguments = json!({"url": url});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        fixture.ok("actions.http_post", arguments).await
    };
    let seen = post(json!({"json": {"n": 9_007_199_254_740_993_u64}})).await;
    assert_eq!(
        (&seen["body"], &seen["headers"]["content-type"]),
        (
            &json!("{\"n\":9007199254740993}"),
            &json!("application/json")
        )
    );
    assert_eq!(post(json!({"json": null})).await["body"], "null");
    let seen = post(json!({"body": "a=1", "headers": {"content-type": "text/csv"}})).await;
    assert_eq!(
        (&seen["body"], &seen["headers"]["content-type"]),
        (&json!("a=1"), &json!("text/csv"))
    );
    let seen = post(json!({"form": {"a": "1 2", "b": [true, null]}})).await;
    assert_eq!(
        (&seen["body"], &seen["headers"]["content-type"]),
        (
            &json!("a=1+2&b=true"),
            &json!("application/x-www-form-urlencoded")
        )
    );
    assert_eq!(post(json!({})).await["body"], "");
    let failure = fixture
        .fails("http.post", json!({"url": url, "json": 1, "body": "x"}))
        .await;
    assert!(failure.message.contains("exclude each other"), "{failure}");
}

#[tokio::test]
async fn error_status_is_a_failure_with_status_and_excerpt() {
    let (server, fixture) = (server(), Fixture::new());
    for (code, retryable) in [
        (400, false),
        (401, false),
        (404, false),
        (408, true),
        (409, true),
        (429, true),
        (500, true),
        (503, true),
    ] {
        let failure = fixture
            .fails(
                "http.get",
                json!({"url": format!("{}/status/{code}?key=hidden", server.base_url())}),
            )
            .await;
        assert_eq!(
            (failure.kind, failure.retryable),
            ("http_error", retryable),
            "{code}"
        );
        assert!(
            failure.message.contains(&format!("answered {code}")),
            "{failure}"
        );
        assert!(
            failure.message.contains("retry after 7") && failure.message.contains("no: xxx"),
            "{failure}"
        );
        assert!(
            failure.message.len() < 600 && !failure.message.contains("hidden"),
            "{failure}"
        );
    }
}

#[tokio::test]
async fn connection_errors_and_timeouts_are_retryable() {
    let (server, fixture) = (server(), Fixture::new());
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let failure = fixture
        .fails(
            "http.get",
            json!({"url": format!("http://user:hunter2@{closed}/x?token=hunter2")}),
        )
        .await;
    assert_eq!(
        (failure.kind, failure.retryable),
        ("connection_error", true)
    );
    assert!(!failure.message.contains("hunter2"), "{failure}");
    let begun = Instant::now();
    let failure = fixture
        .fails(
            "http.get",
            json!({"url": format!("{}/slow", server.base_url()), "timeout": "0.2"}),
        )
        .await;
    assert_eq!((failure.kind, failure.retryable), ("timeout", true));
    assert!(begun.elapsed() < Duration::from_secs(60));
    for timeout in [json!(0), json!(-1), json!(1e9), json!("soon")] {
        let failure = fixture
            .fails(
                "http.get",
                json!({"url": format!("{}/text", server.base_url()), "timeout": timeout}),
            )
            .await;
        assert_eq!(failure.kind, "validation_error");
    }
}

#[tokio::test]
async fn responses_that_cannot_be_stored_exactly_are_failures() {
    let (server, fixture) = (server(), Fixture::new());
    for path in ["/bytes", "/broken"] {
        let failure = fixture
            .fails(
                "http.get",
                json!({"url": format!("{}{path}", server.base_url())}),
            )
            .await;
        assert_eq!(failure.kind, "parse_error", "{failure}");
    }
}

#[tokio::test]
async fn endless_response_is_cut_off() {
    static SENT: AtomicU32 = AtomicU32::new(0);
    let endless = || async {
        let chunks = futures_util::stream::repeat_with(|| {
            SENT.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(vec![b'x'; 1 << 20])
        });
        Body::from_stream(chunks)
    };
    let server = Server::start(Router::new().route("/", get(endless)));
    let failure = Fixture::new()
        .fails("http.get", json!({"url": server.base_url()}))
        .await;
    assert_eq!(failure.kind, "too_large", "{failure}");
    assert!(SENT.load(Ordering::Relaxed) < 200);
}

#[tokio::test]
async fn only_http_urls_are_requested() {
    let fixture = Fixture::new();
    fixture.file("f", "x");
    for url in [
        format!("file://{}", fixture.path("f").display()),
        "s3://b/k".to_owned(),
        "f".to_owned(),
        String::new(),
    ] {
        assert_eq!(
            fixture.fails("http.get", json!({"url": url})).await.kind,
            "validation_error",
            "{url}"
        );
    }
    for headers in [
        json!({"bad name": "x"}),
        json!({"x": "a\r\nb: c"}),
        json!({"x": {}}),
        json!({"Host": "internal"}),
        json!({"hOST": "internal"}),
        json!({"content-length": 5}),
        json!({"Transfer-Encoding": "chunked"}),
        json!({"Connection": "close"}),
        json!({"Keep-Alive": "x"}),
        json!({"TE": "trailers"}),
        json!({"Trailer": "x"}),
        json!({"Upgrade": "h2c"}),
        json!({"HTTP2-Settings": "x"}),
        json!({"Expect": "100-continue"}),
        json!({"Proxy-Authorization": "x"}),
        json!({"proxy-anything": "x"}),
    ] {
        let failure = fixture
            .fails(
                "http.get",
                json!({"url": "http://127.0.0.1:9/", "headers": headers}),
            )
            .await;
        assert_eq!(failure.kind, "validation_error");
    }
}

#[tokio::test]
async fn secrets_in_responses_are_redacted() {
    let (server, fixture) = (server(), Fixture::new());
    fixture.runtime.secret_set.learn("hunter2-of-the-run");
    let failure = fixture
        .fails(
            "http.get",
            json!({
                "url": format!("{}/secret", server.base_url()),
                "headers": {"authorization": "hunter2-of-the-run"},
            }),
        )
        .await;
    assert!(failure.message.contains("not with [secret]"), "{failure}");
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    struct OnDrop(tokio::sync::mpsc::UnboundedSender<()>);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (tell, mut reported) = tokio::sync::mpsc::unbounded_channel();
    let (begun, mut has_begun) = tokio::sync::mpsc::unbounded_channel();
    let slow = move || {
        let (guard, begun) = (OnDrop(tell.clone()), begun.clone());
        async move {
            let _guard = guard;
            begun.send(()).unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    };
    let server = Server::start(Router::new().route("/", get(slow)));
    let url = server.base_url();
    let call =
        tokio::spawn(async move { Fixture::new().run("http.get", json!({"url": url})).await });
    has_begun.recv().await.unwrap();
    call.abort();
    tokio::time::timeout(Duration::from_secs(10), reported.recv())
        .await
        .unwrap()
        .unwrap();
}
