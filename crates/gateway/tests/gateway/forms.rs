//! One stored answer serves clients that stream and clients that do not.

use serde_json::{Value, json};

use crate::support::{Answer, Setup, chat, messages, read, streamed, until};

const CHAT: &str = "/v1/chat/completions";

fn with_usage(body: Value) -> Value {
    let mut body = streamed(body);
    body["stream_options"] = json!({"include_usage": true});
    body
}

fn responses(text: &str) -> Value {
    json!({"model": "gpt-4o-mini", "temperature": 0, "store": false, "input": text})
}

/// Paths, and the same request for a stream and for a document.
fn both_forms() -> [(&'static str, Value, Value); 3] {
    [
        (CHAT, with_usage(chat("hello")), chat("hello")),
        (
            "/v1/messages",
            streamed(messages("hello")),
            messages("hello"),
        ),
        (
            "/v1/responses",
            streamed(responses("hello")),
            responses("hello"),
        ),
    ]
}

/// The events of a stream, without their names.
fn events(answer: &Answer) -> Vec<Value> {
    let data = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

#[tokio::test]
async fn a_streamed_answer_serves_a_request_for_a_document() {
    for (path, stream, whole) in both_forms() {
        let setup = Setup::new().await;
        assert_eq!(setup.ask(path, &stream).await.source(), "miss", "{path}");
        let hit = setup.ask(path, &whole).await;
        assert_eq!(
            (hit.source(), setup.paid()),
            ("hit", 1),
            "{path}: {}",
            hit.body
        );
        assert_eq!(hit.headers["content-type"], "application/json");
        assert!(hit.json().to_string().contains("hello") || hit.json()["model"].is_string());
        let again = setup.ask(path, &stream).await;
        assert_eq!(again.source(), "hit", "{path}");
    }
}

#[tokio::test]
async fn a_document_serves_a_request_for_a_stream() {
    for (path, stream, whole) in both_forms() {
        let setup = Setup::new().await;
        let direct = read(
            setup
                .client
                .post(format!("{}{path}", setup.simulator.url()))
                .header("x-api-key", "one")
                .header("anthropic-version", "2023-06-01")
                .header("content-type", "application/json")
                .bearer_auth("one")
                .body(stream.to_string()),
        )
        .await;
        assert_eq!(setup.ask(path, &whole).await.source(), "miss", "{path}");
        let hit = setup.ask(path, &stream).await;
        assert_eq!(hit.source(), "hit", "{path}: {}", hit.body);
        assert!(
            hit.headers["content-type"]
                .to_str()
                .unwrap()
                .starts_with("text/event-stream")
        );
        let kinds = |answer: &Answer| {
            let mut kinds: Vec<String> = events(answer)
                .iter()
                .map(|event| event["type"].as_str().unwrap_or("chunk").to_owned())
                .collect();
            kinds.dedup();
            kinds
        };
        assert_eq!(kinds(&hit), kinds(&direct), "{path}");
    }
}

#[tokio::test]
async fn gemini_selects_the_form_by_its_path() {
    let setup = Setup::new().await;
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}], "generationConfig": {"temperature": 0}});
    let base = "/v1beta/models/gemini-2.5-flash";
    let streamed = setup
        .ask(&format!("{base}:streamGenerateContent?alt=sse"), &body)
        .await;
    assert_eq!(
        (streamed.status, streamed.source()),
        (200, "miss"),
        "{}",
        streamed.body
    );
    let whole = setup.ask(&format!("{base}:generateContent"), &body).await;
    assert_eq!(whole.source(), "hit", "{}", whole.body);
    let list = setup
        .ask(&format!("{base}:streamGenerateContent"), &body)
        .await;
    assert_ne!(
        list.source(),
        "hit",
        "an array of documents is a form of its own"
    );
}

