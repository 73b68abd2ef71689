//! The credentials of requests: their places, the APIs that they are for, and the hosts that may get them.

use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Uri};

use cachalot_core::config::Word as _;

use crate::api::{Api, AuthHeader};
use crate::upstream::Upstream;

/// The APIs to whose servers a credential may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Any API.
    Any,
    /// Any API. It is no key of an API by itself.
    Session,
    Api(Api),
    /// Servers of Azure, with any API.
    Azure,
}

/// Headers with credentials. They identify the tenant, in this order. This list is published in `docs/gateway.md`.
pub(crate) const HEADERS: [(&str, Meaning); 6] = [
    ("api-key", Meaning::Azure),
    ("authorization", Meaning::Any),
    ("cookie", Meaning::Session),
    ("proxy-authorization", Meaning::Session),
    ("x-api-key", Meaning::Api(Api::Anthropic)),
    ("x-goog-api-key", Meaning::Api(Api::Gemini)),
];

/// Parameters of a URL with credentials: system parameters of Google's APIs, as their discovery documents list them.
pub(crate) const PARAMETERS: [(&str, Meaning); 3] = [
    ("key", Meaning::Api(Api::Gemini)),
    ("access_token", Meaning::Api(Api::Gemini)),
    ("oauth_token", Meaning::Api(Api::Gemini)),
];

/// The header that makes `Authorization` a credential of Anthropic's API.
const ANTHROPIC_VERSION: &str = "anthropic-version";
/// Part of the paths at which Vertex AI offers Anthropic's models, whose clients send [`ANTHROPIC_VERSION`], too.
const ANTHROPIC_AT_VERTEX: &str = "/publishers/anthropic/";
/// The header in which pages send a key of OpenAI to open a WebSocket, and what precedes the key.
pub(crate) const PROTOCOL: (&str, &str) = ("sec-websocket-protocol", "openai-insecure-api-key.");

/// Domains of the providers' own servers, which get keys of no other server.
const PROVIDERS: [(&str, Api); 4] = [
    ("anthropic.com", Api::Anthropic),
    ("chatgpt.com", Api::OpenAi),
    ("googleapis.com", Api::Gemini),
    ("openai.com", Api::OpenAi),
];

/// Domains of Azure's servers (learn.microsoft.com/azure/ai-foundry, `api-key`).
const AZURE: [&str; 4] = ["azure-api.net", "azure.cn", "azure.com", "azure.us"];
/// The domain of virtual machines at Azure: their servers are those of its customers, and give keys of their own.
const AZURE_MACHINES: &str = "cloudapp.azure.com";

/// Headers that only clients of OpenAI's API send. They are no credentials, and say which API is meant if no credential
/// does. The sources of Codex have these names, and those of the next two.
const OPENAI_HEADERS: [&str; 3] = [
    "chatgpt-account-id",
    "openai-organization",
    "openai-project",
];
/// The header in which Codex names itself, and the beginning of its value.
const CODEX_HEADER: (&str, &str) = ("originator", "codex");
/// A parameter that only Codex sends when it asks for the list of models.
const CODEX_PARAMETER: &str = "client_version";

/// The beginning of keys.
#[derive(Debug, PartialEq, Eq)]
struct KeyPrefix {
    prefix: &'static str,
    /// The API of the servers that give such keys.
    api: Api,
    /// False for keys of other servers than the API's own provider.
    is_of_provider: bool,
}

/// Beginnings of keys; the longest one counts.
///
/// Sources: the rules of gitleaks (`config/gitleaks.toml`, `anthropic-api-key`, `openai-api-key`, `gcp-api-key` and
/// others), Google's announcement of authentication keys (`AQ.`, discuss.ai.google.dev/t/170415), and the API
/// references of the providers; 2026-11-28.
const PREFIXES: [KeyPrefix; 11] = [
    KeyPrefix::of_provider(Api::Anthropic, "sk-ant-"),
    KeyPrefix::of_provider(Api::Gemini, "AIza"),
    KeyPrefix::of_provider(Api::Gemini, "AQ."),
    KeyPrefix::of_provider(Api::Gemini, "ya29."),
    KeyPrefix::of_provider(Api::OpenAi, "sk-"),
    KeyPrefix::of_provider(Api::OpenAi, "ek_"),
    KeyPrefix::of_provider(Api::OpenAi, "sess-"),
    KeyPrefix::of_others(Api::OpenAi, "sk-or-"),
    KeyPrefix::of_others(Api::OpenAi, "gsk_"),
    KeyPrefix::of_others(Api::OpenAi, "pplx-"),
    KeyPrefix::of_others(Api::OpenAi, "xai-"),
];

