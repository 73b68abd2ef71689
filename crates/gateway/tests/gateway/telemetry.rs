//! Traces: the spans that a collector receives.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cachalot_core::Digest;
use cachalot_gateway::Limits;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::ask::Ask;
use crate::fake_upstream::{FakeUpstream, Step, answer, head};
use crate::formats::Api;
use crate::support::{Setup, chat, read, settings, streamed};

const CHAT: &str = "/v1/chat/completions";
const JSON: &str = "application/json";

/// A span that a collector received.
#[derive(Debug, Clone)]
struct Span {
    name: String,
    /// 2: server, 3: client.
    kind: u64,
    trace: String,
    id: String,
    /// Empty if there is none.
    parent: String,
    flags: u64,
    start: u64,
    end: u64,
    attributes: BTreeMap<String, Value>,
    has_failed: bool,
}

impl Span {
    fn read(span: &Value) -> Self {
        let text = |name: &str| span[name].as_str().unwrap_or_default().to_owned();
        let attributes = span["attributes"].as_array().unwrap().iter();
        let attributes = attributes.map(|attribute| {
            let value = match attribute["value"].as_object().unwrap().iter().next() {
                Some((kind, value)) if kind == "intValue" => {
                    json!(value.as_str().unwrap().parse::<u64>().unwrap())
                }
                Some((kind, value)) if kind == "arrayValue" => {
                    let values = value["values"].as_array().unwrap().iter();
                    values.map(|value| value["stringValue"].clone()).collect()
                }
                Some((_, value)) => value.clone(),
                None => Value::Null,
            };
            (attribute["key"].as_str().unwrap().to_owned(), value)
        });
        let attributes: BTreeMap<String, Value> = attributes.collect();
        let named = span["attributes"].as_array().unwrap().len();
        assert_eq!(attributes.len(), named, "names are unique: {span}");
        Self {
            name: text("name"),
            kind: span["kind"].as_u64().unwrap(),
            trace: text("traceId"),
            id: text("spanId"),
            parent: text("parentSpanId"),
            flags: span["flags"].as_u64().unwrap(),
            start: text("startTimeUnixNano").parse().unwrap(),
            end: text("endTimeUnixNano").parse().unwrap(),
            attributes,
            has_failed: span["status"]["code"] == 2,
        }
    }

    fn get(&self, name: &str) -> &Value {
        self.attributes.get(name).unwrap_or(&Value::Null)
    }
}

/// A collector that accepts everything.
async fn collector() -> FakeUpstream {
    FakeUpstream::start(|_| answer("200 OK", JSON, "{}")).await
}

/// A configuration with a collector.
fn traced(collector: &FakeUpstream) -> String {
    format!(
        "upstreams: {{openai: {{url: '{{url}}'}}, anthropic: {{url: '{{url}}'}}}}
telemetry: {{otlp: 'http://{}/base', service_name: gate, credential: {{env: SECRET}}}}
",
        collector.address
    )
}

/// Stops the gateway, and returns the spans that the collector received, in the order of their ends.
async fn spans(setup: Setup, collector: &FakeUpstream) -> Vec<Span> {
    assert!(setup.gateway.stop().await);
    let mut spans = received_spans(collector);
    spans.sort_by_key(|span| span.end);
    spans
}

fn received_spans(collector: &FakeUpstream) -> Vec<Span> {
    let mut spans = Vec::new();
    for request in collector.received() {
        let document = request.json();
        for resource in document["resourceSpans"].as_array().unwrap() {
            for scope in resource["scopeSpans"].as_array().unwrap() {
                spans.extend(scope["spans"].as_array().unwrap().iter().map(Span::read));
            }
        }
    }
    spans
}

fn of_kind(spans: &[Span], kind: u64) -> Vec<&Span> {
    spans.iter().filter(|span| span.kind == kind).collect()
}

