//! `web_fetch`.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use cachalot_core::{DigestKey, EffectTarget, Effects, SecretSet};
use cachalot_tools::builtin::{WebFetch, WebFetchSettings};
use cachalot_tools::{Arguments, CacheClass, Tool};
use serde_json::json;

use crate::tool_fixture::{ToolFixture, object};

const PAGE: &str = "<!doctype html><html><head><title>A &amp; B</title><style>x{}</style></head><body><h1>Heading</h1><p>Some <b>bold</b> text with a <a href=\"/next\">link</a>.</p><script>alert(1)</script></body></html>";

/// A server on loopback, and the tool, which may reach it.
async fn site(settings: WebFetchSettings) -> (ToolFixture, String) {
    let typed = |kind: &'static str, body: &'static [u8]| {
        get(move || async move { ([(CONTENT_TYPE, kind)], body) })
    };
    let routes = Router::new()
        .route("/page", get(|| async { Html(PAGE) }))
        .route(
            "/json",
            typed("application/json", br#"{"b": 1.0, "a": "x"}"#),
        )
        .route(
            "/latin",
            typed("text/html; charset=iso-8859-1", b"<p>caf\xe9</p>"),
        )
        .route("/picture", typed("image/png", b"\x89PNG\r\n"))
        .route("/blob", typed("application/octet-stream", b"\0\x01\x02"))
        .route(
            "/plain-blob",
            typed("application/octet-stream", b"only text"),
        )
        .route("/large", get(|| async { "x".repeat(200_000) }))
        .route(
            "/packed",
            get(|| async {
                (
                    [(CONTENT_TYPE, "text/plain"), (CONTENT_ENCODING, "gzip")],
                    "zzz",
                )
            }),
        )
        .route("/there", get(|| async { redirect("/page") }))
        .route(
            "/metadata",
            get(|| async { redirect("http://169.254.169.254/latest") }),
        )
        .route(
            "/other-loopback",
            get(|| async { redirect("http://127.0.0.2:1/") }),
        )
        .route(
            "/slow",
            get(|| async {
                tokio::time::sleep(Duration::from_secs(60)).await;
                "late"
            }),
        )
        .route("/long", get(|| async { "é".repeat(50) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (
        ToolFixture::with(vec![Arc::new(WebFetch::new(settings).unwrap())]),
        address,
    )
}

fn redirect(to: &'static str) -> Response {
    (
        axum::http::StatusCode::FOUND,
        [(LOCATION, to)],
        Body::empty(),
    )
        .into_response()
}

fn allowed() -> WebFetchSettings {
    WebFetchSettings {
        allow: vec!["127.0.0.1".to_owned()],
        ..WebFetchSettings::default()
    }
}

#[tokio::test]
async fn html_page_is_converted_to_markdown() {
    let (tool_fixture, site) = site(allowed()).await;
    let shown = tool_fixture
        .done("web_fetch", json!({ "url": format!("{site}/page") }))
        .await;
    assert!(shown.starts_with("Title: A & B\n\n# Heading"), "{shown}");
    assert!(
        shown.contains("Some **bold** text with a [link](/next)."),
        "{shown}"
    );
    assert!(
        !shown.contains("alert") && !shown.contains("x{}"),
        "{shown}"
    );
    let raw = tool_fixture
        .done(
            "web_fetch",
            json!({ "url": format!("{site}/page"), "raw": true }),
        )
        .await;
    assert_eq!(raw, PAGE);
}

#[tokio::test]
async fn other_text_is_unchanged() {
    let (tool_fixture, site) = site(allowed()).await;
    let fetch = async |path: &str| {
        tool_fixture
            .done("web_fetch", json!({ "url": format!("{site}{path}") }))
            .await
    };
    assert_eq!(fetch("/json").await, r#"{"b": 1.0, "a": "x"}"#);
    assert_eq!(fetch("/plain-blob").await, "only text");
    assert_eq!(fetch("/latin").await.trim(), "café");
}

#[tokio::test]
async fn non_text_content_is_refused_by_type() {
    let (tool_fixture, site) = site(allowed()).await;
    for (path, why) in [
        ("/picture", "is `image/png`, 6 bytes, not text"),
        ("/blob", "is `application/octet-stream`, 3 bytes, not text"),
        ("/packed", "came compressed"),
        ("/none", "answered 404"),
    ] {
        let shown = tool_fixture
            .fails("web_fetch", json!({ "url": format!("{site}{path}") }))
            .await;
        assert!(shown.contains(why), "{path}: {shown}");
        assert!(shown.contains(path), "{path}: {shown}");
    }
    for (url, why) in [
        ("nonsense", "not a valid URL"),
        ("file:///etc/passwd", "expected http"),
    ] {
        let shown = tool_fixture.fails("web_fetch", json!({ "url": url })).await;
        assert!(shown.contains(why), "{shown}");
    }
}

#[tokio::test]
async fn private_addresses_are_refused_directly_and_by_redirect() {
    let (tool_fixture, site) = site(WebFetchSettings::default()).await;
    let shown = tool_fixture
        .fails("web_fetch", json!({ "url": format!("{site}/page") }))
        .await;
    assert!(shown.contains("a loopback address"), "{shown}");
    let (tool_fixture, site) = self::site(allowed()).await;
    for path in ["/metadata", "/other-loopback"] {
        let shown = tool_fixture
            .fails("web_fetch", json!({ "url": format!("{site}{path}") }))
            .await;
        assert!(shown.contains("refused to fetch"), "{path}: {shown}");
    }
}

#[tokio::test]
async fn final_url_of_a_redirect_is_reported() {
    let (tool_fixture, site) = site(allowed()).await;
    let shown = tool_fixture
        .done("web_fetch", json!({ "url": format!("{site}/there") }))
        .await;
    assert!(
        shown.starts_with(&format!("URL: {site}/page\nTitle: A & B\n\n")),
        "{shown}"
    );
}

#[tokio::test]
async fn size_length_and_time_are_limited() {
    let settings = WebFetchSettings {
        max_bytes: 100_000,
        max_chars: 20,
        timeout: Duration::from_millis(300),
        ..allowed()
    };
    let (tool_fixture, site) = site(settings).await;
    let shown = tool_fixture
        .fails("web_fetch", json!({ "url": format!("{site}/large") }))
        .await;
    assert!(shown.contains("is larger than 100000 bytes"), "{shown}");
    let shown = tool_fixture
        .fails("web_fetch", json!({ "url": format!("{site}/slow") }))
        .await;
    assert!(shown.contains("took longer than 0.3 seconds"), "{shown}");
    let shown = tool_fixture
        .done("web_fetch", json!({ "url": format!("{site}/long") }))
        .await;
    assert!(
        shown.starts_with(&"é".repeat(20)) && shown.contains("cut after 20 of 50 characters"),
        "{shown}"
    );
    let shown = tool_fixture
        .done(
            "web_fetch",
            json!({ "url": format!("{site}/long"), "max_chars": 50 }),
        )
        .await;
    assert_eq!(shown, "é".repeat(50));
}

#[tokio::test]
async fn url_with_a_secret_is_refused() {
    let (mut tool_fixture, site) = site(allowed()).await;
    let secret_set = SecretSet::with_key(DigestKey::new([3; 32]));
    secret_set.learn("sword fish");
    tool_fixture.context.secret_set = Arc::new(secret_set);
    for secret in [
        "sword%20fish",
        "%73word%20f%69sh",
        "%2573word%2520fish",
        "sword fish",
    ] {
        let shown = tool_fixture
            .fails(
                "web_fetch",
                json!({ "url": format!("{site}/page?k={secret}") }),
            )
            .await;
        assert!(
            shown.contains("holds a secret") && !shown.contains("fish"),
            "{secret}: {shown}"
        );
    }
}

#[tokio::test]
async fn web_fetch_is_read_only_and_cached_only_with_a_ttl() {
    let (tool_fixture, _) = site(WebFetchSettings::default()).await;
    let tool = tool_fixture.registry.tool("web_fetch").unwrap();
    assert!(tool.metadata().read_only);
    assert_eq!(tool.metadata().cache_class, CacheClass::Never);
    let effects = tool.effects(
        &object(json!({ "url": "https://x/" })),
        &tool_fixture.context,
    );
    assert_eq!(
        effects,
        Effects::reading(vec![EffectTarget::Named("url:https://x/".to_owned())])
    );
    let stated = WebFetchSettings {
        lifetime: Some(Duration::from_secs(60)),
        ..WebFetchSettings::default()
    };
    let (tool_fixture, _) = site(stated).await;
    let tool = tool_fixture.registry.tool("web_fetch").unwrap();
    assert_eq!(
        tool.metadata().cache_class,
        CacheClass::Ttl(Duration::from_secs(60))
    );
    let wrong = WebFetchSettings {
        allow: vec!["a b".to_owned()],
        ..WebFetchSettings::default()
    };
    assert!(WebFetch::new(wrong).is_err());
}

#[tokio::test]
async fn allowed_hosts_are_part_of_the_key() {
    let tool_fixture = ToolFixture::with(Vec::new());
    let inputs = |hosts: Option<&[&str]>| {
        let settings = WebFetchSettings {
            allowed_hosts: hosts.map(|hosts| hosts.iter().map(|&host| host.to_owned()).collect()),
            ..WebFetchSettings::default()
        };
        let fetch: &dyn Tool = &WebFetch::new(settings).unwrap();
        fetch
            .implicit_inputs(&Arguments::new(), &tool_fixture.context)
            .unwrap()
    };
    let none = inputs(None);
    assert!(none.get("allowed_hosts").is_none(), "{none}");
    assert_ne!(none, inputs(Some(&["a.example"])));
    assert_ne!(inputs(Some(&["a.example"])), inputs(Some(&["b.example"])));
}
