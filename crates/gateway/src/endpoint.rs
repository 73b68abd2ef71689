//! Endpoints, and whether the answer to a request may be stored.

mod charges;
mod chat;
mod embeddings;
mod gemini;
mod members;
mod messages;
mod objects;
mod responses;

use std::time::Duration;

use cachalot_model::Format;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use members::any_member;

/// A JSON object.
type Object = Map<String, Value>;

/// The time for which an answer is served, unless the client asks for less.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The same for a list of models.
const MODELS: Duration = Duration::from_secs(5 * 60);

/// An endpoint, by the API that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Endpoint {
    /// OpenAI Chat Completions.
    Chat,
    /// Creation of a response of OpenAI Responses.
    Responses,
    /// OpenAI embeddings.
    Embeddings,
    /// Anthropic Messages.
    Messages,
    /// Count of the tokens of an Anthropic request.
    CountTokens,
    /// Content generation of Gemini, whole or streamed.
    Gemini,
    /// List of models, or one model.
    Models,
    /// Any other path, which is passed on unchanged.
    Other,
}

/// A judgment of a request: may its answer be stored?
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cacheability {
    /// The same request always has the same answer.
    Repeatable {
        /// Time to live.
        ttl: Duration,
    },
    /// The answer is sampled: another one to the same request is as good, but differs. Stored for clients that have
    /// opted in.
    Sampled,
    /// The answer depends on more than the request, and why.
    Never(String),
}

impl Endpoint {
    /// Finds the endpoint by method and path.
    pub(crate) fn find(method: &Method, path: &str) -> Self {
        // The list, or one model; what lies below a model is something else, for example an operation in progress.
        let is_model = |rest: &str| match rest.strip_prefix('/') {
            Some(model) => !model.is_empty() && !model.contains('/'),
            None => rest.is_empty(),
        };
        let is_models = ["/v1/models", "/v1beta/models"]
            .iter()
            .any(|list| path.strip_prefix(list).is_some_and(is_model));
        match (method, path) {
            (&Method::POST, "/v1/chat/completions") => Self::Chat,
            (&Method::POST, "/v1/responses") => Self::Responses,
            (&Method::POST, "/v1/embeddings") => Self::Embeddings,
            (&Method::POST, "/v1/messages") => Self::Messages,
            (&Method::POST, "/v1/messages/count_tokens") => Self::CountTokens,
            (&Method::POST, path)
                if path.ends_with(":generateContent")
                    || path.ends_with(":streamGenerateContent") =>
            {
                Self::Gemini
            }
            (&Method::GET, _) if is_models => Self::Models,
            _ => Self::Other,
        }
    }