#[tokio::test]
async fn a_miss_has_a_span_of_its_upstream_request_and_a_hit_has_none() {
    let collector = collector().await;
    let setup = Setup::configured(&traced(&collector)).await;
    for source in ["miss", "hit"] {
        assert_eq!(setup.ask(CHAT, &chat("hello")).await.source(), source);
    }
    let upstream = setup.simulator.url();
    let key = setup.ask(CHAT, &chat("hello")).await;
    let (_, key) = key.cache_status().split_once("key=\"").unwrap();
    let key = key.trim_end_matches('"').to_owned();
    let spans = spans(setup, &collector).await;

    let [miss, hit, _] = of_kind(&spans, 2)[..] else {
        panic!("{spans:#?}");
    };
    let [paid] = of_kind(&spans, 3)[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!((&paid.trace, &paid.parent), (&miss.trace, &miss.id));
    assert!(miss.parent.is_empty() && hit.parent.is_empty() && hit.trace != miss.trace);
    assert_eq!((miss.flags, paid.flags), (0x101, 0x101));
    assert!(miss.start <= paid.start && paid.start <= paid.end && miss.start <= miss.end);
    assert!((miss.trace.len(), miss.id.len()) == (32, 16) && miss.id != paid.id);

    for span in [miss, hit, paid] {
        assert_eq!(span.name, "chat gpt-4o-mini");
        assert!(!span.has_failed);
    }
    let expected = json!({
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.path": CHAT,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "cachalot.outcome": "miss",
        "cachalot.reason": "not in the cache",
        "cachalot.upstream": "openai",
        "cachalot.key": key,
    });
    assert_eq!(json!(miss.attributes), expected);

    let mut of_hit = hit.attributes.clone();
    let saved = of_hit.remove("cachalot.saved_dollars").unwrap();
    let mut expected_hit = expected;
    expected_hit["cachalot.outcome"] = json!("hit");
    expected_hit
        .as_object_mut()
        .unwrap()
        .remove("cachalot.reason");
    assert_eq!(json!(of_hit), expected_hit);

    let mut of_paid = paid.attributes.clone();
    let dollars = of_paid.remove("cachalot.paid_dollars").unwrap();
    assert!(dollars.as_f64().unwrap() > 0.0);
    assert_eq!(dollars, saved);
    for tokens in ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"] {
        assert!(of_paid.remove(tokens).unwrap().as_u64().unwrap() > 0);
    }
    let model = of_paid.remove("gen_ai.response.model").unwrap();
    assert!(
        model.as_str().unwrap().starts_with("gpt-4o-mini"),
        "{model}"
    );
    let port: u16 = upstream.rsplit_once(':').unwrap().1.parse().unwrap();
    assert_eq!(
        json!(of_paid),
        json!({
            "http.request.method": "POST",
            "http.response.status_code": 200,
            "server.address": "127.0.0.1",
            "server.port": port,
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.response.finish_reasons": ["stop"],
            "cachalot.upstream": "openai",
        })
    );
}

#[tokio::test]
async fn the_collector_gets_the_service_and_the_credential() {
    let collector = collector().await;
    let setup = Setup::configured(&traced(&collector)).await;
    for text in ["one", "two"] {
        setup.ask(CHAT, &streamed(chat(text))).await;
    }
    assert!(setup.gateway.stop().await);
    assert_eq!(received_spans(&collector).len(), 4);
    for request in collector.received() {
        assert_eq!(request.line, "POST /base/v1/traces");
        assert_eq!(request.header("content-type"), Some(JSON));
        assert_eq!(
            request.header("authorization"),
            Some("Bearer operator-secret")
        );
        let document = request.json();
        assert_eq!(
            document["resourceSpans"][0]["resource"]["attributes"][0],
            json!({"key": "service.name", "value": {"stringValue": "gate"}})
        );
    }
}

#[tokio::test]
async fn the_span_of_the_client_is_the_parent() {
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let collector = collector().await;
    let setup = Setup::configured(&traced(&collector)).await;
    let ask = |text: &str, parent: &str| {
        let request = setup.post(CHAT, &chat(text)).header("traceparent", parent);
        read(request)
    };
    assert_eq!(ask("sampled", PARENT).await.status, 200);
    let unsampled = PARENT.replace("-01", "-00");
    assert_eq!(ask("unsampled", &unsampled).await.status, 200);
    assert_eq!(ask("unsampled", &unsampled).await.status, 200);
    assert_eq!(ask("malformed", &PARENT.to_uppercase()).await.status, 200);
    let sent = setup.simulator.received();
    let sent = sent.iter().map(|request| {
        let mut headers = request.headers.iter();
        headers
            .find(|(name, _)| name == "traceparent")
            .unwrap()
            .1
            .clone()
    });
    let sent: Vec<String> = sent.collect();
    assert_eq!(sent, [PARENT, &unsampled, &PARENT.to_uppercase()]);
    // The run of the last answer may end after it was delivered.
    assert_eq!(setup.ask(CHAT, &chat("last")).await.status, 200);
    let spans = spans(setup, &collector).await;
    let [sampled, malformed, _] = of_kind(&spans, 2)[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(sampled.trace, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(sampled.parent, "b7ad6b7169203331");
    assert_eq!(sampled.flags, 0x301);
    let children: Vec<&Span> = of_kind(&spans, 3)
        .into_iter()
        .filter(|span| span.trace == sampled.trace)
        .collect();
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].parent, sampled.id);
    assert!(malformed.parent.is_empty() && malformed.trace != sampled.trace);
}

