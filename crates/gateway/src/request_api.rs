//! The API that a request belongs to: decided by its path and by its credentials.
//!
//! No credential is sent to a server of another API. A path that one API has decides, and the credentials have to fit:
//! those of other APIs are removed, and a request without any that fits is refused. On a path that several APIs have,
//! the credentials decide. [`decide`] is pure.

use std::sync::Arc;

use http::{Method, Request};

use crate::api::Api;
use crate::credentials::{Credentials, Place, owner_of};
use crate::error_body::ErrorBody;
use crate::upstream::Upstream;

/// The APIs that have a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathApi {
    One(Api),
    Several,
}

/// Paths, with what is below them; the longest one counts. Anything else below `/v1` may belong to several APIs.
///
/// Sources, on 2026-11-28: OpenAI's OpenAPI document and the paths that other servers with its API add to it,
/// Anthropic's API reference, the discovery documents of Google's Generative Language API and of Vertex AI, and the
/// paths in google-genai 3.6.1.
#[rustfmt::skip]
const PATHS: [(PathApi, &[&str]); 4] = [
    (PathApi::One(Api::OpenAi), &[
        "/v1/assistants", "/v1/audio", "/v1/chat", "/v1/chatkit", "/v1/classify", "/v1/completions",
        "/v1/containers", "/v1/conversations", "/v1/embeddings", "/v1/evals", "/v1/fim", "/v1/fine_tuning",
        "/v1/images", "/v1/moderations", "/v1/ocr", "/v1/organization", "/v1/realtime", "/v1/rerank",
        "/v1/responses", "/v1/score", "/v1/threads", "/v1/uploads", "/v1/vector_stores", "/v1/videos",
    ]),
    (PathApi::One(Api::Anthropic), &["/v1/complete", "/v1/messages", "/v1/organizations"]),
    (PathApi::One(Api::Gemini), &[
        "/upload", "/v1/auth_tokens", "/v1/batchPredictionJobs", "/v1/cachedContents", "/v1/corpora",
        "/v1/fileSearchStores", "/v1/generatedFiles", "/v1/interactions", "/v1/operations", "/v1/projects",
        "/v1/publishers", "/v1/tunedModels", "/v1/tuningJobs", "/v1alpha", "/v1beta", "/v1beta1",
        "/ws",
    ]),
    (PathApi::Several, &["/v1"]),
];

/// Returns the APIs that have a path; `None` if it belongs to no known one.
pub(crate) fn of_path(method: &Method, path: &str) -> Option<PathApi> {
    let is_below = |folder: &str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']))
    };
    // Names of OpenAI's models contain colons, too; their methods are none of these.
    if method == Method::POST && is_below("/v1/models") && path.contains(':') {
        return Some(PathApi::One(Api::Gemini));
    }
    let rows = PATHS.iter();
    let rows = rows.flat_map(|(apis, folders)| folders.iter().map(move |folder| (folder, *apis)));
    let matching = rows.filter(|(folder, _)| is_below(folder));
    let longest = matching.max_by_key(|(folder, _)| folder.len());
    longest.map(|(_, apis)| apis)
}

/// The target of a request, as far as it says which API is meant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) method: &'a Method,
    /// The upstream that the client names.
    pub(crate) named: Option<&'a str>,
    /// The provider's own path.
    pub(crate) path: &'a str,
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    /// The API of the request.
    pub(crate) api: Api,
    /// Names of the upstreams that may get its credentials.
    upstreams: Vec<String>,
    /// Credentials that these must not get.
    removed: Vec<Place>,
}

/// The reason why a request is sent to no upstream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "there is no upstream `{0}`; start the gateway with --upstream {0}=URL, or declare it in its file"
    )]
    UnknownUpstream(String),
    /// All credentials belong to other APIs.
    #[error(
        "{credentials}, and {server}: the request was not sent. Send a credential of that API, or name another server in the path (/u/NAME/…)"
    )]
    OtherApi { credentials: String, server: String },
    /// Several APIs have the path.
    #[error(
        "several APIs have this path, and {reason}: the request was not sent. Name the server in the path (/u/NAME{path})"
    )]
    Unclear { reason: String, path: String },
}

