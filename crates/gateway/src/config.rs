//! The configuration file of a gateway: its declared keys, and their values.
//!
//! Reading checks everything that the file alone determines, and reports all problems at once. Credentials are only
//! named here; [`crate::Settings::resolve`] reads them.

mod key;
mod prefix;
mod telemetry;
mod tls;
mod upstream;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cachalot_core::spec::{ParameterKind as Kind, Table, Values, key, required, section};
use cachalot_core::tree::{self, Node};
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::DURATION;
use cachalot_model::wire::members::Effect;
use cachalot_model::wire::shared_members;
use serde_json::Value;

pub(crate) use key::{BudgetConfig, KeyConfig};
pub(crate) use prefix::PrefixConfig;
use telemetry::TelemetryConfig;
pub(crate) use upstream::UpstreamConfig;

/// A configuration.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Address to listen on.
    pub listen: Option<SocketAddr>,
    /// Further host names by which clients address the gateway.
    pub allowed_hosts: Vec<String>,
    /// Certificate of the listener.
    pub tls: Option<TlsFiles>,
    /// The listener for the operator.
    pub admin: Option<AdminConfig>,
    pub(crate) times: CacheTimes,
    pub(crate) prefix: PrefixConfig,
    /// Unknown parameters that change nothing but the answer.
    pub(crate) accepted: Vec<String>,
    /// WebSockets are refused.
    pub(crate) without_websockets: bool,
    pub(crate) upstreams: Vec<UpstreamConfig>,
    pub(crate) keys: Vec<KeyConfig>,
    pub(crate) telemetry: Option<TelemetryConfig>,
}

/// Times of stored answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheTimes {
    /// Time to live, if it is shorter than the endpoint's.
    pub(crate) max_ttl: Option<Duration>,
    pub(crate) stale_while_revalidate: Duration,
    pub(crate) stale_if_error: Duration,
}

/// Files of the certificate of a listener, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, followed by those that lead to its root.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
    /// The place in the configuration file.
    pub(crate) place: SourceSpan,
}

/// The listener for the operator.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    pub(crate) token: CredentialSource,
}

/// The place of a credential.
#[derive(Debug, Clone)]
pub(crate) struct CredentialSource {
    pub(crate) kind: CredentialKind,
    /// The place in the configuration file.
    pub(crate) place: SourceSpan,
}

/// Kinds of places of credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// A variable of the environment.
    Environment(String),
    /// A file.
    File(PathBuf),
}

/// The keys of a configuration file.
#[rustfmt::skip]
pub static GATEWAY: Table = Table::new(
    "a gateway",
    "The configuration of `cachalot serve`.",
    &[&[
        key("listen", Kind::Text, "The address to listen on, such as `127.0.0.1:4114`."),
        key("allow_hosts", Kind::Texts, "Further host names by which clients address the gateway."),
        section("tls", &TLS),
        key("upstreams", Kind::Tables(&upstream::UPSTREAM), "The servers that requests are passed on to, by name. Without it, `openai`, `anthropic` and `gemini`."),
        key("keys", Kind::Tables(&key::KEY), "The keys that the gateway gives to its clients, by name."),
        section("cache", &CACHE),
        section("prefix", &prefix::PREFIX),
        section("unknown", &UNKNOWN),
        key("websockets", Kind::Boolean, "Passes WebSockets through, whose answers are not stored. Without, they get status 426, and clients of Responses send their requests by POST. Default: true."),
        section("admin", &ADMIN),
        section("telemetry", &telemetry::TELEMETRY),
    ]],
);

#[rustfmt::skip]
static TLS: Table = Table::new(
    "`tls`",
    "The certificate of the listener. Changed files are read again.",
    &[&[
        required("certificate", Kind::Text, "A PEM file with the certificate and those that lead to its root."),
        required("key", Kind::Text, "A PEM file with the private key."),
    ]],
);

#[rustfmt::skip]
static CACHE: Table = Table::new(
    "`cache`",
    "Limits for stored answers.",
    &[&[
        key("max_ttl", DURATION, "The maximum time to live of an answer."),
        key("stale_while_revalidate", DURATION, "The time after its end in which a stored answer is still served while a new one is received. Default: none."),
        key("stale_if_error", DURATION, "The time after its end in which a stored answer is served in place of an error of the upstream. Default: none."),
    ]],
);

#[rustfmt::skip]
static UNKNOWN: Table = Table::new(
    "`unknown`",
    "Members of requests that this version does not know.",
    &[&[
        key("key", Kind::Texts, "Names of parameters at the top of requests that change nothing but the answer: they are in the key, and answers are stored although they are set. Default: none."),
    ]],
);

#[rustfmt::skip]
static ADMIN: Table = Table::new(
    "`admin`",
    "The listener for the operator.",
    &[&[
        required("listen", Kind::Text, "The address to listen on, such as `127.0.0.1:4115`."),
        required("token", Kind::Table(&CREDENTIAL), "The token that its requests have to present."),
    ]],
);

