//! Endpoints by their names, and the judgment of a request alone, for tests.

use serde_json::Value;

use super::{Cacheability, Endpoint, Setting};

fn named(name: &str) -> Endpoint {
    Endpoint::of_name(name).unwrap_or(Endpoint::Other)
}

impl Endpoint {
    pub(crate) fn chat() -> Self {
        named("chat")
    }

    pub(crate) fn responses() -> Self {
        named("responses")
    }

    pub(crate) fn messages() -> Self {
        named("messages")
    }

    pub(crate) fn gemini() -> Self {
        named("gemini")
    }

    pub(crate) fn interactions() -> Self {
        named("interactions")
    }

    pub(crate) fn embeddings() -> Self {
        named("embeddings")
    }

    pub(crate) fn count_tokens() -> Self {
        named("count_tokens")
    }

    pub(crate) fn input_tokens() -> Self {
        named("input_tokens")
    }

    pub(crate) fn judged(self, body: &Value, accepted: &[String]) -> Cacheability {
        self.judge(body, accepted, || {
            self.object_reference(body, Setting::Anywhere)
        })
    }
}
