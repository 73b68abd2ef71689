//! A gateway in front of a simulator or of a server of the test, and a client.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use cachalot_cache::{Cache, CacheBounds, CacheOptions, Ledger, LedgerLimits};
use cachalot_core::{Clock, DigestKey, Millis, SecretSet, SystemClock};
use cachalot_gateway::{
    CommandRun, Config, DigestKeyCheck, Gateway, GatewayOptions, Limits, RequestReport,
    RunningGateway, Settings, StoreMetrics, Upstream,
};
use cachalot_model::Catalog;
use cachalot_simulator::{RunningSimulator, Script, Simulator, SimulatorOptions};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{Store, space};
use hyper_util::client::proxy::matcher::Matcher;
use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use crate::switched_store::{Behavior, SwitchedStore};

/// A gateway, the simulator behind it, and what the gateway reported.
pub(crate) struct Setup {
    pub(crate) gateway: RunningGateway,
    start: Start,
    pub(crate) simulator: RunningSimulator,
    pub(crate) cache: Cache,
    pub(crate) client: reqwest::Client,
    pub(crate) clock: Arc<AdvancedClock>,
    pub(crate) reports: Arc<Mutex<Vec<RequestReport>>>,
    pub(crate) warnings: Arc<Mutex<Vec<String>>>,
    pub(crate) store: Arc<SwitchedStore>,
    /// Set if other machines have another digest key.
    pub(crate) is_other_key: Arc<AtomicBool>,
    /// Number of misses with an answer.
    runs: AtomicU64,
    _folder: tempfile::TempDir,
}

/// The parts with which gateways of a test are started.
struct Start {
    settings: Settings,
    cache: Cache,
    store: Arc<dyn Store>,
    store_metrics: StoreMetrics,
    is_other_key: Arc<AtomicBool>,
    clock: Arc<AdvancedClock>,
    secret_set: Arc<SecretSet>,
    /// The proxy between the gateway and all upstreams but those of this machine.
    proxy: Option<String>,
    limits: Limits,
    reports: Arc<Mutex<Vec<RequestReport>>>,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Start {
    async fn gateway(&self, command: Option<CommandRun>, frozen: bool) -> RunningGateway {
        let (reported, warned) = (Arc::clone(&self.reports), Arc::clone(&self.warnings));
        let gateway = Gateway::start(GatewayOptions {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            admin_address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            allowed_hosts: Vec::new(),
            settings: self.settings.clone(),
            cache: self.cache.clone(),
            store: Some(Arc::clone(&self.store)),
            store_metrics: self.store_metrics.clone(),
            check_digest_key: digest_key_check(Arc::clone(&self.is_other_key)),
            frozen,
            command,
            tenant_key: DigestKey::new([5; 32]),
            process: "test".into(),
            secret_set: Arc::clone(&self.secret_set),
            catalog: Arc::new(Catalog::built_in()),
            clock: Arc::<AdvancedClock>::clone(&self.clock),
            tls: tls(),
            proxies: match &self.proxy {
                Some(proxy) => Matcher::builder().all(proxy.as_str()).no("127.0.0.1"),
                None => Matcher::builder(),
            }
            .build(),
            limits: self.limits,
            observe: Arc::new(move |report| reported.lock().push(report.clone())),
            warn: Arc::new(move |warning| warned.lock().push(warning.to_owned())),
        });
        gateway.await.unwrap()
    }
}

/// The clock of the machine, which a test advances instead of waiting.
#[derive(Debug, Default)]
pub(crate) struct AdvancedClock(AtomicI64);

impl AdvancedClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_millis() as i64, Ordering::SeqCst);
    }
}

impl Clock for AdvancedClock {
    fn now(&self) -> Millis {
        SystemClock.now() + self.0.load(Ordering::SeqCst)
    }
}

/// A response that was read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn cache_status(&self) -> &str {
        self.headers
            .get("cache-status")
            .map_or("", |value| value.to_str().unwrap())
    }

    /// `hit`, `collapsed`, `bypass` or `miss`.
    pub(crate) fn source(&self) -> &'static str {
        let status = self.cache_status();
        let kinds = [
            ("; hit", "hit"),
            ("; collapsed", "collapsed"),
            ("fwd=bypass", "bypass"),
            ("fwd=", "miss"),
        ];
        let found = kinds.iter().find(|(part, _)| status.contains(part));
        found.map_or("none", |(_, source)| source)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body)
            .unwrap_or_else(|_| panic!("{}: {}", self.status, self.body))
    }
}