impl KeyPrefix {
    /// Keys of the provider whose API it is.
    const fn of_provider(api: Api, prefix: &'static str) -> Self {
        Self {
            prefix,
            api,
            is_of_provider: true,
        }
    }

    /// Keys of other servers with the API.
    const fn of_others(api: Api, prefix: &'static str) -> Self {
        Self {
            prefix,
            api,
            is_of_provider: false,
        }
    }

    fn find(key: &str) -> Option<&'static Self> {
        let matching = PREFIXES
            .iter()
            .filter(|prefix| key.starts_with(prefix.prefix));
        matching.max_by_key(|prefix| prefix.prefix.len())
    }
}

/// The place of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Header(&'static str),
    Parameter(&'static str),
}

impl Place {
    /// Removes all values of the place from a request.
    pub(crate) fn clear<B>(self, request: &mut Request<B>) {
        match self {
            Self::Header(name) => {
                request.headers_mut().remove(name);
            }
            Self::Parameter(name) => remove_parameter(request.uri_mut(), name),
        }
    }
}

/// The credentials of a request, without their values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credentials {
    found: Vec<(Place, Meaning)>,
    /// The keys in headers, as far as their beginnings are known.
    keys: Vec<(Place, &'static KeyPrefix)>,
    has_anthropic_version: bool,
    /// True if a header is one that only clients of OpenAI's API send.
    has_openai_header: bool,
    has_codex_parameter: bool,
    /// True if one of them is a key of the gateway: none is sent to an upstream.
    pub(crate) is_of_gateway: bool,
}

impl Credentials {
    /// Reads the credentials of a request.
    pub(crate) fn read(headers: &HeaderMap, query: Option<&str>) -> Self {
        let in_headers = HEADERS.iter();
        let in_headers = in_headers.filter(|(name, _)| headers.contains_key(*name));
        let in_headers = in_headers.map(|(name, meaning)| (Place::Header(name), *meaning));
        let in_query = PARAMETERS.iter();
        let in_query = in_query.filter(|(name, _)| has_parameter(query.unwrap_or_default(), name));
        let in_query = in_query.map(|(name, meaning)| (Place::Parameter(name), *meaning));
        let (protocol, key) = PROTOCOL;
        let protocols = headers.get_all(protocol).iter();
        let mut protocols = protocols.filter_map(|value| value.to_str().ok());
        let has_key = protocols.any(|value| value.contains(key));
        let in_protocol = has_key.then_some((Place::Header(protocol), Meaning::Api(Api::OpenAi)));
        let places = HEADERS.iter();
        let places =
            places.filter(|(_, meaning)| matches!(meaning, Meaning::Any | Meaning::Api(_)));
        let keys = places.flat_map(|(name, _)| {
            let values = headers.get_all(*name).iter();
            let values = values.filter_map(|value| value.to_str().ok());
            let prefixes = values.filter_map(|value| KeyPrefix::find(without_scheme(value)));
            prefixes.map(move |prefix| (Place::Header(name), prefix))
        });
        Self {
            found: in_headers.chain(in_query).chain(in_protocol).collect(),
            keys: keys.collect(),
            has_anthropic_version: headers.contains_key(ANTHROPIC_VERSION),
            has_openai_header: has_openai_header(headers),
            has_codex_parameter: has_parameter(query.unwrap_or_default(), CODEX_PARAMETER),
            is_of_gateway: false,
        }
    }

