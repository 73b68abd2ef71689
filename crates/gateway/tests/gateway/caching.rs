//! What is stored, for whom, and how it is served.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Setup, chat, leave, messages, read, streamed, until};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn repeated_request_is_a_hit() {
    for (path, body) in [
        (CHAT, chat("hello")),
        (CHAT, streamed(chat("hello"))),
        ("/v1/messages", messages("hello")),
        ("/v1/messages", streamed(messages("hello"))),
        (
            "/v1/responses",
            json!({"model": "gpt-4o-mini", "input": "hello", "temperature": 0, "store": false}),
        ),
        (
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
            json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}], "generationConfig": {"temperature": 0}}),
        ),
        (
            "/v1beta/models/gemini-2.5-flash:generateContent",
            json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}], "generationConfig": {"temperature": 0}}),
        ),
    ] {
        let setup = Setup::new().await;
        let first = setup.ask(path, &body).await;
        assert_eq!(first.status, 200, "{path}: {}", first.body);
        assert_eq!(first.source(), "miss", "{path}: {}", first.cache_status());
        let second = setup.ask(path, &body).await;
        assert_eq!(second.source(), "hit", "{path}: {}", second.cache_status());
        assert_eq!((second.status, &second.body), (200, &first.body));
        assert_eq!(
            second.headers.get("content-type"),
            first.headers.get("content-type")
        );
        assert!(second.headers.contains_key("age"), "{path}");
        assert_eq!(setup.paid(), 1, "{path}");
        assert_eq!(setup.simulator.violations(), Vec::<String>::new());
    }
}

/// The probes of answers to other requests, which other gateways serve.
#[tokio::test]
async fn only_equal_requests_share_an_answer() {
    let setup = Setup::new().await;
    let base = chat("hello");
    assert_eq!(setup.ask(CHAT, &base).await.source(), "miss");
    let mut paid = 1;
    // The order of keys and white space have no meaning.
    let reordered = r#"{ "messages":[{"content":"hello","role":"user"}],  "temperature": 0, "model": "gpt-4o-mini" }"#;
    let request = setup.post(CHAT, &Value::Null).body(reordered);
    assert_eq!(read(request).await.source(), "hit");
    for (member, value) in [
        ("temperature", json!(0.0)),
        ("seed", json!(1)),
        ("seed", json!(2)),
        ("stop", json!(["a", "b"])),
        ("stop", json!("['a', 'b']")),
        ("user", json!("one")),
        ("user", json!("two")),
        ("metadata", json!({"a": "b"})),
        ("top_p", json!(0.5)),
        ("reasoning_effort", json!("low")),
        ("reasoning_effort", json!("high")),
        ("max_completion_tokens", json!(50)),
    ] {
        let mut body = base.clone();
        body[member] = value;
        let answer = setup.ask(CHAT, &body).await;
        assert_eq!(answer.source(), "miss", "{body}: {}", answer.cache_status());
        paid += 1;
        assert_eq!(setup.paid(), paid, "{body}");
    }
}

const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

#[tokio::test]
async fn tenants_never_share_answers() {
    let setup = Setup::new().await;
    let bearers: [&[(&str, &str)]; 4] = [
        &[("authorization", "Bearer one")],
        &[("authorization", "Bearer two")],
        &[("authorization", "Bearer one"), ("cookie", "session=1")],
        &[("authorization", "bearer one")],
    ];
    let of_anthropic: [&[(&str, &str)]; 3] = [
        &[("x-api-key", "one"), VERSION],
        &[
            ("x-api-key", "one"),
            ("authorization", "Bearer one"),
            VERSION,
        ],
        &[("authorization", "Bearer one"), VERSION],
    ];
    let bodies = [
        (CHAT, chat("secret"), &bearers[..]),
        ("/v1/messages", messages("secret"), &of_anthropic),
    ];
    for (path, body, credentials) in bodies {
        let url = format!("{}{path}", setup.gateway.url());
        for headers in credentials {
            let ask = || {
                let request = setup.client.post(&url).body(body.to_string());
                let request = request.header("content-type", "application/json");
                let mut headers = headers.iter();
                read(
                    headers
                        .try_fold(request, |request, (name, value)| {
                            Some(request.header(*name, *value))
                        })
                        .unwrap(),
                )
            };
            let first = ask().await;
            assert_eq!(first.source(), "miss", "{path} {headers:?}");
            assert!(!first.headers.contains_key("age"));
            // A refused credential is asked for again; an accepted one hits its own entry only.
            let expected = if first.status == 200 { "hit" } else { "miss" };
            assert_eq!(ask().await.source(), expected, "{path} {headers:?}");
        }
    }
}