impl Setup {
    pub(crate) async fn new() -> Self {
        Self::with_script(Script::built_in()).await
    }

    pub(crate) async fn scripted(script: &str) -> Self {
        Self::with_script(Script::parse("script.yaml", script).unwrap()).await
    }

    async fn with_script(script: Script) -> Self {
        let options = SimulatorOptions {
            script,
            ..SimulatorOptions::default()
        };
        let simulator = Simulator::start(options).await.unwrap();
        let url = simulator.url();
        let upstreams =
            ["openai", "anthropic", "gemini"].map(|name| Upstream::new(name, &url).unwrap());
        let settings = Settings::new(upstreams.to_vec());
        Self::start(simulator, settings, Limits::default()).await
    }

    /// A gateway with a configuration file, in which `{url}` is the URL of the simulator and `SECRET` the name of a
    /// credential.
    pub(crate) async fn configured(text: &str) -> Self {
        Self::configured_with(text, Limits::default()).await
    }

    /// The same with limits.
    pub(crate) async fn configured_with(text: &str, limits: Limits) -> Self {
        let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
        let settings = settings(text, &simulator.url());
        Self::start(simulator, settings, limits).await
    }

    /// The same, with a proxy between the gateway and all upstreams but the simulator.
    pub(crate) async fn behind_proxy(text: &str, proxy: &str) -> Self {
        let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
        let settings = settings(text, &simulator.url());
        let proxy = Some(proxy.to_owned());
        Self::start_behind(simulator, settings, Limits::default(), proxy).await
    }

    /// The same, in front of a simulator that waits before each answer.
    pub(crate) async fn configured_with_latency(text: &str, latency: Duration) -> Self {
        let options = SimulatorOptions {
            script: Script::built_in().with_latency(latency),
            ..SimulatorOptions::default()
        };
        let simulator = Simulator::start(options).await.unwrap();
        let settings = settings(text, &simulator.url());
        Self::start(simulator, settings, Limits::default()).await
    }

    /// A gateway in front of another server than the simulator.
    pub(crate) async fn in_front_of(address: SocketAddr, limits: Limits) -> Self {
        let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
        let url = format!("http://{address}");
        let upstreams =
            ["openai", "anthropic", "gemini"].map(|name| Upstream::new(name, &url).unwrap());
        Self::start(simulator, Settings::new(upstreams.to_vec()), limits).await
    }

    /// A gateway with these upstreams, as of the command line.
    pub(crate) async fn with_upstreams(upstreams: Vec<Upstream>) -> Self {
        let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
        Self::start(simulator, Settings::new(upstreams), Limits::default()).await
    }

    async fn start(simulator: RunningSimulator, settings: Settings, limits: Limits) -> Self {
        Self::start_behind(simulator, settings, limits, None).await
    }

