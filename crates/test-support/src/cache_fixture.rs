//! A cached registry over small tools, and the results of its calls.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheBounds, CacheMode, Ledger, Observation, Witness};
use cachalot_core::{EffectTarget, EffectTargets, Effects, ManualClock, Millis, SecretSet};
use cachalot_model::Block;
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_store::Store;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{self, SqliteStore};
use cachalot_tools::cached::{CachedToolsOptions, ToolCacheSettings, WriteNotifier};
use cachalot_tools::{
    Arguments, BatchContext, CacheClass, CachedTools, Failure, Operation, OperationMetadata,
    Origin, Registry, Tool, ToolCall, ToolCallResult, ToolContext, ToolOutput, Toolbox, Workspace,
};
use serde_json::{Value, json};

/// A time far from the epoch that is no round number of seconds.
pub const START: Millis = 1_750_000_000_123;

/// The body of a tool, given its arguments, its context, and the number of earlier runs.
type RunFn = dyn Fn(&Arguments, &ToolContext, usize) -> ToolOutput + Send + Sync;

/// The effects of a test tool.
type EffectsFn = dyn Fn(&Arguments) -> Effects + Send + Sync;

/// A tool that counts its runs.
#[derive(Clone)]
pub struct CountingTool {
    metadata: OperationMetadata,
    resource_access: Arc<EffectsFn>,
    doing: Arc<RunFn>,
    runs: Arc<AtomicUsize>,
    /// The semaphore that a run awaits after its observations.
    gate: Option<Arc<tokio::sync::Semaphore>>,
    implicit: Value,
}

impl CountingTool {
    /// A read-only tool without cause to be served again, which touches nothing.
    pub fn named(name: &str) -> Self {
        Self {
            metadata: OperationMetadata {
                name: name.to_owned().into(),
                aliases: &[],
                description: format!("Does what {name} does.").into(),
                parameters:
                    json!({"type": "object", "properties": {}, "additionalProperties": true}).into(),
                version: 1,
                origin: Origin::BuiltIn,
                read_only: true,
                exclusive: false,
                cache_class: CacheClass::Never,
            },
            resource_access: Arc::new(|_| Effects::reading(Vec::new())),
            doing: Arc::new(|_, _, run| ToolOutput::text(format!("run {run}"))),
            runs: Arc::default(),
            gate: None,
            implicit: Value::Null,
        }
    }

    /// A read-only tool whose results may be served again for as long as nothing is written.
    pub fn reader(name: &str) -> Self {
        Self::named(name).cache_class(CacheClass::Validated)
    }

    /// A tool that reads the file `path`.
    pub fn file_reader(name: &str) -> Self {
        Self::reader(name)
            .touching(|arguments| Effects::reading(vec![EffectTarget::Path(path_of(arguments))]))
            .doing(|arguments, context, _| {
                let path = context.workspace.root().join(path_of(arguments));
                match context.witness.read(&path) {
                    Ok(bytes) => ToolOutput::text(String::from_utf8_lossy(&bytes)),
                    Err(error) => ToolOutput::error(format!("{}: {error}", path.display())),
                }
            })
    }

    /// A tool that writes `text` to the file `path`.
    pub fn file_writer(name: &str) -> Self {
        Self::named(name)
            .writing()
            .touching(|arguments| Effects::writing(vec![EffectTarget::Path(path_of(arguments))]))
            .doing(|arguments, context, _| {
                let path = context.workspace.root().join(path_of(arguments));
                let text = arguments["text"].as_str().unwrap_or_default();
                std::fs::write(path, text).unwrap();
                ToolOutput::text("written")
            })
    }

    /// A tool of which nothing is known but that it is not read-only; it writes like
    /// [`CountingTool::file_writer`] if it is told to.
    pub fn unknown(name: &str) -> Self {
        Self::named(name)
            .writing()
            .touching(|_| Effects::UNKNOWN)
            .doing(|arguments, context, run| {
                if let Some(text) = arguments.get("text").and_then(Value::as_str) {
                    let path = context.workspace.root().join(path_of(arguments));
                    std::fs::write(path, text).unwrap();
                }
                ToolOutput::text(format!("run {run}"))
            })
    }

    pub fn cache_class(mut self, cache_class: CacheClass) -> Self {
        self.metadata.cache_class = cache_class;
        self
    }

