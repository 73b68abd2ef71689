//! Gemini's `generateContent`: requests, answers, and what goes over the wire.

mod reading;
mod rendering;
mod requests;

use std::sync::LazyLock;

use cachalot_model::wire::{Wire, for_format};
use cachalot_model::{Catalog, Format, Model, ModelDependencies, Models, Request};
use serde_json::Value;

use crate::client::{configured, model_dependencies};

/// Requests as the types of google-genai take them: see `scripts/gemini_schema.py`.
static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(include_str!("../data/gemini-schema.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
});

fn wire() -> &'static dyn Wire {
    for_format(Format::Gemini)
}

/// A model of Google's in the native format.
fn model(name: &str) -> Model {
    let yaml = format!("models: {{m: {{provider: google, model: {name}, format: gemini}}}}");
    let model_dependencies = ModelDependencies {
        catalog: Catalog::built_in(),
        ..model_dependencies(&[("GEMINI_API_KEY", "gemini-0123456789abcdef")])
    };
    Models::new(model_dependencies, configured(&yaml))
        .find("m")
        .unwrap()
}

/// The body of a request, which the official client's types accept.
#[track_caller]
fn body_with(wire: &dyn Wire, request: &Request) -> Value {
    let body = request.body(wire, true).unwrap();
    let body: Value = serde_json::from_slice(&body).expect("a request is JSON");
    let errors: Vec<String> = SCHEMA
        .iter_errors(&body)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\n{body:#}");
    body
}

#[track_caller]
fn body(request: &Request) -> Value {
    body_with(wire(), request)
}
