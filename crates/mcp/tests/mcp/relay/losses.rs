//! Announcements that may have been lost.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use cachalot_mcp::relay::{Frame, FrameKind, RequestContext, Upstream};

use super::servers::{self, HttpPuppet};
use crate::ReportRecorder;

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

async fn ask(upstream: &Arc<dyn Upstream>, method: &str, params: &str) {
    let request = Frame::request("7", method, params);
    let mut exchange = upstream.request(request, RequestContext::default()).await;
    while let Some(message) = exchange.next().await {
        if message.kind() == FrameKind::Response {
            assert!(message.error().is_none(), "{message:?}");
        }
    }
}

/// Opens a session of a server behind HTTP that answers GET with these, and then has no stream.
async fn open(streams: &[(StatusCode, &str)]) -> (HttpPuppet, Arc<dyn Upstream>) {
    let remote = HttpPuppet::open(&Arc::new(ReportRecorder::default())).await;
    remote.set_streams(streams);
    let upstream = remote.connector.connect(None).await.unwrap().upstream;
    ask(&upstream, "initialize", "{}").await;
    let initialized = Frame::notification("notifications/initialized", "{}");
    upstream
        .notify(initialized, RequestContext::default())
        .await;
    (remote, upstream)
}

fn event(method: &str) -> String {
    let message = Frame::notification(method, "{}");
    let message = std::str::from_utf8(message.bytes()).unwrap();
    format!("retry: 1\ndata: {message}\n\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_announcements_is_opened_again_and_gaps_are_counted() {
    let (first, second) = (event("notifications/first"), event("notifications/second"));
    let (remote, upstream) = open(&[
        (StatusCode::BAD_GATEWAY, ""),
        (StatusCode::OK, &first),
        (StatusCode::OK, "data: no message\n\n"),
        (StatusCode::BAD_GATEWAY, ""),
        (StatusCode::OK, &second),
    ])
    .await;
    let mut unattached = upstream.take_unattached().unwrap();
    // One for the time before the first stream, two for each end, one for the event, one for the next beginning.
    for (method, losses) in [("notifications/first", 1), ("notifications/second", 6)] {
        let message = tokio::time::timeout(LONG, unattached.recv()).await;
        assert_eq!(message.unwrap().unwrap().method(), method);
        assert!(upstream.losses() >= losses, "{}", upstream.losses());
    }
    drop(remote);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_event_ids_has_no_gaps() {
    let first = format!("id: 1\n{}", event("notifications/first"));
    let second = format!("id: 2\n{}", event("notifications/second"));
    let (remote, upstream) = open(&[
        (StatusCode::OK, &first),
        (StatusCode::BAD_GATEWAY, ""),
        (StatusCode::OK, &second),
    ])
    .await;
    let mut unattached = upstream.take_unattached().unwrap();
    for method in ["notifications/first", "notifications/second"] {
        let message = tokio::time::timeout(LONG, unattached.recv()).await;
        assert_eq!(message.unwrap().unwrap().method(), method);
        assert_eq!(upstream.losses(), 0);
    }
    let requests = remote.requests();
    let last = requests.iter().rfind(|(what, headers)| {
        what == "GET" && headers.get("last-event-id").is_some_and(|id| id == "1")
    });
    assert!(last.is_some(), "{requests:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_a_program_that_is_no_message_is_counted() {
    let reporter = Arc::new(ReportRecorder::default());
    let connection = servers::program(&reporter).connect(Some("s".into())).await;
    let connection = connection.unwrap();
    let upstream = &connection.upstream;
    ask(upstream, "initialize", "{}").await;
    let before = upstream.losses();
    let say = r#"{"say":["no message","{\"id\":$ID,\"result\":{}}"]}"#;
    ask(upstream, "test/say", say).await;
    assert_eq!(upstream.losses(), before + 1);
    connection.closer.close().await;
}
