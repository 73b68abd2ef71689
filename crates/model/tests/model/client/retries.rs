//! Retries: conditions, pauses and limits.

use std::sync::Arc;

use cachalot_model::{ErrorKind, Models, RetryPauses};
use proptest::prelude::*;

use super::{
    Answer, NOW, RecordedPauses, Server, ask, configured, model_dependencies, model_with, refusal,
    says, stream,
};

#[tokio::test]
async fn transient_statuses_are_retried() {
    for status in [408, 409, 429, 500, 502, 503, 504, 529] {
        let server = Server::start([refusal(status, "not now", "x"), says("now")]).await;
        let (model, pauses) = model_with(&server, "");
        assert_eq!(ask(&model).await.unwrap().message.text(), "now", "{status}");
        assert_eq!(server.asked().len(), 2, "{status}");
        assert_eq!(pauses.waited(), [500], "{status}");
    }
}

#[tokio::test]
async fn permanent_statuses_are_not_retried() {
    for (status, kind) in [
        (400, ErrorKind::Rejected),
        (401, ErrorKind::Unauthorized),
        (402, ErrorKind::OutOfCredit),
        (403, ErrorKind::Unauthorized),
        (404, ErrorKind::Rejected),
        (413, ErrorKind::Rejected),
        (422, ErrorKind::Rejected),
    ] {
        let server = Server::start([refusal(status, "no", "x"), says("yes")]).await;
        let (model, pauses) = model_with(&server, "");
        let error = ask(&model).await.unwrap_err();
        assert_eq!((error.kind, error.status), (kind, Some(status)));
        assert!(!error.retryable(), "{status}");
        assert_eq!(
            (server.asked().len(), pauses.waited().len()),
            (1, 0),
            "{status}"
        );
    }
}

#[tokio::test]
async fn retries_are_limited_and_pauses_double() {
    for (keys, tries, pauses_expected) in [
        ("", 3, vec![500, 1_000]),
        ("retries: 0", 1, vec![]),
        (
            "retries: 6",
            7,
            vec![500, 1_000, 2_000, 4_000, 8_000, 8_000],
        ),
    ] {
        let server = Server::start([refusal(503, "Overloaded.", "x")]).await;
        let (model, pauses) = model_with(&server, keys);
        let error = ask(&model).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert_eq!(server.asked().len(), tries);
        assert_eq!(pauses.waited(), pauses_expected);
        let tail = format!("; tried {tries} times");
        assert_eq!(error.message.ends_with(&tail), tries > 1, "{error}");
    }
}

#[tokio::test]
async fn retry_after_sets_the_pause() {
    let until = httpdate(NOW + 9_000);
    for (headers, waited) in [
        (vec![("retry-after", "3")], 3_000),
        (vec![("retry-after", until.as_str())], 9_000),
        (vec![("retry-after", "3"), ("retry-after-ms", "120")], 120),
        (vec![("retry-after", "soon")], 500),
    ] {
        let server = Server::start([Answer::of(429, &headers, "{}"), says("now")]).await;
        let (model, pauses) = model_with(&server, "");
        ask(&model).await.unwrap();
        assert_eq!(pauses.waited(), [waited], "{headers:?}");
    }
}

#[tokio::test]
async fn long_retry_pauses_are_not_awaited() {
    let server = Server::start([Answer::of(429, &[("retry-after", "3600")], "{}")]).await;
    let (model, pauses) = model_with(&server, "");
    let error = ask(&model).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Limited);
    assert_eq!(error.retry_after.unwrap().as_secs(), 3_600);
    assert!(error.retryable());
    assert_eq!((server.asked().len(), pauses.waited().len()), (1, 0));
}

#[tokio::test]
async fn rate_limits_are_waited_for_longer_than_other_failures() {
    let slow_down = || Answer::of(429, &[("retry-after", "50")], "{}");
    let answers = |limited| (0..limited).map(|_| slow_down()).chain([says("now")]);
    // The default is 5 minutes.
    let server = Server::start(answers(6)).await;
    let (model, pauses) = model_with(&server, "");
    assert_eq!(ask(&model).await.unwrap().message.text(), "now");
    assert_eq!(pauses.waited(), [50_000; 6]);
    let announced = vec!["openai/gpt-4o-mini 50s 300s"; 6];
    assert_eq!(pauses.announced(), announced);
    for (keys, tries) in [
        ("", 7),
        ("rate_limit_wait: 100s", 3),
        ("rate_limit_wait: 0", 3),
        ("rate_limit_wait: 0, retries: 0", 1),
        ("retries: 0", 1),
        ("retries: 0, rate_limit_wait: 1m", 2),
        // Another model answers in place of this one, unless the user wants to wait for it.
        ("fallbacks: [spare]", 3),
        ("fallbacks: [spare], rate_limit_wait: 1m", 2),
    ] {
        let server = Server::start(answers(7)).await;
        let (model, pauses) = model_with(&server, keys);
        let error = ask(&model).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limited, "{keys}");
        assert_eq!(server.asked().len(), tries, "{keys}");
        assert_eq!(pauses.waited().len(), tries - 1, "{keys}");
    }
}