#[tokio::test]
async fn what_cannot_be_converted_is_a_miss_that_replaces_the_entry() {
    let setup = Setup::new().await;
    // Without its usage, a stream does not contain all of the document.
    assert_eq!(
        setup.ask(CHAT, &streamed(chat("hello"))).await.source(),
        "miss"
    );
    assert_eq!(
        setup.ask(CHAT, &with_usage(chat("hello"))).await.source(),
        "miss"
    );
    assert_eq!(setup.ask(CHAT, &chat("hello")).await.source(), "hit");
    assert_eq!(
        setup.ask(CHAT, &streamed(chat("hello"))).await.source(),
        "hit"
    );
    assert_eq!(setup.paid(), 2);
    let reports = setup.reports.lock();
    let reason = reports[1].reason.clone().unwrap_or_default();
    assert!(reason.contains("form"), "{reason}");
}

#[tokio::test]
async fn samples_of_a_run_are_counted_in_both_forms() {
    let setup = Setup::new().await;
    let mut whole = chat("hello");
    whole.as_object_mut().unwrap().remove("temperature");
    let stream = with_usage(whole.clone());
    let (first, second) = (
        "/p/coder/r/1/v1/chat/completions",
        "/p/coder/r/2/v1/chat/completions",
    );
    assert_eq!(setup.ask(first, &whole).await.source(), "miss");
    assert_eq!(
        setup.ask(first, &stream).await.source(),
        "miss",
        "a second sample"
    );
    assert_eq!(setup.ask(second, &stream).await.source(), "hit");
    assert_eq!(setup.ask(second, &whole).await.source(), "hit");
}

/// The text of a stream of Chat Completions, and the number of its chunks with a usage.
fn said(answer: &Answer) -> (String, usize) {
    let events = events(answer);
    let texts = events.iter().filter_map(|event| {
        let text = event.pointer("/choices/0/delta/content")?.as_str()?;
        Some(text.to_owned())
    });
    let usages = events.iter().filter(|event| event["usage"].is_object());
    (texts.collect(), usages.count())
}

/// The newest payment in the ledger: the reason why it is unpriced, and whether it is.
async fn payment(setup: &Setup) -> (Option<String>, bool) {
    let ledger = setup.cache.ledger();
    let paid = async || {
        ledger.flush().await;
        let rows = ledger.recent(1).unwrap_or_default();
        rows.first().is_some_and(|row| !row.paid.is_free())
    };
    until(paid).await;
    let row = ledger.recent(1).unwrap().remove(0);
    (row.unpriced, row.paid.cost.unpriced > 0)
}

#[tokio::test]
async fn usage_of_a_stream_is_asked_for_and_kept_from_the_client() {
    let sampled = |body: &Value| {
        let mut body = body.clone();
        body.as_object_mut().unwrap().remove("temperature");
        body
    };
    let stream = streamed(chat("hello"));
    for body in [stream.clone(), sampled(&stream)] {
        let plain = Setup::new().await;
        let expected = said(&plain.ask(CHAT, &body).await);
        let (reason, is_unpriced) = payment(&plain).await;
        assert!(is_unpriced);
        let reason = reason.unwrap();
        assert!(
            reason.contains("`stream_options.include_usage`"),
            "{reason}"
        );

        let file = "upstreams: {openai: {url: '{url}', stream_usage: true}}";
        let setup = Setup::configured(file).await;
        let answer = setup.ask(CHAT, &body).await;
        assert_eq!(said(&answer), expected, "{}", answer.body);
        assert!(
            answer.body.trim_end().ends_with("data: [DONE]"),
            "{}",
            answer.body
        );
        assert_eq!(payment(&setup).await, (None, false));
        let sent = setup.simulator.received()[0].json();
        assert_eq!(sent["stream_options"]["include_usage"], true, "{sent}");
        // A client that asks for it gets it.
        let mut asking = body.clone();
        asking["stream_options"] = json!({"include_usage": true});
        assert_eq!(said(&setup.ask(CHAT, &asking).await).1, 1);
    }
}
