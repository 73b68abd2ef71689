//! HTTP: statuses, lengths, redirects, time limits, proxies, and what messages do not say.

use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use cachalot_storage::{
    Algorithm, Error, ErrorKind, HttpClient, HttpOptions, Method, Storage, body, success,
};
use futures_util::{TryStreamExt as _, stream};

use crate::server::{say, serve, unreachable_server};
use crate::{ALGORITHMS, OF_ABC, OF_NOTHING, environment, everything, storage, storage_in};

fn plain() -> Storage {
    storage_in(Path::new("/"))
}

/// A client that does not wait long.
fn impatient() -> HttpOptions {
    HttpOptions {
        idle_timeout: Duration::from_millis(200),
        ..HttpOptions::default()
    }
}

/// `abc` in three chunks, of no announced length.
async fn chunked() -> Response {
    let pieces = ["a", "b", "c"].map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
    Body::from_stream(stream::iter(pieces)).into_response()
}

async fn described() -> Response {
    let headers = [
        (header::ETAG, "\"v1\""),
        (header::LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ];
    (headers, "abc").into_response()
}

fn routes() -> Router {
    Router::new()
        .route("/abc", get(described))
        .route("/nothing", get(async || ""))
        .route("/chunked", get(chunked))
        .route(
            "/get-only",
            any(async |method: axum::http::Method| match method.as_str() {
                "GET" => "abc".into_response(),
                _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
            }),
        )
        .route("/hop", get(async || Redirect::temporary("/abc")))
        .route("/loop", get(async || Redirect::temporary("/loop")))
        .route(
            "/to-file",
            get(async || Redirect::temporary("file:///etc/hostname")),
        )
        .route("/bare-redirect", get(async || StatusCode::FOUND))
        .route(
            "/headers",
            get(async |headers: HeaderMap| format!("{headers:?}")),
        )
        .route(
            "/{status}/status",
            any(async |path: axum::extract::Path<u16>| StatusCode::from_u16(path.0).unwrap()),
        )
}

#[tokio::test]
async fn digests_equal_known_values() {
    let server = serve(routes()).await;
    let storage = plain();
    for (path, size, digests) in [
        ("abc", 3, OF_ABC),
        ("chunked", 3, OF_ABC),
        ("hop", 3, OF_ABC),
        ("nothing", 0, OF_NOTHING),
    ] {
        for (name, digest) in ALGORITHMS.into_iter().zip(digests) {
            let uri = format!("http://{server}/{path}");
            let hashed = storage.hash(&uri, name.parse().unwrap()).await.unwrap();
            assert_eq!(
                (hashed.hash.as_str(), hashed.size_bytes),
                (digest, size),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn stat_uses_head_and_falls_back_to_the_body() {
    let server = serve(routes()).await;
    let storage = plain();
    let stat = storage.stat(&format!("http://{server}/abc")).await.unwrap();
    assert_eq!((stat.size, stat.modified), (3, Some(784_111_777_000)));
    assert_eq!(stat.etag.as_deref(), Some("\"v1\""));
    for path in ["get-only", "chunked"] {
        let stat = storage
            .stat(&format!("http://{server}/{path}"))
            .await
            .unwrap();
        assert_eq!(
            (stat.size, stat.modified, stat.etag),
            (3, None, None),
            "{path}"
        );
    }
    assert_eq!(
        storage
            .stat(&format!("http://{server}/nothing"))
            .await
            .unwrap()
            .size,
        0
    );
}

async fn all_errors(storage: &Storage, uri: &str) -> [Error; 4] {
    let streamed = match storage.open(uri).await {
        Ok(chunks) => chunks.try_collect::<Vec<_>>().await.unwrap_err(),
        Err(error) => error,
    };
    [
        storage.stat(uri).await.unwrap_err(),
        storage.read(uri, 1_000).await.unwrap_err(),
        storage.hash(uri, Algorithm::Sha256).await.unwrap_err(),
        streamed,
    ]
}

#[tokio::test]
async fn every_status_from_400_is_an_error_of_its_kind() {
    let server = serve(routes()).await;
    let storage = plain();
    for (status, kind, retry) in [
        (400, ErrorKind::Invalid, false),
        (401, ErrorKind::Denied, false),
        (403, ErrorKind::Denied, false),
        (404, ErrorKind::NotFound, false),
        (405, ErrorKind::Invalid, false),
        (408, ErrorKind::Unavailable, true),
        (410, ErrorKind::NotFound, false),
        (418, ErrorKind::Invalid, false),
        (429, ErrorKind::Unavailable, true),
        (500, ErrorKind::Unavailable, true),
        (501, ErrorKind::Unavailable, true),
        (503, ErrorKind::Unavailable, true),
    ] {
        let uri = format!("http://{server}/{status}/status");
        for error in all_errors(&storage, &uri).await {
            assert_eq!((error.kind, error.status), (kind, Some(status)), "{error}");
            assert_eq!(error.is_retryable(), retry, "{error}");
            assert!(error.message.contains(&uri), "{error}");
        }
    }
}

#[tokio::test]
async fn partial_content_is_an_error() {
    let server = serve(routes()).await;
    let uri = format!("http://{server}/206/status");
    let error = plain().hash(&uri, Algorithm::Sha256).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn body_shorter_than_content_length_is_an_error() {
    let server = say(
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\nabc",
        true,
    )
    .await;
    let uri = format!("http://{server}/");
    let storage = plain();
    for error in [
        storage.hash(&uri, Algorithm::Sha256).await.unwrap_err(),
        storage.read(&uri, 1_000).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.is_retryable());
        assert!(error.message.contains("after 3 of 10 bytes"), "{error}");
    }
    let mut chunks = storage.open(&uri).await.unwrap();
    assert_eq!(chunks.try_next().await.unwrap().unwrap(), "abc");
    assert!(chunks.try_next().await.is_err());
    assert!(chunks.try_next().await.unwrap().is_none());
}

#[tokio::test]
async fn truncated_chunked_body_is_an_error() {
    let server = say(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n",
        true,
    )
    .await;
    let error = plain()
        .hash(&format!("http://{server}/"), Algorithm::Md5)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.is_retryable()),
        (ErrorKind::Unavailable, true),
        "{error}"
    );
}

#[tokio::test]
async fn read_limit_applies_with_and_without_content_length() {
    let server = serve(routes()).await;
    let storage = plain();
    for path in ["abc", "chunked"] {
        let uri = format!("http://{server}/{path}");
        assert_eq!(storage.read(&uri, 3).await.unwrap(), "abc");
        let error = storage.read(&uri, 2).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    }
}

#[tokio::test]
async fn content_length_reserves_no_memory() {
    let server = say(
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\nConnection: close\r\n\r\nabc",
        true,
    )
    .await;
    let error = plain()
        .read(&format!("http://{server}/"), u64::MAX)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn redirects_are_limited() {
    let server = serve(routes()).await;
    for path in ["loop", "bare-redirect", "to-file"] {
        let uri = format!("http://{server}/{path}");
        let error = plain().hash(&uri, Algorithm::Sha256).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(!error.is_retryable(), "{error}");
    }
    let none = storage(
        Path::new("/"),
        HttpOptions {
            redirects: 0,
            ..HttpOptions::default()
        },
        &[],
    );
    assert!(
        none.read(&format!("http://{server}/hop"), 10)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn silent_server_times_out() {
    let storage = storage(Path::new("/"), impatient(), &[]);
    for answer in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
    ] {
        let server = say(answer, false).await;
        let start = Instant::now();
        let error = storage
            .read(&format!("http://{server}/"), 10)
            .await
            .unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(60));
        assert_eq!(
            (error.kind, error.is_retryable()),
            (ErrorKind::Unavailable, true),
            "{error}"
        );
        assert!(error.message.contains("in time"), "{error}");
    }
}

#[tokio::test]
async fn unreachable_host_is_named() {
    let unreachable_server = unreachable_server().await;
    let uri = format!("http://{unreachable_server}/x");
    for error in all_errors(&plain(), &uri).await {
        assert_eq!(
            (error.kind, error.is_retryable()),
            (ErrorKind::Unavailable, true)
        );
        assert!(
            error.message.contains("cannot connect") && error.message.contains(&uri),
            "{error}"
        );
    }
    let error = plain()
        .read("http://no-such-host.invalid/", 1)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn error_messages_and_sources_hold_no_credentials() {
    let server = serve(routes()).await;
    let broken = say(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true).await;
    let (unreachable_server, silent) = (unreachable_server().await, say(b"", false).await);
    let storage = storage(Path::new("/"), impatient(), &[]);
    let check = |errors: Vec<Error>| {
        for error in errors {
            let text = everything(&error);
            for secret in ["hunter2", "s1gn4ture", "t0ken"] {
                assert!(!text.contains(secret), "{secret} in {text}");
            }
            assert!(error.message.contains("[secret]"), "{error}");
        }
    };
    let tail = "?X-Amz-Signature=s1gn4ture&q=1&access_token=t0ken";
    for place in [
        format!("{server}/404/status"),
        format!("{server}/500/status"),
        format!("{server}/loop"),
        format!("{server}/to-file"),
        format!("{silent}/"),
        format!("{unreachable_server}/"),
        "[::1".to_owned(),
    ] {
        let uri = format!("http://me:hunter2@{place}{tail}");
        check(all_errors(&storage, &uri).await.to_vec());
    }
    let uri = format!("http://me:hunter2@{broken}/{tail}");
    check(vec![
        storage.hash(&uri, Algorithm::Sha256).await.unwrap_err(),
    ]);
}

#[tokio::test]
async fn request_headers_are_exactly_the_expected_ones() {
    let server = serve(routes()).await;
    let uri = format!("http://me:pw@{server}/headers");
    let headers = String::from_utf8(plain().read(&uri, 10_000).await.unwrap().to_vec()).unwrap();
    let agent = format!("cachalot/{}", env!("CARGO_PKG_VERSION"));
    assert!(headers.contains(&agent), "{headers}");
    assert!(
        headers.contains("\"accept-encoding\": \"identity\""),
        "{headers}"
    );
    // Base64 of `me:pw`.
    assert!(headers.contains("Basic bWU6cHc="), "{headers}");
}

#[tokio::test]
async fn http_client_sends_and_validates_urls() {
    let server = serve(routes()).await;
    let client = HttpClient::new(HttpOptions::default()).unwrap();
    let request = client
        .request(Method::GET, &format!("http://{server}/abc"))
        .unwrap();
    let response = success(client.send(request).await.unwrap()).unwrap();
    assert_eq!(body(response, 3).await.unwrap(), "abc");
    let request = client
        .request(Method::GET, &format!("http://{server}/404/status"))
        .unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(success(response).unwrap_err().kind, ErrorKind::NotFound);
    for url in ["", "abc", "ftp://h/", "file:///etc/passwd", "http://"] {
        let error = client.request(Method::GET, url).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{url}");
    }
}

#[test]
fn http_client_is_created_lazily() {
    let start = Instant::now();
    // A client that is made reads the machine's certificates: milliseconds each.
    for _ in 0..10_000 {
        let storage = plain();
        let _ = storage.http().guarded();
    }
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn proxies_are_read_from_the_passed_environment() {
    let proxy = serve(Router::new().fallback(async |uri: Uri| format!("proxied {uri}"))).await;
    let server = serve(routes()).await;
    let through = |pairs: &[(&str, &str)]| {
        storage(
            Path::new("/"),
            HttpOptions {
                environment: environment(pairs),
                ..HttpOptions::default()
            },
            &[],
        )
    };
    let address = format!("http://{proxy}");
    let uri = format!("http://{server}/abc");
    let proxied = through(&[("HTTP_PROXY", &address)])
        .read(&uri, 1_000)
        .await
        .unwrap();
    assert_eq!(proxied, format!("proxied {uri}"));
    let without_brackets = proxy.to_string();
    let proxied = through(&[("all_proxy", &without_brackets)])
        .read("http://x.invalid/", 1_000)
        .await
        .unwrap();
    assert_eq!(proxied, "proxied http://x.invalid/");
    let exempt = through(&[("http_proxy", &address), ("NO_PROXY", "127.0.0.1")]);
    assert_eq!(exempt.read(&uri, 1_000).await.unwrap(), "abc");
    for all in ["*", "x.example, *"] {
        let exempt = through(&[("http_proxy", &address), ("NO_PROXY", all)]);
        assert_eq!(exempt.read(&uri, 1_000).await.unwrap(), "abc", "{all}");
    }
    let wrong = through(&[("HTTP_PROXY", "socks5://me:hunter2@h:1")]);
    let error = wrong.read(&uri, 1_000).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(
        error.message.contains("HTTP_PROXY") && !error.message.contains("hunter2"),
        "{error}"
    );
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_large_body_is_hashed_in_constant_memory() {
    let zeros = Bytes::from_static(&[0; 65_536]);
    let server = serve(Router::new().route(
        "/zeros",
        get(async move || {
            Body::from_stream(stream::iter(
                (0..1_600).map(move |_| Ok::<_, std::io::Error>(zeros.clone())),
            ))
        }),
    ))
    .await;
    let before = crate::memory("VmRSS");
    let hashed = plain()
        .hash(&format!("http://{server}/zeros"), Algorithm::Sha256)
        .await
        .unwrap();
    assert_eq!(hashed.hash, crate::OF_ZEROS);
    let grown = crate::memory("VmHWM") - before;
    assert!(grown <= 16 << 20, "{grown} bytes");
}
