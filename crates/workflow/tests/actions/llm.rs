//! `llm.call` and `llm.stream` against the simulator.

mod configured;
mod errors;
mod formats;
mod messages;
#[cfg(unix)]
mod shell;
mod stream;
mod structured;
mod tools;

use serde_json::{Value, json};

use crate::fakes::Provider;
use crate::fakes::provider::configure;
use crate::fixture::Fixture;

/// A run that knows where the provider is, of a file with these keys.
pub(crate) fn asking(provider: &Provider, file: &str) -> Fixture {
    let mut fixture = Fixture::new();
    configure(&mut fixture.runtime, &provider.environment(), file);
    fixture
}

/// A model of each format, in this order.
const EACH: [(&str, &str); 3] = [
    ("chat", "/v1/chat/completions"),
    ("responses", "/v1/responses"),
    ("messages", "/v1/messages"),
];

/// Models of these names, which cost what is easy to count.
const MODELS: &str = "
models:
  chat: {provider: openai, model: gpt-4o-mini, format: chat, cost: {input: 1, output: 2, cache_read: 0.5}}
  responses: {provider: openai, model: gpt-5, format: responses, cost: {input: 1, output: 2, cache_read: 0.5}}
  messages: {provider: anthropic, model: claude-sonnet-5, cost: {input: 1, output: 2, cache_read: 0.5}}
";

/// A user message.
fn user(text: &str) -> Value {
    json!([{ "role": "user", "content": text }])
}
