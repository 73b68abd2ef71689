//! Endpoints, and whether the answer to a request may be stored.

mod charges;
mod conversation;
mod judging;
mod members;
#[cfg(test)]
mod named;
mod objects;
mod stored;
mod tool_calls;
mod tools;

use std::time::Duration;

use cachalot_model::Format;
use cachalot_model::wire::shared_members;
use cachalot_model::wire::{self, ApiEndpoint, Members, Operation, SharedMembers, Wire};
use http::Method;
use serde_json::{Map, Value};

pub(crate) use members::find_member;
use tools::server_tool;

/// The name of a cache marker.
pub(crate) const MARKER_NAME: &str = "cache_control";

/// A JSON object.
type Object = Map<String, Value>;

/// The reason why the maximum cost of a request is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnknownCost(pub(crate) String);

/// The time for which an answer is served, unless the client asks for less.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The same for a list of models.
const MODELS: Duration = Duration::from_secs(5 * 60);

/// An endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    /// An endpoint with requests of a format.
    Api(Format, &'static ApiEndpoint),
    /// List of models, or one model.
    Models,
    /// Any other path, which is passed on unchanged.
    Other,
}

/// Where the answer to a request would be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// For everyone with the same credentials.
    Anywhere,
    /// In a run, whose requests follow each other as they did when it was recorded.
    Run,
    /// Nowhere: whoever asks has got the earlier answers that the request names.
    Account,
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
    /// The provider keeps the answer, or the request names what it kept of an earlier one: within one run, the same
    /// request has the same answer. Elsewhere not, for this reason.
    InRun(String),
    /// The answer depends on more than the request, and why.
    Never(String),
}

impl Cacheability {
    /// The name for the debug log: reasons name what the client has sent.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Repeatable { .. } => "repeatable",
            Self::Sampled => "sampled",
            Self::InRun(_) => "stored in runs",
            Self::Never(_) => "never stored",
        }
    }
}

impl Endpoint {
    /// Finds the endpoint by method and path.
    pub(crate) fn find(method: &Method, path: &str) -> Self {
        // The list, or one model; what lies below a model is something else, for example an operation in progress.
        let is_model = |rest: &str| match rest.strip_prefix('/') {
            Some(model) => !model.is_empty() && !model.contains('/'),
            None => rest.is_empty(),
        };
        let mut lists = ["/v1/models", "/v1beta/models"].iter();
        match *method {
            Method::POST => {
                let found = wire::endpoints().find(|(_, endpoint)| endpoint.has(path));
                found.map_or(Self::Other, |(format, endpoint)| {
                    Self::Api(format, endpoint)
                })
            }
            Method::GET if lists.any(|list| path.strip_prefix(list).is_some_and(is_model)) => {
                Self::Models
            }
            _ => Self::Other,
        }
    }

