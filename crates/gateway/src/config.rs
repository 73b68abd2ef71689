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

use cachalot_cache::{CacheBounds, EngineSettings, SharedStoreSettings};
use cachalot_core::config::{Named, Row, Settings, Values};
use cachalot_core::tree::{self, Node};
use cachalot_core::{Problem, Secret, SourceSpan};
use cachalot_model::DURATION;
use cachalot_model::wire::members::Effect;
use cachalot_model::wire::shared_members;
use serde_json::Value;

use crate::client_profile::{Client, ClientProfile, check_clients};

#[cfg(test)]
pub(crate) use key::WhenUnavailable;
pub(crate) use key::{BudgetConfig, KeyConfig};
pub use prefix::MIN_KEEP_ALIVE;
pub(crate) use prefix::{GuardConfig, KeepAliveConfig, PrefixConfig};
use telemetry::TelemetryConfig;
pub(crate) use upstream::UpstreamConfig;

/// The configuration of `cachalot serve`.
#[derive(Debug, Clone, Default, Settings)]
#[settings(name = "a gateway", check = check)]
pub struct Config {
    /// The address to listen on, such as `127.0.0.1:4114`.
    pub listen: Option<SocketAddr>,
    /// Further host names by which clients address the gateway.
    #[setting(key = "allow_hosts")]
    pub allowed_hosts: Vec<String>,
    /// The certificate of the listener. Changed files are read again.
    pub tls: Option<TlsFiles>,
    /// The servers that requests are passed on to, by name. Without it, `openai`, `anthropic` and `gemini`.
    pub(crate) upstreams: Vec<Named<UpstreamConfig>>,
    /// The keys that the gateway gives to its clients, by name.
    pub(crate) keys: Vec<Named<KeyConfig>>,
    #[setting(default)]
    pub(crate) cache: CacheConfig,
    #[setting(default)]
    pub(crate) prefix: PrefixConfig,
    #[setting(default)]
    pub(crate) unknown: UnknownMembers,
    /// What differs between two equal runs of a client, by its name. The program knows some; the file adds to them.
    pub(crate) clients: Vec<Client>,
    /// Passes all WebSockets through, or none: these get status 426, and clients of Responses send their requests by POST.
    /// What is passed through is neither stored nor counted. Default: all but those of clients that then send their
    /// requests by POST at once, such as Codex.
    pub(crate) websockets: Option<bool>,
    /// The listener for the operator.
    pub admin: Option<AdminConfig>,
    pub(crate) telemetry: Option<TelemetryConfig>,
    /// A database to which the calls of the ledger are copied, without their inputs, `postgres://USER@HOST/DATABASE`; the
    /// password is that of `PGPASSWORD`.
    pub ledger: Option<Secret<String>>,
}

/// Stored answers.
#[derive(Debug, Clone, Default, Settings)]
#[settings(name = "`cache`")]
pub(crate) struct CacheConfig {
    /// Their ages.
    #[setting(flatten)]
    pub(crate) times: CacheTimes,
    /// The limits of the cache.
    #[setting(flatten)]
    pub(crate) limits: EngineSettings,
    /// How a store on a server is used.
    #[setting(flatten)]
    pub(crate) shared: SharedStoreSettings,
}

/// Ages of stored answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Settings)]
#[settings(name = "`cache`")]
pub(crate) struct CacheTimes {
    /// The maximum time to live of an answer.
    #[setting(kind = DURATION)]
    pub(crate) max_ttl: Option<Duration>,
    /// The time after its end in which a stored answer is still served while a new one is received. Default: none.
    #[setting(kind = DURATION, default)]
    pub(crate) stale_while_revalidate: Duration,
    /// The time after its end in which a stored answer is served in place of an error of the upstream. Default: none.
    #[setting(kind = DURATION, default)]
    pub(crate) stale_if_error: Duration,
}

/// Members of requests that this version does not know.
#[derive(Debug, Clone, Default, Settings)]
#[settings(name = "`unknown`", check = check_unknown)]
pub(crate) struct UnknownMembers {
    /// Names of parameters at the top of requests that change nothing but the answer: they are in the key, and answers
    /// are stored although they are set. Default: none.
    pub(crate) key: Vec<String>,
}

/// The certificate of the listener. Changed files are read again.
#[derive(Debug, Clone, PartialEq, Eq, Settings)]
#[settings(name = "`tls`")]
pub struct TlsFiles {
    /// A PEM file with the certificate and those that lead to its root.
    pub certificate: PathBuf,
    /// A PEM file with the private key.
    pub key: PathBuf,
    #[setting(place)]
    pub(crate) place: SourceSpan,
}

/// The listener for the operator.
#[derive(Debug, Clone, Settings)]
#[settings(name = "`admin`")]
pub struct AdminConfig {
    /// The address to listen on, such as `127.0.0.1:4115`.
    pub listen: SocketAddr,
    /// The token that its requests have to present.
    pub(crate) token: CredentialSource,
}