#[tokio::test]
async fn contents_credentials_and_queries_are_not_exported() {
    let collector = collector().await;
    let digest = Digest::sha256(b"cachalot-SECRETKEY").to_hex();
    let text = format!("{}keys: {{team: {{digest: {digest}}}}}", traced(&collector));
    let setup = Setup::configured(&text).await;
    let secret = |target: &str, body: Value| {
        Ask::anonymous(target, body)
            .with("authorization", "Bearer SECRETTOKEN")
            .with("x-api-key", "SECRETTOKEN")
            .with("cookie", "a=SECRETCOOKIE")
            .with("tracestate", "vendor=SECRETSTATE")
    };
    let mut tool = chat("SECRETCONTENT");
    tool["user"] = json!("SECRETUSER");
    for (ask, status) in [
        (secret(CHAT, chat("SECRETCONTENT")), 200),
        (secret(CHAT, streamed(chat("SECRETCONTENT"))), 200),
        (secret(CHAT, tool.clone()), 200),
        (
            secret(CHAT, tool).with("x-cachalot-key", "cachalot-SECRETKEY"),
            200,
        ),
        (
            secret(CHAT, chat("x")).with("x-cachalot-mode", "SECRETMODE"),
            400,
        ),
        (
            secret(
                "/v1/models?limit=SECRETQUERY&after=SECRETQUERY",
                json!(null),
            )
            .method(reqwest::Method::GET),
            200,
        ),
        (
            secret("/v1/uploads?key=SECRETQUERY", json!("SECRETFILE")),
            404,
        ),
        (
            secret("/v1/files?key=SECRETQUERY", json!("SECRETFILE")),
            400,
        ),
        (secret(CHAT, json!("SECRETCONTENT")), 400),
    ] {
        let answer = ask.send(&setup).await;
        assert_eq!(answer.status, status, "{ask:?}: {}", answer.body);
    }
    let paid = setup.paid();
    assert_eq!(setup.ask(CHAT, &chat("last")).await.status, 200);
    assert!(setup.gateway.stop().await);
    let received = collector.received();
    let exported: Vec<String> = received
        .iter()
        .map(|request| String::from_utf8(request.body.clone()).unwrap())
        .collect();
    let exported = exported.concat();
    assert!(!exported.contains("SECRET"), "{exported}");
    assert!(!exported.contains("operator-secret"), "{exported}");
    let client = r#"{"key":"cachalot.client","value":{"stringValue":"team"}}"#;
    assert!(exported.contains(client), "{exported}");
    assert!(
        exported.matches(r#""kind":3"#).count() >= paid,
        "{exported}"
    );
}

#[tokio::test]
async fn refused_and_passed_requests_have_spans_and_pages_of_the_gateway_have_none() {
    let collector = collector().await;
    let setup = Setup::configured(&traced(&collector)).await;
    for (target, status) in [
        ("/v1/batches", 404),
        ("/u/none/v1/chat/completions", 404),
        ("/healthz", 200),
        ("/nowhere", 404),
    ] {
        let answer = Ask::new(target, chat("x")).send(&setup).await;
        assert_eq!(answer.status, status, "{target}");
    }
    let spans = spans(setup, &collector).await;
    // A span ends with its response, which the client may have before that.
    let mut of_requests = of_kind(&spans, 2);
    of_requests.sort_by_key(|span| span.get("cachalot.outcome") != "passed");
    let [passed, refused] = of_requests[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(passed.name, "POST");
    assert_eq!(passed.get("cachalot.outcome"), "passed");
    assert_eq!(passed.get("url.path"), "/v1/batches");
    assert_eq!(passed.get("gen_ai.operation.name"), &Value::Null);
    let [sent] = of_kind(&spans, 3)[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!((&sent.parent, &*sent.name), (&passed.id, "POST"));
    // An error of the client is one of the request to the upstream, but not of the gateway.
    assert_eq!(sent.get("error.type"), "404");
    assert!(sent.has_failed && !passed.has_failed);
    // Refused before its body was read.
    assert_eq!(refused.name, "chat");
    assert_eq!(refused.get("cachalot.outcome"), "refused");
    assert_eq!(refused.get("error.type"), "unknown_upstream");
    assert_eq!(refused.get("http.response.status_code"), &json!(404));
    assert!(!refused.has_failed);
}

#[tokio::test]
async fn each_repetition_has_a_span() {
    let collector = collector().await;
    let upstream = FakeUpstream::start(|request| match request.number {
        0 => answer("503 Busy", JSON, "{}"),
        _ => answer("200 OK", JSON, "{}"),
    })
    .await;
    let text = format!(
        "upstreams: {{openai: {{url: 'http://{}', retries: 1}}, dead: {{url: 'http://127.0.0.1:1'}}}}
telemetry: {{otlp: 'http://{}/v1/traces/'}}
",
        upstream.address, collector.address
    );
    let setup = Setup::configured(&text).await;
    assert_eq!(setup.ask(CHAT, &chat("x")).await.status, 200);
    let dead = format!("/u/dead{CHAT}");
    assert_eq!(setup.ask(&dead, &chat("x")).await.status, 502);
    let spans = spans(setup, &collector).await;
    let [first, second, unreachable] = of_kind(&spans, 3)[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(first.get("error.type"), "503");
    assert_eq!(first.get("http.request.resend_count"), &Value::Null);
    assert!(first.has_failed && first.end <= second.start);
    assert_eq!(second.get("http.request.resend_count"), &json!(1));
    assert_eq!(second.get("http.response.status_code"), &json!(200));
    assert!(!second.has_failed);
    assert_eq!(unreachable.get("error.type"), "upstream_unreachable");
    assert_eq!(unreachable.get("http.response.status_code"), &Value::Null);
    let last = of_kind(&spans, 2)[1];
    assert_eq!(last.get("error.type"), "upstream_unreachable");
    assert!(last.has_failed);
    let path = &collector.received()[0].line;
    assert_eq!(path, "POST /v1/traces");
}

#[tokio::test]
async fn an_error_in_place_of_which_an_expired_answer_is_served_is_shown() {
    let collector = collector().await;
    let upstream = FakeUpstream::start(|request| match request.number {
        0 => answer("200 OK", JSON, &Api::Chat.answer("x", false)),
        _ => answer("503 Busy", JSON, "{}"),
    })
    .await;
    let text = format!(
        "upstreams: {{openai: {{url: 'http://{}'}}}}
cache: {{max_ttl: 50ms, stale_if_error: 1h}}
telemetry: {{otlp: 'http://{}'}}
",
        upstream.address, collector.address
    );
    let setup = Setup::configured(&text).await;
    setup.ask(CHAT, &chat("x")).await;
    while upstream.count() < 2 {
        assert_eq!(setup.ask(CHAT, &chat("x")).await.status, 200);
    }
    let spans = spans(setup, &collector).await;
    let [_, failed] = of_kind(&spans, 3)[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(failed.get("error.type"), "503");
    let of_request = spans.iter().find(|span| span.id == failed.parent).unwrap();
    assert_eq!(of_request.get("cachalot.outcome"), "stale");
    assert_eq!(of_request.get("error.type"), &Value::Null);
    assert!(failed.has_failed && !of_request.has_failed);
}

#[tokio::test]
async fn a_client_that_leaves_and_an_answer_that_is_cut_off_are_shown() {
    let collector = collector().await;
    let upstream = FakeUpstream::start(|request| {
        let head = |lines| Step::Send(head("200 OK", "text/event-stream", lines).into_bytes());
        let event = b"data: {}\n\n".to_vec();
        match request.number {
            0 => vec![head(""), Step::Forever(event)],
            _ => vec![head("Content-Length: 1000\r\n"), Step::Send(event)],
        }
    })
    .await;
    let text = format!(
        "upstreams: {{openai: {{url: 'http://{}'}}}}
telemetry: {{otlp: 'http://{}'}}
",
        upstream.address, collector.address
    );
    let setup = Setup::configured(&text).await;
    // The answer to this request is not stored: it ends with its client.
    let ask = Ask::new(CHAT, streamed(chat("left"))).with("cache-control", "no-store");
    let mut response = ask.request(&setup).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    while upstream.open() > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let cut = Ask::new(CHAT, streamed(chat("cut"))).receive(&setup).await;
    assert!(!cut.is_whole);
    let spans = spans(setup, &collector).await;
    let [left, cut] = of_kind(&spans, 2)[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(left.get("cachalot.client_left"), &json!(true));
    assert_eq!(left.get("error.type"), &Value::Null);
    assert!(!left.has_failed);
    assert_eq!(cut.get("cachalot.client_left"), &Value::Null);
    assert_eq!(cut.get("error.type"), "incomplete_answer");
    assert!(cut.has_failed);
    for span in of_kind(&spans, 3) {
        assert_eq!(span.get("error.type"), "incomplete_answer");
        assert_eq!(span.get("cachalot.paid_dollars"), &Value::Null);
    }
    assert_eq!(of_kind(&spans, 3).len(), 2);
}

#[tokio::test]
async fn a_client_that_leaves_before_its_response_is_shown() {
    let collector = collector().await;
    let (_open, gate) = watch::channel(false);
    let upstream = FakeUpstream::start(move |_| vec![Step::Until(gate.clone())]).await;
    let text = format!(
        "upstreams: {{openai: {{url: 'http://{}'}}}}
telemetry: {{otlp: 'http://{}'}}
",
        upstream.address, collector.address
    );
    let setup = Setup::configured(&text).await;
    let ask = Ask::new(CHAT, chat("left")).with("cache-control", "no-store");
    let arrived = async {
        while upstream.count() == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        response = ask.send(&setup) => panic!("{}", response.status),
        () = arrived => {}
    }
    let spans = spans(setup, &collector).await;
    let ([left], [sent]) = (&of_kind(&spans, 2)[..], &of_kind(&spans, 3)[..]) else {
        panic!("{spans:#?}");
    };
    assert_eq!(left.get("cachalot.client_left"), &json!(true));
    assert_eq!(left.name, "chat gpt-4o-mini");
    assert_eq!((&sent.parent, &sent.trace), (&left.id, &left.trace));
    assert_eq!(sent.get("error.type"), "incomplete_answer");
}

#[tokio::test]
async fn a_reload_changes_the_collector() {
    let (first, second) = (collector().await, collector().await);
    let setup = Setup::configured(&traced(&first)).await;
    let url = setup.simulator.url();
    setup.ask(CHAT, &chat("first")).await;
    setup.gateway.reload(settings(&traced(&second), &url));
    setup.ask(CHAT, &chat("second")).await;
    setup
        .gateway
        .reload(settings("upstreams: {openai: {url: '{url}'}}", &url));
    setup.ask(CHAT, &chat("none")).await;
    assert!(setup.gateway.stop().await);
    for collector in [&first, &second] {
        assert_eq!(received_spans(collector).len(), 2);
    }
}

#[tokio::test]
async fn a_collector_that_is_down_disturbs_no_request() {
    let text = "upstreams: {openai: {url: '{url}'}}
telemetry: {otlp: 'http://127.0.0.1:1'}
";
    let setup = Setup::configured(text).await;
    let url = setup.simulator.url();
    for source in ["miss", "hit"] {
        assert_eq!(setup.ask(CHAT, &chat("x")).await.source(), source);
        // The spans of the second request have another collector, so they are sent in another document.
        setup.gateway.reload(settings(text, &url));
    }
    let metrics = read(setup.client.get(format!("{}/metrics", setup.gateway.url()))).await;
    let dropped = "\ncachalot_spans_dropped_total ";
    assert!(metrics.body.contains(dropped), "{}", metrics.body);
    let warnings = setup.warnings;
    assert!(setup.gateway.stop().await);
    let warnings = warnings.lock().clone();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].contains("http://127.0.0.1:1/v1/traces"),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn a_batch_is_sent_twice_at_most() {
    for (statuses, requests, warnings) in [
        (["503 Busy", "200 OK"], 2, 0),
        (["429 Busy", "503 Busy"], 2, 1),
        (["400 No", "200 OK"], 1, 1),
    ] {
        let collector =
            FakeUpstream::start(move |request| answer(statuses[request.number], JSON, "{}")).await;
        let setup = Setup::configured(&traced(&collector)).await;
        setup.ask(CHAT, &chat("x")).await;
        let warned = setup.warnings;
        assert!(setup.gateway.stop().await);
        assert_eq!(collector.count(), requests, "{statuses:?}");
        assert_eq!(warned.lock().len(), warnings, "{statuses:?}");
    }
}

#[tokio::test]
async fn stopping_does_not_wait_longer_than_it_may() {
    let (_open, gate) = watch::channel(false);
    let collector = FakeUpstream::start(move |_| vec![Step::Until(gate.clone())]).await;
    let limits = Limits {
        shutdown: Duration::from_millis(300),
        ..Limits::default()
    };
    let setup = Setup::configured_with(&traced(&collector), limits).await;
    assert_eq!(setup.ask(CHAT, &chat("x")).await.status, 200);
    let start = Instant::now();
    assert!(setup.gateway.stop().await);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(collector.count(), 1);
}
