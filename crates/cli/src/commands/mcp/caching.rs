//! The cache of the proxy: the engine, and the policy of each server.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::CacheMode;
use cachalot_core::{DigestKey, SecretSet};
use cachalot_mcp::caching::{CachingLayer, CachingOptions, ServerIdentity};
use cachalot_mcp::proxy_policy::ProxyPolicy;
use cachalot_mcp::relay::{Connection, Connector, ServerAddress, ServerCommand};
use cachalot_tools::builtin::shell::looks_like_a_credential;
use parking_lot::Mutex;

use crate::agent_file::{AgentFile, Expected, in_order};
use crate::arguments::McpProxy;
use crate::command_error::Result;
use crate::fleet_ledger;
use crate::wiring::{Engine, EngineOptions, ProcessEnvironment, Warn, run_id};

/// The engine of a proxy, and the policy of its servers.
pub(super) struct ProxyCache {
    engine: Engine,
    digest_key: DigestKey,
    policy: ProxyPolicy,
    /// The path of the policy.
    file: String,
    warn: Warn,
}

impl ProxyCache {
    /// Reads the policy and opens the store; `None` without a policy.
    ///
    /// # Errors
    /// The policy has problems, or the store is required and cannot be used.
    pub(super) async fn open(
        arguments: &McpProxy,
        environment: &ProcessEnvironment,
        warn: &Warn,
    ) -> Result<Option<Self>> {
        let Some(file) = &arguments.policy else {
            return Ok(None);
        };
        let policy = read_policy(file, environment)?;
        let home = environment.home(arguments.place.db.as_deref(), None)?;
        let run = run_id();
        let opening = EngineOptions {
            secrets: true,
            is_store_required: arguments.store.require_store,
            ..EngineOptions::new(environment, &home, &run, Arc::clone(warn))
        };
        let engine = opening.for_run().await?;
        let digest_key = match engine.secret_set.key() {
            Some(key) => key.clone(),
            None => DigestKey::ephemeral()?,
        };
        for (name, value) in &environment.environment {
            if looks_like_a_credential(name, value, &engine.secret_set) {
                engine.secret_set.learn(value);
            }
        }
        Ok(Some(Self {
            engine,
            digest_key,
            policy,
            file: file.to_string_lossy().into_owned(),
            warn: Arc::clone(warn),
        }))
    }

    /// Puts the cache in front of a server that is started as a program. `is_only`: it is the only one of the proxy.
    pub(super) fn of_program(
        &self,
        connector: Arc<dyn Connector>,
        command: &ServerCommand,
        is_only: bool,
        environment: &ProcessEnvironment,
    ) -> Arc<dyn Connector> {
        let words = std::iter::once(&command.program).chain(&command.arguments);
        let words: Vec<String> = words
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        for (name, value) in &command.environment {
            if looks_like_a_credential(name, value, &self.engine.secret_set) {
                self.engine.secret_set.learn(value);
            }
        }
        let mut variables = environment.environment.clone();
        variables.extend(command.environment.clone());
        let directory = command.directory.as_ref();
        let directory = directory.unwrap_or(&environment.directory).clone();
        let machine = fleet_ledger::host(environment);
        let (name, key) = (command.name.clone(), self.digest_key.clone());
        let identify =
            move || ServerIdentity::program(&name, &words, &directory, &variables, &machine, &key);
        self.wrap(connector, &command.name, identify, is_only, environment)
    }

    /// Puts the cache in front of a server that is reached by HTTP.
    pub(super) fn of_address(
        &self,
        connector: Arc<dyn Connector>,
        address: &ServerAddress,
        is_only: bool,
        environment: &ProcessEnvironment,
    ) -> Arc<dyn Connector> {
        let headers = address.headers.iter();
        let headers: BTreeMap<String, String> = headers
            .map(|(name, value)| (name.clone(), value.expose().clone()))
            .collect();
        for (name, value) in &headers {
            // `Bearer TOKEN`: the token alone is the secret.
            let secret = value.rsplit(' ').next().unwrap_or(value);
            if name.eq_ignore_ascii_case("authorization")
                || looks_like_a_credential(name, secret, &self.engine.secret_set)
            {
                self.engine.secret_set.learn(secret);
            }
        }
        let (name, url) = (address.name.clone(), address.url.clone());
        let key = self.digest_key.clone();
        let identify = move || ServerIdentity::url(&name, url.expose(), &headers, &key);
        self.wrap(connector, &address.name, identify, is_only, environment)
    }

    fn wrap(
        &self,
        connector: Arc<dyn Connector>,
        name: &str,
        identify: impl Fn() -> ServerIdentity + Send + Sync + 'static,
        is_only: bool,
        environment: &ProcessEnvironment,
    ) -> Arc<dyn Connector> {
        let Some(policy) = self.policy.server(name, is_only) else {
            (self.warn)(&format!(
                "nothing of the server `{name}` is cached: {} has no entry for it",
                self.file
            ));
            return connector;
        };
        let options = CachingOptions {
            cache: self.engine.cache.clone(),
            mode: CacheMode::On,
            policy: policy.clone(),
            server: identify(),
            digest_key: self.digest_key.clone(),
            secret_set: Arc::clone(&self.engine.secret_set),
            clock: Arc::clone(&environment.clock),
            warn: once(&self.warn),
        };
        Arc::new(CachingConnector {
            inner: connector,
            identify: Box::new(identify),
            options,
        })
    }

    /// The secrets that are not stored.
    pub(super) fn secret_set(&self) -> Arc<SecretSet> {
        Arc::clone(&self.engine.secret_set)
    }

    /// Waits until everything is stored and accounted for.
    pub(super) async fn close(self) {
        self.engine.cache.close().await;
        self.engine.cache.ledger().flush().await;
    }
}

/// Returns a function that passes each warning on once: all sessions with a server give the same ones.
fn once(warn: &Warn) -> Arc<dyn Fn(&str) + Send + Sync> {
    let (warn, given) = (Arc::clone(warn), Mutex::new(HashSet::new()));
    Arc::new(move |warning: &str| {
        if given.lock().insert(warning.to_owned()) {
            warn(warning);
        }
    })
}

/// Reads a policy file.
///
/// # Errors
/// The file cannot be read, or has problems.
pub(super) fn read_policy(file: &Path, environment: &ProcessEnvironment) -> Result<ProxyPolicy> {
    let source = AgentFile::read(file, environment)?;
    let root = source.parse()?;
    ProxyPolicy::from_root(&root)
        .map_err(|problems| source.wrong_as(Expected::McpPolicy, in_order(problems)))
}

/// Opens connections whose answers are cached.
struct CachingConnector {
    inner: Arc<dyn Connector>,
    /// Identifies the server as it is now: each session starts a process of its own, whose program may have changed.
    identify: Box<dyn Fn() -> ServerIdentity + Send + Sync>,
    options: CachingOptions,
}

#[async_trait]
impl Connector for CachingConnector {
    async fn connect(&self, session: Option<Arc<str>>) -> std::result::Result<Connection, String> {
        // Before the start: a program that is replaced in between has answers under the key of the old one at most.
        let options = CachingOptions {
            server: (self.identify)(),
            ..self.options.clone()
        };
        let connection = self.inner.connect(session).await?;
        let layer = CachingLayer::new(options);
        Ok(Connection {
            upstream: layer.wrap(connection.upstream),
            closer: connection.closer,
        })
    }

    fn allows_requests_without_session(&self) -> bool {
        self.inner.allows_requests_without_session()
    }
}
