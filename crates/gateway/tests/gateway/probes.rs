//! Pairs of requests, and whether the second one may have the answer to the first one. The table is the one by which
//! gateways are compared: an answer to another request is never served.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cachalot_gateway::Limits;
use reqwest::Method;
use serde_json::json;
use tokio::sync::watch;

use crate::ask::Ask;
use crate::fake_upstream::{FakeUpstream, Received, Step, answer, head, media};
use crate::formats::{APIS, Api};
use crate::support::Setup;

const CHAT: &str = "/v1/chat/completions";

/// What the second request of a pair gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// The answer to the first one.
    Hit,
    /// An answer of its own, which is stored.
    Miss,
    /// An answer of its own; neither answer is stored.
    Never,
}

use Expected::{Hit, Miss, Never};

struct Probe {
    name: String,
    first: Ask,
    second: Ask,
    expected: Expected,
}

/// A pair of Chat requests by the members that they add to a request.
fn members(name: &str, first: &str, second: &str, expected: Expected) -> Probe {
    let body = |members: &str| {
        let comma = if members.is_empty() { "" } else { ", " };
        format!(
            r#"{{"model": "m", "temperature": 0, "messages": [{{"role": "user", "content": "{name}"}}]{comma}{members}}}"#
        )
    };
    bodies(name, &body(first), &body(second), expected)
}

/// A pair of Chat requests by their bodies, in which `NAME` stands for the name of the probe.
fn bodies(name: &str, first: &str, second: &str, expected: Expected) -> Probe {
    let ask = |body: &str| Ask::new(CHAT, body.replace("NAME", name));
    Probe {
        name: name.to_owned(),
        first: ask(first),
        second: ask(second),
        expected,
    }
}

/// A pair of equal Chat requests with different headers.
fn headers(name: &str, one: &[(&str, &str)], two: &[(&str, &str)], expected: Expected) -> Probe {
    let ask = |headers: &[(&str, &str)]| {
        let ask = Ask::anonymous(CHAT, Api::Chat.request(name, false));
        let add = |ask: Ask, (name, value): &(&str, &str)| ask.with(name, value);
        headers.iter().fold(ask, add)
    };
    Probe {
        name: name.to_owned(),
        first: ask(one),
        second: ask(two),
        expected,
    }
}

/// A pair of equal bodies with different targets.
fn targets(name: &str, api: Api, one: &str, two: &str, expected: Expected) -> Probe {
    let ask = |target: &str| Ask::new(target, api.request(name, false));
    Probe {
        name: name.to_owned(),
        first: ask(one),
        second: ask(two),
        expected,
    }
}

/// A pair of one request.
fn repeated(name: &str, ask: Ask, expected: Expected) -> Probe {
    Probe {
        name: name.to_owned(),
        first: ask.clone(),
        second: ask,
        expected,
    }
}

