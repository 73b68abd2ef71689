//! Endpoints for the explicitly cached contents of Gemini: create, describe, list, extend and delete.

use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::Value;

use super::{House, Visit, namespace};
use crate::wire::{Format, Refusal};

/// Returns the name of the collection, or of a content in it (`cachedContents/ID`), that a path refers to.
pub(super) fn name(path: &str) -> Option<&str> {
    let versions = ["/v1beta/", "/v1/"];
    let name = versions.iter().find_map(|it| path.strip_prefix(it))?;
    let is_one = name.starts_with("cachedContents/");
    (is_one || name == "cachedContents").then_some(name)
}

impl House {
    pub(super) fn cached_contents(
        &self,
        mut visit: Visit,
        method: &Method,
        name: &str,
        body: &[u8],
    ) -> Response {
        visit.format = Format::Gemini;
        match self.cached_content(&visit, method, name, body) {
            Ok(described) => self.whole(visit, StatusCode::OK, described.to_string()),
            Err(refusal) => self.refuse(visit, &refusal),
        }
    }

    fn cached_content(
        &self,
        visit: &Visit,
        method: &Method,
        name: &str,
        body: &[u8],
    ) -> Result<Value, Refusal> {
        let now = self.clock.now();
        let namespace = namespace(&visit.headers);
        let is_one = name.contains('/');
        let body = match *method {
            Method::POST | Method::PATCH => self.admit(visit, body)?,
            _ => {
                self.authorize(visit)?;
                Value::Null
            }
        };
        let mut state = self.state();
        // Taken out during the change, because the judge borrows the state.
        let mut contents = std::mem::take(&mut state.cached_contents);
        let judge = self.judge(visit, &state, now);
        let described = match (method, is_one) {
            (&Method::POST, false) => contents.create(&body, &judge, &visit.ids.answer("")),
            (&Method::GET, false) => Ok(contents.list(namespace, now)),
            (&Method::GET, true) => contents.describe(namespace, name, now),
            (&Method::PATCH, true) => contents.update(&body, &judge, name),
            (&Method::DELETE, true) => contents.delete(namespace, name, now),
            _ => Err(Refusal::with_status(
                404,
                format!("Invalid URL ({method} {name})."),
            )),
        };
        state.cached_contents = contents;
        described
    }
}
