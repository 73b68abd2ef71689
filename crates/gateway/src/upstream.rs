//! Upstreams: the servers that requests are passed on to. They are configured, never taken from a request.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Secret;
use cachalot_core::config::{ParameterKind as Kind, Settings, Word as _};
use cachalot_store::glob_matches;
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use crate::api::{Api, AuthHeader};
use crate::breaker::{Breaker, BreakerRule};

/// A server that requests are passed on to.
#[derive(Debug, Clone)]
pub struct Upstream {
    name: String,
    scheme: Scheme,
    authority: Authority,
    /// Path of the base URL, without a slash at its end.
    path: String,
    pub(crate) api: Api,
    /// True if the name or the configuration says which API it offers. Else it only gets requests that name it, or
    /// whose model has one of its patterns.
    pub(crate) is_api_declared: bool,
    /// The operator's credential; without it, clients send their own.
    pub(crate) credential: Option<Arc<Secret<String>>>,
    /// The header of the credential.
    pub(crate) header: AuthHeader,
    /// Patterns of the models for which it is preferred.
    pub(crate) models: Vec<String>,
    /// Defaults of the operator's account that change prices.
    pub(crate) account: AccountDefaults,
    /// Asks for the usage of streams of Chat Completions whose client did not.
    pub(crate) stream_usage: bool,
    /// Share of requests among equally suitable upstreams; with 0, only requests that name it.
    pub(crate) weight: u32,
    /// Maximum time until an answer begins, if it is not the gateway's.
    pub(crate) timeout: Option<Duration>,
    /// The number of retries of a request that fails before its answer begins.
    pub(crate) retries: u32,
    /// Names of the upstreams that are asked if this one fails.
    pub(crate) fallbacks: Vec<String>,
    pub(crate) breaker_rule: Option<BreakerRule>,
    pub(crate) breaker: Arc<Breaker>,
}

/// What the provider does with requests that do not say otherwise, for the most that they may cost a key with a budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
#[settings(name = "`account`")]
pub(crate) struct AccountDefaults {
    /// The tier of service that the project has set at OpenAI. Default: unknown, so the dearest one counts.
    #[setting(kind = Kind::Word(&["default", "flex", "priority"]))]
    pub(crate) service_tier: Option<&'static str>,
    /// The geography that the workspace has set at Anthropic. Default: unknown, so the dearest one counts.
    #[setting(kind = Kind::Word(&["global", "us"]))]
    pub(crate) inference_geo: Option<&'static str>,
}

/// The reason why an upstream is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}`: {reason}")]
pub struct UpstreamError {
    /// The text that was given.
    pub given: String,
    /// A description of the problem, with the remedy.
    pub reason: String,
}

/// Upstreams that need no configuration.
pub(crate) const BUILT_IN: [(&str, &str); 3] = [
    ("openai", "https://api.openai.com"),
    ("anthropic", "https://api.anthropic.com"),
    ("gemini", "https://generativelanguage.googleapis.com"),
];