#[tokio::test]
async fn last_fallback_is_waited_for() {
    let server =
        Server::start((0..9).map(|_| Answer::of(429, &[("retry-after", "50")], "{}"))).await;
    let (model, pauses) = model_with(&server, "fallbacks: [spare, last]");
    let [spare, last] = model.fallbacks().collect::<Vec<_>>()[..] else {
        panic!("two fallbacks");
    };
    for ((name, fallback), waits) in [(spare, 2), (last, 6)] {
        let before = pauses.waited().len();
        ask(fallback).await.unwrap_err();
        assert_eq!(pauses.waited().len() - before, waits, "{name}");
    }
}

/// OpenAI's words for a request that no wait makes possible, and limits that last longer than a wait.
#[tokio::test]
async fn limits_that_no_wait_outlasts_are_not_waited_for() {
    for message in [
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45055. The input or output tokens must be reduced in order to run successfully.",
        "Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200, Requested 1.",
        "Quota exceeded for metric: GenerateRequestsPerDayPerProjectPerModel-FreeTier",
    ] {
        let server =
            Server::start([refusal(429, message, "rate_limit_exceeded"), says("now")]).await;
        let error = ask(&model_with(&server, "").0).await.unwrap_err();
        assert_eq!(
            (error.kind, server.asked().len()),
            (ErrorKind::Limited, 1),
            "{message}"
        );
    }
}

#[tokio::test]
async fn the_last_other_fallback_is_waited_for() {
    let server =
        Server::start((0..9).map(|_| Answer::of(429, &[("retry-after", "50")], "{}"))).await;
    let (model, pauses) = model_with(&server, "fallbacks: [spare, m]");
    let [(name, spare)] = model.fallbacks().collect::<Vec<_>>()[..] else {
        panic!("the model itself is no fallback");
    };
    ask(spare).await.unwrap_err();
    assert_eq!(pauses.waited().len(), 6, "{name}");
}

#[tokio::test]
async fn x_should_retry_decides_about_retries() {
    let should = |status, should| Answer::of(status, &[("x-should-retry", should)], "{}");
    let server = Server::start([should(400, "true"), says("now")]).await;
    assert!(ask(&model_with(&server, "").0).await.is_ok());
    let server = Server::start([should(500, "false"), says("now")]).await;
    assert!(ask(&model_with(&server, "").0).await.is_err());
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn exhausted_quota_is_not_retried() {
    for answer in [
        refusal(429, "You exceeded your current quota", "insufficient_quota"),
        Answer::of(
            429,
            &[("x-should-retry", "true")],
            r#"{"error":{"message":"x","type":"insufficient_quota"}}"#,
        ),
        Answer::json(
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#,
        ),
    ] {
        let server = Server::start([answer, says("now")]).await;
        let error = ask(&model_with(&server, "").0).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfCredit);
        assert!(!error.retryable());
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn broken_connection_is_retried_before_the_answer_begins() {
    for broken in [
        Answer::nothing().close(),
        Answer::nothing().reset(),
        Answer::bytes("HTTP/1.1 200 OK\r\ncontent-le").reset(),
        Answer::head("application/json").reset(),
    ] {
        let server = Server::start([broken.clone(), says("now")]).await;
        let (model, pauses) = model_with(&server, "");
        let reply = ask(&model)
            .await
            .unwrap_or_else(|error| panic!("{broken:?}: {error}"));
        assert_eq!(reply.message.text(), "now");
        assert_eq!(
            (server.asked().len(), pauses.waited().len()),
            (2, 1),
            "{broken:?}"
        );
    }
}

#[tokio::test]
async fn broken_connection_after_the_first_byte_is_not_retried() {
    let begun = Answer::head("application/json").chunks(&["{\"id\":"]);
    for broken in [begun.clone().reset(), begun.clone().close(), begun.end()] {
        let server = Server::start([broken, says("now")]).await;
        let error = ask(&model_with(&server, "").0).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::CutOff, "{error}");
        assert_eq!(server.asked().len(), 1);
    }
    let begun = Answer::head("text/event-stream").chunks(&[": hello\n\n"]);
    for broken in [begun.clone().reset(), begun.clone().close(), begun.end()] {
        let server = Server::start([broken, says("now")]).await;
        let (reply, deltas) = stream(&model_with(&server, "").0).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::CutOff);
        assert_eq!((server.asked().len(), deltas.len()), (1, 0));
    }
}