impl From<Refusal> for ErrorBody {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::UnknownUpstream(_) => Self::not_found("unknown_upstream", message),
            Refusal::OtherApi { .. } => Self::forbidden("credential_of_another_api", message),
            Refusal::Unclear { .. } => Self::bad_request("unclear_api", message),
        }
    }
}

/// Decides which API a request belongs to, which upstreams may get it, and which of its credentials they must not get.
/// `is_open` is true for upstreams that requests without a name reach.
///
/// # Errors
/// The reason why no upstream may get it.
pub(crate) fn decide(
    target: Target<'_>,
    credentials: &Credentials,
    upstreams: &[Arc<Upstream>],
    is_open: impl Fn(&Upstream) -> bool,
) -> Result<Decision, Refusal> {
    let Target {
        method,
        named,
        path,
    } = target;
    let of_path = match of_path(method, path) {
        Some(PathApi::One(api)) => Some(api),
        Some(PathApi::Several) | None => None,
    };
    let (api, api_of_servers, mut servers) = match named {
        Some(name) => {
            let server = upstreams.iter().find(|upstream| upstream.name() == name);
            let server = server.ok_or_else(|| Refusal::UnknownUpstream(name.to_owned()))?;
            let by_credentials = || match credentials.named_apis(path).as_slice() {
                [api] => Some(*api),
                _ => None,
            };
            let api = if server.is_api_declared {
                server.api
            } else {
                of_path.or_else(by_credentials).unwrap_or(server.api)
            };
            (of_path.unwrap_or(api), api, vec![server])
        }
        None => {
            let open: Vec<_> = upstreams
                .iter()
                .filter(|upstream| is_open(upstream))
                .collect();
            let is_closed = open.is_empty();
            let open: Vec<_> = if is_closed {
                upstreams.iter().collect()
            } else {
                open
            };
            let api = match of_path {
                Some(api) => api,
                None => match of_credentials(credentials, &open, path) {
                    // No upstream takes the request in any API: the check of each one gives the reason.
                    Err(_) if is_closed => {
                        return Ok(Decision {
                            api: Api::OpenAi,
                            upstreams: upstreams
                                .iter()
                                .map(|upstream| upstream.name().to_owned())
                                .collect(),
                            removed: credentials.places().collect(),
                        });
                    }
                    api => api?,
                },
            };
            let all = upstreams.iter().filter(|upstream| upstream.api == api);
            let open: Vec<_> = open
                .into_iter()
                .filter(|upstream| upstream.api == api)
                .collect();
            let servers = if open.is_empty() { all.collect() } else { open };
            (api, api, servers)
        }
    };
    let names = |servers: &[&Arc<Upstream>]| {
        servers
            .iter()
            .map(|server| server.name().to_owned())
            .collect()
    };
    // The credential of the operator replaces the client's key, so no credential of the client has to fit.
    if credentials.is_of_gateway {
        return Ok(Decision {
            api,
            upstreams: names(&servers),
            removed: Vec::new(),
        });
    }
    // The servers that may get the most of them: a header of Azure selects a server of Azure.
    let fitting = |server: &Upstream| credentials.fitting(server, api_of_servers, path);
    let best = servers.iter().map(|server| fitting(server));
    let best = best.reduce(|best, next| if next.len() > best.len() { next } else { best });
    let best = best.unwrap_or_default();
    let mut keys = credentials.keys_of_apis().peekable();
    if let Some(first) = servers.first()
        && keys.peek().is_some()
        && !keys.any(|place| best.contains(&place))
    {
        return Err(other_api(credentials, named, api_of_servers, first));
    }
    // The servers that stay may get the same credentials, so those to remove are the same for each of them.
    servers.retain(|server| fitting(server) == best);
    let removed = credentials.places().filter(|place| !best.contains(place));
    Ok(Decision {
        api,
        upstreams: names(&servers),
        removed: removed.collect(),
    })
}