impl Upstream {
    /// Returns the upstreams that need no configuration: `openai`, `anthropic` and `gemini`.
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        let built_in = BUILT_IN.iter();
        built_in
            .filter_map(|(name, url)| Self::new(name, url).ok())
            .collect()
    }

    /// Parses `NAME=URL`.
    ///
    /// # Errors
    /// The text has another form, or the URL is not one of a server.
    pub fn parse(text: &str) -> Result<Self, UpstreamError> {
        match text.split_once('=') {
            Some((name, url)) => Self::new(name, url),
            None => Err(UpstreamError {
                given: text.to_owned(),
                reason: "expected NAME=URL, for example openai=https://api.openai.com/v1".into(),
            }),
        }
    }

    /// Creates an upstream. The URL is the base URL that a client of the server would be configured with; one without a
    /// path stands for `/v1`.
    ///
    /// # Errors
    /// The name has signs other than letters, digits, `-` and `_`, or the URL is not one of a server.
    pub fn new(name: &str, url: &str) -> Result<Self, UpstreamError> {
        let fault = |given: &str, reason: &str| UpstreamError {
            given: given.to_owned(),
            reason: reason.to_owned(),
        };
        let is_plain =
            |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_');
        if name.is_empty() || !name.chars().all(is_plain) {
            let reason = "the name of an upstream consists of letters, digits, `-` and `_`";
            return Err(fault(name, reason));
        }
        let expected =
            "expected an http:// or https:// URL without credentials, query and fragment";
        let uri: Uri = url.parse().map_err(|_| fault(url, expected))?;
        let scheme = uri
            .scheme()
            .filter(|scheme| **scheme == Scheme::HTTP || **scheme == Scheme::HTTPS);
        let authority = uri
            .authority()
            .filter(|authority| !authority.as_str().contains('@'));
        let api = Api::from_word(name);
        match (scheme, authority, uri.query()) {
            (Some(scheme), Some(authority), None) if !url.contains('#') => Ok(Self {
                name: name.to_owned(),
                scheme: scheme.clone(),
                authority: authority.clone(),
                path: uri.path().trim_end_matches('/').to_owned(),
                api: api.unwrap_or(Api::OpenAi),
                is_api_declared: api.is_some(),
                credential: None,
                header: api.unwrap_or(Api::OpenAi).header(),
                models: Vec::new(),
                account: AccountDefaults::default(),
                stream_usage: false,
                weight: api.is_some().into(),
                timeout: None,
                retries: 0,
                fallbacks: Vec::new(),
                breaker_rule: None,
                breaker: Arc::default(),
            }),
            _ => Err(fault(url, expected)),
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host, with the port if it is given.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.authority.as_str()
    }

    /// The host, without the port.
    pub(crate) fn host(&self) -> &str {
        let host = self.authority.host();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port.
    pub(crate) fn port(&self) -> u16 {
        let default = if self.scheme == Scheme::HTTPS {
            443
        } else {
            80
        };
        self.authority.port_u16().unwrap_or(default)
    }

    /// Returns the base URL, which identifies the upstream in keys.
    #[must_use]
    pub fn base(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    /// Returns true if the upstream is Anthropic's own API.
    pub(crate) fn is_of_anthropic(&self) -> bool {
        self.authority.host() == "api.anthropic.com"
    }

    /// Returns true if the upstream is preferred for the model.
    pub(crate) fn is_for(&self, model: &str) -> bool {
        let mut patterns = self.models.iter();
        patterns.any(|pattern| glob_matches(pattern, model))
    }

    /// Returns the URI of a request of an API.
    ///
    /// The base URL is the one that a client of the server would have. A client of OpenAI's API has a version or
    /// another path of the server in it, so the `/v1` of the request is left out; without a path, it stands for `/v1`.
    /// Clients of the other APIs add the version themselves: it occurs once, and that of the base URL counts.
    ///
    /// # Errors
    /// The result is no URI.
    pub(crate) fn uri(
        &self,
        api: Api,
        path: &str,
        query: Option<&str>,
    ) -> Result<Uri, http::Error> {
        let (above, last) = self.path.rsplit_once('/').unwrap_or_default();
        let base_version = Some(last).filter(|segment| is_version(segment));
        let (version, rest) = split_version(path);
        let (base, own) = match api {
            Api::OpenAi if self.path.is_empty() => ("", path),
            Api::OpenAi if version == Some("v1") => (&*self.path, rest),
            Api::OpenAi if version.is_some() && version == base_version => (&*self.path, rest),
            Api::Gemini if base_version.is_some() && is_beside_versions(path) => (above, path),
            Api::Anthropic | Api::Gemini if base_version.is_some() && version.is_some() => {
                (&*self.path, rest)
            }
            _ => (&*self.path, path),
        };
        let mut target = format!("{base}{own}");
        if let Some(query) = query {
            target = format!("{target}?{query}");
        }
        let target: PathAndQuery = target.parse()?;
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(target)
            .build()
    }
}

/// Returns true for a segment of a path that names a version, such as `v1` and `v1beta1`.
fn is_version(segment: &str) -> bool {
    let rest = segment.strip_prefix('v').unwrap_or_default();
    rest.starts_with(|character: char| character.is_ascii_digit())
        && rest
            .chars()
            .all(|character| character.is_ascii_alphanumeric())
}

/// Splits a path after the version that it begins with: `/v1/models` into `v1` and `/models`.
fn split_version(path: &str) -> (Option<&str>, &str) {
    let own = path.strip_prefix('/').unwrap_or(path);
    let (first, rest) = own.split_at(own.find('/').unwrap_or(own.len()));
    if is_version(first) {
        (Some(first), rest)
    } else {
        (None, path)
    }
}

/// Returns true for a path of Google with its version after a first segment: uploads and WebSockets.
fn is_beside_versions(path: &str) -> bool {
    ["/upload/", "/ws/"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn uri(api: Api, base: &str, path: &str) -> String {
        let upstream = Upstream::new("a", &format!("https://a.example{base}")).unwrap();
        let uri = upstream.uri(api, path, None).unwrap().to_string();
        uri.strip_prefix("https://a.example").unwrap().to_owned()
    }

    /// The base URL of an upstream is the one that a client of the server would have.
    #[test]
    fn base_urls_are_used_as_they_are() {
        let check = |api: Api, cases: &[(&str, &str, &str)]| {
            for (base, path, expected) in cases {
                assert_eq!(uri(api, base, path), *expected, "{base} {path}");
            }
        };
        let chat = "/v1/chat/completions";
        check(
            Api::OpenAi,
            &[
                ("", chat, chat),
                ("/", chat, chat),
                ("/v1", chat, chat),
                ("/v1/", chat, chat),
                ("/api/v1", chat, "/api/v1/chat/completions"),
                ("/api/v1", "/v1", "/api/v1"),
                ("/api/paas/v4", chat, "/api/paas/v4/chat/completions"),
                ("/api/paas/v4", "/v4/models", "/api/paas/v4/models"),
                ("/v1beta/openai", chat, "/v1beta/openai/chat/completions"),
                ("/v1beta/openai/", "/v1/models", "/v1beta/openai/models"),
                (
                    "/backend-api/codex",
                    "/v1/responses",
                    "/backend-api/codex/responses",
                ),
                (
                    "/v1/account/gateway/openai",
                    chat,
                    "/v1/account/gateway/openai/chat/completions",
                ),
                ("/inference", chat, "/inference/chat/completions"),
                ("/v1", "/v1beta/x", "/v1/v1beta/x"),
                ("/v1", "/v1beta", "/v1/v1beta"),
                ("/v1", "/v10/x", "/v1/v10/x"),
                ("", "/api/tags", "/api/tags"),
                ("/api", "/tags", "/api/tags"),
                ("/models", "/models/x", "/models/models/x"),
            ],
        );
        check(
            Api::Anthropic,
            &[
                ("", "/v1/messages", "/v1/messages"),
                ("/v1", "/v1/messages", "/v1/messages"),
                (
                    "/api/anthropic",
                    "/v1/messages",
                    "/api/anthropic/v1/messages",
                ),
                ("/anthropic/v1", "/v1/messages", "/anthropic/v1/messages"),
            ],
        );
        let generate = "/v1beta/models/g:generateContent";
        check(
            Api::Gemini,
            &[
                ("", generate, generate),
                ("/v1beta", generate, generate),
                ("/v1beta", "/v1/models/g:generateContent", generate),
                ("/proxy", generate, "/proxy/v1beta/models/g:generateContent"),
                ("/v1beta", "/upload/v1beta/files", "/upload/v1beta/files"),
                (
                    "/proxy/v1beta",
                    "/upload/v1beta/files",
                    "/proxy/upload/v1beta/files",
                ),
                ("/v1beta1", "/v1beta1/projects/p/x", "/v1beta1/projects/p/x"),
            ],
        );
        let upstream = Upstream::new("a", "https://a.example/v1").unwrap();
        let uri = upstream
            .uri(Api::OpenAi, "/v1/models", Some("limit=2"))
            .unwrap();
        assert_eq!(uri, "https://a.example/v1/models?limit=2");
    }

    #[test]
    fn built_in_upstreams_are_usable() {
        assert_eq!(Upstream::built_in().len(), BUILT_IN.len());
    }

    #[test]
    fn unusable_upstreams_are_refused() {
        for text in [
            "openai",
            "=https://a.example",
            "a b=https://a.example",
            "a=a.example",
            "a=ftp://a.example",
            "a=https://user:password@a.example",
            "a=https://a.example/?key=1",
            "a=https://a.example/#x",
            "a=",
        ] {
            assert!(Upstream::parse(text).is_err(), "{text}");
        }
        let upstream = Upstream::parse("local=http://127.0.0.1:8099/v1").unwrap();
        assert_eq!(
            (upstream.name(), upstream.base().as_str()),
            ("local", "http://127.0.0.1:8099/v1")
        );
    }
}
