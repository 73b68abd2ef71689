//! `upstreams` of a configuration file.

use std::time::Duration;

use cachalot_core::config::{Located, Named, Settings, Word as _};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::DURATION;

use super::CredentialSource;
use crate::api::{Api, AuthHeader};
use crate::breaker::BreakerRule;
use crate::upstream::{AccountDefaults, BUILT_IN, Upstream};

/// A server that requests are passed on to.
#[derive(Debug, Clone, Settings)]
#[settings(name = "an upstream")]
pub(crate) struct UpstreamConfig {
    /// The base URL that a client of the server would have. Required unless the name is `openai`, `anthropic` or
    /// `gemini`.
    url: Option<Located<String>>,
    /// The API that the server offers: requests with its paths go there. Default: the name if it is one of these, else
    /// that of the request, or `openai` if that says nothing.
    api: Option<Api>,
    /// The operator's credential, for clients with one of the `keys`. Without it, clients send their own.
    pub(crate) credential: Option<CredentialSource>,
    /// The header with the operator's credential. Default: that of the API.
    header: Option<AuthHeader>,
    /// Models for which this upstream is preferred; `*` matches any text.
    models: Option<Vec<String>>,
    /// The share of requests, among upstreams that are equally suitable. Equal requests go to the same one. With 0, it
    /// is asked by its name and as a fallback only. Default: 1 for the upstreams `openai`, `anthropic` and `gemini` and
    /// those with `api` or `models`, else 0.
    #[setting(range = 0..=1_000_000)]
    weight: Option<u32>,
    /// The maximum time until an answer begins.
    #[setting(kind = DURATION)]
    timeout: Option<Duration>,
    /// How often a request is repeated that fails before its answer begins.
    #[setting(range = 0..=10, default = 0)]
    retries: u32,
    /// Upstreams of the same API, with credentials of the operator, that are asked in this order if this one fails
    /// before its answer begins. Only for clients with one of the `keys`.
    fallbacks: Option<Located<Vec<String>>>,
    /// Asks for the usage of streams of Chat Completions whose clients did not (`stream_options.include_usage`), and
    /// keeps it from them: without it, such streams are unpriced.
    #[setting(default = false)]
    stream_usage: bool,
    #[setting(default)]
    account: AccountDefaults,
    breaker: Option<BreakerRule>,
    #[setting(place)]
    place: SourceSpan,
}

impl UpstreamConfig {
    /// Returns the upstream of this name, without its credential.
    ///
    /// # Errors
    /// The problem of the URL or the name.
    pub(crate) fn upstream(&self, name: &str) -> Result<Upstream, Box<Problem>> {
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
        let url = self.url.as_ref();
        let text = url.map(|url| url.value.as_str());
        let Some(text) = text.or(built_in.map(|(_, url)| *url)) else {
            let message = format!("the upstream `{name}` needs `url`");
            let problem = Problem::new("missing-key", message).at(&self.place);
            return Err(Box::new(problem.help("add `url: https://…`")));
        };
        let mut upstream = Upstream::new(name, text).map_err(|error| {
            let place = url.map_or(&self.place, |url| &url.place);
            Box::new(Problem::new("bad-value", error.to_string()).at(place))
        })?;
        if let Some(api) = self.api {
            (upstream.api, upstream.is_api_declared) = (api, true);
        }
        let is_chosen = upstream.is_api_declared || self.models.is_some();
        upstream.header = self.header.unwrap_or(upstream.api.header());
        upstream.models = self.models.clone().unwrap_or_default();
        upstream.weight = self.weight.unwrap_or(is_chosen.into());
        upstream.timeout = self.timeout;
        upstream.retries = self.retries;
        upstream.fallbacks = self.fallbacks().to_vec();
        upstream.stream_usage = self.stream_usage;
        upstream.account = self.account;
        upstream.breaker_rule = self.breaker;
        Ok(upstream)
    }

    fn fallbacks(&self) -> &[String] {
        let fallbacks = self.fallbacks.as_ref();
        fallbacks.map_or(&[], |fallbacks| &fallbacks.value)
    }

    /// Returns the API that an upstream of this name offers.
    fn api(&self, name: &str) -> Api {
        self.api.or(Api::from_word(name)).unwrap_or(Api::OpenAi)
    }
}

/// Checks that fallbacks exist, offer the same API and have credentials of the operator.
pub(super) fn check_fallbacks(upstreams: &[Named<UpstreamConfig>], problems: &mut Vec<Problem>) {
    for Named { name: own, value } in upstreams {
        let Some(fallbacks) = &value.fallbacks else {
            continue;
        };
        for name in &fallbacks.value {
            let found = upstreams.iter().find(|upstream| upstream.name == *name);
            let (code, message) = match found.map(|found| &found.value) {
                None => ("unknown-upstream", format!("there is no upstream `{name}`")),
                Some(found) if found.api(name) != value.api(own) => (
                    "bad-value",
                    format!(
                        "the fallback `{name}` offers another API (`{}`)",
                        found.api(name).word()
                    ),
                ),
                Some(found) if found.credential.is_none() => (
                    "bad-value",
                    format!(
                        "the fallback `{name}` has no `credential`: those of clients are sent to no other server"
                    ),
                ),
                Some(_) => continue,
            };
            problems.push(Problem::new(code, message).at(&fallbacks.place));
        }
    }
}
