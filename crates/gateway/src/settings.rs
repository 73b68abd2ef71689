//! Upstreams and keys of a running gateway, with their credentials. A reload replaces all of them at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::config::Named;
use cachalot_core::{Digest, Problem, Secret};
use http::{HeaderMap, Method};
use rustls::ServerConfig;

use crate::client_profile::Clients;
use crate::collector::Collector;
use crate::command::CommandRun;
use crate::config::{
    CacheTimes, Config, CredentialSource, GuardConfig, KeepAliveConfig, PrefixConfig,
};
use crate::credentials::Credentials;
use crate::error_body::ErrorBody;
use crate::request_api::{self, Decision, Target};
use crate::route::Route;
use crate::upstream::Upstream;
use crate::virtual_key::{PREFIX, VirtualKey, presented};

/// Upstreams and keys of a gateway.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The number of these settings: a reload has the next one.
    pub(crate) number: u64,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) keys: Vec<Arc<VirtualKey>>,
    pub(crate) times: CacheTimes,
    pub(crate) prefix: PrefixConfig,
    /// Unknown parameters that change nothing but the answer.
    pub(crate) accepted: Arc<[String]>,
    /// What is known of clients.
    pub(crate) clients: Clients,
    /// Set if all WebSockets are passed through, or none is.
    pub(crate) websockets: Option<bool>,
    /// The certificate of the listeners.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// SHA-256 of the token of the listener for the operator.
    pub(crate) admin_token: Option<[u8; 32]>,
    /// The collector of spans; without it, requests are not traced.
    pub(crate) collector: Option<Arc<Collector>>,
}

/// The client of a request.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// A client with credentials of its own, or none.
    Own,
    /// A client with a key of the gateway in place of a credential.
    Key(Arc<VirtualKey>),
    /// A client with a key of the gateway in [`KEY_HEADER`], which says who it is, beside credentials of its own.
    Named(Arc<VirtualKey>),
}

/// The upstreams for a request, in the order in which they are asked.
#[derive(Debug, Clone)]
pub(crate) struct Candidates {
    pub(crate) first: Arc<Upstream>,
    /// Equally suitable ones, which are asked while the first is left out after failures.
    pub(crate) peers: Vec<Arc<Upstream>>,
    pub(crate) fallbacks: Vec<Arc<Upstream>>,
}

/// The header with a key of the gateway of a client that has credentials of its own.
const KEY_HEADER: &str = "x-cachalot-key";

/// The host of OpenAI's own API.
const OPENAI_HOST: &str = "api.openai.com";

impl Caller {
    /// Returns the operator's credential with which the client's requests reach the upstream; `None` if they reach it
    /// with its own.
    ///
    /// # Errors
    /// The response to a client that may not reach the upstream.
    pub(crate) fn credential<'u>(
        &self,
        upstream: &'u Upstream,
    ) -> Result<Option<&'u Secret<String>>, ErrorBody> {
        match self {
            Self::Own | Self::Named(_) if upstream.credential.is_none() => Ok(None),
            // A key of the gateway is never sent itself, so its client needs a credential of the operator.
            Self::Key(key) | Self::Named(key) => key.credential(upstream).map(Some),
            Self::Own => Err(ErrorBody::unauthorized(
                "key_required",
                format!(
                    "the upstream `{}` is for clients with a key of this gateway",
                    upstream.name()
                ),
            )),
        }
    }

    /// Returns the key of the gateway.
    pub(crate) fn key(&self) -> Option<&Arc<VirtualKey>> {
        match self {
            Self::Own => None,
            Self::Key(key) | Self::Named(key) => Some(key),
        }
    }
}

impl Settings {
    /// Returns settings with these upstreams, and no keys.
    #[must_use]
    pub fn new(upstreams: Vec<Upstream>) -> Self {
        Self {
            number: 0,
            upstreams: upstreams.into_iter().map(Arc::new).collect(),
            keys: Vec::new(),
            times: CacheTimes::default(),
            prefix: PrefixConfig::default(),
            accepted: Arc::default(),
            clients: Clients::built_in().clone(),
            websockets: None,
            tls: None,
            admin_token: None,
            collector: None,
        }
    }

