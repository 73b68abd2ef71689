//! Upstreams: the servers that requests are passed on to. They are configured, never taken from a request.

use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Secret;
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
    /// The operator's credential; without it, clients send their own.
    pub(crate) credential: Option<Arc<Secret<String>>>,
    /// The header of the credential.
    pub(crate) header: AuthHeader,
    /// Patterns of the models for which it is preferred.
    pub(crate) models: Vec<String>,
    /// Share of requests among equally suitable upstreams.
    pub(crate) weight: u32,
    /// Maximum time until an answer begins, if it is not the gateway's.
    pub(crate) timeout: Option<Duration>,
    /// How often a request is repeated that fails before its answer begins.
    pub(crate) retries: u32,
    /// Names of the upstreams that are asked if this one fails.
    pub(crate) fallbacks: Vec<String>,
    pub(crate) breaker_rule: Option<BreakerRule>,
    pub(crate) breaker: Arc<Breaker>,
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

    /// Creates an upstream. The URL is the base URL that a client of the server would be configured with; whether it
    /// ends with `/v1` does not matter.
    ///
    /// # Errors
    /// The name has signs other than letters, digits, `-` and `_`, or the URL is not one of a server.
    pub fn new(name: &str, url: &str) -> Result<Self, UpstreamError> {
        let fault = |given: &str, reason: &str| UpstreamError {
            given: given.to_owned(),
            reason: reason.to_owned(),
        };
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_');
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
        let authority = uri.authority().filter(|it| !it.as_str().contains('@'));
        match (scheme, authority, uri.query()) {
            (Some(scheme), Some(authority), None) if !url.contains('#') => Ok(Self {
                name: name.to_owned(),
                scheme: scheme.clone(),
                authority: authority.clone(),
                path: uri.path().trim_end_matches('/').to_owned(),
                api: Api::of_name(name).unwrap_or(Api::OpenAi),
                credential: None,
                header: AuthHeader::Bearer,
                models: Vec::new(),
                weight: 1,
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

    /// Returns the URI of a request: the base URL, followed by the path and the query. If both the base URL ends with
    /// a version (`/v1`) and the path begins with the same one, it occurs once.
    ///
    /// # Errors
    /// The result is no URI.
    pub(crate) fn uri(&self, path: &str, query: Option<&str>) -> Result<Uri, http::Error> {
        let base = self.path.rsplit_once('/').map_or("", |(_, last)| last);
        let is_version = base
            .strip_prefix('v')
            .is_some_and(|it| it.starts_with(|sign: char| sign.is_ascii_digit()));
        let own = path.strip_prefix('/').unwrap_or(path);
        let rest = match own.strip_prefix(base) {
            Some(rest) if is_version && (rest.is_empty() || rest.starts_with('/')) => {
                rest.to_owned()
            }
            _ => format!("/{own}"),
        };
        let mut target = format!("{}{rest}", self.path);
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn version_in_the_path_occurs_once() {
        let cases = [
            (
                "https://a.example",
                "/v1/models",
                "https://a.example/v1/models",
            ),
            (
                "https://a.example/v1",
                "/v1/models",
                "https://a.example/v1/models",
            ),
            (
                "https://a.example/v1/",
                "/v1/models",
                "https://a.example/v1/models",
            ),
            (
                "https://a.example/v1",
                "/v1beta/x",
                "https://a.example/v1/v1beta/x",
            ),
            (
                "https://a.example/api/v1",
                "/v1",
                "https://a.example/api/v1",
            ),
            (
                "http://a.example:8080/api",
                "/v1/x",
                "http://a.example:8080/api/v1/x",
            ),
            (
                "http://a.example/models",
                "/models/x",
                "http://a.example/models/models/x",
            ),
        ];
        for (base, path, expected) in cases {
            let upstream = Upstream::new("a", base).unwrap();
            assert_eq!(
                upstream.uri(path, None).unwrap(),
                *expected,
                "{base} {path}"
            );
        }
        let upstream = Upstream::new("a", "https://a.example/v1").unwrap();
        let uri = upstream.uri("/v1/models", Some("limit=2")).unwrap();
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
