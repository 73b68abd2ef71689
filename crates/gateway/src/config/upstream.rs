//! `upstreams` of a configuration file.

use std::time::Duration;

use cachalot_core::spec::{Literal, ParameterKind as Kind, Table, Values, key, section, words};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::DURATION;

use super::{CREDENTIAL, CredentialSource};
use crate::api::{APIS, AuthHeader};
use crate::breaker::BreakerRule;
use crate::upstream::{AccountDefaults, BUILT_IN, Upstream};

/// An upstream.
#[derive(Debug, Clone)]
pub(crate) struct UpstreamConfig {
    pub(crate) upstream: Upstream,
    pub(crate) credential: Option<CredentialSource>,
    fallbacks: SourceSpan,
}

static API_WORDS: [&str; 3] = words(&APIS);

const HEADERS: [(&str, AuthHeader); 4] = [
    ("authorization", AuthHeader::Bearer),
    ("api-key", AuthHeader::Plain("api-key")),
    ("x-api-key", AuthHeader::Plain("x-api-key")),
    ("x-goog-api-key", AuthHeader::Plain("x-goog-api-key")),
];
static HEADER_WORDS: [&str; 4] = words(&HEADERS);

const TIERS: [(&str, &str); 3] = [
    ("default", "default"),
    ("flex", "flex"),
    ("priority", "priority"),
];
static TIER_WORDS: [&str; 3] = words(&TIERS);

const GEOGRAPHIES: [(&str, &str); 2] = [("global", "global"), ("us", "us")];
static GEOGRAPHY_WORDS: [&str; 2] = words(&GEOGRAPHIES);

#[rustfmt::skip]
pub(super) static UPSTREAM: Table = Table::new(
    "an upstream",
    "A server that requests are passed on to.",
    &[&[
        key("url", Kind::Text, "The base URL that a client of the server would have. Required unless the name is `openai`, `anthropic` or `gemini`."),
        key("api", Kind::Word(&API_WORDS), "The API that the server offers: requests with its paths go there. Default: the name if it is one of these, else that of the request, or `openai` if that says nothing."),
        key("credential", Kind::Table(&CREDENTIAL), "The operator's credential, for clients with one of the `keys`. Without it, clients send their own."),
        key("header", Kind::Word(&HEADER_WORDS), "The header with the operator's credential. Default: that of the API."),
        key("models", Kind::Texts, "Models for which this upstream is preferred; `*` matches any text."),
        key("weight", Kind::IntegerIn(0, 1_000_000), "The share of requests, among upstreams that are equally suitable. Equal requests go to the same one. With 0, it is asked by its name and as a fallback only. Default: 1 for the upstreams `openai`, `anthropic` and `gemini` and those with `api` or `models`, else 0."),
        key("timeout", DURATION, "The maximum time until an answer begins."),
        key("retries", Kind::IntegerIn(0, 10), "How often a request is repeated that fails before its answer begins.").default(Literal::Integer(0)),
        key("fallbacks", Kind::Texts, "Upstreams of the same API, with credentials of the operator, that are asked in this order if this one fails before its answer begins. Only for clients with one of the `keys`."),
        key("stream_usage", Kind::Boolean, "Asks for the usage of streams of Chat Completions whose clients did not (`stream_options.include_usage`), and keeps it from them: without it, such streams are unpriced.").default(Literal::Boolean(false)),
        section("account", &ACCOUNT),
        section("breaker", &BREAKER),
    ]],
);

#[rustfmt::skip]
static ACCOUNT: Table = Table::new(
    "`account`",
    "What the provider does with requests that do not say otherwise, for the most that they may cost a key with a budget.",
    &[&[
        key("service_tier", Kind::Word(&TIER_WORDS), "The tier of service that the project has set at OpenAI. Default: unknown, so the dearest one counts."),
        key("inference_geo", Kind::Word(&GEOGRAPHY_WORDS), "The geography that the workspace has set at Anthropic. Default: unknown, so the dearest one counts."),
    ]],
);

#[rustfmt::skip]
static BREAKER: Table = Table::new(
    "`breaker`",
    "Leaves the upstream out for a while after failures one after the other.",
    &[&[
        key("failures", Kind::IntegerIn(1, 1_000), "The number of failures.").default(Literal::Integer(5)),
        key("pause", DURATION, "The time for which it is left out. Default: 30s."),
    ]],
);

/// Default of `breaker.pause`.
const PAUSE: Duration = Duration::from_secs(30);

impl UpstreamConfig {
    pub(super) fn read(
        name: &str,
        values: Values<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Self> {
        let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
        let Some(url) = values.text("url").or(built_in.map(|(_, url)| *url)) else {
            let message = format!("the upstream `{name}` needs `url`");
            let problem = Problem::new("missing-key", message).at(&values.mapping().head());
            problems.push(problem.help("add `url: https://…`"));
            return None;
        };
        let mut upstream = match Upstream::new(name, url) {
            Ok(upstream) => upstream,
            Err(error) => {
                problems
                    .push(Problem::new("bad-value", error.to_string()).at(&values.place("url")));
                return None;
            }
        };
        if let Some(api) = values.choice("api", &APIS) {
            (upstream.api, upstream.is_api_declared) = (api, true);
        }
        let is_chosen = upstream.is_api_declared || values.node("models").is_some();
        let credential = match values.table("credential") {
            Some(credential) => Some(CredentialSource::from_values(credential, problems)?),
            None => None,
        };
        let header = values.choice("header", &HEADERS);
        upstream.header = header.unwrap_or(upstream.api.header());
        upstream.models = values.texts("models").unwrap_or_default();
        upstream.weight = values.integer("weight").unwrap_or(is_chosen.into());
        upstream.timeout = values.duration("timeout");
        upstream.retries = values.integer("retries").unwrap_or(0);
        upstream.fallbacks = values.texts("fallbacks").unwrap_or_default();
        upstream.stream_usage = values.boolean("stream_usage").unwrap_or(false);
        if let Some(account) = values.table("account") {
            upstream.account = AccountDefaults {
                service_tier: account.choice("service_tier", &TIERS),
                inference_geo: account.choice("inference_geo", &GEOGRAPHIES),
            };
        }
        upstream.breaker_rule = values.table("breaker").map(|breaker| BreakerRule {
            failures: breaker.integer("failures").unwrap_or(5),
            pause: breaker.duration("pause").unwrap_or(PAUSE),
        });
        Some(Self {
            upstream,
            credential,
            fallbacks: values.place("fallbacks"),
        })
    }
}

/// Checks that fallbacks exist, offer the same API and have credentials of the operator.
pub(super) fn check_fallbacks(upstreams: &[UpstreamConfig], problems: &mut Vec<Problem>) {
    for own in upstreams {
        for name in &own.upstream.fallbacks {
            let found = upstreams.iter().find(|it| it.upstream.name() == name);
            let (code, message) = match found {
                None => ("unknown-upstream", format!("there is no upstream `{name}`")),
                Some(found) if found.upstream.api != own.upstream.api => (
                    "bad-value",
                    format!(
                        "the fallback `{name}` offers another API (`{}`)",
                        found.upstream.api.name()
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
            problems.push(Problem::new(code, message).at(&own.fallbacks));
        }
    }
}