/// The place of a credential; exactly one of the keys.
#[derive(Debug, Clone, Settings)]
#[settings(name = "a credential", check = check_credential)]
pub(crate) struct CredentialSource {
    /// A variable of the environment that contains the credential.
    pub(crate) env: Option<String>,
    /// A file that contains the credential, on one line. A relative path starts at the directory of the configuration
    /// file.
    pub(crate) file: Option<PathBuf>,
    #[setting(place)]
    pub(crate) place: SourceSpan,
}

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
        let config = Settings::read(root, &mut problems).unwrap_or_default();
        if problems.iter().all(|problem| problem.is_warning) {
            Ok(config)
        } else {
            Err(problems)
        }
    }

    /// Returns the JSON Schema of configuration files.
    #[must_use]
    pub fn schema() -> Value {
        let mut schema = Self::TABLE.schema(false);
        schema["$schema"] = Value::from("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = Value::from("Cachalot gateway");
        schema
    }

    /// The number of upstreams and of keys that the file declares.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.upstreams.len(), self.keys.len())
    }

    /// Returns the bounds of the cache.
    #[must_use]
    pub fn bounds(&self) -> CacheBounds {
        self.cache.limits.bounds()
    }

    /// Returns how a store on a server is used.
    #[must_use]
    pub fn shared_store(&self) -> SharedStoreSettings {
        self.cache.shared
    }

    /// Returns the files that the configuration names.
    #[must_use]
    pub fn files(&self) -> Vec<&Path> {
        let of_upstreams = self.upstreams.iter();
        let of_upstreams = of_upstreams.filter_map(|upstream| upstream.value.credential.as_ref());
        let of_admin = self.admin.iter().map(|admin| &admin.token);
        let of_telemetry = self.telemetry.iter();
        let of_telemetry = of_telemetry.filter_map(|telemetry| telemetry.credential.as_ref());
        let credentials = of_upstreams.chain(of_admin).chain(of_telemetry);
        let files = credentials.filter_map(|credential| credential.file.as_deref());
        let tls = self.tls.iter();
        let tls = tls.flat_map(|tls| [tls.certificate.as_path(), tls.key.as_path()]);
        files.chain(tls).collect()
    }
}

/// Returns the keys of a configuration file, for the documentation.
#[must_use]
pub fn keys() -> Vec<Row> {
    let mut rows = Config::TABLE.rows("", true);
    rows.extend(UpstreamConfig::TABLE.rows("upstreams.NAME.", true));
    rows.extend(KeyConfig::TABLE.rows("keys.NAME.", true));
    rows.extend(ClientProfile::TABLE.rows("clients.NAME.", true));
    rows
}

/// Checks what depends on several keys.
fn check(config: &Config, values: Values<'_>, problems: &mut Vec<Problem>) {
    let Config {
        upstreams, keys, ..
    } = config;
    key::check_names(keys, problems);
    check_clients(&config.clients, problems);
    for Named { name, value } in upstreams {
        problems.extend(value.upstream(name).err().map(|problem| *problem));
    }
    // Those with a problem are not there.
    if problems.iter().all(|problem| problem.is_warning) {
        upstream::check_fallbacks(upstreams, problems);
        key::check_upstreams(keys, upstreams, problems);
    }
    let is_postgres = |url: &Secret<String>| {
        let url = url.expose();
        ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
    };
    if config.ledger.as_ref().is_some_and(|url| !is_postgres(url)) {
        let problem = Problem::new("bad-value", "`ledger` is no URL of Postgres");
        let problem = problem.at(&values.place("ledger"));
        problems.push(problem.help("for example `postgres://USER@HOST/DATABASE`"));
    }
    if values.map("keys").is_empty() {
        let credentials = upstreams.iter();
        let credentials = credentials.filter_map(|upstream| upstream.value.credential.as_ref());
        problems.extend(credentials.map(|credential| {
            Problem::new(
                "credential-without-keys",
                "a credential of the operator, but no `keys`: everyone who reaches the gateway could spend it",
            )
            .at(&credential.place)
            .help("declare a key for each client: `cachalot serve --new-key` makes one")
        }));
    }
}

fn check_credential(credential: &CredentialSource, _: Values<'_>, problems: &mut Vec<Problem>) {
    if credential.env.is_some() == credential.file.is_some() {
        let message = "a credential needs exactly one of `env` and `file`";
        let problem = Problem::new("bad-value", message).at(&credential.place);
        problems
            .push(problem.help(
                "write `env: NAME` or `file: PATH`; the file itself contains no credentials",
            ));
    }
}

/// Checks the names of unknown parameters that answers may be stored with.
fn check_unknown(unknown: &UnknownMembers, values: Values<'_>, problems: &mut Vec<Problem>) {
    let is_state = |name: &&String| {
        let mut tables = shared_members::all();
        tables.any(|table| {
            let facts = table.of_request(name);
            facts.is_some_and(|facts| facts.does == Effect::State)
        })
    };
    for name in unknown.key.iter().filter(is_state) {
        let message = format!("`{name}` refers to state at the provider");
        let problem = Problem::new("bad-value", message).at(&values.place("key"));
        problems.push(problem.help("answers to requests with it are never stored: remove it"));
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
            .map(|problem| (problem.code, problem.message))
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

    #[test]
    fn the_engine_is_configured() {
        let text = "cache: {max_ttl: 1h, staleness: 2s, durable: true, local: true, patience: 20ms, \
                    store_timeout: 1s, max_bytes: 1, max_entries: 2, front_bytes: 3}";
        let config = Config::parse("gateway.yaml", text).unwrap();
        let expected = SharedStoreSettings {
            staleness: Duration::from_secs(2),
            durable: true,
            local: true,
        };
        assert_eq!(config.shared_store(), expected);
        let expected = CacheBounds {
            bytes: 1,
            entries: 2,
            front_bytes: 3,
            lookup_timeout: Duration::from_millis(20),
            store_timeout: Duration::from_secs(1),
            ..CacheBounds::default()
        };
        assert_eq!(config.bounds(), expected);
        let nothing = Config::parse("gateway.yaml", "{}").unwrap();
        assert_eq!(nothing.bounds(), CacheBounds::default());
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
            ("cache: {staleness: 2h}", "out-of-range"),
            ("cache: {patience: 0s}", "out-of-range"),
            ("cache: {path: x}", "unknown-key"),
            ("ledger: 'redis://localhost'", "bad-value"),
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