/// Returns the API of a request on a path that several APIs have.
fn of_credentials(
    credentials: &Credentials,
    open: &[&Arc<Upstream>],
    path: &str,
) -> Result<Api, Refusal> {
    let unclear = |reason: String| Refusal::Unclear {
        reason,
        path: path.to_owned(),
    };
    let named = credentials.named_apis(path);
    let is_one = open.windows(2).all(|pair| pair[0].api == pair[1].api);
    let only = open.first().map(|upstream| upstream.api).filter(|_| is_one);
    match (named.as_slice(), only) {
        ([api], _) => Ok(*api),
        ([], Some(api)) => Ok(api),
        // No credential is sent.
        ([], None) if credentials.is_of_gateway || credentials.places().next().is_none() => {
            Ok(Api::OpenAi)
        }
        ([], None) => Err(unclear(
            "the credentials do not say which one is meant".to_owned(),
        )),
        (several, _) => {
            let providers: Vec<&str> = several.iter().map(|api| api.provider()).collect();
            let providers = providers.join(" and of ");
            Err(unclear(format!(
                "the request has credentials of {providers}"
            )))
        }
    }
}

fn other_api(
    credentials: &Credentials,
    named: Option<&str>,
    api: Api,
    upstream: &Upstream,
) -> Refusal {
    let owners = credentials.keys_of_apis().map(|place| {
        let owner = credentials.owner(place, api);
        match place {
            Place::Header(name) => format!("`{name}` is a credential of {owner}"),
            Place::Parameter(name) => format!("the parameter `{name}` is a credential of {owner}"),
        }
    });
    let owners: Vec<String> = owners.collect();
    let server = upstream.name();
    let owner = owner_of(upstream.host()).unwrap_or(api.provider());
    Refusal::OtherApi {
        credentials: owners.join(", "),
        server: match named {
            _ if owner != api.provider() => format!("`{server}` is a server of {owner}"),
            Some(_) => format!(
                "the upstream `{server}` is asked in the API of {}",
                api.provider()
            ),
            None => format!(
                "the path leads to `{server}`, in the API of {}",
                api.provider()
            ),
        },
    }
}

impl Decision {
    /// Returns true if the upstream may get the request.
    pub(crate) fn permits(&self, upstream: &Upstream) -> bool {
        self.upstreams.iter().any(|name| name == upstream.name())
    }

    /// Removes the credentials that the upstreams must not get.
    pub(crate) fn remove_others<B>(&self, request: &mut Request<B>) {
        for place in &self.removed {
            place.clear(request);
        }
    }

    /// Returns true if none of the credentials is one that is removed.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn has_removed_all_of(&self, credentials: &Credentials) -> bool {
        let mut places = credentials.places();
        places.all(|place| !self.removed.contains(&place))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::{HeaderMap, Uri};

    use super::*;