#[tokio::test]
async fn sampled_answers_are_stored_for_clients_that_opt_in() {
    let setup = Setup::new().await;
    let mut body = chat("hello");
    body.as_object_mut().unwrap().remove("temperature");
    for _ in 0..2 {
        let answer = setup.ask(CHAT, &body).await;
        assert_eq!(answer.source(), "bypass", "{}", answer.cache_status());
        assert!(answer.cache_status().contains("sampled"));
    }
    assert_eq!(setup.paid(), 2);
    let ask = |path: &'static str| setup.ask(path, &body);
    // Two samples of the first run, then a second run that repeats it.
    let first = ask("/p/coder/r/1/v1/chat/completions").await;
    let second = ask("/p/coder/r/1/v1/chat/completions").await;
    assert_eq!((first.source(), second.source()), ("miss", "miss"));
    for expected in [&first, &second] {
        let again = ask("/p/coder/r/2/v1/chat/completions").await;
        assert_eq!((again.source(), &again.body), ("hit", &expected.body));
    }
    assert_eq!(
        ask("/p/coder/r/2/v1/chat/completions").await.source(),
        "miss"
    );
    assert_eq!(
        ask("/p/other/r/2/v1/chat/completions").await.source(),
        "miss"
    );
    let headers = setup
        .post(CHAT, &body)
        .header("x-cachalot-agent", "coder")
        .header("x-cachalot-run", "3");
    assert_eq!(read(headers).await.source(), "hit");
    let received = setup.simulator.received();
    let paths: Vec<&str> = received
        .iter()
        .map(|request| request.path.as_str())
        .collect();
    assert!(paths.iter().all(|path| *path == CHAT), "{paths:?}");
    assert!(received.iter().all(|request| {
        !request
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("x-cachalot"))
    }));
}

#[tokio::test]
async fn retry_of_an_agent_gets_the_answer_that_it_left() {
    let script = "rules:\n  - user: wait\n    steps: [{text: one two three four, fault: {slow: {first_byte: 1s, per_event: 40ms}}}]\n";
    let setup = Setup::scripted(script).await;
    let mut body = chat("wait");
    body.as_object_mut().unwrap().remove("temperature");
    let body = streamed(body);
    let first_run = "/p/coder/r/1/v1/chat/completions";
    leave(setup.post(first_run, &body), || setup.paid()).await;
    let retry = setup.ask(first_run, &body).await;
    assert_eq!(
        (retry.source(), setup.paid()),
        ("collapsed", 1),
        "{}",
        retry.cache_status()
    );
    let second = setup.ask(first_run, &body).await;
    assert_eq!((second.source(), setup.paid()), ("miss", 2));
    for expected in [&retry, &second] {
        let again = setup.ask("/p/coder/r/2/v1/chat/completions", &body).await;
        assert_eq!((again.source(), &again.body), ("hit", &expected.body));
    }
    // Without a lookup, no ordinal is used up.
    let off = setup
        .post("/p/coder/r/3/v1/chat/completions", &body)
        .header("cache-control", "no-store");
    assert_eq!(read(off).await.source(), "bypass");
    let third = setup.ask("/p/coder/r/3/v1/chat/completions", &body).await;
    assert_eq!((third.source(), third.body), ("hit", retry.body));
}

#[tokio::test]
async fn failed_request_of_an_agent_uses_up_no_ordinal() {
    let script = "rules:\n  - user: x\n    steps: [{text: a b c, fault: {status: 429, times: 1}}, {text: a b c}]\n";
    let setup = Setup::scripted(script).await;
    let mut body = chat("x");
    body.as_object_mut().unwrap().remove("temperature");
    let path = "/p/coder/r/1/v1/chat/completions";
    assert_eq!(setup.ask(path, &body).await.status, 429);
    let answer = setup.ask(path, &body).await;
    assert_eq!((answer.status, answer.source()), (200, "miss"));
    let again = setup.ask("/p/coder/r/2/v1/chat/completions", &body).await;
    assert_eq!((again.source(), again.body), ("hit", answer.body));
}

