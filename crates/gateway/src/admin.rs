//! The listener for the operator: keys and their budgets, entries, erasures, statistics.
//!
//! It listens on an address of its own and answers only requests with the operator's token. Answers are JSON. Contents
//! of requests and answers are not shown.

use cachalot_cache::{CallKind, EntryFilter, HANDLE_LABEL, Key, LabelCriterion};
use cachalot_core::config::Word as _;
use cachalot_core::{Canonical, Digest};
use cachalot_storage::PageGuard;
use cachalot_store::Label;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};

use crate::body::{self, Body};
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::metrics;
use crate::shared::Shared;

/// Maximum size of a request, in bytes.
const MAX_BODY: usize = 64 << 10;
/// Maximum number of entries that are listed.
const MAX_ENTRIES: usize = 1_000;

/// Answers a request of the operator.
pub(crate) async fn handle(
    shared: &Shared,
    guard: &PageGuard,
    request: Request<Incoming>,
) -> Response<Body> {
    let checked = guard.check(request.uri(), request.headers());
    let checked = checked.map_err(ErrorBody::from);
    let checked = checked.and_then(|()| check_token(shared, request.headers()));
    if let Err(error) = checked {
        return error.response(Endpoint::Other);
    }
    if request.method() == Method::GET && request.uri().path() == "/metrics" {
        return metrics::response(shared.metrics_text().await);
    }
    match answer(shared, request).await {
        Ok(document) => {
            let mut response = Response::new(body::full(document.to_string()));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(error) => error.response(Endpoint::Other),
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Result<Value, ErrorBody> {
    let (parts, incoming) = request.into_parts();
    match (&parts.method, parts.uri.path()) {
        (&Method::GET, "/admin/keys") => keys(shared).await,
        (&Method::GET, "/admin/upstreams") => Ok(upstreams(shared)),
        (&Method::GET, "/admin/stats") => stats(shared).await,
        (&Method::GET, "/admin/entries") => {
            let query = parts.uri.query().unwrap_or_default();
            let pattern = query
                .split('&')
                .find_map(|parameter| parameter.strip_prefix("pattern="));
            let decoded = pattern.map(decoded).transpose()?;
            entries(shared, decoded.as_deref().unwrap_or("*")).await
        }
        (&Method::POST, "/admin/invalidate") => {
            let read = Limited::new(incoming, MAX_BODY).collect().await;
            let read = read.map_err(|error| malformed(error.to_string()))?;
            let read = read.to_bytes();
            // A member that is given twice has no meaning.
            Canonical::json(&read).map_err(|error| malformed(error.to_string()))?;
            let document: Value = serde_json::from_slice(&read)
                .map_err(|error| malformed(format!("the body is no JSON: {error}")))?;
            invalidate(shared, &document).await
        }
        (_, path) => Err(ErrorBody::not_found(
            "unknown_path",
            format!(
                "`{} {path}` is none of GET /metrics, /admin/keys, /admin/upstreams, /admin/entries, /admin/stats and POST /admin/invalidate",
                parts.method
            ),
        )),
    }
}

/// Checks the token, in the same time for every wrong one.
fn check_token(shared: &Shared, headers: &HeaderMap) -> Result<(), ErrorBody> {
    let value = headers.get(header::AUTHORIZATION);
    let value = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let (scheme, token) = value.split_once(' ').unwrap_or_default();
    // The digests are compared, so that the time says nothing about the token.
    let digest = Digest::sha256(token.trim().as_bytes());
    let expected = shared.settings().admin_token;
    let is_right = expected.is_some_and(|expected| {
        let pairs = expected.iter().zip(digest.as_bytes());
        pairs.fold(0, |all, (one, two)| all | (one ^ two)) == 0
    });
    if is_right && scheme.eq_ignore_ascii_case("bearer") {
        Ok(())
    } else {
        Err(ErrorBody::unauthorized(
            "token_required",
            "expected the operator's token: `Authorization: Bearer …`",
        ))
    }
}

async fn keys(shared: &Shared) -> Result<Value, ErrorBody> {
    let settings = shared.settings();
    let mut documents = Vec::new();
    for key in &settings.keys {
        let states = shared.budgets.states(key.name(), key.config.budget).await?;
        let budgets = states.into_iter().map(|state| {
            let dollars = |picodollars: u64| picodollars as f64 / 1e12;
            let document = json!({"limit": dollars(state.limit), "used": dollars(state.used)});
            (state.period.to_owned(), document)
        });
        documents.push(json!({
            "name": key.name(),
            "upstreams": key.config.upstreams,
            "models": key.config.models,
            "scopes": key.config.scopes,
            "budget": Value::Object(budgets.collect()),
            "requests_per_minute": key.config.requests_per_minute,
            "tokens_per_minute": key.config.tokens_per_minute,
        }));
    }
    Ok(json!({"keys": documents}))
}

fn upstreams(shared: &Shared) -> Value {
    let settings = shared.settings();
    let now = std::time::Instant::now();
    let documents = settings.upstreams.iter().map(|upstream| {
        json!({
            "name": upstream.name(),
            "url": upstream.base(),
            "api": upstream.api.word(),
            "has_credential": upstream.credential.is_some(),
            "is_left_out": upstream.breaker.is_open(now),
        })
    });
    json!({"upstreams": documents.collect::<Vec<Value>>()})
}

async fn stats(shared: &Shared) -> Result<Value, ErrorBody> {
    let usage = shared.cache.usage().await.map_err(unavailable)?;
    Ok(json!({
        "entries": usage.records,
        "bytes": usage.bytes,
    }))
}

async fn entries(shared: &Shared, pattern: &str) -> Result<Value, ErrorBody> {
    let filter = EntryFilter {
        kind: Some(CallKind::Request),
        criteria: vec![LabelCriterion::Glob {
            name: HANDLE_LABEL.to_owned(),
            pattern: pattern.to_owned(),
        }],
        ..EntryFilter::default()
    };
    let mut found = Vec::new();
    let listed = shared.cache.each(&filter, |entry| {
        if found.len() < MAX_ENTRIES {
            let labels = entry.provenance.labels.iter();
            let labels: Vec<Value> = labels
                .map(|label| json!([label.name, label.value]))
                .collect();
            found.push(json!({
                "key": entry.key.to_string(),
                "scope": entry.scope,
                "endpoint": entry.name,
                "created": entry.provenance.created,
                "expires": entry.provenance.expires,
                "bytes": entry.bytes,
                "labels": labels,
            }));
        }
    });
    listed.await.map_err(unavailable)?;
    Ok(json!({"entries": found}))
}

/// Erases entries by exactly one of `key`, `pattern` and `tag`.
async fn invalidate(shared: &Shared, document: &Value) -> Result<Value, ErrorBody> {
    let members = document
        .as_object()
        .ok_or_else(|| malformed("expected an object".into()))?;
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let dry_run = match members.get("dry_run") {
        None | Some(Value::Bool(false)) => false,
        Some(Value::Bool(true)) => true,
        Some(_) => return Err(malformed("`dry_run` is neither true nor false".into())),
    };
    let known = ["key", "pattern", "tag", "dry_run"];
    if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(malformed(format!(
            "unknown member `{unknown}`; expected {}",
            known.join(", ")
        )));
    }
    let mut filter = EntryFilter {
        kind: Some(CallKind::Request),
        ..EntryFilter::default()
    };
    match (text("key"), text("pattern"), text("tag")) {
        (Some(key), None, None) => {
            let key: Key = key
                .parse()
                .map_err(|_| malformed("`key` is no key: expected 64 hexadecimal digits".into()))?;
            filter.key = Some(key);
        }
        (None, Some(pattern), None) => filter.criteria.push(LabelCriterion::Glob {
            name: HANDLE_LABEL.to_owned(),
            pattern: pattern.to_owned(),
        }),
        (None, None, Some(tag)) => {
            filter
                .criteria
                .push(LabelCriterion::Is(Label::new("tag", tag)));
        }
        _ => {
            return Err(malformed(
                "expected exactly one of `key`, `pattern` and `tag`".into(),
            ));
        }
    }
    let report = shared
        .cache
        .erase(&filter, dry_run)
        .await
        .map_err(unavailable)?;
    let keys: Vec<&str> = report
        .entries
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    Ok(json!({"dry_run": dry_run, "erased": keys, "revoked_runs": report.revoked}))
}

/// Decodes a value of a query: `%2F` and `+`.
fn decoded(value: &str) -> Result<String, ErrorBody> {
    let with_spaces = value.replace('+', " ");
    let decoded = percent_encoding::percent_decode_str(&with_spaces).decode_utf8();
    let decoded = decoded.map_err(|_| malformed("`pattern` is no UTF-8".into()))?;
    Ok(decoded.into_owned())
}

fn malformed(message: String) -> ErrorBody {
    ErrorBody::bad_request("malformed_body", message)
}

fn unavailable(error: impl std::fmt::Display) -> ErrorBody {
    let message = format!("the store does not answer: {error}");
    ErrorBody::unavailable("store_unavailable", message)
}
