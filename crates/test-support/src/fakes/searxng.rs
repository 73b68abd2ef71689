//! A SearXNG instance that answers what it is told to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::{Json, Router, routing::get};
use serde_json::{Value, json};

use super::Server;

/// A SearXNG instance on loopback.
pub struct SearXng {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    results: Mutex<Vec<Value>>,
    asked: Mutex<Vec<HashMap<String, String>>>,
    html_only: Mutex<bool>,
}

impl SearXng {
    /// An instance that finds `results`, each `{title, url, content}`.
    pub fn start(results: Vec<Value>) -> Self {
        let shared = Arc::new(Shared {
            results: Mutex::new(results),
            ..Shared::default()
        });
        let router = Router::new()
            .route("/search", get(search))
            .with_state(Arc::clone(&shared));
        Self {
            server: Server::start(router),
            shared,
        }
    }

    /// Its base URL.
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// The queries that it was asked, in order.
    pub fn queries(&self) -> Vec<String> {
        self.shared
            .asked
            .lock()
            .unwrap()
            .iter()
            .map(|asked| asked["q"].clone())
            .collect()
    }

    /// All fields of what it was asked last.
    pub fn last_asked(&self) -> HashMap<String, String> {
        self.shared
            .asked
            .lock()
            .unwrap()
            .last()
            .cloned()
            .unwrap_or_default()
    }

    /// From now on it refuses JSON, as an instance does whose settings do not allow it.
    pub fn refuse_json(&self) {
        *self.shared.html_only.lock().unwrap() = true;
    }
}

async fn search(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<HashMap<String, String>>,
) -> Response {
    let json_wanted = asked.get("format").is_some_and(|format| format == "json");
    let query = asked.get("q").cloned().unwrap_or_default();
    shared.asked.lock().unwrap().push(asked);
    if !json_wanted {
        return (
            [("content-type", "text/html")],
            "<html>a page for people</html>",
        )
            .into_response();
    }
    if *shared.html_only.lock().unwrap() {
        return (
            StatusCode::FORBIDDEN,
            "<!doctype html><title>403 Forbidden</title>",
        )
            .into_response();
    }
    let results = shared.results.lock().unwrap().clone();
    Json(json!({
        "query": query,
        "number_of_results": results.len(),
        "results": results,
        "answers": [],
        "suggestions": [],
        "unresponsive_engines": [],
    }))
    .into_response()
}
