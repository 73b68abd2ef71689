//! The simulator from the outside: real HTTP, and its accounting against the providers' examples.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr)]

mod accountant;
mod azure;
mod built_in;
mod by_model;
mod chat;
mod clients;
mod clouds;
mod compaction;
mod converse;
mod diagnostics;
mod embeddings;
mod faults;
mod gateway;
mod gemini;
mod interactions;
mod lifecycle;
mod messages;
mod official;
mod refused_requests;
mod reported;
mod responses;
mod scripts;
mod usage;

use std::sync::{Arc, OnceLock};

use cachalot_core::{Clock, ManualClock};
use cachalot_simulator::{RunningSimulator, Script, Simulator, SimulatorOptions};
use serde_json::{Value, json};

/// When the tests' clocks begin.
pub(crate) const START: i64 = 1_800_000_000_000;

pub(crate) async fn start(script: Script) -> RunningSimulator {
    Simulator::start(SimulatorOptions {
        script,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap()
}

/// A simulator whose clock moves only when told to.
pub(crate) async fn timed(script: Script) -> (RunningSimulator, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(START));
    let running = Simulator::start(SimulatorOptions {
        script,
        clock: Arc::clone(&clock) as Arc<dyn Clock>,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap();
    (running, clock)
}

pub(crate) fn client() -> reqwest::Client {
    builder().build().unwrap()
}

fn builder() -> reqwest::ClientBuilder {
    // The simulator speaks plain HTTP, but the client wants to know what it would encrypt with.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().tls_certs_only([])
}

/// A client for all tests, which have runtimes of their own and so cannot share connections.
fn shared_client() -> &'static reqwest::Client {
    static SHARED: OnceLock<reqwest::Client> = OnceLock::new();
    SHARED.get_or_init(|| builder().pool_max_idle_per_host(0).build().unwrap())
}

/// A response: status, headers, body.
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl TestResponse {
    async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect(&self.text)
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map(|value| value.to_str().unwrap())
            .unwrap_or_default()
    }

    /// The events of a stream: name and data.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        assert_eq!(
            self.header("content-type"),
            "text/event-stream",
            "{}",
            self.text
        );
        assert!(self.text.ends_with("\n\n"), "{}", self.text);
        let blocks = self.text.split("\n\n").filter(|block| !block.is_empty());
        blocks
            .map(|block| {
                let field = |name: &str| {
                    let mut lines = block.lines();
                    lines
                        .find_map(|line| line.strip_prefix(name))
                        .unwrap_or_default()
                        .to_owned()
                };
                (field("event: "), field("data: "))
            })
            .collect()
    }

    /// The data of the events, as JSON.
    pub(crate) fn data(&self) -> Vec<Value> {
        let events = self.events();
        let data = events.iter().filter(|(_, data)| data != "[DONE]");
        data.map(|(_, data)| serde_json::from_str(data).expect(data))
            .collect()
    }
}

/// Posts with a key and Anthropic's version header, as all official clients send one or the other.
pub(crate) async fn post(running: &RunningSimulator, path: &str, body: &Value) -> TestResponse {
    post_as("sk-test", running, path, body).await
}

pub(crate) async fn post_as(
    key: &str,
    running: &RunningSimulator,
    path: &str,
    body: &Value,
) -> TestResponse {
    let mut request = shared_client()
        .post(format!("{}{path}", running.url()))
        .header("content-type", "application/json")
        .body(body.to_string());
    request = if path.starts_with("/v1/messages") {
        request
            .header("x-api-key", key)
            .header("anthropic-version", "2023-06-01")
    } else {
        request.bearer_auth(key)
    };
    TestResponse::of(request).await
}

/// Sends a request with another method, and a body if there is one.
pub(crate) async fn send(
    running: &RunningSimulator,
    method: reqwest::Method,
    path: &str,
    body: Option<&Value>,
) -> TestResponse {
    let mut request = shared_client()
        .request(method, format!("{}{path}", running.url()))
        .bearer_auth("sk-test");
    if let Some(body) = body {
        request = request.body(body.to_string());
    }
    TestResponse::of(request).await
}

/// Posts, and expects 200.
pub(crate) async fn ask(running: &RunningSimulator, path: &str, body: &Value) -> Value {
    let got = post(running, path, body).await;
    assert_eq!(got.status, 200, "{}", got.text);
    got.json()
}

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const RESPONSES: &str = "/v1/responses";
pub(crate) const MESSAGES: &str = "/v1/messages";

/// The smallest request of a path.
pub(crate) fn smallest(path: &str, text: &str) -> Value {
    match path {
        CHAT => json!({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}),
        RESPONSES => json!({"model": "gpt-4o", "input": text}),
        _ => json!({"model": "claude-sonnet-4-5", "max_tokens": 1_000,
                    "messages": [{"role": "user", "content": text}]}),
    }
}

/// The same request, with more fields.
pub(crate) fn with(mut request: Value, fields: Value) -> Value {
    for (key, value) in fields.as_object().unwrap() {
        request[key] = value.clone();
    }
    request
}

/// The text of an answer that is not streamed.
pub(crate) fn said(path: &str, answer: &Value) -> String {
    let text = match path {
        CHAT => answer["choices"][0]["message"]["content"].as_str(),
        RESPONSES => {
            let mut items = answer["output"].as_array().unwrap().iter();
            let message = items.find(|item| item["type"] == "message");
            message.and_then(|message| message["content"][0]["text"].as_str())
        }
        _ => {
            let mut blocks = answer["content"].as_array().unwrap().iter();
            let text = blocks.find(|block| block["type"] == "text");
            text.and_then(|text| text["text"].as_str())
        }
    };
    text.unwrap_or_default().to_owned()
}

/// Waits until `is_so`, for at most ten seconds.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it did not come about within a minute");
}
