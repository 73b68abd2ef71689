//! `web.search`, through SearXNG.

use async_trait::async_trait;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, count, declared_by, duration, required, text};
use super::http_response::{self, HttpRequest, TIMEOUT};
use super::run_settings::{setting, trim_base_url, variable};
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime};

#[rustfmt::skip]
static SEARCH: OperationMetadata = OperationMetadata::declared(
    "web.search",
    &["actions.web_search"],
    "Searches the web through a SearXNG instance.",
    &[
        required(text("query", "The query, in the syntax of the instance.")),
        count("limit", (1, 100), "At most so many results, from 1 to 100; 10 by default.").with_aliases(&["num_results"]),
        text("language", "A language code such as `en` or `pt-BR`; the instance's default otherwise."),
        text("base_url", "The instance; `settings.web.search.base_url` or `SEARXNG_BASE_URL` otherwise."),
        duration("timeout", "The maximum time of the request; `30s` by default."),
    ],
)
.read_only();

const SETTING: &str = "/web/search/base_url";
const VARIABLE: &str = "SEARXNG_BASE_URL";

/// The part of SearXNG's response that is used.
#[derive(Deserialize)]
struct SearxngResponse {
    results: Vec<SearxngResult>,
}

#[derive(Deserialize)]
struct SearxngResult {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
}

pub(super) struct Search;

#[async_trait]
impl Operation for Search {
    declared_by!(SEARCH);

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&SEARCH, arguments);
        if given.non_empty_text("base_url")?.is_some() {
            return Ok(Value::Null);
        }
        Ok(
            configured(runtime)
                .map_or(Value::Null, |url| json!({ "base_url": trim_base_url(url) })),
        )
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&SEARCH, &arguments);
        let query = given.required_text("query")?;
        let limit = given.count("limit")?.unwrap_or(10);
        let timeout = given.duration("timeout")?.unwrap_or(TIMEOUT);
        let named = given.non_empty_text("base_url")?;
        let instance = named.or_else(|| configured(runtime)).ok_or_else(|| {
            given.failure("configuration_error", format_args!("no SearXNG instance is known: give `base_url`, set `settings.web.search.base_url`, or set the environment variable {VARIABLE}"))
        })?;
        let mut url = http_response::web_url(
            &given,
            "base_url",
            &format!("{}/search", trim_base_url(instance)),
        )?;
        url.query_pairs_mut()
            .append_pair("q", query)
            .append_pair("format", "json");
        if let Some(language) = given.text("language")? {
            url.query_pairs_mut().append_pair("language", language);
        }
        let client = match named {
            Some(_) => http_response::client(&given, runtime, &url, None)?,
            None => runtime.storage.http().clone(),
        };
        let request = HttpRequest::new(&given, runtime, client, Method::GET, &url)?;
        let fetched = request.fetch(timeout, "auth_error").await;
        let response = fetched.map_err(with_hint)?;
        let answer: SearxngResponse = response.decode("SearXNG", "parse_error")?;
        let results: Vec<Value> = answer
            .results
            .into_iter()
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .map(result)
            .collect();
        Ok(json!({ "query": query, "count": results.len(), "results": results, "success": true }))
    }
}

impl Action for Search {}

fn configured(runtime: &Runtime) -> Option<&str> {
    setting(runtime, SETTING).or_else(|| variable(runtime, VARIABLE))
}

/// Adds a hint to the failure: a SearXNG instance rejects JSON until it is enabled, and its response does
/// not mention that.
fn with_hint(failure: Failure) -> Failure {
    if failure.kind != "auth_error" {
        return failure;
    }
    let message = format!(
        "{} (a SearXNG instance answers so if `json` is missing under `search.formats` in its settings)",
        failure.message
    );
    Failure { message, ..failure }
}

fn result(found: SearxngResult) -> Value {
    json!({
        "title": found.title.unwrap_or_default(),
        "url": found.url,
        "snippet": found.content.unwrap_or_default(),
    })
}