    /// It is not read-only.
    pub fn writing(mut self) -> Self {
        self.metadata.read_only = false;
        self
    }

    pub fn parameters(mut self, parameters: Value) -> Self {
        self.metadata.parameters = parameters.into();
        self
    }

    pub fn version(mut self, version: u32) -> Self {
        self.metadata.version = version;
        self
    }

    pub fn from(mut self, server: &str) -> Self {
        self.metadata.origin = Origin::Mcp(server.to_owned());
        self
    }

    pub fn implicitly(mut self, input: Value) -> Self {
        self.implicit = input;
        self
    }

    pub fn touching(
        mut self,
        resource_access: impl Fn(&Arguments) -> Effects + Send + Sync + 'static,
    ) -> Self {
        self.resource_access = Arc::new(resource_access);
        self
    }

    pub fn doing(
        mut self,
        doing: impl Fn(&Arguments, &ToolContext, usize) -> ToolOutput + Send + Sync + 'static,
    ) -> Self {
        self.doing = Arc::new(doing);
        self
    }

    /// Every run looks, then waits for a permit of this gate.
    pub fn gated(mut self, gate: &Arc<tokio::sync::Semaphore>) -> Self {
        self.gate = Some(Arc::clone(gate));
        self
    }

    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

pub fn path_of(arguments: &Arguments) -> PathBuf {
    PathBuf::from(arguments.get("path").and_then(Value::as_str).unwrap_or("."))
}

#[async_trait]
impl Operation for CountingTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &Arguments, _: &ToolContext) -> Effects {
        (self.resource_access)(arguments)
    }

    fn implicit_inputs(&self, _: &Arguments, _: &ToolContext) -> Result<Value, Failure> {
        Ok(self.implicit.clone())
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        let output = (self.doing)(&arguments, context, run);
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        output
    }
}

/// A layer, its clock, its workspace, and what it said.
pub struct CacheFixture {
    pub tools: CachedTools,
    pub clock: Arc<ManualClock>,
    pub said: Arc<Mutex<Vec<String>>>,
    pub secret_set: Arc<SecretSet>,
    pub http: HttpClient,
    directory: tempfile::TempDir,
    calls: AtomicUsize,
}

/// Options of a fixture.
pub struct CacheFixtureBuilder {
    pub settings: ToolCacheSettings,
    pub mode: CacheMode,
    pub persistent: Option<Cache>,
    pub user: String,
    pub write_notifier: WriteNotifier,
    pub secret_set: Arc<SecretSet>,
    pub ledger: Ledger,
    pub clock: Arc<ManualClock>,
}

impl CacheFixtureBuilder {
    pub fn with(settings: ToolCacheSettings) -> Self {
        Self {
            settings,
            mode: CacheMode::On,
            persistent: None,
            user: "user".to_owned(),
            write_notifier: WriteNotifier::new(),
            secret_set: Arc::new(SecretSet::empty()),
            ledger: Ledger::disabled(),
            clock: Arc::new(ManualClock::at(START)),
        }
    }

    pub fn of(self, tools: &[&CountingTool]) -> CacheFixture {
        let tools = tools
            .iter()
            .map(|tool| -> Arc<dyn Tool> { Arc::new((*tool).clone()) });
        self.over(&Registry::new(tools.collect()).unwrap())
    }

    pub fn over(self, registry: &Registry) -> CacheFixture {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&said);
        let options = CachedToolsOptions {
            settings: self.settings,
            mode: self.mode,
            ledger: self.ledger,
            clock: self.clock.clone(),
            secret_set: Arc::clone(&self.secret_set),
            log: Arc::new(move |line| heard.lock().unwrap().push(line.to_owned())),
            persistent: self.persistent,
            user: self.user,
            write_notifier: self.write_notifier,
        };
        CacheFixture {
            tools: CachedTools::new(registry, options).unwrap(),
            clock: self.clock,
            said,
            secret_set: self.secret_set,
            http: HttpClient::new(HttpOptions::default()).unwrap(),
            directory: tempfile::tempdir().unwrap(),
            calls: AtomicUsize::new(0),
        }
    }
}

/// Settings that keep results.
pub fn on() -> ToolCacheSettings {
    ToolCacheSettings {
        enabled: true,
        ..ToolCacheSettings::default()
    }
}