#[rustfmt::skip]
static CREDENTIAL: Table = Table::new(
    "a credential",
    "The place of a credential; exactly one of the keys.",
    &[&[
        key("env", Kind::Text, "A variable of the environment that contains the credential."),
        key("file", Kind::Text, "A file that contains the credential, on one line. A relative path starts at the directory of the configuration file."),
    ]],
);

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        Self::from_root(&tree::parse(file, text)?)
    }

    /// Reads a parsed configuration file.
    ///
    /// # Errors
    /// All problems of the file.
    pub fn from_root(root: &Node) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let config = Self::read(root, &mut problems).unwrap_or_default();
        if problems.iter().all(|problem| problem.is_warning) {
            Ok(config)
        } else {
            Err(problems)
        }
    }

    /// Returns the JSON Schema of configuration files.
    #[must_use]
    pub fn schema() -> Value {
        let mut schema = GATEWAY.schema(false);
        schema["$schema"] = Value::from("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = Value::from("Cachalot gateway");
        schema
    }

    /// The number of upstreams and of keys that the file declares.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.upstreams.len(), self.keys.len())
    }

    /// Returns the files that the configuration names.
    #[must_use]
    pub fn files(&self) -> Vec<&Path> {
        let upstreams = self
            .upstreams
            .iter()
            .filter_map(|it| it.credential.as_ref());
        let admin = self.admin.as_ref().map(|admin| &admin.token);
        let telemetry = self.telemetry.iter();
        let telemetry = telemetry.filter_map(|it| it.credential.as_ref());
        let credentials = upstreams.chain(admin).chain(telemetry);
        let credentials = credentials.filter_map(|it| match &it.kind {
            CredentialKind::File(path) => Some(path.as_path()),
            CredentialKind::Environment(_) => None,
        });
        let tls = self
            .tls
            .iter()
            .flat_map(|it| [it.certificate.as_path(), it.key.as_path()]);
        credentials.chain(tls).collect()
    }

    fn read(root: &Node, problems: &mut Vec<Problem>) -> Option<Self> {
        let values = GATEWAY.read(root, problems)?;
        let upstreams = values.tables("upstreams");
        let upstreams = upstreams.filter_map(|(name, it)| UpstreamConfig::read(name, it, problems));
        let upstreams: Vec<UpstreamConfig> = upstreams.collect();
        let keys = values.tables("keys");
        let keys: Vec<KeyConfig> = keys
            .filter_map(|(name, it)| KeyConfig::read(name, it, problems))
            .collect();
        if upstreams.len() == values.map("upstreams").len() {
            upstream::check_fallbacks(&upstreams, problems);
            key::check_upstreams(&keys, &upstreams, problems);
        }
        if keys.is_empty() && values.map("keys").is_empty() {
            let credentials = upstreams.iter().filter_map(|it| it.credential.as_ref());
            problems.extend(credentials.map(|credential| {
                Problem::new(
                    "credential-without-keys",
                    "a credential of the operator, but no `keys`: everyone who reaches the gateway could spend it",
                )
                .at(&credential.place)
                .help("declare a key for each client: `cachalot serve --new-key` makes one")
            }));
        }
        let admin = values.table("admin").and_then(|admin| {
            let listen = address(admin, "listen", problems);
            let token = admin.table("token");
            let token = token.and_then(|token| CredentialSource::from_values(token, problems));
            Some(AdminConfig {
                listen: listen?,
                token: token?,
            })
        });
        Some(Self {
            listen: address(values, "listen", problems),
            allowed_hosts: values.texts("allow_hosts").unwrap_or_default(),
            tls: values.table("tls").and_then(|tls| {
                Some(TlsFiles {
                    certificate: tls.text("certificate")?.into(),
                    key: tls.text("key")?.into(),
                    place: tls.mapping().place.clone(),
                })
            }),
            admin,
            times: values
                .table("cache")
                .map_or_else(CacheTimes::default, |cache| CacheTimes {
                    max_ttl: cache.duration("max_ttl"),
                    stale_while_revalidate: cache
                        .duration("stale_while_revalidate")
                        .unwrap_or_default(),
                    stale_if_error: cache.duration("stale_if_error").unwrap_or_default(),
                }),
            prefix: values
                .table("prefix")
                .map(PrefixConfig::read)
                .unwrap_or_default(),
            accepted: accepted(values, problems),
            without_websockets: values.boolean("websockets") == Some(false),
            upstreams,
            keys,
            telemetry: values
                .table("telemetry")
                .and_then(|it| TelemetryConfig::read(it, problems)),
        })
    }
}