    async fn start_behind(
        simulator: RunningSimulator,
        settings: Settings,
        limits: Limits,
        proxy: Option<String>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let advanced = Arc::new(AdvancedClock::default());
        let clock: Arc<dyn Clock> = advanced.clone();
        let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([3; 32])));
        let in_process = InProcessStore::new(Arc::clone(&clock));
        let switched = SwitchedStore::new(Arc::new(in_process));
        let store_metrics = StoreMetrics::default();
        let store = store_metrics.measure(switched.clone());
        let of_warnings = Arc::clone(&switched);
        let warn = Arc::new(move |message: &str| {
            let is_expected = of_warnings.behavior() != Behavior::Answers;
            assert!(is_expected, "warning: {message}");
        });
        let is_other_key = Arc::new(AtomicBool::new(false));
        let ledger = folder.path().join("ledger");
        let cache = Cache::new(CacheOptions {
            store: Some(Arc::clone(&store)),
            local: None,
            ledger: Ledger::with_limits(&ledger, "test", LedgerLimits::default(), warn.clone()),
            clock: Arc::clone(&clock),
            secret_set: Arc::clone(&secret_set),
            bounds: CacheBounds::default(),
            warn,
        });
        let reports = Arc::new(Mutex::new(Vec::new()));
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let start = Start {
            settings: settings.clone(),
            cache: cache.clone(),
            store: Arc::clone(&store),
            store_metrics,
            is_other_key: Arc::clone(&is_other_key),
            clock: Arc::clone(&advanced),
            secret_set,
            proxy,
            limits,
            reports: Arc::clone(&reports),
            warnings: Arc::clone(&warnings),
        };
        Self {
            gateway: start.gateway(None, false).await,
            start,
            simulator,
            cache,
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            clock: advanced,
            reports,
            warnings,
            store: switched,
            is_other_key,
            runs: AtomicU64::new(0),
            _folder: folder,
        }
    }

    /// The same with a gateway of another process, which may be that of a command, and answer from the cache only.
    pub(crate) async fn restarted(self, command: Option<CommandRun>, frozen: bool) -> Self {
        self.gateway.stop().await;
        Self {
            gateway: self.start.gateway(command, frozen).await,
            ..self
        }
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.gateway.url());
        let request = self
            .client
            .post(url)
            .bearer_auth("one")
            .body(body.to_string());
        let request = request.header("content-type", "application/json");
        if path.contains("/messages") {
            request
                .header("x-api-key", "one")
                .header("anthropic-version", "2023-06-01")
        } else {
            request
        }
    }

    pub(crate) async fn ask(&self, path: &str, body: &Value) -> Answer {
        self.settled(read(self.post(path, body)).await).await
    }

    /// Waits until the run that gave an answer has ended: its row is written after its answer is stored.
    pub(crate) async fn settled(&self, answer: Answer) -> Answer {
        if answer.source() == "miss" && answer.status == 200 {
            let runs = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
            until(async || self.misses().await >= runs).await;
        }
        answer
    }

    /// The statistics for Prometheus.
    pub(crate) async fn metrics(&self) -> String {
        let url = format!("{}/metrics", self.gateway.url());
        read(self.client.get(url)).await.body
    }

    /// The number of misses in the ledger.
    pub(crate) async fn misses(&self) -> u64 {
        self.cache.ledger().flush().await;
        let totals = self.cache.ledger().totals().unwrap_or_default();
        totals.iter().map(|(.., total)| total.misses).sum()
    }

    /// The number of requests that the simulator has received.
    pub(crate) fn paid(&self) -> usize {
        self.simulator.received().len()
    }
}

/// Waits until `holds`, for at most a minute.
pub(crate) async fn until(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..30_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("it did not come to hold within a minute");
}

/// Sends a request, and leaves before the answer, once the upstream has the request. `received` returns the number of
/// requests that the upstream has received.
pub(crate) async fn leave(request: reqwest::RequestBuilder, received: impl Fn() -> usize) {
    let before = received();
    tokio::select! {
        biased;
        () = until(async || received() > before) => {}
        answer = request.send() => panic!("answered: {answer:?}"),
    }
}

/// Reads a configuration file; the credential `SECRET` is `operator-secret`.
pub(crate) fn settings(text: &str, url: &str) -> Settings {
    let config = Config::parse("gateway.yaml", &text.replace("{url}", url)).unwrap();
    let environment = BTreeMap::from([("SECRET".to_owned(), "operator-secret".to_owned())]);
    Settings::resolve(&config, &environment, Path::new("/")).unwrap()
}

/// Reads the store, as the comparison of digest keys does.
pub(crate) fn digest_key_check(is_other: Arc<AtomicBool>) -> DigestKeyCheck {
    Arc::new(move |store| {
        let is_other = Arc::clone(&is_other);
        Box::pin(async move {
            store.get(space::CACHE, "digest-key", &[]).settle().await?;
            Ok(!is_other.load(Ordering::SeqCst))
        })
    })
}

pub(crate) fn tls() -> rustls::ClientConfig {
    let _ = rustls::crypto::ring::default_provider().install_default();
    rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// Sends a request and reads the response to its end.
pub(crate) async fn read(request: reqwest::RequestBuilder) -> Answer {
    let response = request
        .timeout(Duration::from_secs(120))
        .send()
        .await
        .unwrap();
    Answer {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response.text().await.unwrap(),
    }
}

/// A chat request whose answer is repeatable.
pub(crate) fn chat(text: &str) -> Value {
    json!({
        "model": "gpt-4o-mini",
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    })
}

/// The same as [`chat`], for Anthropic Messages.
pub(crate) fn messages(text: &str) -> Value {
    json!({
        "model": "claude-3-5-haiku-20241022",
        "max_tokens": 100,
        "temperature": 0,
        "messages": [{"role": "user", "content": text}],
    })
}

/// The request with a streamed answer.
pub(crate) fn streamed(mut body: Value) -> Value {
    body["stream"] = json!(true);
    body
}