/// Requests that are equal.
fn equal_requests() -> Vec<Probe> {
    let plain = r#"{"model":"m","temperature":0,"messages":[{"role":"user","content":"NAME"}],"stop":["a"]}"#;
    let mut probes = vec![
        bodies("identical", plain, plain, Hit),
        bodies(
            "order of keys",
            plain,
            r#"{"stop":["a"],"messages":[{"role":"user","content":"NAME"}],"temperature":0,"model":"m"}"#,
            Hit,
        ),
        bodies(
            "order of nested keys",
            plain,
            r#"{"model":"m","temperature":0,"messages":[{"content":"NAME","role":"user"}],"stop":["a"]}"#,
            Hit,
        ),
        bodies(
            "white space",
            plain,
            "\r\n\t{ \"model\" : \"m\" ,\n\"temperature\":0, \"messages\":[ {\"role\":\"user\",\"content\":\"NAME\"} ], \"stop\":[\"a\"] }\n",
            Hit,
        ),
        bodies(
            "escapes of strings",
            plain,
            r#"{"model":"\u006d","temperature":0,"messages":[{"role":"\u0075ser","content":"NAME"}],"st\u006fp":["a"]}"#,
            Hit,
        ),
        members("stream false", "", r#""stream": false"#, Hit),
        members(
            "metadata of many keys",
            r#""metadata": {"a": "1", "b": "2"}"#,
            r#""metadata": {"b": "2", "a": "1"}"#,
            Hit,
        ),
        headers(
            "headers without an effect",
            &[("authorization", "Bearer one"), ("user-agent", "a")],
            &[
                ("authorization", "Bearer one"),
                ("user-agent", "b"),
                ("x-request-id", "1"),
                ("x-stainless-retry-count", "1"),
                ("idempotency-key", "k"),
                ("traceparent", "00-1-2-01"),
                ("accept-encoding", "gzip"),
            ],
            Hit,
        ),
        // A model without a price.
        repeated(
            "unpriced model",
            Ask::new(CHAT, r#"{"model":"no-such-model","seed":1,"messages":[]}"#),
            Hit,
        ),
        targets(
            "version of the base URL",
            Api::Chat,
            "/u/openai/v1/chat/completions",
            CHAT,
            Hit,
        ),
    ];
    for api in APIS {
        for is_streamed in [false, true] {
            let name = format!("{api:?} again, streamed: {is_streamed}");
            let ask = Ask::new(api.path(is_streamed), api.request(&name, is_streamed));
            probes.push(repeated(&name, ask, Hit));
        }
    }
    probes
}

/// Requests that differ in one value.
fn different_requests() -> Vec<Probe> {
    let tools = r#"{"model":"m","temperature":0,"messages":[{"role":"user","content":"NAME"}],
        "tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{},"b":{}}}}}]}"#;
    let tools_in_another_order = r#"{"tools":[{"function":{"parameters":{"properties":{"b":{},"a":{}},"type":"object"},"name":"f"},"type":"function"}],
        "model":"m","temperature":0,"messages":[{"role":"user","content":"NAME"}]}"#;
    let mut probes = vec![
        bodies(
            "order of keys of tools",
            tools,
            tools_in_another_order,
            Miss,
        ),
        members(
            "array order",
            r#""stop": ["a", "b"]"#,
            r#""stop": ["b", "a"]"#,
            Miss,
        ),
        bodies(
            "temperature 0 and 0.0",
            r#"{"model":"m","temperature":0,"messages":["NAME"]}"#,
            r#"{"model":"m","temperature":0.0,"messages":["NAME"]}"#,
            Miss,
        ),
        bodies(
            "temperature 0 and -0",
            r#"{"model":"m","temperature":0,"messages":["NAME"]}"#,
            r#"{"model":"m","temperature":-0,"messages":["NAME"]}"#,
            Miss,
        ),
        // Some servers take 1 for true, and add a chunk that the other client does not expect.
        members(
            "usage that is no boolean",
            r#""stream": true, "stream_options": {"include_usage": 1}"#,
            r#""stream": true"#,
            Miss,
        ),
        members(
            "other options of a stream",
            r#""stream": true, "stream_options": {"include_obfuscation": false}"#,
            r#""stream": true"#,
            Miss,
        ),
        // Metadata changes nothing in an answer, but is kept by the provider.
        members(
            "metadata",
            r#""metadata": {"a": "1"}"#,
            r#""metadata": {"a": "2"}"#,
            Miss,
        ),
        members("metadata and none", "", r#""metadata": {}"#, Miss),
        members("null and absent", "", r#""user": null"#, Miss),
        members(
            "forwarded chat_template_kwargs",
            r#""chat_template_kwargs": {"enable_thinking": true}"#,
            r#""chat_template_kwargs": {"enable_thinking": false}"#,
            Miss,
        ),
        members(
            "forwarded guided_json",
            r#""guided_json": {"type": "object"}"#,
            r#""guided_json": {"type": "array"}"#,
            Miss,
        ),
        members("forwarded top_k", r#""top_k": 1"#, r#""top_k": 50"#, Miss),
        members("user", r#""user": "a""#, r#""user": "b""#, Miss),
        members(
            "prompt_cache_key",
            r#""prompt_cache_key": "a""#,
            r#""prompt_cache_key": "b""#,
            Miss,
        ),
        // Delimiters that a concatenation of fields would use.
        members(
            "delimiter of fields",
            r#""stop": "x", "top_p": 0.5"#,
            r#""stop": "xtop_p: 0.5""#,
            Miss,
        ),
        members(
            "delimiter of JSON",
            r#""stop": "x", "user": "y""#,
            r#""stop": "x\", \"user\": \"y""#,
            Miss,
        ),
        members(
            "delimiter of lines",
            r#""stop": "x", "user": "y""#,
            r#""stop": "x\nuser: y""#,
            Miss,
        ),
        members(
            "delimiter NUL",
            r#""stop": "x\u0000y""#,
            r#""stop": ["x", "y"]"#,
            Miss,
        ),
        members(
            "list and its text",
            r#""stop": ["a", "b"]"#,
            r#""stop": "['a', 'b']""#,
            Miss,
        ),
        members(
            "list and its JSON",
            r#""stop": ["a", "b"]"#,
            r#""stop": "[\"a\",\"b\"]""#,
            Miss,
        ),
        members("list of one", r#""stop": ["a"]"#, r#""stop": "a""#, Miss),
        members(
            "case of a value",
            r#""reasoning_effort": "low""#,
            r#""reasoning_effort": "Low""#,
            Miss,
        ),
        members(
            "case of a key",
            r#""user": "a""#,
            r#""user": "a", "metadata": {"A": "a"}"#,
            Miss,
        ),
        members(
            "composed and decomposed",
            r#""user": "\u00e9""#,
            r#""user": "e\u0301""#,
            Miss,
        ),
        members(
            "space at the end",
            r#""user": "a""#,
            r#""user": "a ""#,
            Miss,
        ),
        headers(
            "credentials",
            &[("authorization", "Bearer one")],
            &[("authorization", "Bearer two")],
            Miss,
        ),
        headers(
            "credentials and none",
            &[("authorization", "Bearer one")],
            &[],
            Miss,
        ),
        headers(
            "beta header",
            &[("anthropic-beta", "a")],
            &[("anthropic-beta", "b")],
            Miss,
        ),
        headers(
            "organization",
            &[("openai-organization", "a")],
            &[("openai-organization", "b")],
            Miss,
        ),
        headers(
            "header that is unknown",
            &[("x-a", "1")],
            &[("x-a", "2")],
            Miss,
        ),
        headers(
            "two headers and one with a comma",
            &[("x-a", "1"), ("x-a", "2")],
            &[("x-a", "1, 2")],
            Miss,
        ),
        headers(
            "names and values of headers",
            &[("x-a", "b"), ("x-c", "d")],
            &[("x-a", "bx-cd")],
            Miss,
        ),
        targets(
            "query",
            Api::Chat,
            "/v1/chat/completions?api-version=1",
            "/v1/chat/completions?api-version=2",
            Miss,
        ),
        targets(
            "values of a query",
            Api::Chat,
            "/v1/chat/completions?a=b&c=d",
            "/v1/chat/completions?a=b%26c=d",
            Miss,
        ),
        targets(
            "model in the path",
            Api::Gemini,
            "/v1beta/models/a:generateContent",
            "/v1beta/models/b:generateContent",
            Miss,
        ),
        targets(
            "upstream",
            Api::Chat,
            "/v1/chat/completions",
            "/p/agent/v1/chat/completions",
            Miss,
        ),
    ];
    // Values that are equal to some languages.
    let values = [
        "1",
        "1.0",
        "1e0",
        "1E0",
        "10e-1",
        "\"1\"",
        "true",
        "[1]",
        "{\"1\":1}",
        "null",
        "9007199254740992",
        "9007199254740993",
        "18446744073709551616",
        "18446744073709551617",
        "0.1",
        "0.10",
        "0.1000000000000000055511151231257827",
    ];
    for (at, one) in values.iter().enumerate() {
        for two in &values[at + 1..] {
            let member = |value: &str| format!(r#""top_p": {value}"#);
            let name = format!("{} and {}", one.replace('"', "'"), two.replace('"', "'"));
            probes.push(members(&name, &member(one), &member(two), Miss));
        }
    }
    let seeds = [("1", "\"1\""), ("1", "1.0"), ("1", "2"), ("1", "true")];
    for (one, two) in seeds {
        let member = |value: &str| format!(r#""seed": {value}"#);
        let name = format!("seed {one} and {}", two.replace('"', "'"));
        probes.push(members(&name, &member(one), &member(two), Miss));
    }
    probes
}

/// Requests with effects, or whose answers depend on more than the request.
fn never_stored() -> Vec<Probe> {
    let twice = |name: &str, members: &str| {
        let probe = self::members(name, members, members, Never);
        (probe.first, probe.second)
    };
    let mut probes = Vec::new();
    for (name, members) in [
        ("unknown member", r#""unknown_member": 1"#),
        ("search", r#""web_search_options": {}"#),
        ("stored at the provider", r#""store": true"#),
        ("two answers", r#""n": 2"#),
        (
            "tool of the provider",
            r#""tools": [{"type": "web_search"}]"#,
        ),
        ("form that is no boolean", r#""stream": 1"#),
        ("key that occurs twice", r#""user": "a", "user": "b""#),
        (
            "nested key that occurs twice",
            r#""metadata": {"a": "b", "\u0061": "b"}"#,
        ),
    ] {
        let (first, second) = twice(name, members);
        probes.push(Probe {
            name: name.to_owned(),
            first,
            second,
            expected: Never,
        });
    }
    let chat = |name: &str| Api::Chat.request(name, false).to_string();
    let sampled =
        r#"{"model": "m", "messages": [{"role": "user", "content": "sampled"}]}"#.to_owned();
    let deep = format!(
        r#"{{"model":"m","temperature":0,"messages":[],"metadata":{}{}}}"#,
        "[".repeat(500),
        "]".repeat(500)
    );
    for (name, target, body) in [
        ("sampled", CHAT, sampled),
        ("deep", CHAT, deep),
        ("no JSON", CHAT, "{".to_owned()),
        ("byte order mark", CHAT, format!("\u{feff}{}", chat("bom"))),
        ("two documents", CHAT, format!("{0} {0}", chat("two"))),
        ("empty", CHAT, String::new()),
        // Bodies that have a canonical form, but are no objects, or cannot be judged.
        ("list", "/v1/embeddings", "[]".to_owned()),
        ("null", "/v1/messages/count_tokens", "null".to_owned()),
        (
            "number beyond the largest one",
            "/v1/embeddings",
            r#"{"model": "m", "input": [{"image": "https://a.example"}], "dimensions": 1e999}"#
                .to_owned(),
        ),
        ("slash at the end", "/v1/chat/completions/", chat("slash")),
        ("two slashes", "/v1//chat/completions", chat("slashes")),
        ("unknown path", "/v1/files", chat("file")),
        ("payment", "/v1/fine_tuning/jobs", chat("tuning")),
        (
            "action of an MCP tool",
            "/v1/responses",
            json!({"model": "m", "temperature": 0, "store": false, "input": "delete it",
                "tools": [{"type": "mcp", "server_label": "s", "server_url": "https://a.example"}]})
            .to_string(),
        ),
        (
            "state of the provider",
            "/v1/responses",
            json!({"model": "m", "temperature": 0, "store": false, "input": "x",
                "previous_response_id": "resp_1"})
            .to_string(),
        ),
        (
            "stored by default",
            "/v1/responses",
            json!({"model": "m", "temperature": 0, "input": "x"}).to_string(),
        ),
        (
            "tool of Anthropic's servers",
            "/v1/messages",
            json!({"model": "m", "max_tokens": 1, "temperature": 0, "messages": [],
                "tools": [{"type": "code_execution_20250522", "name": "code_execution"}]})
            .to_string(),
        ),
        (
            "batch",
            "/v1/messages/batches",
            json!({"requests": []}).to_string(),
        ),
        (
            "search of Gemini",
            "/v1beta/models/g:generateContent",
            json!({"contents": [], "generationConfig": {"temperature": 0},
                "tools": [{"googleSearch": {}}]})
            .to_string(),
        ),
        (
            "file of a system instruction",
            "/v1beta/models/g:generateContent",
            json!({"contents": [], "generationConfig": {"temperature": 0},
                "systemInstruction": {"parts": [{"fileData": {"fileUri": "https://a.example"}}]}})
            .to_string(),
        ),
        // Which of both counts, only the provider knows.
        (
            "two spellings of a member",
            "/v1beta/models/g:generateContent",
            json!({"contents": [], "generationConfig": {"temperature": 0},
                "generation_config": {"temperature": 1, "candidateCount": 2}})
            .to_string(),
        ),
    ] {
        probes.push(repeated(name, Ask::new(target, body), Never));
    }
    for method in [Method::PUT, Method::PATCH, Method::DELETE] {
        let ask = Ask::new(CHAT, chat("method")).method(method.clone());
        probes.push(repeated(method.as_str(), ask, Never));
    }
    probes
}

/// An upstream whose answers all differ.
async fn counting_upstream() -> FakeUpstream {
    FakeUpstream::start(|request| {
        let api = api_of(request);
        let is_streamed = request.line.contains("alt=sse") || request.json()["stream"] == true;
        let text = format!("answer {}", request.number);
        answer(
            "200 OK",
            media(is_streamed),
            &api.answer(&text, is_streamed),
        )
    })
    .await
}

fn api_of(request: &Received) -> Api {
    match &request.line {
        line if line.contains("/messages") => Api::Messages,
        line if line.contains("/responses") => Api::Responses,
        line if line.contains("/interactions") => Api::Interactions,
        line if line.contains("/v1beta") => Api::Gemini,
        _ => Api::Chat,
    }
}

#[tokio::test]
async fn only_equal_requests_share_an_answer() {
    let upstream = counting_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let mut names = BTreeSet::new();
    let tables = [equal_requests(), different_requests(), never_stored()];
    for probe in tables.into_iter().flatten() {
        let name = &probe.name;
        assert!(names.insert(name.clone()), "{name} occurs twice");
        let before = upstream.count();
        let first = probe.first.send(&setup).await;
        assert_eq!(first.status, 200, "{name}: {}", first.body);
        assert_ne!(first.source(), "hit", "{name}");
        match probe.expected {
            Hit | Miss => probe.first.stored(&setup).await,
            Never => assert_eq!(upstream.count() - before, 1, "{name}"),
        }
        let second = probe.second.send(&setup).await;
        assert_eq!(second.status, 200, "{name}: {}", second.body);
        let paid = upstream.count() - before;
        let status = second.cache_status();
        match probe.expected {
            Hit => {
                assert_eq!((second.source(), paid), ("hit", 1), "{name}: {status}");
                assert_eq!(second.body, first.body, "{name}");
            }
            Miss => {
                assert_eq!((second.source(), paid), ("miss", 2), "{name}: {status}");
                probe.second.stored(&setup).await;
                // Each request still has its own answer.
                for (ask, own) in [(&probe.first, &first), (&probe.second, &second)] {
                    let again = ask.send(&setup).await;
                    assert_eq!((again.source(), &again.body), ("hit", &own.body), "{name}");
                }
            }
            Never => {
                assert_eq!((second.source(), paid), ("bypass", 2), "{name}: {status}");
                assert!(!second.headers.contains_key("age"), "{name}");
            }
        }
        if probe.expected != Hit {
            assert_ne!(second.body, first.body, "{name}");
        }
    }
}

/// The form of an answer is the one that was asked for, whichever form is stored.
#[tokio::test]
async fn each_form_of_a_request_gets_an_answer_in_its_form() {
    let upstream = counting_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    for api in APIS {
        for first_form in [false, true] {
            let name = format!("forms {api:?} {first_form}");
            let ask = |is_streamed: bool| {
                Ask::new(api.path(is_streamed), api.request(&name, is_streamed))
            };
            let first = ask(first_form).send(&setup).await;
            ask(first_form).stored(&setup).await;
            let paid = upstream.count();
            let other = ask(!first_form).send(&setup).await;
            let type_of_other = other.headers["content-type"].to_str().unwrap();
            assert!(type_of_other.starts_with(media(!first_form)), "{name}");
            let text = api.text(!first_form, &other.body);
            match other.source() {
                "hit" => {
                    assert_eq!(upstream.count(), paid, "{name}");
                    assert_eq!(text, api.text(first_form, &first.body), "{name}");
                }
                source => {
                    assert_eq!((source, upstream.count()), ("miss", paid + 1), "{name}");
                    assert_eq!(text, format!("answer {paid}"), "{name}");
                }
            }
        }
    }
}

/// A gate that opens once, and its end for the upstream.
fn gate() -> (watch::Sender<bool>, watch::Receiver<bool>) {
    watch::channel(false)
}

#[tokio::test]
async fn fifty_concurrent_requests_are_one_call_of_the_upstream() {
    for api in APIS {
        for is_streamed in [false, true] {
            let (open, opened) = gate();
            let upstream = FakeUpstream::start(move |request| {
                let text = format!("answer {}", request.number);
                let mut steps = vec![Step::Until(opened.clone())];
                steps.extend(answer(
                    "200 OK",
                    media(is_streamed),
                    &api.answer(&text, is_streamed),
                ));
                steps
            })
            .await;
            let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
            let ask = Ask::new(api.path(is_streamed), api.request("x", is_streamed));
            let asking = futures_util::future::join_all((0..50).map(|_| ask.send(&setup)));
            let opening = async {
                while upstream.count() == 0 {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                open.send_replace(true);
            };
            let (answers, ()) = tokio::join!(asking, opening);
            assert_eq!(upstream.count(), 1, "{api:?} {is_streamed}");
            let misses = answers
                .iter()
                .filter(|answer| answer.source() == "miss")
                .count();
            assert_eq!(misses, 1);
            for got in &answers {
                assert_eq!((got.status, &got.body), (200, &answers[0].body));
            }
        }
    }
}

/// Requests with effects are not one call, however many arrive at the same time.
#[tokio::test]
async fn concurrent_requests_with_effects_are_all_sent() {
    let upstream = counting_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let effects = [
        Ask::new("/v1/files", "{}"),
        Ask::new(
            "/v1/responses",
            json!({"model": "m", "temperature": 0, "store": false, "input": "delete it",
                "tools": [{"type": "mcp", "server_label": "s", "server_url": "https://a.example"}]}),
        ),
        Ask::new(CHAT, r#"{"model": "m", "messages": []}"#),
    ];
    for ask in &effects {
        let before = upstream.count();
        let asking = (0..20).map(|_| ask.send(&setup));
        let answers = futures_util::future::join_all(asking).await;
        assert_eq!(upstream.count() - before, 20, "{ask:?}");
        let different: BTreeSet<&str> = answers.iter().map(|answer| &*answer.body).collect();
        assert_eq!(different.len(), 20, "{ask:?}");
    }
}

#[tokio::test]
async fn three_hundred_entries_do_not_displace_the_first() {
    let upstream = counting_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let ask = |number: usize| Ask::new(CHAT, Api::Chat.request(&format!("entry {number}"), false));
    let first = ask(0).send(&setup).await;
    for number in 1..=300 {
        assert_eq!(ask(number).send(&setup).await.source(), "miss", "{number}");
    }
    ask(300).stored(&setup).await;
    let again = ask(0).send(&setup).await;
    assert_eq!((again.source(), again.body), ("hit", first.body));
    assert_eq!(upstream.count(), 301);
}

/// A client that leaves in mid-stream and asks again has its answer, and nothing is paid twice.
#[tokio::test]
async fn answer_that_its_client_left_is_not_paid_again() {
    let (open, opened) = gate();
    let upstream = FakeUpstream::start(move |request| {
        let api = api_of(request);
        let mut steps = vec![Step::Send(head("200 OK", media(true), "").into_bytes())];
        for (at, event) in api.events("one two three").into_iter().enumerate() {
            if at == 1 {
                steps.push(Step::Until(opened.clone()));
            }
            steps.push(Step::Send(event.into_bytes()));
        }
        steps
    })
    .await;
    let setup = Arc::new(Setup::in_front_of(upstream.address, Limits::default()).await);
    for api in APIS {
        open.send_replace(false);
        let before = upstream.count();
        let ask = Ask::new(api.path(true), api.request("x", true));
        let mut response = ask.request(&setup).send().await.unwrap();
        assert!(response.chunk().await.unwrap().is_some());
        drop(response);
        let retry = {
            let (ask, setup) = (ask.clone(), Arc::clone(&setup));
            tokio::spawn(async move { ask.send(&setup).await })
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        open.send_replace(true);
        let retry = retry.await.unwrap();
        assert_eq!(api.text(true, &retry.body), "one two three", "{api:?}");
        ask.stored(&setup).await;
        assert_eq!(ask.send(&setup).await.body, retry.body, "{api:?}");
        assert_eq!(upstream.count() - before, 1, "{api:?}");
    }
}

/// The bodies of the requests arrive as they were sent, whatever the key makes of them.
#[tokio::test]
async fn upstream_receives_the_bytes_of_the_client() {
    let upstream = counting_upstream().await;
    let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
    let tables = [equal_requests(), different_requests(), never_stored()];
    let mut expected = Vec::new();
    for probe in tables.into_iter().flatten() {
        let before = upstream.count();
        probe.first.send(&setup).await;
        if upstream.count() > before {
            expected.push(probe.first);
        }
    }
    let received = upstream.received();
    assert_eq!(received.len(), expected.len());
    for (got, ask) in received.iter().zip(&expected) {
        let sent = ask.bytes(&setup);
        let end = sent
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap()
            + 4;
        if got.header("transfer-encoding").is_none() {
            assert_eq!(got.body, sent[end..], "{ask:?}");
        }
        let own = got
            .headers
            .iter()
            .find(|(name, _)| name.starts_with("x-cachalot"));
        assert_eq!(own, None);
    }
}

#[test]
fn answers_of_the_tests_have_their_texts() {
    for api in APIS {
        for is_streamed in [false, true] {
            let body = api.answer("a b c", is_streamed);
            assert_eq!(
                api.text(is_streamed, &body),
                "a b c",
                "{api:?} {is_streamed}"
            );
        }
    }
}
