//! Amazon Bedrock's Converse: requests, answers, and what goes over the wire.

mod properties;
mod reading;
mod rendering;
mod requests;

use cachalot_model::wire::{Wire, for_format};
use cachalot_model::{Catalog, Format, Model, ModelDependencies, Models, Request};
use serde_json::Value;

use crate::client::{configured, model_dependencies};

const SONNET: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

fn wire() -> &'static dyn Wire {
    for_format(Format::Converse)
}

/// A model on Bedrock.
fn model(name: &str) -> Model {
    let yaml = format!(
        "models: {{m: {{model: '{name}', format: converse, base_url: 'http://127.0.0.1:9', token_key: KEY}}}}"
    );
    let model_dependencies = ModelDependencies {
        catalog: Catalog::built_in(),
        ..model_dependencies(&[("KEY", "bedrock-0123456789")])
    };
    Models::new(model_dependencies, configured(&yaml))
        .find("m")
        .unwrap()
}

/// The body of a request, which the official service model and the model itself accept.
#[track_caller]
fn body_with(wire: &dyn Wire, request: &Request) -> Value {
    let body = request.body(wire, true).unwrap();
    let body: Value = serde_json::from_slice(&body).expect("a request is JSON");
    let named = named(&body, &request.parameters.model);
    let checked = cachalot_simulator::check_request(
        cachalot_simulator::Format::Converse,
        false,
        named.as_bytes(),
    );
    if let Err(refused) = checked {
        panic!("{refused}\n{body:#}");
    }
    body
}

#[track_caller]
fn body(request: &Request) -> Value {
    body_with(wire(), request)
}

/// A body with the name of its model, which is in the path otherwise.
fn named(body: &Value, model: &str) -> String {
    let mut body = body.clone();
    body["model"] = model.into();
    body.to_string()
}