#[tokio::test]
async fn directives_of_the_client_are_obeyed() {
    let setup = Setup::new().await;
    let body = chat("hello");
    let ask = |header: &'static str, value: &'static str| {
        read(setup.post(CHAT, &body).header(header, value))
    };
    let frozen = ask("cache-control", "only-if-cached").await;
    assert_eq!(frozen.status, 504);
    assert_eq!(frozen.json()["error"]["code"], "not_cached");
    assert_eq!(ask("cache-control", "no-store").await.source(), "bypass");
    assert_eq!(ask("x-cachalot-mode", "off").await.source(), "bypass");
    assert_eq!(setup.ask(CHAT, &body).await.source(), "miss");
    assert_eq!(ask("cache-control", "only-if-cached").await.source(), "hit");
    assert_eq!(ask("cache-control", "max-age=60").await.source(), "hit");
    let refreshed = ask("cache-control", "no-cache").await;
    assert!(
        refreshed.cache_status().contains("fwd="),
        "{}",
        refreshed.cache_status()
    );
    setup.clock.advance(Duration::from_millis(5));
    let aged = ask("cache-control", "max-age=0").await;
    assert_ne!(aged.source(), "hit", "{}", aged.cache_status());
    setup.clock.advance(Duration::from_millis(5));
    let old = ask("cache-control", "only-if-cached, max-age=0").await;
    assert_eq!((old.status, old.source()), (504, "none"));
    assert_eq!(ask("x-cachalot-mode", "maybe").await.status, 400);
    assert_eq!(setup.paid(), 5);
}

#[tokio::test]
async fn concurrent_equal_requests_are_sent_once() {
    let setup = Setup::scripted("rules:\n  - user: wait\n    steps: [{text: done at last, fault: {slow: {first_byte: 300ms, per_event: 20ms}}}]\n").await;
    for body in [chat("wait"), streamed(chat("wait longer"))] {
        let before = setup.paid();
        let answers = futures_util::future::join_all((0..50).map(|_| setup.ask(CHAT, &body))).await;
        assert_eq!(setup.paid() - before, 1);
        let sources: Vec<&str> = answers.iter().map(crate::support::Answer::source).collect();
        let led = sources.iter().filter(|source| **source == "miss").count();
        assert_eq!(led, 1, "{sources:?}");
        for answer in &answers {
            assert_eq!((answer.status, &answer.body), (200, &answers[0].body));
            assert!(answer.body.contains("done") && !answer.headers.contains_key("age"));
        }
    }
}

#[tokio::test]
async fn answer_is_stored_when_its_client_leaves() {
    let setup = Setup::scripted("rules:\n  - user: wait\n    steps: [{text: one two three four, fault: {slow: {first_byte: 50ms, per_event: 60ms}}}]\n").await;
    let body = streamed(chat("wait"));
    let mut response = setup.post(CHAT, &body).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    // The run goes on; a request in the meantime joins it from its beginning.
    let joined = setup.ask(CHAT, &body).await;
    assert_eq!(joined.source(), "collapsed", "{}", joined.cache_status());
    let all: String = joined
        .body
        .lines()
        .filter_map(|line| {
            let event: Value = serde_json::from_str(line.strip_prefix("data: ")?).ok()?;
            Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned())
        })
        .collect();
    assert_eq!(all, "one two three four");
    let stored = setup.ask(CHAT, &body).await;
    assert_eq!((stored.source(), stored.body), ("hit", joined.body));
    assert_eq!(setup.paid(), 1);
}

#[tokio::test]
async fn undelivered_sampled_answer_goes_to_one_retry() {
    let setup = Setup::scripted("rules:\n  - user: wait\n    steps: [{text: one two three four, fault: {slow: {first_byte: 1s, per_event: 40ms}}}]\n").await;
    let mut sampled = chat("wait");
    sampled.as_object_mut().unwrap().remove("temperature");
    let mut other = streamed(sampled.clone());
    other["messages"][0]["content"] = json!("wait longer");
    for body in [sampled, other] {
        let before = setup.paid();
        // The client gives up before the head, as one does whose time is over; the run goes on.
        leave(setup.post(CHAT, &body), || setup.paid()).await;
        let retry = setup.ask(CHAT, &body).await;
        assert_eq!(
            (retry.status, retry.source()),
            (200, "collapsed"),
            "{}",
            retry.cache_status()
        );
        assert_eq!(setup.paid() - before, 1);
        // A further equal request is another sample.
        let other = setup.ask(CHAT, &body).await;
        assert_eq!((other.source(), setup.paid() - before), ("bypass", 2));
        // The client gives up, and the retry comes after the end of the run.
        leave(setup.post(CHAT, &body), || setup.paid()).await;
        until(async || setup.metrics().await.contains("cachalot_runs 0\n")).await;
        let retry = setup.ask(CHAT, &body).await;
        assert_eq!(
            (retry.status, retry.source()),
            (200, "hit"),
            "{}",
            retry.cache_status()
        );
        assert!(retry.body.contains("four"), "{}", retry.body);
        assert_eq!(setup.paid() - before, 3);
        assert_eq!(setup.ask(CHAT, &body).await.source(), "bypass");
        // Others never get it.
        leave(setup.post(CHAT, &body), || setup.paid()).await;
        let url = format!("{}{CHAT}", setup.gateway.url());
        let other = setup
            .client
            .post(url)
            .bearer_auth("two")
            .header("content-type", "application/json");
        assert_eq!(read(other.body(body.to_string())).await.source(), "bypass");
    }
}