    /// The name in handles, statistics and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "responses",
            Self::Embeddings => "embeddings",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::Gemini => "gemini",
            Self::Models => "models",
            Self::Other => "other",
        }
    }

    /// The format of the answers of a model; `None` if no model answers.
    pub(crate) fn format(self) -> Option<Format> {
        match self {
            Self::Chat => Some(Format::Chat),
            Self::Responses => Some(Format::Responses),
            Self::Messages => Some(Format::Messages),
            Self::Gemini => Some(Format::Gemini),
            Self::Embeddings | Self::CountTokens | Self::Models | Self::Other => None,
        }
    }

    /// True if requests have a JSON body.
    pub(crate) fn has_body(self) -> bool {
        !matches!(self, Self::Models | Self::Other)
    }

    /// Returns true if the request asks for a stream of events.
    pub(crate) fn is_streamed(self, path: &str, query: Option<&str>, body: &Value) -> bool {
        match self {
            Self::Gemini => gemini::is_streamed(path, query),
            _ => body.get("stream") == Some(&Value::Bool(true)),
        }
    }

    /// Returns the model of the request, for reports and prices.
    pub(crate) fn model(self, path: &str, body: &Value) -> String {
        let named = match self {
            Self::Gemini => gemini::model(path),
            _ => body.get("model").and_then(Value::as_str),
        };
        named.unwrap_or_default().to_owned()
    }

    /// Returns the number of answers that the request asks for.
    ///
    /// # Errors
    /// The number is none that all servers read in the same way.
    pub(crate) fn answers(self, body: &Value) -> Result<u64, String> {
        let object = body.as_object();
        let counts = match self {
            Self::Gemini => object.and_then(gemini::generation),
            _ => object,
        };
        let names: &[&str] = match self {
            Self::Gemini => &["candidateCount", "candidate_count"],
            _ => &["n"],
        };
        let given = names.iter().filter_map(|name| counts?.get(*name));
        let given = given.filter(|count| !count.is_null());
        let mut most = 1;
        for count in given {
            let count = count
                .as_u64()
                .filter(|count| (1..=MAX_ANSWERS).contains(count));
            most =
                most.max(count.ok_or_else(|| {
                    format!("the number of answers is none from 1 to {MAX_ANSWERS}")
                })?);
        }
        Ok(most)
    }

    /// Returns the maximum number of output tokens for each answer, if the request limits it.
    pub(crate) fn max_output(self, body: &Value) -> Option<u64> {
        let body = body.as_object()?;
        match self {
            Self::Chat => largest(body, &["max_completion_tokens", "max_tokens"]),
            Self::Responses => largest(body, &["max_output_tokens"]),
            Self::Messages => largest(body, &["max_tokens"]),
            Self::Gemini => largest(
                gemini::generation(body)?,
                &["maxOutputTokens", "max_output_tokens"],
            ),
            Self::Embeddings | Self::CountTokens | Self::Models | Self::Other => None,
        }
    }

    /// Judges a request.
    pub(crate) fn judge(self, body: &Value) -> Cacheability {
        let empty = Object::new();
        let body = match body.as_object() {
            Some(body) => body,
            // Also a body with a number that has no value here, whose members cannot be judged.
            None if self.has_body() => return Cacheability::never("the body cannot be judged"),
            None => &empty,
        };
        if !matches!(
            body.get("stream"),
            None | Some(Value::Null | Value::Bool(_))
        ) {
            return Cacheability::never("`stream` is neither true nor false");
        }
        match self {
            Self::Chat => chat::judge(body),
            Self::Responses => responses::judge(body),
            Self::Messages => messages::judge(body),
            Self::Gemini => gemini::judge(body),
            Self::Embeddings => embeddings::judge(body),
            Self::CountTokens => messages::judge_count(body),
            Self::Models => Cacheability::Repeatable { ttl: MODELS },
            Self::Other => Cacheability::Never("the endpoint is passed through".into()),
        }
    }
}

impl Cacheability {
    fn never(reason: impl Into<String>) -> Self {
        Self::Never(reason.into())
    }

    /// A request whose answer is repeatable if its sampling is fixed.
    fn by_sampling(is_fixed: bool) -> Self {
        match is_fixed {
            true => Self::Repeatable { ttl: DAY },
            false => Self::Sampled,
        }
    }
}

/// Maximum number of answers to one request.
const MAX_ANSWERS: u64 = 128;
/// Returns the largest of the limits that are set; `None` if none is, or one is no whole number, which servers read in
/// different ways.
fn largest(body: &Object, names: &[&str]) -> Option<u64> {
    let given = names.iter().filter_map(|name| body.get(*name));
    let mut given = given.filter(|limit| !limit.is_null());
    given.try_fold(None, |most: Option<u64>, limit| {
        let limit = limit.as_u64()?;
        Some(Some(most.map_or(limit, |most| most.max(limit))))
    })?
}

/// Returns true if the member exists and is neither null nor false.
fn is_set(body: &Object, member: &str) -> bool {
    !matches!(
        body.get(member),
        None | Some(Value::Null | Value::Bool(false))
    )
}

/// Returns true if sampling is fixed: by a temperature of zero, or by a seed. A negative seed asks some servers for a
/// random one.
fn is_fixed(body: &Object) -> bool {
    let is_zero = |number: &Value| number.as_f64() == Some(0.0);
    let is_seed = |number: &Value| number.as_u64().is_some();
    body.get("temperature").is_some_and(is_zero) || body.get("seed").is_some_and(is_seed)
}

/// Returns the reason why the answer depends on more than the request: a member of the body that is not known to be
/// harmless, such as the search parameters of some providers.
fn unknown_member(body: &Object, known: &[&str]) -> Option<String> {
    let unknown = body.keys().find(|name| !known.contains(&name.as_str()))?;
    Some(format!(
        "the member `{unknown}` may make the provider look something up"
    ))
}