/// Errors that a provider reports with the status 200, in one piece.
const INSIDE: [(&str, ErrorKind, bool); 7] = [
    (
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        ErrorKind::Unavailable,
        true,
    ),
    (
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}"#,
        ErrorKind::Limited,
        true,
    ),
    (
        r#"{"error":{"message":"Slow down","type":"rate_limit"}}"#,
        ErrorKind::Limited,
        true,
    ),
    (
        r#"{"error":{"message":"Provider returned error","code":502}}"#,
        ErrorKind::Unavailable,
        true,
    ),
    (
        r#"{"error":{"message":"No","type":"invalid_request_error"}}"#,
        ErrorKind::Rejected,
        false,
    ),
    (
        r#"{"error":{"message":"No","type":"authentication_error"}}"#,
        ErrorKind::Unauthorized,
        false,
    ),
    (
        r#"{"error":{"message":"No","type":"insufficient_quota"}}"#,
        ErrorKind::OutOfCredit,
        false,
    ),
];

#[tokio::test]
async fn transient_error_bodies_with_status_200_are_retried() {
    for (body, kind, passes) in INSIDE {
        let server = Server::start([Answer::json(200, body), says("now")]).await;
        let (model, pauses) = model_with(&server, "");
        let asked = ask(&model).await;
        assert_eq!(asked.is_ok(), passes, "{body}: {asked:?}");
        assert_eq!(pauses.waited().len(), usize::from(passes), "{body}");
        let server = Server::start([Answer::json(200, body)]).await;
        let error = ask(&model_with(&server, "retries: 0").0).await.unwrap_err();
        assert_eq!((error.kind, error.retryable()), (kind, passes), "{body}");
    }
}

/// An error event of each format, as its first event or after events that show nothing.
const STREAMED: [(&str, &str, &str); 5] = [
    (
        "",
        "",
        "data: {\"error\":{\"message\":\"Overloaded\",\"type\":\"overloaded_error\"}}\n\n",
    ),
    (
        "format: responses",
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n",
        "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"Failed\"}}}\n\n",
    ),
    (
        "format: responses",
        "",
        "event: error\ndata: {\"type\":\"error\",\"code\":\"rate_limit_exceeded\",\"message\":\"Slow down\"}\n\n",
    ),
    (
        "format: messages",
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":[]}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
    ),
    (
        "format: messages",
        "",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Slow down\"}}\n\n",
    ),
];

#[tokio::test]
async fn stream_error_is_retried_until_something_was_shown() {
    for (keys, before, error) in STREAMED {
        let broken = Answer::stream(&[before, error].map(|text| match text {
            "" => ": nothing\n\n",
            text => text,
        }));
        let server = Server::start([broken.clone(), refusal(400, "no", "x")]).await;
        let (model, pauses) = model_with(&server, keys);
        let (reply, deltas) = stream(&model).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Rejected, "{error}");
        assert_eq!((server.asked().len(), pauses.waited().len()), (2, 1));
        assert_eq!(deltas, [], "{error}");
    }
    let shown = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"Deep\"}}\n\n";
    let (keys, before, error) = STREAMED[3];
    let server = Server::start([Answer::stream(&[before, shown, error]), says("x")]).await;
    let (reply, deltas) = stream(&model_with(&server, keys).0).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Unavailable);
    assert_eq!((server.asked().len(), deltas.len()), (1, 1));
}

#[tokio::test]
async fn a_refused_connection_is_retried_and_reported() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let yaml = format!(
        "models: {{m: {{provider: vllm, model: x, retries: 1, base_url: 'http://127.0.0.1:{port}/v1'}}}}"
    );
    let pauses = Arc::new(RecordedPauses::default());
    let models = Models::new(model_dependencies(&[]), configured(&yaml))
        .with_pauses(Arc::clone(&pauses) as Arc<dyn RetryPauses>);
    let error = ask(&models.find("m").unwrap()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreachable);
    assert_eq!(pauses.waited(), [500]);
    let text = error.to_string();
    for part in [
        "vllm: cannot connect to",
        &format!("127.0.0.1:{port}"),
        "tried 2 times",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// A time in the format of HTTP.
fn httpdate(at: i64) -> String {
    let iso = cachalot_core::clock::iso8601(at);
    let (date, time) = iso.split_once('T').unwrap();
    assert_eq!(date, "2026-11-21");
    format!("Sat, 21 Nov 2026 {} GMT", &time[..8])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// However often a server fails before it answers: it is asked once more, or the last failure is
    /// what the user gets.
    #[test]
    fn retries_end_with_the_first_answer_or_the_last_attempt(failures in 0_usize..6, retries in 0_usize..5) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let failing = (0..failures).map(|_| refusal(500, "no", "x"));
            let server = Server::start(failing.chain([says("yes")])).await;
            let (model, pauses) = model_with(&server, &format!("retries: {retries}"));
            let reply = ask(&model).await;
            assert_eq!(reply.is_ok(), failures <= retries);
            assert_eq!(server.asked().len(), 1 + failures.min(retries));
            assert_eq!(pauses.waited().len(), failures.min(retries));
        });
    }
}
