//! Pages outside of conversations: the list of models, the welcome page, and unknown paths.

use axum::http::Method;
use serde_json::{Value, json};

use super::{RequestContext, ServerState, format_from_headers};
use crate::wire::{ApiError, Format};

/// Prefix of the path of a model.
pub(super) const MODEL: &str = "/v1/models/";

/// Prefix of the path of a stored response.
pub(super) const RESPONSE: &str = "/v1/responses/";

/// The list of models.
pub(super) fn models(server: &ServerState, context: &RequestContext) -> Value {
    let format = format_from_headers(&context.headers);
    let names = server.script.listed_models();
    let models: Vec<Value> = names
        .iter()
        .map(|name| describe_model(format, name))
        .collect();
    match format {
        Format::Messages => json!({
            "data": models,
            "has_more": false,
            "first_id": names.first(),
            "last_id": names.last(),
        }),
        _ => json!({"object": "list", "data": models}),
    }
}

/// The description of a model.
pub(super) fn model(
    server: &ServerState,
    context: &RequestContext,
    path: &str,
) -> Result<Value, ApiError> {
    let name = path.trim_start_matches(MODEL);
    server.check_model_exists(name)?;
    let format = format_from_headers(&context.headers);
    Ok(describe_model(format, name))
}

/// A stored response.
pub(super) fn stored_response(
    server: &ServerState,
    context: &RequestContext,
    path: &str,
) -> Result<Value, ApiError> {
    let id = path.trim_start_matches(RESPONSE);
    server.authorize(context)?;
    let state = server.state();
    let found = state.items.response(context.namespace, id);
    found.cloned().ok_or_else(|| no_response(id))
}

/// Deletes a stored response.
pub(super) fn delete_response(
    server: &ServerState,
    context: &RequestContext,
    path: &str,
) -> Result<Value, ApiError> {
    let id = path.trim_start_matches(RESPONSE);
    server.authorize(context)?;
    if server.state().items.forget(context.namespace, id) {
        Ok(json!({"id": id, "object": "response", "deleted": true}))
    } else {
        Err(no_response(id))
    }
}

/// Returns the id in the path of a stored interaction. Official clients use either version.
pub(super) fn interaction_id(path: &str) -> Option<&str> {
    let prefixes = ["/v1beta/interactions/", "/v1/interactions/"];
    prefixes.iter().find_map(|prefix| path.strip_prefix(prefix))
}

/// A stored interaction, or an empty object after its deletion.
pub(super) fn stored_interaction(
    server: &ServerState,
    context: &RequestContext,
    method: &Method,
    id: &str,
) -> Result<Value, ApiError> {
    server.authorize(context)?;
    let mut state = server.state();
    if method == Method::DELETE {
        state.interactions.forget(context.namespace, id)?;
        return Ok(json!({}));
    }
    let found = state.interactions.interaction(context.namespace, id);
    found.cloned()
}

/// The page at `/`: the endpoints.
pub(super) fn welcome_page() -> Value {
    json!({
        "simulator": "cachalot",
        "endpoints": [
            "POST /v1/chat/completions", "POST /v1/responses", "POST /v1/messages",
            "POST /v1/messages/count_tokens", "GET /v1/responses/ID", "DELETE /v1/responses/ID",
            "POST /v1/responses/compact", "POST /v1/responses/input_tokens", "POST /v1/embeddings",
            "GET /v1/models", "GET /v1/models/NAME",
            "POST /openai/deployments/NAME/chat/completions", "POST /openai/responses",
            "POST /openai/v1/chat/completions", "POST /openai/v1/responses",
            "POST /v1beta/models/NAME:generateContent",
            "POST /v1beta/models/NAME:streamGenerateContent",
            "POST /v1beta/models/NAME:countTokens", "POST /v1beta/models/NAME:embedContent",
            "POST /v1beta/models/NAME:batchEmbedContents",
            "POST /v1beta/interactions", "GET /v1beta/interactions/ID",
            "DELETE /v1beta/interactions/ID",
            "POST /v1beta/cachedContents", "GET /v1beta/cachedContents",
            "GET /v1beta/cachedContents/ID", "PATCH /v1beta/cachedContents/ID",
            "DELETE /v1beta/cachedContents/ID",
            "POST /model/NAME/invoke", "POST /model/NAME/invoke-with-response-stream",
            "POST /model/NAME/converse", "POST /model/NAME/converse-stream",
            "POST /v1/projects/PROJECT/locations/REGION/publishers/anthropic/models/NAME:rawPredict",
            "POST /v1/projects/PROJECT/locations/REGION/publishers/anthropic/models/NAME:streamRawPredict",
            "GET /service-account.json", "POST /token",
        ],
    })
}

/// The refusal of an unknown path, with a suggestion.
pub(super) fn not_found(method: &Method, path: &str) -> ApiError {
    let status = if Format::at(path).is_some() { 405 } else { 404 };
    let help = if Format::at(&format!("/v1{path}")).is_some() {
        format!(" Did you mean /v1{path}? The base URL of an OpenAI client ends with /v1.")
    } else if let Some(path) = path
        .strip_prefix("/v1")
        .filter(|path| path.starts_with("/v1/"))
    {
        format!(" Did you mean {path}? The base URL of an Anthropic client does not end with /v1.")
    } else {
        String::new()
    };
    ApiError::with_status(status, format!("Invalid URL ({method} {path}).{help}"))
}

fn no_response(id: &str) -> ApiError {
    ApiError::invalid(format!("Response with id '{id}' not found.")).status(404)
}

/// Describes a model in the shape of the provider whose client asks.
fn describe_model(format: Format, name: &str) -> Value {
    match format {
        Format::Messages => json!({
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "2026-01-01T00:00:00Z",
        }),
        _ => json!({
            "id": name,
            "object": "model",
            "created": 1_767_225_600,
            "owned_by": "simulator",
        }),
    }
}