    /// Reads the credentials that a configuration names. Relative paths start at `directory`.
    ///
    /// # Errors
    /// The problems of the credentials that cannot be read.
    pub fn resolve(
        config: &Config,
        environment: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, Vec<Problem>> {
        Self::resolve_with(config, directory, |source| {
            source.read(environment, directory)
        })
    }

    /// The same without credentials of upstreams, for a gateway that answers from the cache only.
    ///
    /// # Errors
    /// The problems of other files and credentials that cannot be read.
    pub fn without_credentials(
        config: &Config,
        environment: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Self, Vec<Problem>> {
        let of_upstreams: Vec<_> = config
            .upstreams
            .iter()
            .filter_map(|upstream| upstream.value.credential.as_ref())
            .collect();
        Self::resolve_with(config, directory, |source| {
            if of_upstreams.iter().any(|other| other.place == source.place) {
                Ok(Secret::new("none".to_owned()))
            } else {
                source.read(environment, directory)
            }
        })
    }

    fn resolve_with(
        config: &Config,
        directory: &Path,
        read: impl Fn(&CredentialSource) -> Result<Secret<String>, Box<Problem>>,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut credential = |source: &CredentialSource| {
            read(source).map_err(|problem| problems.push(*problem)).ok()
        };
        let mut upstreams = Vec::new();
        for Named { name, value } in &config.upstreams {
            let mut upstream = match value.upstream(name) {
                Ok(upstream) => upstream,
                Err(problem) => return Err(vec![*problem]),
            };
            upstream.credential = value
                .credential
                .as_ref()
                .and_then(&mut credential)
                .map(Arc::new);
            upstreams.push(upstream);
        }
        if config.upstreams.is_empty() {
            upstreams = Upstream::built_in();
        }
        let token = config
            .admin
            .as_ref()
            .and_then(|admin| credential(&admin.token));
        let telemetry = config.telemetry.as_ref();
        let at_collector =
            telemetry.and_then(|telemetry| credential(telemetry.credential.as_ref()?));
        let tls = config.tls.as_ref().and_then(|files| {
            let read = files.read(directory);
            read.map_err(|problem| problems.push(*problem)).ok()
        });
        let collector = telemetry.and_then(|telemetry| {
            let collector = telemetry.collector(at_collector.as_ref());
            collector.map_err(|problem| problems.push(*problem)).ok()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        let keys = config.keys.iter().cloned();
        Ok(Self {
            keys: keys.map(|key| Arc::new(VirtualKey::new(key))).collect(),
            times: config.cache.times,
            prefix: config.prefix,
            accepted: config.unknown.key.clone().into(),
            clients: Clients::with(&config.clients),
            websockets: config.websockets,
            tls,
            admin_token: token.map(|token| *Digest::sha256(token.expose().as_bytes()).as_bytes()),
            collector: collector.map(Arc::new),
            ..Self::new(upstreams)
        })
    }

    /// Replaces the upstream of the same name, or adds one.
    pub fn set_upstream(&mut self, upstream: Upstream) {
        self.upstreams
            .retain(|known| known.name() != upstream.name());
        self.upstreams.push(Arc::new(upstream));
    }

    /// Refuses a request once that would write an expired prefix again, if that costs more than `above` picodollars.
    pub fn guard_prefixes(&mut self, above: u64) {
        self.prefix.guard = Some(GuardConfig { above });
    }

    /// Renews the prefixes of conversations up to `until` after their last request, while that pays, for at most `max`
    /// picodollars in each pause.
    pub fn keep_prefixes_alive(&mut self, until: Duration, max: u64) {
        self.prefix.keep_alive = Some(KeepAliveConfig { until, max });
    }

    /// Adapts the settings to the command that the gateway is for.
    pub(crate) fn for_command(mut self, command: &CommandRun) -> Self {
        self.clients = self.clients.ignoring(&command.ignored_texts);
        // Some clients do not ask for the usage of their streams, which would be unpriced in the bill. Other servers with
        // this API may refuse the member.
        for upstream in &mut self.upstreams {
            if upstream.host() == OPENAI_HOST {
                Arc::make_mut(upstream).stream_usage = true;
            }
        }
        self
    }

    /// Returns the upstreams.
    pub fn upstreams(&self) -> impl Iterator<Item = &Upstream> {
        self.upstreams.iter().map(AsRef::as_ref)
    }

    /// Takes over the counts of the last minute and the pauses of `old`, for keys and upstreams that are unchanged.
    #[must_use]
    pub(crate) fn succeed(mut self, old: &Self) -> Self {
        self.number = old.number + 1;
        for key in &mut self.keys {
            // A key with other limits begins with new counts.
            if let Some(known) = old.keys.iter().find(|known| known.has_limits_of(key)) {
                *key = Arc::new(VirtualKey {
                    name: key.name.clone(),
                    config: key.config.clone(),
                    rate: Arc::clone(&known.rate),
                });
            }
        }
        for upstream in &mut self.upstreams {
            let mut known = old.upstreams.iter();
            let is_same = |it: &&Arc<Upstream>| {
                it.name() == upstream.name()
                    && it.base() == upstream.base()
                    && it.breaker_rule == upstream.breaker_rule
            };
            if let Some(known) = known.find(is_same) {
                Arc::make_mut(upstream).breaker = Arc::clone(&known.breaker);
            }
        }
        self
    }

    /// Finds the client of a request by its credentials.
    ///
    /// # Errors
    /// The response to a client with an unknown key of the gateway.
    pub(crate) fn caller(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Caller, ErrorBody> {
        let unknown = || {
            let message = "the key is not one of this gateway";
            ErrorBody::unauthorized("unknown_key", message)
        };
        if let Some(key) = headers.get(KEY_HEADER) {
            let key = self.key(key.as_bytes()).ok_or_else(unknown)?;
            let own = presented(headers, query);
            // The credentials of the client are passed on, and a key must not be.
            let is_key = |text: &str| contains_key(text) || self.key(text.as_bytes()).is_some();
            if contains_key(query.unwrap_or_default()) || own.into_iter().any(is_key) {
                return Err(ErrorBody::bad_request(
                    "malformed_header",
                    "a key of the gateway is in x-cachalot-key and in place of a credential",
                ));
            }
            return Ok(Caller::Named(key));
        }
        // In a form that is not read, such as percent-encoded.
        let mut is_unknown = contains_key(query.unwrap_or_default());
        for text in presented(headers, query) {
            if let Some(key) = self.key(text.as_bytes()) {
                return Ok(Caller::Key(key));
            }
            is_unknown |= contains_key(text);
        }
        if !is_unknown {
            Ok(Caller::Own)
        } else {
            Err(unknown())
        }
    }

    /// Finds a key. Keys are compared by their digests, so the time of the comparison says nothing about a key.
    fn key(&self, text: &[u8]) -> Option<Arc<VirtualKey>> {
        if self.keys.is_empty() {
            return None;
        }
        let digest = Digest::sha256(text);
        let mut keys = self.keys.iter();
        let found = keys.find(|key| key.config.digest == digest);
        found.cloned()
    }

    /// Decides which API a request belongs to, and which upstreams may get it.
    ///
    /// # Errors
    /// The response to a client whose request no upstream may get.
    pub(crate) fn decide(
        &self,
        caller: &Caller,
        route: &Route,
        method: &Method,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Decision, ErrorBody> {
        let mut credentials = Credentials::read(headers, query);
        credentials.is_of_gateway = matches!(caller, Caller::Key(_));
        let is_open =
            |upstream: &Upstream| upstream.weight > 0 && caller.credential(upstream).is_ok();
        let target = Target {
            method,
            named: route.named.as_deref(),
            path: &route.path,
        };
        let decision = request_api::decide(target, &credentials, &self.upstreams, is_open);
        Ok(decision?)
    }

    /// Checks that the client can reach an upstream, before its body is read.
    ///
    /// # Errors
    /// The response to the client.
    pub(crate) fn check_reach(
        &self,
        caller: &Caller,
        route: &Route,
        decision: &Decision,
    ) -> Result<(), ErrorBody> {
        let permitted = || {
            self.upstreams
                .iter()
                .filter(|upstream| decision.permits(upstream))
        };
        let takes_traffic =
            |upstream: &&Arc<Upstream>| route.named.is_some() || upstream.weight > 0;
        let mut refusal = None;
        for upstream in permitted().filter(takes_traffic) {
            match caller.credential(upstream) {
                Ok(_) => return Ok(()),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| match permitted().next() {
            Some(_) => without_traffic(""),
            None => {
                let message = "no upstream offers the API of this path";
                ErrorBody::not_found("unknown_upstream", message)
            }
        }))
    }

    /// Returns the upstreams for a request, in the order in which they are asked: the named one, or else one of those
    /// that the decision permits, that the client may reach and that is preferred for the model; then its fallbacks. Of
    /// equally suitable upstreams, the digest of the request decides.
    ///
    /// # Errors
    /// The response to a client whose request belongs to no upstream.
    pub(crate) fn candidates(
        &self,
        caller: &Caller,
        route: &Route,
        decision: &Decision,
        model: &str,
        digest: impl FnOnce() -> Digest,
    ) -> Result<Candidates, ErrorBody> {
        let mut permitted = self
            .upstreams
            .iter()
            .filter(|upstream| decision.permits(upstream));
        let mut suitable = match route.named {
            Some(_) => permitted.next().into_iter().collect(),
            None => {
                self.check_reach(caller, route, decision)?;
                let open = permitted
                    .filter(|upstream| upstream.weight > 0 && caller.credential(upstream).is_ok());
                let open: Vec<&Arc<Upstream>> = open.collect();
                // The first of these conditions that any upstream meets decides: without one, a server gets nothing.
                let conditions: [fn(&Upstream, &str) -> bool; 3] = [
                    Upstream::is_for,
                    |upstream, _| upstream.models.is_empty(),
                    |upstream, _| upstream.is_api_declared,
                ];
                let suitable = conditions.iter().map(|is_met| {
                    let open = open.iter().copied();
                    open.filter(|upstream| is_met(upstream, model))
                        .collect::<Vec<_>>()
                });
                let mut suitable = suitable.filter(|found| !found.is_empty());
                let suitable = suitable.next().unwrap_or_default();
                ranked(&suitable, digest)
            }
        }
        .into_iter();
        let first = suitable.next().ok_or_else(|| without_traffic(model))?;
        let peers = suitable.cloned().collect();
        let fallbacks = first.fallbacks.iter();
        let fallbacks = fallbacks
            .filter_map(|name| {
                self.upstreams
                    .iter()
                    .find(|upstream| upstream.name() == name)
            })
            // A fallback is asked with a credential of the operator only: those of a client are sent to one server.
            .filter(|upstream| {
                upstream.credential.is_some() && caller.credential(upstream).is_ok()
            });
        Ok(Candidates {
            first: Arc::clone(first),
            peers,
            fallbacks: fallbacks.cloned().collect(),
        })
    }
}

/// Returns true if a text contains a key that `cachalot serve --new-key` made.
fn contains_key(text: &str) -> bool {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
    decoded.contains(PREFIX)
}

/// Returns the response to a client whose request names no upstream, and gets to none by its path and model.
fn without_traffic(model: &str) -> ErrorBody {
    let of_model = match model {
        "" => String::new(),
        model => format!(" for the model `{model}`"),
    };
    ErrorBody::not_found(
        "unknown_upstream",
        format!(
            "no upstream takes this request{of_model}: name one in the path (/u/NAME/…), or give one `api`, `models` or `weight` in the gateway's file"
        ),
    )
}

/// Orders upstreams by weight: each gets its share of the digests (weighted rendezvous hashing), and keeps it when
/// others come and go.
fn ranked<'a>(
    upstreams: &[&'a Arc<Upstream>],
    digest: impl FnOnce() -> Digest,
) -> Vec<&'a Arc<Upstream>> {
    if let [] | [_] = upstreams {
        return upstreams.to_vec();
    }
    let digest = digest();
    let scored = upstreams.iter().map(|upstream| {
        let digest = Digest::sha256_of_parts(&[upstream.name().as_bytes(), digest.as_bytes()]);
        let first = digest
            .as_bytes()
            .first_chunk::<8>()
            .copied()
            .unwrap_or_default();
        // In (0, 1), with the precision of a float.
        let uniform = ((u64::from_le_bytes(first) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-f64::from(upstream.weight) / uniform.ln(), *upstream)
    });
    let mut scored: Vec<(f64, &Arc<Upstream>)> = scored.collect();
    scored.sort_by(|(one, _), (two, _)| two.total_cmp(one));
    scored.into_iter().map(|(_, upstream)| upstream).collect()
}

impl CredentialSource {
    fn read(
        &self,
        environment: &BTreeMap<String, String>,
        directory: &Path,
    ) -> Result<Secret<String>, Box<Problem>> {
        let (read, name) = match (&self.file, &self.env) {
            (Some(path), _) => {
                let read = std::fs::read_to_string(directory.join(path));
                let name = path.display().to_string();
                (read.map_err(|error| format!("{name}: {error}")), name)
            }
            (None, variable) => {
                let name = variable.clone().unwrap_or_default();
                let missing = || format!("the variable `{name}` of the environment is not set");
                (environment.get(&name).cloned().ok_or_else(missing), name)
            }
        };
        let problem =
            |message: String| Box::new(Problem::new("missing-credential", message).at(&self.place));
        let text = read.map_err(problem)?;
        let text = text.trim();
        if text.is_empty() || text.contains(char::is_control) {
            Err(problem(format!(
                "`{name}` contains no credential on one line"
            )))
        } else {
            Ok(Secret::new(text.to_owned()))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::route;

    fn settings(text: &str) -> Result<Settings, Vec<Problem>> {
        let config = Config::parse("gateway.yaml", text).unwrap();
        let environment = BTreeMap::from([("SECRET".to_owned(), "s1 ".to_owned())]);
        Settings::resolve(&config, &environment, Path::new("/"))
    }

    fn names(found: &Candidates) -> Vec<&str> {
        let all = std::iter::once(&found.first).chain(&found.fallbacks);
        all.map(|upstream| upstream.name()).collect()
    }

    fn candidates(
        settings: &Settings,
        caller: &Caller,
        path: &str,
        model: &str,
        seed: u32,
    ) -> Result<Candidates, ErrorBody> {
        let none = HeaderMap::new();
        let route = route::find(&Method::POST, path, &none)?;
        let decision = settings.decide(caller, &route, &Method::POST, &none, None)?;
        let digest = || Digest::sha256(&seed.to_le_bytes());
        settings.candidates(caller, &route, &decision, model, digest)
    }

    #[test]
    fn upstreams_are_chosen_by_name_model_and_weight() {
        let digest = "a".repeat(64);
        let settings = settings(&format!(
            "upstreams:
  openai: {{fallbacks: [second]}}
  second: {{url: 'http://b', credential: {{env: SECRET}}}}
  local: {{url: 'http://c', models: ['llama*']}}
  heavy: {{url: 'http://d', api: anthropic, weight: 3}}
  light: {{url: 'http://e', api: anthropic, weight: 1}}
keys: {{a: {{digest: {digest}}}}}
"
        ))
        .unwrap();
        const CHAT: &str = "/v1/chat/completions";
        let of = |path, model, seed| candidates(&settings, &Caller::Own, path, model, seed);
        // A fallback has a credential of the operator, which such a client does not reach.
        assert_eq!(names(&of(CHAT, "gpt-4o", 1).unwrap()), ["openai"]);
        let named = Caller::Named(Arc::clone(&settings.keys[0]));
        let found = candidates(
            &settings,
            &named,
            "/u/openai/v1/chat/completions",
            "gpt-4o",
            1,
        );
        assert_eq!(names(&found.unwrap()), ["openai", "second"]);
        assert_eq!(names(&of(CHAT, "llama-4", 1).unwrap()), ["local"]);
        let second = of("/u/second/v1/chat/completions", "llama-4", 1);
        assert_eq!(names(&second.unwrap()), ["second"]);
        assert!(of("/v1beta/models/g:generateContent", "g", 1).is_err());
        let heavy = (0..4_000).filter(|seed| {
            let found = of("/v1/messages", "claude", *seed).unwrap();
            names(&found) == ["heavy"]
        });
        let share = heavy.count();
        assert!((2_850..3_150).contains(&share), "{share}");
    }

    #[test]
    fn missing_credentials_are_reported_with_their_places() {
        let digest = "a".repeat(64);
        let text = format!(
            "upstreams:
  openai: {{credential: {{env: ABSENT}}}}
  anthropic: {{credential: {{file: no/such/file}}}}
keys: {{a: {{digest: {digest}}}}}
"
        );
        let problems = settings(&text).unwrap_err();
        assert_eq!(problems.len(), 2);
        assert!(
            problems.iter().all(|problem| problem.place.is_some()),
            "{problems:?}"
        );
    }

    #[test]
    fn keys_are_found_by_their_digests() {
        let digest = Digest::sha256(b"cachalot-one").to_hex();
        let settings = settings(&format!("keys: {{a: {{digest: {digest}}}}}")).unwrap();
        let caller = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            settings.caller(&headers, None)
        };
        for (name, value) in [
            ("authorization", "Bearer cachalot-one"),
            ("authorization", "bearer  cachalot-one"),
            ("x-api-key", "cachalot-one"),
            ("x-goog-api-key", "cachalot-one"),
        ] {
            assert!(
                matches!(caller(name, value), Ok(Caller::Key(_))),
                "{name}: {value}"
            );
        }
        assert!(matches!(
            caller("authorization", "Bearer sk-1"),
            Ok(Caller::Own)
        ));
        assert!(caller("x-api-key", "cachalot-two").is_err());
        assert!(matches!(
            caller(KEY_HEADER, "cachalot-one"),
            Ok(Caller::Named(_))
        ));
        assert!(caller(KEY_HEADER, "sk-1").is_err());
        let query = settings.caller(&HeaderMap::new(), Some("alt=sse&key=cachalot-one"));
        assert!(matches!(query, Ok(Caller::Key(_))));
    }
}