    /// Returns the APIs that the credentials of a request to a path name, each once. Without any, other signs of its
    /// client count.
    pub(crate) fn named_apis(&self, path: &str) -> Vec<Api> {
        let by_place = self.found.iter().filter_map(|(_, meaning)| match meaning {
            Meaning::Api(api) => Some(*api),
            // Its own paths are OpenAI's.
            Meaning::Azure => Some(Api::OpenAi),
            Meaning::Any | Meaning::Session => None,
        });
        let by_key = self.keys.iter();
        let by_key = by_key.filter(|(place, _)| *place == Place::Header("authorization"));
        let by_key = by_key.map(|(_, key)| key.api);
        let by_key = by_key.filter(|_| !self.has_anthropic_version);
        let by_version = self.has_anthropic_version.then_some(Api::Anthropic);
        let mut apis = Vec::new();
        for api in by_place.chain(by_version).chain(by_key) {
            if !apis.contains(&api) {
                apis.push(api);
            }
        }
        let is_of_codex = self.has_codex_parameter && matches!(path, "/v1/models" | "/models");
        if apis.is_empty() && (self.has_openai_header || is_of_codex) {
            apis.push(Api::OpenAi);
        }
        apis
    }

    /// Returns true unless a key at the place is known to be one of another server than the host.
    fn may_be_sent(&self, place: Place, host: &str) -> bool {
        let mut keys = self
            .keys
            .iter()
            .filter(|(key_place, _)| *key_place == place);
        keys.all(|(_, key)| may_get(host, key))
    }

    /// Returns the credentials that may be sent to an upstream which is asked in an API.
    pub(crate) fn fitting(&self, upstream: &Upstream, api: Api, path: &str) -> Vec<Place> {
        let host = upstream.host();
        let provider = provider_of(host);
        let fits = |(place, meaning): &(Place, Meaning)| {
            let is_own_header = match (place, upstream.header) {
                (_, AuthHeader::Bearer) => false,
                (Place::Header(name), own) => *name == own.word(),
                _ => false,
            };
            match meaning {
                Meaning::Session => true,
                Meaning::Azure => is_own_header || is_of_azure(host),
                Meaning::Any | Meaning::Api(_) if !self.may_be_sent(*place, host) => false,
                Meaning::Any if self.has_anthropic_version && api != Api::Anthropic => {
                    path.contains(ANTHROPIC_AT_VERTEX)
                        && provider.is_none_or(|provider| provider == Api::Gemini)
                }
                Meaning::Any => {
                    !self.has_anthropic_version
                        || provider.is_none_or(|provider| provider == Api::Anthropic)
                }
                // A further server is asked in the API of the request, also one that a provider runs.
                Meaning::Api(own) => {
                    is_own_header || provider.map_or(*own == api, |provider| provider == *own)
                }
            }
        };
        let fitting = self.found.iter().filter(|found| fits(found));
        fitting.map(|(place, _)| *place).collect()
    }

    /// Returns the places of all credentials.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.found.iter().map(|(place, _)| *place)
    }

    /// Returns the places of the credentials that are keys of an API.
    pub(crate) fn keys_of_apis(&self) -> impl Iterator<Item = Place> + '_ {
        let found = self.found.iter();
        let found = found.filter(|(_, meaning)| *meaning != Meaning::Session);
        found.map(|(place, _)| *place)
    }

    /// Returns the owner of the credential at a place, for messages about a server that is asked in an API.
    pub(crate) fn owner(&self, place: Place, asked: Api) -> &'static str {
        let found = self
            .found
            .iter()
            .find(|(found_place, _)| *found_place == place);
        let key = self.keys.iter().find(|(key_place, _)| *key_place == place);
        match (found.map(|(_, meaning)| meaning), key) {
            (Some(Meaning::Azure), _) => "Azure",
            (Some(Meaning::Api(api)), _) if *api != asked => api.provider(),
            (Some(Meaning::Any), _) if self.has_anthropic_version => Api::Anthropic.provider(),
            (_, Some((_, key))) if key.is_of_provider => key.api.provider(),
            (Some(Meaning::Api(api)), None) => api.provider(),
            _ => "another server",
        }
    }
}