    /// Decides about a request to the built-in upstreams.
    fn decided(target: &str, headers: &[(&'static str, &str)]) -> Result<Decision, Refusal> {
        let mut upstreams = Upstream::built_in();
        upstreams.push(Upstream::new("azure", "https://r.openai.azure.com/openai/v1").unwrap());
        upstreams.push(Upstream::new("further", "https://a.example/v1").unwrap());
        upstreams.push(Upstream::new("eu", "https://eu.api.openai.com/v1").unwrap());
        upstreams.push(Upstream::new("vertex", "https://aiplatform.googleapis.com").unwrap());
        upstreams.push(Upstream::new("machine", "https://a.cloudapp.azure.com/v1").unwrap());
        decided_among(upstreams, target, headers, |upstream| upstream.weight > 0)
    }

    fn decided_among(
        upstreams: Vec<Upstream>,
        target: &str,
        headers: &[(&'static str, &str)],
        is_open: impl Fn(&Upstream) -> bool,
    ) -> Result<Decision, Refusal> {
        let uri: Uri = target.parse().unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let upstreams: Vec<Arc<Upstream>> = upstreams.into_iter().map(Arc::new).collect();
        let (named, path) = match uri.path().strip_prefix("/u/") {
            Some(rest) => rest.split_at(rest.find('/').unwrap()),
            None => ("", uri.path()),
        };
        let target = Target {
            method: &Method::POST,
            named: Some(named).filter(|name| !name.is_empty()),
            path,
        };
        let credentials = Credentials::read(&map, uri.query());
        decide(target, &credentials, &upstreams, is_open)
    }

    #[test]
    fn keys_of_another_provider_are_not_sent_to_a_provider() {
        let sent = |target: &str, key: &str| {
            let decision = decided(target, &[("authorization", &format!("Bearer {key}"))]);
            decision.map(|decision| decision.upstreams.concat()).ok()
        };
        const CHAT: &str = "/v1/chat/completions";
        assert_eq!(sent(CHAT, "sk-1").as_deref(), Some("openai"));
        assert_eq!(sent(CHAT, "token").as_deref(), Some("openai"));
        for key in ["sk-ant-1", "AIza1", "AQ.1", "sk-or-1", "gsk_1", "xai-1"] {
            assert_eq!(sent(CHAT, key), None, "{key}");
            let further = sent("/u/further/v1/chat/completions", key);
            assert_eq!(further.as_deref(), Some("further"), "{key}");
        }
        assert_eq!(
            sent("/v1/messages", "sk-ant-1").as_deref(),
            Some("anthropic")
        );
        assert_eq!(sent("/v1/messages", "sk-1"), None);
        assert!(decided(CHAT, &[("authorization", "Bearer\tsk-ant-1")]).is_err());
        assert_eq!(
            sent("/v1beta/openai/chat/completions", "AIza1").as_deref(),
            Some("gemini")
        );
    }

    #[test]
    fn further_servers_of_a_provider_get_its_credentials_only() {
        let refused = |target: &str, headers: &[(&'static str, &str)]| {
            let decision = decided(target, headers);
            matches!(decision, Err(Refusal::OtherApi { .. }))
        };
        let token = ("authorization", "Bearer token");
        let version = ("anthropic-version", "1");
        let (x_api_key, google) = (("x-api-key", "one"), ("x-goog-api-key", "one"));
        for (target, headers) in [
            ("/u/eu/v1/messages", &[x_api_key][..]),
            ("/u/eu/v1/models", &[x_api_key]),
            ("/u/eu/v1/models", &[google]),
            ("/u/eu/v1/models?key=one", &[]),
            ("/u/eu/v1/models", &[token, version]),
            ("/u/eu/v1/messages", &[token, version]),
            (
                "/u/eu/v1/projects/p/publishers/anthropic/models/c:rawPredict",
                &[token, version],
            ),
            ("/u/vertex/v1/messages", &[x_api_key]),
            ("/u/vertex/v1/messages", &[token, version]),
        ] {
            assert!(refused(target, headers), "{target} {headers:?}");
        }
        for (target, headers) in [
            ("/u/eu/v1/models", &[token][..]),
            ("/u/eu/v1/chat/completions", &[token]),
            ("/u/vertex/v1/models", &[google]),
            (
                "/u/vertex/v1/projects/p/publishers/anthropic/models/c:rawPredict",
                &[token, version],
            ),
        ] {
            let removed = decided(target, headers).map(|decision| decision.removed);
            assert_eq!(removed, Ok(vec![]), "{target} {headers:?}");
        }
        let message = decided("/u/eu/v1/messages", &[x_api_key]).unwrap_err();
        let expected = "`x-api-key` is a credential of Anthropic, and `eu` is a server of OpenAI";
        assert!(message.to_string().contains(expected), "{message}");
    }

    #[test]
    fn keys_of_providers_are_not_sent_to_azure() {
        let sent = |target: &str, header: (&'static str, &str)| {
            let mut azure = Upstream::new("azure", "https://r.openai.azure.com/openai/v1").unwrap();
            azure.weight = 1;
            let mut upstreams = Upstream::built_in();
            upstreams.push(azure);
            upstreams.push(Upstream::new("machine", "https://a.cloudapp.azure.com/v1").unwrap());
            let decision =
                decided_among(upstreams, target, &[header], |upstream| upstream.weight > 0);
            decision.map(|decision| decision.upstreams).ok()
        };
        const CHAT: &str = "/v1/chat/completions";
        let owned = |names: &[&str]| -> Option<Vec<String>> {
            Some(names.iter().map(|name| (*name).to_owned()).collect())
        };
        let proj = ("authorization", "Bearer sk-proj-1");
        assert_eq!(sent(CHAT, proj), owned(&["openai"]));
        assert_eq!(sent("/u/azure/v1/chat/completions", proj), None);
        assert_eq!(
            sent("/u/machine/v1/chat/completions", proj),
            owned(&["machine"])
        );
        assert_eq!(sent(CHAT, ("api-key", "one")), owned(&["azure"]));
        // A token of Microsoft Entra says nothing.
        let token = ("authorization", "Bearer eyJ0");
        assert_eq!(sent(CHAT, token), owned(&["openai", "azure"]));
    }

    #[test]
    fn keys_in_headers_of_an_api_are_not_sent_to_another_provider() {
        let removed = |target: &str, name: &'static str, key: &str| {
            decided(target, &[(name, key)])
                .map(|decision| decision.removed)
                .ok()
        };
        let sent = Some(vec![]);
        assert_eq!(removed("/v1/messages", "x-api-key", "sk-ant-1"), sent);
        assert_eq!(removed("/v1/messages", "x-api-key", "one"), sent);
        assert_eq!(removed("/v1/messages", "x-api-key", "sk-proj-1"), None);
        assert_eq!(removed("/v1/messages", "x-api-key", "gsk_1"), None);
        assert_eq!(removed("/u/further/v1/messages", "x-api-key", "sk-1"), sent);
        const GENERATE: &str = "/v1beta/models/g:generateContent";
        assert_eq!(removed(GENERATE, "x-goog-api-key", "AIza1"), sent);
        assert_eq!(removed(GENERATE, "x-goog-api-key", "sk-ant-1"), None);
        let message = decided("/v1/messages", &[("x-api-key", "sk-proj-1")]).unwrap_err();
        let expected = "`x-api-key` is a credential of OpenAI";
        assert!(message.to_string().contains(expected), "{message}");
    }

    #[test]
    fn clients_of_openai_are_recognized_without_a_key() {
        let api = |target: &str, headers: &[(&'static str, &str)]| {
            decided(target, headers)
                .map(|decision| (decision.api, decision.removed))
                .ok()
        };
        let token = ("authorization", "Bearer eyJ0");
        let openai = Some((Api::OpenAi, vec![]));
        for sign in [
            ("chatgpt-account-id", "a"),
            ("openai-organization", "o"),
            ("openai-project", "p"),
            ("originator", "codex_cli_rs"),
            ("originator", "Codex Desktop"),
        ] {
            assert_eq!(api("/v1/models", &[token, sign]), openai, "{sign:?}");
        }
        assert_eq!(api("/v1/models?client_version=1", &[token]), openai);
        assert_eq!(api("/v1/files?client_version=1", &[token]), None);
        assert_eq!(api("/v1/models", &[token, ("originator", "co")]), None);
        // Credentials count before them.
        let version = ("anthropic-version", "1");
        let organization = ("openai-organization", "o");
        assert_eq!(
            api(
                "/v1/models?client_version=1",
                &[token, version, organization]
            ),
            Some((Api::Anthropic, vec![]))
        );
    }

    #[test]
    fn closed_upstreams_say_why() {
        let decided = |names: &[&str], target: &str, headers: &[(&'static str, &str)]| {
            let mut upstreams = Upstream::built_in();
            upstreams.retain(|upstream| names.contains(&upstream.name()));
            let decision = decided_among(upstreams, target, headers, |_| false);
            decision.map(|decision| decision.upstreams.concat()).ok()
        };
        let token = ("authorization", "Bearer token");
        let all = ["openai", "anthropic", "gemini"];
        for (names, headers, expected) in [
            (&["anthropic"][..], &[token][..], "anthropic"),
            (&["openai"], &[("cookie", "a=1")], "openai"),
            (&all, &[token], "openaianthropicgemini"),
            (
                &all,
                &[("x-api-key", "one"), ("x-goog-api-key", "one")],
                "openaianthropicgemini",
            ),
        ] {
            let got = decided(names, "/v1/models", headers);
            assert_eq!(got.as_deref(), Some(expected), "{names:?} {headers:?}");
        }
    }

    #[test]
    fn further_servers_are_asked_in_the_api_of_the_request() {
        let x_api_key = ("x-api-key", "one");
        let google = ("x-goog-api-key", "one");
        let api = |target: &str, headers: &[(&'static str, &str)]| {
            decided(target, headers)
                .map(|decision| (decision.api, decision.removed))
                .ok()
        };
        assert_eq!(
            api("/u/further/v1/messages", &[x_api_key]),
            Some((Api::Anthropic, vec![]))
        );
        assert_eq!(
            api("/u/further/v1/models", &[x_api_key]),
            Some((Api::Anthropic, vec![]))
        );
        assert_eq!(
            api("/u/further/v1/models", &[google]),
            Some((Api::Gemini, vec![]))
        );
        assert_eq!(api("/u/further/v1/chat/completions", &[x_api_key]), None);
        let both = [x_api_key, ("authorization", "Bearer token")];
        let removed = vec![Place::Header("x-api-key")];
        assert_eq!(
            api("/u/further/v1/chat/completions", &both),
            Some((Api::OpenAi, removed))
        );
        assert_eq!(
            api("/u/azure/chat/completions", &[("api-key", "one")]),
            Some((Api::OpenAi, vec![]))
        );
        assert_eq!(
            api("/u/further/v1/chat/completions", &[("api-key", "one")]),
            None
        );
        // Vertex AI offers Anthropic's models, whose clients send their version.
        let vertex = "/v1/projects/p/locations/l/publishers/anthropic/models/c:rawPredict";
        let version = [
            ("anthropic-version", "1"),
            ("authorization", "Bearer ya29.1"),
        ];
        assert_eq!(api(vertex, &version), Some((Api::Gemini, vec![])));
        assert_eq!(api("/v1/cachedContents", &version), None);
    }

    #[test]
    fn credentials_of_other_apis_are_removed_in_every_spelling() {
        let target =
            "/v1/chat/completions?a=1&key=one&k%65y=two&b=2;key=three&keys=4&oauth_token=six";
        let mut request = Request::builder()
            .uri(target)
            .header("authorization", "Bearer sk-1")
            .header("x-goog-api-key", "four")
            .header("x-goog-api-key", "five")
            .body(())
            .unwrap();
        let headers = [("authorization", "Bearer sk-1"), ("x-goog-api-key", "four")];
        decided(target, &headers)
            .unwrap()
            .remove_others(&mut request);
        assert_eq!(request.uri(), "/v1/chat/completions?a=1&keys=4");
        assert_eq!(
            request.headers().keys().collect::<Vec<_>>(),
            ["authorization"]
        );
        let mut request = Request::builder()
            .uri("/v1/messages?key=1")
            .body(())
            .unwrap();
        let headers = [("x-api-key", "one")];
        decided("/v1/messages?key=1", &headers)
            .unwrap()
            .remove_others(&mut request);
        assert_eq!(request.uri(), "/v1/messages");
    }
}