    /// Returns the endpoint of a name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let of_apis = wire::endpoints().map(|(format, endpoint)| Self::Api(format, endpoint));
        let mut all = of_apis.chain([Self::Models, Self::Other]);
        all.find(|endpoint| endpoint.name() == name)
    }

    /// The name in handles, statistics and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Api(_, endpoint) => &endpoint.name,
            Self::Models => "models",
            Self::Other => "other",
        }
    }

    /// The result that its requests ask for; `None` if their bodies are not read.
    pub(crate) fn operation(self) -> Option<Operation> {
        match self {
            Self::Api(_, endpoint) => Some(endpoint.operation),
            Self::Models | Self::Other => None,
        }
    }

    /// The implementation of the format of its requests.
    pub(crate) fn wire(self) -> Option<&'static dyn Wire> {
        match self {
            Self::Api(format, _) => Some(wire::for_format(format)),
            Self::Models | Self::Other => None,
        }
    }

    /// The format of the answers of a model; `None` if no model answers.
    pub(crate) fn format(self) -> Option<Format> {
        match self {
            Self::Api(format, endpoint) if endpoint.operation == Operation::Answer => Some(format),
            _ => None,
        }
    }

    /// True if requests have a JSON body.
    pub(crate) fn has_body(self) -> bool {
        self.operation().is_some()
    }

    /// Returns true if requests cost nothing, as far as they are read.
    pub(crate) fn is_free(self) -> bool {
        matches!(self.operation(), None | Some(Operation::CountTokens))
    }

    /// Returns true if the request asks for a stream of events.
    pub(crate) fn is_streamed(self, path: &str, query: Option<&str>, body: &Value) -> bool {
        let wire = self.wire();
        wire.is_some_and(|wire| wire.asks_for_stream(path, query, body))
    }

    /// Returns the model of the request, for reports and prices.
    pub(crate) fn model(self, path: &str, body: &Value) -> String {
        let named = self
            .wire()
            .and_then(|wire| wire.requested_model(path, body));
        named.unwrap_or_default().to_owned()
    }

    /// Returns the number of answers that the request asks for.
    ///
    /// # Errors
    /// The number is none that all servers read in the same way.
    pub(crate) fn answers(self, body: &Value) -> Result<u64, UnknownCost> {
        let mut maximum = 1;
        for count in self.parameters(body, |members| members.answers.as_slice()) {
            let count = count
                .as_u64()
                .filter(|count| (1..=MAX_ANSWERS).contains(count));
            maximum = maximum.max(count.ok_or_else(|| {
                UnknownCost(format!(
                    "the number of answers is none from 1 to {MAX_ANSWERS}"
                ))
            })?);
        }
        Ok(maximum)
    }

    /// Returns the maximum number of output tokens for each answer, if the request limits it: the largest of its limits.
    /// One that is no whole number limits nothing, because servers read it in different ways.
    pub(crate) fn max_output(self, body: &Value) -> Option<u64> {
        let limits = self.parameters(body, |members| &members.max_output);
        let limits = limits.into_iter().map(Value::as_u64);
        limits.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Returns the values of parameters of the generation of an answer that are not null.
    fn parameters(
        self,
        body: &Value,
        names: impl FnOnce(&'static Members) -> &'static [String],
    ) -> Vec<&Value> {
        let members = self.answer_members();
        let parameters =
            members.and_then(|members| Some((members, members.generation(body.as_object()?)?)));
        let Some((members, parameters)) = parameters else {
            return Vec::new();
        };
        let values = names(members)
            .iter()
            .flat_map(|name| members.values(parameters, name));
        values.filter(|value| !value.is_null()).collect()
    }

    /// Returns the declared table of members; `None` if requests have no body that is read.
    pub(crate) fn members(self) -> Option<&'static Members> {
        match self {
            Self::Api(format, endpoint) if endpoint.operation == Operation::Embed => {
                Some(shared_members::embeddings(format))
            }
            Self::Api(..) => self.wire().map(|wire| wire.members()),
            Self::Models | Self::Other => None,
        }
    }

    /// Returns the declared table of members, if a model answers.
    pub(crate) fn answer_members(self) -> Option<&'static Members> {
        self.format()
            .map(|format| wire::for_format(format).members())
    }

    /// Returns true if a model answers, and the table of its requests has a member.
    pub(crate) fn takes(self, member: &str) -> bool {
        let members = self.answer_members();
        members.is_some_and(|members| members.declares(member))
    }

    /// Returns true if a member of the body selects the form of an answer only.
    pub(crate) fn selects_form_by(self, member: &str) -> bool {
        let members = self.answer_members().into_iter();
        let mut names = members.flat_map(Members::form_members);
        names.any(|name| name == member)
    }

    /// Judges a request. `accepted` are members at the top of the body that the operator knows to be harmless, although
    /// no table declares them; `object_reference` returns what [`Endpoint::object_reference`] does.
    pub(crate) fn judge(
        self,
        body: &Value,
        accepted: &[String],
        mut object_reference: impl FnMut() -> Option<String>,
    ) -> Cacheability {
        let (Some(operation), Some(members)) = (self.operation(), self.members()) else {
            return match self {
                Self::Models => Cacheability::Repeatable { ttl: MODELS },
                _ => Cacheability::Never("the endpoint is passed through".into()),
            };
        };
        // Also a body with a number that has no value here, whose members cannot be judged.
        let Some(object) = body.as_object() else {
            return Cacheability::Never("the body cannot be judged".into());
        };
        let refuse = |setting: Setting, object_reference: &mut dyn FnMut() -> Option<String>| {
            judging::state(members, object)
                .or_else(|| judging::form(operation, members, object, setting))
                .or_else(|| self.lookup(members, object, accepted, setting))
                .or_else(|| judging::unknown_type(self, members, object, setting))
                .or_else(|| judging::remote(self, members, object))
                .or_else(|| {
                    let role = judging::unknown_role(members, object)?;
                    Some(format!("the role `{role}` is not known to this version"))
                })
                .or_else(|| {
                    let name = object_reference()?;
                    Some(format!("`{name}` refers to an object at the provider"))
                })
        };
        let refusal = refuse(Setting::Anywhere, &mut object_reference);
        let may_run = || {
            let mut in_run = || self.object_reference(body, Setting::Run);
            refuse(Setting::Run, &mut in_run).is_none()
        };
        match (refusal, operation) {
            (Some(reason), Operation::Answer) if may_run() => Cacheability::InRun(reason),
            (Some(reason), _) => Cacheability::Never(reason),
            // Neither vectors nor counts are sampled.
            (None, Operation::Embed | Operation::CountTokens) => {
                Cacheability::Repeatable { ttl: DAY }
            }
            (None, Operation::Answer | Operation::Compact) => {
                if members.generation(object).is_some_and(is_fixed) {
                    Cacheability::Repeatable { ttl: DAY }
                } else {
                    Cacheability::Sampled
                }
            }
        }
    }

    /// Returns true if nothing in a body gives a reason against storing an answer in any setting, or names an object at the
    /// provider. The body is a part of one: what it lacks is no reason.
    pub(crate) fn is_unremarkable(self, part: &Value) -> bool {
        let (Some(members), Some(object)) = (self.members(), part.as_object()) else {
            return false;
        };
        judging::state(members, object)
            .or_else(|| self.lookup(members, object, &[], Setting::Anywhere))
            .or_else(|| judging::unknown_type(self, members, object, Setting::Anywhere))
            .or_else(|| judging::remote(self, members, object))
            .or_else(|| judging::unknown_role(members, object).map(str::to_owned))
            .or_else(|| self.object_reference(part, Setting::Anywhere))
            .is_none()
    }

    /// Returns the reason why the provider may look something up, or run a tool: a member that is not known, a tool of
    /// the provider, a model that searches.
    fn lookup(
        self,
        members: &Members,
        body: &Object,
        accepted: &[String],
        setting: Setting,
    ) -> Option<String> {
        let asks_model = matches!(
            self.operation(),
            Some(Operation::Answer | Operation::Compact)
        );
        let model = body.get("model").and_then(Value::as_str);
        let model = model.filter(|_| asks_model).map(str::to_ascii_lowercase);
        let searches = |part: &&String| {
            let model = model.as_ref();
            model.is_some_and(|model| model.contains(part.as_str()))
        };
        let mut searching = SharedMembers::built_in().searching_models.iter();
        if let Some(part) = searching.find(searches) {
            return Some(format!(
                "a model with `{part}` in its name looks something up"
            ));
        }
        judging::unknown(members, body, accepted)
            .or_else(|| server_tool(self, members, body, setting))
    }
}