#[tokio::test]
async fn hit_is_replayed_with_its_original_timing() {
    let setup = Setup::scripted("rules:\n  - user: wait\n    steps: [{text: one two three four, fault: {slow: {first_byte: 10ms, per_event: 300ms}}}]\n").await;
    let body = streamed(chat("wait"));
    let first = setup.ask(CHAT, &body).await;
    let start = std::time::Instant::now();
    let at_once = setup.ask(CHAT, &body).await;
    let fast = start.elapsed();
    let start = std::time::Instant::now();
    let paced = read(setup.post(CHAT, &body).header("x-cachalot-replay", "paced")).await;
    assert!(start.elapsed() >= Duration::from_millis(900) && fast < start.elapsed());
    assert_eq!((paced.source(), &paced.body), ("hit", &first.body));
    assert_eq!(at_once.body, first.body);
}

#[tokio::test]
async fn payments_and_savings_are_in_the_ledger() {
    let setup = Setup::new().await;
    let body = chat("hello");
    setup.ask(CHAT, &body).await;
    setup.ask(CHAT, &body).await;
    let mut sampled = chat("hello");
    sampled.as_object_mut().unwrap().remove("temperature");
    setup.ask(CHAT, &sampled).await;
    setup.cache.ledger().flush().await;
    let totals = setup.cache.ledger().totals().unwrap();
    let [(_, _, totals)] = totals.as_slice() else {
        panic!("{totals:?}")
    };
    assert_eq!((totals.hits, totals.misses, totals.bypasses), (1, 2, 0));
    assert!(
        totals.paid.cost.picodollars > 0 && totals.paid.cost.unpriced == 0,
        "{totals:?}"
    );
    assert_eq!(
        totals.saved.cost.picodollars * 2,
        totals.paid.cost.picodollars
    );
    let reports = setup.reports.lock();
    let answered: Vec<&str> = reports.iter().map(|report| report.answered).collect();
    assert_eq!(answered, ["miss", "hit", "bypass"]);
    assert_eq!(reports[1].saved.cost, totals.saved.cost);
    assert_eq!(
        (reports[0].model.as_str(), reports[0].endpoint),
        ("gpt-4o-mini", "chat")
    );
}

#[tokio::test]
async fn statistics_are_for_prometheus() {
    let setup = Setup::new().await;
    let body = chat("hello");
    setup.ask(CHAT, &body).await;
    setup.ask(CHAT, &body).await;
    let text = setup.metrics().await;
    for line in [
        r#"cachalot_requests_total{upstream="openai",endpoint="chat",model="gpt-4o-mini",key="",outcome="hit",error="",status="200"} 1"#,
        r#"cachalot_requests_total{upstream="openai",endpoint="chat",model="gpt-4o-mini",key="",outcome="miss",error="",status="200"} 1"#,
        r#"cachalot_response_start_seconds_count{upstream="openai",endpoint="chat",outcome="hit"} 1"#,
        r#"cachalot_upstream_left_out{upstream="openai"} 0"#,
        "cachalot_runs 0",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(
        text.contains(
            r#"cachalot_paid_dollars_total{upstream="openai",model="gpt-4o-mini",key=""} 0.0"#
        ),
        "{text}"
    );
}

#[tokio::test]
async fn a_compressed_body_is_judged_and_passed_on_as_it_was_sent() {
    let setup = Setup::new().await;
    let body = chat("hello").to_string();
    let compressed = {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(body.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let ask = |coding: &'static str, body: Vec<u8>| {
        let request = setup.client.post(format!("{}{CHAT}", setup.gateway.url()));
        let request = request
            .bearer_auth("one")
            .header("content-type", "application/json");
        read(request.header("content-encoding", coding).body(body))
    };
    assert_eq!(setup.ask(CHAT, &chat("hello")).await.source(), "miss");
    assert_eq!(
        ask("gzip", compressed.clone()).await.source(),
        "hit",
        "the same request"
    );
    let fresh = setup.client.post(format!("{}{CHAT}", setup.gateway.url()));
    let fresh = fresh
        .bearer_auth("two")
        .header("content-type", "application/json");
    let fresh = fresh
        .header("content-encoding", "gzip")
        .body(compressed.clone());
    read(fresh).await;
    assert_eq!(setup.simulator.received().last().unwrap().body, compressed);
    assert_eq!(ask("gzip", body.clone().into_bytes()).await.status, 400);
    assert_eq!(ask("br", compressed).await.source(), "bypass", "not read");
}
