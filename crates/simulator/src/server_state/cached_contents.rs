//! Endpoints for the explicitly cached contents of Gemini: create, describe, list, extend and delete.

use axum::http::Method;
use serde_json::Value;

use super::{RequestContext, ServerState, namespace};
use crate::wire::ApiError;

/// Returns the name of the collection, or of a content in it (`cachedContents/ID`), that a path refers to.
pub(super) fn name(path: &str) -> Option<&str> {
    let versions = ["/v1beta/", "/v1/"];
    let name = versions
        .iter()
        .find_map(|version| path.strip_prefix(version))?;
    let is_one = name.starts_with("cachedContents/");
    (is_one || name == "cachedContents").then_some(name)
}

/// Answers a request to an endpoint of cached contents.
pub(super) fn answer(
    server: &ServerState,
    context: &RequestContext,
    method: &Method,
    name: &str,
    body: &[u8],
) -> Result<Value, ApiError> {
    let now = server.clock.now();
    let namespace = namespace(&context.headers);
    let is_one = name.contains('/');
    let body = match *method {
        Method::POST | Method::PATCH => server.admit(context, body)?,
        _ => {
            server.authorize(context)?;
            Value::Null
        }
    };
    let mut state = server.state();
    // Taken out during the change, because the judge borrows the state.
    let mut contents = std::mem::take(&mut state.cached_contents);
    let validation = server.validation(context, &state, now);
    let described = match (method, is_one) {
        (&Method::POST, false) => contents.create(&body, &validation, &context.ids.answer("")),
        (&Method::GET, false) => Ok(contents.list(namespace, now)),
        (&Method::GET, true) => contents.describe(namespace, name, now),
        (&Method::PATCH, true) => contents.update(&body, &validation, name),
        (&Method::DELETE, true) => contents.delete(namespace, name, now),
        _ => {
            let message = format!("Invalid URL ({method} {name}).");
            Err(ApiError::with_status(404, message))
        }
    };
    state.cached_contents = contents;
    described
}