/// Returns true unless the host is one of a provider or of Azure, and the key one of another server. No key of Azure
/// has one of the known beginnings.
fn may_get(host: &str, key: &KeyPrefix) -> bool {
    match provider_of(host) {
        Some(provider) => key.is_of_provider && key.api == provider,
        None => !is_of_azure(host) || is_in_domain(host, AZURE_MACHINES),
    }
}

/// Returns the API whose provider runs the host.
fn provider_of(host: &str) -> Option<Api> {
    let mut hosts = PROVIDERS.iter();
    let found = hosts.find(|(domain, _)| is_in_domain(host, domain));
    found.map(|(_, api)| *api)
}

/// Returns the owner of the host, for messages; `None` if it is not known.
pub(crate) fn owner_of(host: &str) -> Option<&'static str> {
    match provider_of(host) {
        Some(provider) => Some(provider.provider()),
        None => is_of_azure(host).then_some("Azure"),
    }
}

fn is_of_azure(host: &str) -> bool {
    AZURE.iter().any(|domain| is_in_domain(host, domain))
}

fn is_in_domain(host: &str, domain: &str) -> bool {
    // A name with a dot at its end is the same one.
    let host = host.strip_suffix('.').unwrap_or(host);
    let start = host.len().checked_sub(domain.len());
    let parts = start.and_then(|start| host.split_at_checked(start));
    parts.is_some_and(|(rest, end)| {
        end.eq_ignore_ascii_case(domain) && (rest.is_empty() || rest.ends_with('.'))
    })
}

fn has_openai_header(headers: &HeaderMap) -> bool {
    let (name, beginning) = CODEX_HEADER;
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    let start = value.and_then(|value| value.get(..beginning.len()));
    start.is_some_and(|start| start.eq_ignore_ascii_case(beginning))
        || OPENAI_HEADERS
            .iter()
            .any(|name| headers.contains_key(*name))
}

/// Returns a credential without the scheme `Bearer`.
pub(crate) fn without_scheme(value: &str) -> &str {
    match value.trim_start().split_once([' ', '\t']) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
        _ => value.trim(),
    }
}

/// Returns true if a query has a parameter, in any spelling that a server may read as its name.
fn has_parameter(query: &str, name: &str) -> bool {
    // Some servers separate parameters by a semicolon.
    let mut parameters = query.split(['&', ';']);
    parameters.any(|parameter| {
        let own = parameter.split_once('=').map_or(parameter, |(own, _)| own);
        let own = percent_encoding::percent_decode_str(own).decode_utf8_lossy();
        own == name
    })
}

fn remove_parameter(uri: &mut Uri, name: &str) {
    let Some(query) = uri.query() else { return };
    let kept = query.split('&').filter(|part| !has_parameter(part, name));
    let kept: Vec<&str> = kept.collect();
    let target = if kept.is_empty() {
        uri.path().to_owned()
    } else {
        format!("{}?{}", uri.path(), kept.join("&"))
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = PathAndQuery::try_from(target).ok();
    // A part of a valid target is one, too.
    *uri = Uri::from_parts(parts).unwrap_or_default();
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_published() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md");
        let text = std::fs::read_to_string(path).unwrap();
        let prefixes = PREFIXES.iter().map(|prefix| prefix.prefix);
        let domains = PROVIDERS.iter().map(|(domain, _)| *domain).chain(AZURE);
        let parameters = PARAMETERS.iter().map(|(name, _)| *name);
        let others = [
            AZURE_MACHINES,
            CODEX_PARAMETER,
            PROTOCOL.0,
            ANTHROPIC_AT_VERTEX,
        ];
        let others = others.into_iter().chain(OPENAI_HEADERS);
        for word in prefixes.chain(domains).chain(parameters).chain(others) {
            assert!(text.contains(&format!("`{word}`")), "{word}");
        }
    }

    #[test]
    fn domains_have_the_hosts_below_them() {
        for host in ["openai.com", "EU.api.OpenAI.com", "api.openai.com."] {
            assert!(is_in_domain(host, "openai.com"), "{host}");
        }
        for host in ["notopenai.com", "com", "openai.com.example", ""] {
            assert!(!is_in_domain(host, "openai.com"), "{host}");
        }
    }
}