/// Maximum number of answers to one request.
const MAX_ANSWERS: u64 = 128;

/// Returns true if the member exists and is neither null nor false.
fn is_set(body: &Object, member: &str) -> bool {
    body.get(member).is_some_and(is_given)
}

/// Returns true for a value that is neither null nor false.
fn is_given(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

/// Returns true if sampling is fixed: by a temperature of zero, or by a seed. A negative seed asks some servers for a
/// random one.
fn is_fixed(parameters: &Object) -> bool {
    let is_zero = |number: &Value| number.as_f64() == Some(0.0);
    let is_seed = |number: &Value| number.as_u64().is_some();
    parameters.get("temperature").is_some_and(is_zero)
        || parameters.get("seed").is_some_and(is_seed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    /// True if the answer is not stored outside a run.
    fn is_never(endpoint: Endpoint, body: &Value) -> bool {
        let judged = endpoint.judged(body, &[]);
        matches!(judged, Cacheability::Never(_) | Cacheability::InRun(_))
    }

    /// Requests: `d` for an answer that is stored for a day, `s` for a sampled one, `r` for one that is stored in a run, `n` for one that is never stored; the
    /// endpoint and the body.
    const REQUESTS: &str = r#"
d chat {"model": "m", "temperature": 0}
d chat {"model": "m", "temperature": 0.0, "tools": [{"type": "function", "function": {"name": "f"}}]}
d chat {"model": "m", "seed": 7}
d chat {"model": "m", "seed": 7, "store": false}
d chat {"model": "m", "seed": 7, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]}
s chat {"model": "m"}
s chat {"model": "m", "temperature": 0.1}
s chat {"model": "m", "temperature": "0"}
s chat {"model": "m", "seed": null}
s chat {"model": "m", "seed": -1}
n chat {"seed": 1, "web_search_options": {}}
n chat {"seed": 1, "store": true}
n chat {"seed": 1, "n": 2}
n chat {"seed": 1, "modalities": ["text", "audio"], "audio": {"voice": "alloy"}}
n chat {"seed": 1, "messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}
n chat {"seed": 1, "model": "gpt-4o-search-preview"}
n chat {"seed": 1, "tools": [{"type": "web_search"}]}
n chat {"seed": 1, "tools": [{"google_search": {}}]}
n chat {"seed": 1, "tools": {"type": "function"}}
n chat {"seed": 1, "stream": 1}
n chat {"seed": 1, "model": "gpt-4o:online"}
n chat {"seed": 1, "model": "groq/compound"}
n chat {"seed": 1, "search_parameters": {"mode": "auto"}}
n chat {"seed": 1, "plugins": [{"id": "web"}]}
n chat {"seed": 1, "data_sources": []}
n chat {"seed": 1, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "https://a.example/b.png"}]}]}
n chat {"seed": 1, "messages": [{"role": "user", "content": [{"type": "document_url", "document_url": "https://a.example/b.pdf"}]}]}
n chat {"seed": 1, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]}]}
n chat {"seed": 1, "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}
d responses {"model": "m", "store": false, "temperature": 0}
n responses {"model": "m", "store": true, "temperature": 0}
r responses {"model": "m", "store": null, "temperature": 0}
r responses {"model": "m"}
r responses {"model": "m", "input": [{"type": "reasoning", "id": "rs_1", "summary": []}, {"type": "item_reference", "id": "msg_1"}]}
n responses {"model": "m", "previous_response_id": "resp_1"}
n responses {"model": "m", "conversation": "conv_1"}
n responses {"model": "m", "background": true}
r responses {"model": "m", "tools": [{"type": "web_search"}, {"type": "function", "name": "f"}]}
n responses {"model": "m", "tools": [{"type": "web_search_of_tomorrow"}]}
n responses {"model": "m", "tools": [{"type": "mcp"}]}
n responses {"model": "m", "input": [{"type": "file_search_call", "id": "fs_1"}]}
n responses {"model": "m", "input": [{"content": [{"type": "input_file", "file_id": "file-1"}]}]}
n responses {"model": "m", "store": false, "temperature": 0, "previous_response_id": "resp_1"}
n responses {"model": "m", "store": false, "temperature": 0, "conversation": "conv_1"}
n responses {"model": "m", "store": false, "temperature": 0, "background": true}
n responses {"model": "m", "store": false, "temperature": 0, "prompt": {"id": "pmpt_1"}}
r responses {"model": "m", "store": false, "temperature": 0, "tools": [{"type": "web_search"}]}
n responses {"model": "m", "store": false, "temperature": 0, "tools": [{"type": "mcp"}]}
r responses {"model": "m", "store": false, "temperature": 0, "input": [{"type": "item_reference", "id": "x"}]}
r responses {"model": "m", "store": false, "temperature": 0, "input": [{"id": "msg_123"}]}
n responses {"model": "m", "store": false, "temperature": 0, "unknown": 1}
n responses {"model": "m", "store": false, "temperature": 0, "input": [{"content": [{"type": "input_image", "image_url": "https://a.example"}]}]}
n responses {"model": "m", "store": false, "temperature": 0, "input": [{"content": [{"type": "input_file", "file_id": "file-1"}]}]}
d messages {"model": "m", "temperature": 0}
d messages {"model": "m", "temperature": 0, "tools": [{"name": "f", "input_schema": {}}]}
d messages {"model": "m", "temperature": 0, "tools": [{"type": "custom"}]}
d messages {"model": "m", "temperature": 0, "tools": [{"type": "bash_20250124"}]}
r messages {"model": "m", "temperature": 0, "tools": [{"type": "web_search_20250305"}]}
n messages {"model": "m", "temperature": 0, "tools": [{"type": "code_execution_20250522"}]}
n messages {"model": "m", "temperature": 0, "mcp_servers": [{"url": "https://a.example"}]}
n messages {"model": "m", "temperature": 0, "container": "container_1"}
n messages {"model": "m", "temperature": 0, "messages": [{"content": [{"type": "image", "source": {"type": "url", "url": "https://a.example"}}]}]}
n messages {"model": "m", "temperature": 0, "messages": [{"content": [{"type": "document", "source": {"type": "file", "file_id": "file_1"}}]}]}
d messages {"model": "m", "temperature": 0, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"url": "https://a.example"}}]}]}
d count_tokens {"model": "m"}
d gemini {"generationConfig": {"temperature": 0}}
s gemini {}
n gemini {"tools": [{"googleSearch": {}}]}
n gemini {"tools": {"googleSearch": {}}}
n gemini {"generationConfig": {"temperature": 0, "candidateCount": "2"}}
n gemini {"unknown": 1}
n gemini {"tools": [{"functionDeclarations": []}, {"codeExecution": {}}]}
n gemini {"cachedContent": "cachedContents/1"}
n gemini {"contents": [{"parts": [{"fileData": {"fileUri": "https://a.example"}}]}]}
n gemini {"systemInstruction": {"parts": [{"fileData": {"fileUri": "https://a.example"}}]}}
n gemini {"generationConfig": {"temperature": 0}, "generation_config": {}}
d interactions {"model": "m", "store": false, "input": "x", "generation_config": {"temperature": 0}}
d interactions {"model": "m", "store": false, "input": "x", "generation_config": {"seed": 1}}
s interactions {"model": "m", "store": false, "input": "x"}
r interactions {"model": "m", "input": "x"}
n interactions {"model": "m", "store": false, "input": "x", "agent": "deep-research"}
n interactions {"model": "m", "store": false, "input": "x", "stream": "yes"}
d embeddings {"model": "m", "input": "https://a.example"}
n embeddings {"input": [{"image": "https://a.example"}]}
n embeddings {"unknown": 1}
"#;

    #[test]
    fn requests_are_judged_by_sampling_tools_and_state() {
        for line in REQUESTS.trim().lines() {
            let mut columns = line.splitn(3, ' ');
            let mut column = || columns.next().unwrap();
            let (expected, endpoint) = (column(), Endpoint::of_name(column()).unwrap());
            let body = serde_json::from_str(column()).unwrap();
            let found = match endpoint.judged(&body, &[]) {
                Cacheability::Repeatable { ttl } if ttl == DAY => "d",
                Cacheability::Sampled => "s",
                Cacheability::InRun(_) => "r",
                _ => "n",
            };
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn tools_of_the_provider_are_found_wherever_the_api_takes_them() {
        let function = json!({"type": "function", "name": "f", "parameters": {"type": "object", "properties": {
            "tools": {"type": "array"}, "tool": {"type": "object"}}}});
        let responses = |input: Value| json!({"store": false, "temperature": 0, "input": input});
        let items = |tool: &Value| {
            let user = json!({"role": "user", "content": "x"});
            let namespace = json!({"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": [tool]}]});
            [
                responses(
                    json!([{"type": "additional_tools", "role": "developer", "tools": [tool]}, user]),
                ),
                responses(
                    json!([{"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [tool]}, user]),
                ),
                responses(json!([{"type": "additional_tools", "tools": [namespace]}, user])),
                json!({"store": false, "temperature": 0, "input": "x", "tools": [namespace]}),
            ]
        };
        for body in items(&function) {
            let lookup = json!({"type": "tool_search", "execution": "client"});
            assert!(!is_never(Endpoint::responses(), &body), "{body}");
            let mut searching = body.clone();
            searching["tools"] = json!([lookup]);
            assert!(!is_never(Endpoint::responses(), &searching), "{searching}");
        }
        for tool in [
            json!({"type": "web_search"}),
            json!({"type": "mcp", "server_url": "https://a.example"}),
            json!({"type": "tool_search", "execution": "server"}),
            json!({"type": "tool_search"}),
            json!({"type": "programmatic_tool_calling"}),
            json!({"type": "shell", "environment": {"type": "container_auto"}}),
            json!({"type": "namespace", "name": "n"}),
            json!({"type": "something_new"}),
            json!({"type": ["function"]}),
            json!({}),
            json!("web_search"),
        ] {
            for body in items(&tool) {
                assert!(is_never(Endpoint::responses(), &body), "{body}");
                assert!(
                    Endpoint::responses().extra_charge(&body).is_some(),
                    "{body}"
                );
            }
        }
        for input in [
            json!([{"role": "user", "content": "x"}, {"type": "compaction_trigger"}]),
            json!([{"type": "something_new", "content": "x"}]),
            json!([{"type": "mcp_approval_response", "approve": true}]),
            json!([{"type": "additional_tools", "tools": "all"}]),
        ] {
            assert!(
                is_never(Endpoint::responses(), &responses(input.clone())),
                "{input}"
            );
        }

        let added = |tool: Value| json!({"type": "tool_addition", "tool": tool});
        let definition =
            |tool: Value| added(json!({"type": "tool_definition", "definition": tool}));
        let places = |block: &Value| {
            let user = json!({"role": "user", "content": "x"});
            [
                json!({"temperature": 0, "messages": [user, {"role": "system", "content": [block]}]}),
                json!({"temperature": 0, "messages": [{"role": "user", "content": [block]}]}),
                json!({"temperature": 0, "system": [block], "messages": [user]}),
            ]
        };
        for block in [
            definition(
                json!({"name": "f", "input_schema": {"properties": {"tools": {"type": "array"}}}}),
            ),
            definition(json!({"type": "custom", "name": "f"})),
            added(json!({"type": "tool_reference", "tool_name": "f"})),
            json!({"type": "tool_use", "id": "t", "name": "f", "input": {"tools": [{"type": "web_search"}], "content": [{"type": "x"}]}}),
        ] {
            for body in places(&block) {
                assert!(!is_never(Endpoint::messages(), &body), "{body}");
            }
        }
        for block in [
            definition(json!({"type": "web_search_20260318", "name": "web_search"})),
            definition(json!({"type": "something_new"})),
            added(json!({"type": "tool_definition"})),
            added(json!({"type": "mcp_tool_reference", "server_name": "s"})),
            added(json!({"type": "mcp_toolset_reference", "server_name": "s"})),
            json!({"type": "something_new"}),
            json!({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "something_new"}]}),
        ] {
            for body in places(&block) {
                assert!(is_never(Endpoint::messages(), &body), "{body}");
                assert!(is_never(Endpoint::count_tokens(), &body), "{body}");
            }
        }
        let listed = json!({"temperature": 0, "messages": [], "tools": [{"type": 1, "name": "f"}]});
        assert!(is_never(Endpoint::messages(), &listed));
        let kept = json!({"temperature": 0, "messages": [{"role": "system", "tools": [{"type": "builtin_function"}]}]});
        assert!(is_never(Endpoint::chat(), &kept));
        let kept =
            json!({"contents": [{"parts": [{"text": "x"}], "tools": [{"googleSearch": {}}]}]});
        assert!(is_never(Endpoint::gemini(), &kept));
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
    }
}
