//! Asking models over real sockets: what is sent, what is tried again, what is given up, and what the
//! user is told.

mod error_messages;
mod limits;
mod requests;
mod retries;
mod server;
mod streams;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cachalot_core::ManualClock;
use cachalot_core::tree;
use cachalot_model::{
    Catalog, Delta, Error, Message, Model, ModelConfiguration, ModelDependencies, Models,
    RateLimitPause, Reply, Request, RetryPauses,
};
use cachalot_storage::HttpOptions;

pub(crate) use server::{Answer, Server};

/// 2026-11-21 02:42:00 UTC.
pub(crate) const NOW: i64 = 1_795_228_920_000;

/// A key as a provider hands it out.
pub(crate) const KEY: &str = "sk-test-0123456789abcdef0123456789";

/// Waits for nothing, and remembers for how long it should have.
#[derive(Debug, Default)]
pub(crate) struct RecordedPauses {
    waited: Mutex<Vec<Duration>>,
    announced: Mutex<Vec<String>>,
}

impl RecordedPauses {
    pub(crate) fn waited(&self) -> Vec<u128> {
        let waited = self.waited.lock().unwrap();
        waited.iter().map(Duration::as_millis).collect()
    }

    /// The pauses that rate limits caused: the model, the length and the limit of all.
    pub(crate) fn announced(&self) -> Vec<String> {
        self.announced.lock().unwrap().clone()
    }
}

#[async_trait]
impl RetryPauses for RecordedPauses {
    async fn pause(&self, time: Duration) {
        self.waited.lock().unwrap().push(time);
    }

    fn jitter(&self) -> f64 {
        0.0
    }

    fn announce(&self, pause: &RateLimitPause<'_>) {
        let RateLimitPause {
            provider,
            model,
            time,
            limit,
        } = pause;
        let announced = format!("{provider}/{model} {time:?} {limit:?}");
        self.announced.lock().unwrap().push(announced);
    }
}

pub(crate) fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn model_dependencies(pairs: &[(&str, &str)]) -> ModelDependencies {
    ModelDependencies {
        environment: environment(pairs),
        clock: Arc::new(ManualClock::at(NOW)),
        http: HttpOptions::default(),
        catalog: Catalog::built_in(),
    }
}

/// The configuration of `models:` and `providers:` in this YAML.
pub(crate) fn configured(yaml: &str) -> ModelConfiguration {
    let mut problems = Vec::new();
    let node = tree::parse("agent.yaml", yaml).unwrap();
    let read = ModelConfiguration::read(node.get("models"), node.get("providers"), &mut problems);
    problems.retain(|problem| !problem.is_warning);
    assert_eq!(problems, []);
    read
}

/// A model `m` at a server, with further keys of YAML; and what it waited for.
pub(crate) fn model_with(server: &Server, keys: &str) -> (Model, Arc<RecordedPauses>) {
    let pauses = Arc::new(RecordedPauses::default());
    let yaml = format!(
        "models:
  m: {{provider: openai, model: gpt-4o-mini, base_url: '{url}', token_key: TEST_KEY, {keys}}}
  spare: {{provider: openai, model: gpt-4o, base_url: '{url}', token_key: TEST_KEY}}
  last: {{provider: openai, model: gpt-5, base_url: '{url}', token_key: TEST_KEY}}",
        url = format_args!("{}/v1", server.url())
    );
    let models = Models::new(model_dependencies(&[("TEST_KEY", KEY)]), configured(&yaml))
        .with_pauses(Arc::clone(&pauses) as Arc<dyn RetryPauses>);
    (models.find("m").unwrap(), pauses)
}

pub(crate) fn model(server: &Server) -> Model {
    model_with(server, "").0
}

/// A request for this model.
pub(crate) fn body(model: &Model, stream: bool) -> Bytes {
    let request = Request {
        messages: vec![Message::user("How deep?")],
        parameters: model.parameters().clone(),
        ..Request::default()
    };
    request.body(model.wire(), stream).unwrap()
}

pub(crate) async fn ask(model: &Model) -> Result<Reply, Error> {
    model.ask(body(model, false)).await
}

/// The answer, and the pieces that came before it.
pub(crate) async fn stream(model: &Model) -> (Result<Reply, Error>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let reply = model
        .stream(body(model, true), &mut |delta| deltas.push(delta))
        .await;
    (reply, deltas)
}

/// A whole answer of Chat Completions that says this.
pub(crate) fn says(text: &str) -> Answer {
    Answer::json(200, &whole(text))
}

pub(crate) fn whole(text: &str) -> String {
    serde_json::json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    })
    .to_string()
}

/// The events of a streamed answer that says these pieces.
pub(crate) fn events(pieces: &[&str]) -> Vec<String> {
    let chunk = |choices: serde_json::Value| {
        let chunk = serde_json::json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-4o-mini", "choices": choices,
        });
        format!("data: {chunk}\n\n")
    };
    let mut events: Vec<String> = pieces
        .iter()
        .map(|text| {
            chunk(
                serde_json::json!([{"index": 0, "delta": {"role": "assistant", "content": text}}]),
            )
        })
        .collect();
    events.push(chunk(
        serde_json::json!([{"index": 0, "delta": {}, "finish_reason": "stop"}]),
    ));
    events.push("data: {\"id\":\"chatcmpl-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3}}\n\n".into());
    events.push("data: [DONE]\n\n".into());
    events
}

/// An error of OpenAI's.
pub(crate) fn refusal(status: u16, message: &str, code: &str) -> Answer {
    let error =
        serde_json::json!({"error": {"message": message, "type": "some_error", "code": code}});
    Answer::json(status, &error.to_string())
}