impl CredentialSource {
    fn from_values(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Self> {
        let kind = match (values.text("env"), values.text("file")) {
            (Some(name), None) => CredentialKind::Environment(name.to_owned()),
            (None, Some(file)) => CredentialKind::File(file.into()),
            _ => {
                let message = "a credential needs exactly one of `env` and `file`";
                let problem = Problem::new("bad-value", message).at(&values.mapping().head());
                problems.push(problem.help(
                    "write `env: NAME` or `file: PATH`; the file itself contains no credentials",
                ));
                return None;
            }
        };
        Some(Self {
            kind,
            place: values.mapping().place.clone(),
        })
    }
}

/// Reads the names of unknown parameters that answers may be stored with.
fn accepted(values: Values<'_>, problems: &mut Vec<Problem>) -> Vec<String> {
    let Some(values) = values.table("unknown") else {
        return Vec::new();
    };
    let names = values.texts("key").unwrap_or_default();
    let is_state = |name: &String| {
        let mut tables = shared_members::all();
        tables.any(|table| {
            let facts = table.of_request(name);
            facts.is_some_and(|facts| facts.does == Effect::State)
        })
    };
    for name in names.iter().filter(|name| is_state(name)) {
        let message = format!("`{name}` refers to state at the provider");
        let problem = Problem::new("bad-value", message).at(&values.place("key"));
        problems.push(problem.help("answers to requests with it are never stored: remove it"));
    }
    names
}

fn address(values: Values<'_>, key: &str, problems: &mut Vec<Problem>) -> Option<SocketAddr> {
    let text = values.text(key)?;
    match text.parse() {
        Ok(address) => Some(address),
        Err(_) => {
            let message = format!("`{key}` is `{text}`; expected an address with a port");
            let problem = Problem::new("bad-value", message).at(&values.place(key));
            problems.push(problem.help("for example 127.0.0.1:4114 or [::1]:4114"));
            None
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn codes(text: &str) -> Vec<(&'static str, String)> {
        let problems = Config::parse("gateway.yaml", text).unwrap_err();
        problems
            .into_iter()
            .map(|it| (it.code, it.message))
            .collect()
    }

    #[test]
    fn a_file_for_a_team_is_read() {
        let text = include_str!("../../../examples/gateway/gateway.yaml");
        let config = Config::parse("gateway.yaml", text).unwrap();
        assert_eq!(config.counts(), (2, 2));
        assert!(config.admin.is_some() && config.listen.is_some());
    }

    #[test]
    fn an_empty_mapping_is_a_configuration() {
        assert_eq!(
            Config::parse("gateway.yaml", "{}").unwrap().counts(),
            (0, 0)
        );
    }

    /// The rows of `docs/gateway.md` are those of the declared tables.
    #[test]
    fn keys_are_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md");
        let text = std::fs::read_to_string(path).unwrap();
        let nested = |table: &'static Table, prefix: &str| table.rows(prefix, true);
        let mut rows = nested(&GATEWAY, "");
        rows.extend(nested(&upstream::UPSTREAM, "upstreams.NAME."));
        rows.extend(nested(&key::KEY, "keys.NAME."));
        let missing = rows.iter().filter_map(|row| {
            let line = format!("| `{}` | {} |", row.key, row.parameter.description());
            (!text.contains(&line)).then_some(line)
        });
        let missing: Vec<String> = missing.collect();
        assert!(missing.is_empty(), "{}", missing.join("\n"));
    }

    #[test]
    fn problems_are_reported_together() {
        let digest = "0".repeat(64);
        let cases = [
            ("listen: here", "bad-value"),
            ("upstreams: {a: {}}", "missing-key"),
            ("upstreams: {a: {url: 'ftp://x'}}", "bad-value"),
            ("upstreams: {'a b': {url: 'http://x'}}", "bad-value"),
            (
                "upstreams: {openai: {credential: {env: A}}}",
                "credential-without-keys",
            ),
            ("upstreams: {openai: {credential: {}}}", "bad-value"),
            ("upstreams: {openai: {fallbacks: [b]}}", "unknown-upstream"),
            ("keys: {a: {}}", "missing-key"),
            ("keys: {a: {digest: abc}}", "bad-value"),
            ("keys: {'a:b': {digest: abc}}", "bad-value"),
            ("admin: {listen: '127.0.0.1:1'}", "missing-key"),
            ("telemetry: {}", "missing-key"),
            ("telemetry: {otlp: 'localhost:4318'}", "bad-value"),
            ("telemetry: {otlp: 'http://a', credential: {}}", "bad-value"),
            ("upstream: {}", "unknown-key"),
            ("unknown: {key: [search, thread]}", "bad-value"),
            ("unknown: {items: [x]}", "unknown-key"),
            ("unknown: {key: {a: b}}", "wrong-type"),
        ];
        for (text, code) in cases {
            let found = codes(text);
            assert!(found.iter().any(|(it, _)| *it == code), "{text}: {found:?}");
        }
        let both = format!(
            "keys: {{a: {{digest: '{digest}'}}, b: {{digest: '{digest}', upstreams: [x]}}}}"
        );
        let found = codes(&both);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