/// Returns the reason why the answer depends on the tools of a request: a server runs one of them. `run_by_client`
/// judges the type of a tool.
fn server_tool(body: &Object, run_by_client: impl Fn(Option<&str>) -> bool) -> Option<String> {
    let tools = match body.get("tools") {
        None | Some(Value::Null) => return None,
        Some(Value::Array(tools)) => tools,
        Some(_) => return Some("`tools` is no list".to_owned()),
    };
    let kind = |tool: &Value| tool.get("type").and_then(Value::as_str).map(str::to_owned);
    let mut kinds = tools.iter().map(kind);
    let found = kinds.find(|kind| !run_by_client(kind.as_deref()))?;
    Some(match found {
        Some(kind) => format!("the provider runs the tool `{kind}`"),
        None => "the provider runs a tool".to_owned(),
    })
}

/// Returns true for a member that names a file which the provider would fetch.
fn is_remote(name: &str, value: &Value) -> bool {
    let name = name.to_ascii_lowercase();
    let url = value.as_str().unwrap_or_default();
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    (name.ends_with("url") || name.ends_with("uri") || name == "image") && !scheme.is_empty()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_never(endpoint: Endpoint, body: &Value) -> bool {
        matches!(endpoint.judge(body), Cacheability::Never(_))
    }

    #[test]
    fn chat_is_judged_by_sampling_tools_and_state() {
        let chat = |body: Value| Endpoint::Chat.judge(&body);
        let day = Cacheability::Repeatable { ttl: DAY };
        let function = json!([{"type": "function", "function": {"name": "f"}}]);
        for body in [
            json!({"model": "m", "temperature": 0}),
            json!({"model": "m", "temperature": 0.0, "tools": function}),
            json!({"model": "m", "seed": 7}),
            json!({"model": "m", "seed": 7, "store": false}),
            json!({"model": "m", "seed": 7, "messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}),
        ] {
            assert_eq!(chat(body.clone()), day, "{body}");
        }
        for body in [
            json!({"model": "m"}),
            json!({"model": "m", "temperature": 0.1}),
            json!({"model": "m", "temperature": "0"}),
            json!({"model": "m", "seed": null}),
            json!({"model": "m", "seed": -1}),
        ] {
            assert_eq!(chat(body.clone()), Cacheability::Sampled, "{body}");
        }
        for body in [
            json!({"seed": 1, "web_search_options": {}}),
            json!({"seed": 1, "store": true}),
            json!({"seed": 1, "n": 2}),
            json!({"seed": 1, "modalities": ["text", "audio"], "audio": {"voice": "alloy"}}),
            json!({"seed": 1, "messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}),
            json!({"seed": 1, "model": "gpt-4o-search-preview"}),
            json!({"seed": 1, "tools": [{"type": "web_search"}]}),
            json!({"seed": 1, "tools": [{"google_search": {}}]}),
            json!({"seed": 1, "tools": {"type": "function"}}),
            json!({"seed": 1, "stream": 1}),
            json!({"seed": 1, "model": "gpt-4o:online"}),
            json!({"seed": 1, "model": "groq/compound"}),
            json!({"seed": 1, "search_parameters": {"mode": "auto"}}),
            json!({"seed": 1, "plugins": [{"id": "web"}]}),
            json!({"seed": 1, "data_sources": []}),
            json!({"seed": 1, "messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": "https://a.example/b.png"}]}]}),
            json!({"seed": 1, "messages": [{"role": "user", "content": [
                {"type": "document_url", "document_url": "https://a.example/b.pdf"}]}]}),
            json!({"seed": 1, "messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]}]}),
            json!({"seed": 1, "messages": [{"role": "user", "content": [
                {"type": "file", "file": {"file_id": "file-1"}}]}]}),
        ] {
            assert!(is_never(Endpoint::Chat, &body), "{body}");
        }
    }

    #[test]
    fn responses_with_state_at_the_server_are_never_stored() {
        let base = json!({"model": "m", "store": false, "temperature": 0});
        assert_eq!(
            Endpoint::Responses.judge(&base),
            Cacheability::Repeatable { ttl: DAY }
        );
        for (member, value) in [
            ("store", json!(true)),
            ("store", Value::Null),
            ("previous_response_id", json!("resp_1")),
            ("conversation", json!("conv_1")),
            ("background", json!(true)),
            ("prompt", json!({"id": "pmpt_1"})),
            ("tools", json!([{"type": "web_search"}])),
            ("tools", json!([{"type": "mcp"}])),
            ("input", json!([{"type": "item_reference", "id": "x"}])),
            ("input", json!([{"id": "msg_123"}])),
            ("unknown", json!(1)),
            (
                "input",
                json!([{"content": [{"type": "input_image", "image_url": "https://a.example"}]}]),
            ),
            (
                "input",
                json!([{"content": [{"type": "input_file", "file_id": "file-1"}]}]),
            ),
        ] {
            let mut body = base.clone();
            body[member] = value;
            assert!(is_never(Endpoint::Responses, &body), "{body}");
        }
    }

    #[test]
    fn messages_with_tools_of_the_server_are_never_stored() {
        let base = json!({"model": "m", "temperature": 0});
        assert_eq!(
            Endpoint::Messages.judge(&base),
            Cacheability::Repeatable { ttl: DAY }
        );
        for tools in [
            json!([{"name": "f", "input_schema": {}}]),
            json!([{"type": "custom"}]),
            json!([{"type": "bash_20250124"}]),
        ] {
            let mut body = base.clone();
            body["tools"] = tools;
            assert!(!is_never(Endpoint::Messages, &body), "{body}");
        }
        for (member, value) in [
            ("tools", json!([{"type": "web_search_20250305"}])),
            ("tools", json!([{"type": "code_execution_20250522"}])),
            ("mcp_servers", json!([{"url": "https://a.example"}])),
            ("container", json!("container_1")),
            (
                "messages",
                json!([{"content": [{"type": "image", "source": {"type": "url", "url": "https://a.example"}}]}]),
            ),
            (
                "messages",
                json!([{"content": [{"type": "document", "source": {"type": "file", "file_id": "file_1"}}]}]),
            ),
        ] {
            let mut body = base.clone();
            body[member] = value;
            assert!(is_never(Endpoint::Messages, &body), "{body}");
        }
        // Data of the client's tools.
        let mut history = base.clone();
        history["messages"] = json!([{"role": "assistant", "content": [
            {"type": "tool_use", "id": "t", "name": "f", "input": {"url": "https://a.example"}}]}]);
        assert!(!is_never(Endpoint::Messages, &history));
        assert_eq!(
            Endpoint::CountTokens.judge(&json!({"model": "m"})),
            Cacheability::Repeatable { ttl: DAY }
        );
    }

    #[test]
    fn endpoints_are_found_by_method_and_path() {
        let found = |method: Method, path: &str| Endpoint::find(&method, path);
        assert_eq!(found(Method::GET, "/v1/models"), Endpoint::Models);
        assert_eq!(
            found(Method::GET, "/v1/models/ft:gpt-4o-mini:acme::abc"),
            Endpoint::Models
        );
        for (method, path) in [
            (Method::DELETE, "/v1/models/x"),
            (Method::GET, "/v1/models/"),
            (Method::GET, "/v1beta/models/veo-3/operations/xyz"),
            (Method::GET, "/v1/chat/completions"),
            (Method::POST, "/v1/chat/completions/"),
        ] {
            assert_eq!(found(method, path), Endpoint::Other, "{path}");
        }
        let embeddings = |body: Value| Endpoint::Embeddings.judge(&body);
        let day = Cacheability::Repeatable { ttl: DAY };
        assert_eq!(
            embeddings(json!({"model": "m", "input": "https://a.example"})),
            day
        );
        assert!(is_never(
            Endpoint::Embeddings,
            &json!({"input": [{"image": "https://a.example"}]})
        ));
        assert!(is_never(Endpoint::Embeddings, &json!({"unknown": 1})));
    }

    #[test]
    fn gemini_is_judged_by_its_generation_config() {
        let fixed = json!({"generationConfig": {"temperature": 0}});
        assert_eq!(
            Endpoint::Gemini.judge(&fixed),
            Cacheability::Repeatable { ttl: DAY }
        );
        assert_eq!(Endpoint::Gemini.judge(&json!({})), Cacheability::Sampled);
        for body in [
            json!({"tools": [{"googleSearch": {}}]}),
            json!({"tools": {"googleSearch": {}}}),
            json!({"generationConfig": {"temperature": 0, "candidateCount": "2"}}),
            json!({"unknown": 1}),
            json!({"tools": [{"functionDeclarations": []}, {"codeExecution": {}}]}),
            json!({"cachedContent": "cachedContents/1"}),
            json!({"contents": [{"parts": [{"fileData": {"fileUri": "https://a.example"}}]}]}),
            json!({"systemInstruction": {"parts": [{"fileData": {"fileUri": "https://a.example"}}]}}),
            json!({"generationConfig": {"temperature": 0}, "generation_config": {}}),
        ] {
            assert!(is_never(Endpoint::Gemini, &body), "{body}");
        }
    }
}