/// A layer that keeps results of these tools.
pub fn cache_fixture(tools: &[&CountingTool]) -> CacheFixture {
    CacheFixtureBuilder::with(on()).of(tools)
}

/// An engine over a SQLite file.
pub fn persistent(path: &Path, clock: &Arc<ManualClock>) -> Cache {
    let memory = SqliteStore::open(path, sqlite::SqliteOptions::new(clock.clone())).unwrap();
    engine(Arc::new(memory), clock)
}

/// An engine over a memory in the process.
pub fn in_process(clock: &Arc<ManualClock>) -> Cache {
    engine(Arc::new(InProcessStore::new(clock.clone())), clock)
}

fn engine(memory: Arc<dyn Store>, clock: &Arc<ManualClock>) -> Cache {
    Cache::new(cachalot_cache::CacheOptions {
        local: None,
        store: Some(memory),
        ledger: Ledger::disabled(),
        clock: clock.clone(),
        secret_set: Arc::new(SecretSet::empty()),
        bounds: CacheBounds::default(),
        warn: Arc::new(|line| panic!("{line}")),
    })
}

impl CacheFixture {
    pub fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub fn write(&self, path: &str, text: &str) {
        std::fs::write(self.root().join(path), text).unwrap();
    }

    pub fn after(&self, time: Duration) {
        self.clock.advance(time);
    }

    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// The context of a batch of calls of a session.
    pub fn batch(&self, session: &str, verbatim: &[&str]) -> BatchContext {
        self.batch_in(&self.root(), session, verbatim)
    }

    pub fn batch_in(&self, root: &Path, session: &str, verbatim: &[&str]) -> BatchContext {
        BatchContext {
            context: ToolContext {
                workspace: Arc::new(Workspace::open(root).unwrap()),
                session: session.to_owned(),
                environment: Arc::new(BTreeMap::new()),
                clock: self.clock.clone(),
                http: self.http.clone(),
                store: None,
                secret_set: Arc::clone(&self.secret_set),
                user: None,
                sampler: None,
                gate: None,
                rules: Arc::default(),
                sandbox: None,
                witness: Witness::default(),
                output: cachalot_tools::LiveOutput::default(),
            },
            verbatim: Arc::new(
                verbatim
                    .iter()
                    .map(|id| (*id).to_owned())
                    .collect::<BTreeSet<_>>(),
            ),
            observer: Arc::new(()),
        }
    }

    /// Makes calls at once, in the session `main`; ids are `call-0`, `call-1`, ….
    pub async fn calls(&self, calls: &[(&str, Value)]) -> Vec<ToolCallResult> {
        self.calls_in("main", &[], calls).await
    }

    pub async fn calls_in(
        &self,
        session: &str,
        verbatim: &[&str],
        calls: &[(&str, Value)],
    ) -> Vec<ToolCallResult> {
        self.run(&self.batch(session, verbatim), calls).await
    }

    pub async fn run(&self, batch: &BatchContext, calls: &[(&str, Value)]) -> Vec<ToolCallResult> {
        let prepared = calls.iter().map(|(name, arguments)| {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            self.tools.prepare(ToolCall {
                id: format!("call-{number}"),
                name: (*name).to_owned(),
                arguments: arguments.to_string(),
            })
        });
        self.tools.run(prepared.collect(), batch).await
    }

    /// Makes one call.
    pub async fn call(&self, name: &str, arguments: Value) -> ToolCallResult {
        self.calls(&[(name, arguments)]).await.remove(0)
    }

    /// Makes one call in another session.
    pub async fn call_in(&self, session: &str, name: &str, arguments: Value) -> ToolCallResult {
        self.calls_in(session, &[], &[(name, arguments)])
            .await
            .remove(0)
    }
}

/// The text of an answer.
pub fn text(answer: &ToolCallResult) -> String {
    answer
        .output
        .content
        .iter()
        .map(|block| match block {
            Block::Text { text, .. } => text.as_str(),
            other => panic!("no text: {other:?}"),
        })
        .collect()
}

/// Observes the content of a file.
pub fn note(context: &ToolContext, path: &str) {
    let path = context.workspace.root().join(path);
    context.witness.observe(Observation::Content(&path));
}

/// Reads nothing that could be told.
pub fn reads_unknown() -> Effects {
    Effects {
        reads: EffectTargets::Unknown,
        writes: EffectTargets::NOTHING,
    }
}
