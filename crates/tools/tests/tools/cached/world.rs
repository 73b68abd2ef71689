//! A layer over a few small tools, and what came of asking it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::{Bounds, Cache, Ledger, Mode, Observation, Witness};
use cachalot_core::{Effects, Extent, ManualClock, Millis, Seals, Touched};
use cachalot_memory::Memory;
use cachalot_memory::in_process::InProcessMemory;
use cachalot_memory::sqlite::{self, SqliteMemory};
use cachalot_model::Block;
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_tools::cached::{Options, Settings, Writers};
use cachalot_tools::{
    About, Answer, Arguments, Batch, CacheClass, CachedTools, Call, Context, Origin, Output,
    Registry, Tool, Toolbox, Workspace,
};
use serde_json::{Value, json};

/// Far from the epoch, and not a round number of seconds.
pub(crate) const START: Millis = 1_750_000_000_123;

/// What a tool does, given its arguments, its context, and how often it had run before.
type Doing = dyn Fn(&Arguments, &Context, usize) -> Output + Send + Sync;

/// What a tool of a test touches.
type Touching = dyn Fn(&Arguments) -> Effects + Send + Sync;

/// A tool that counts how often it runs.
#[derive(Clone)]
pub(crate) struct Counting {
    about: About,
    touches: Arc<Touching>,
    doing: Arc<Doing>,
    runs: Arc<AtomicUsize>,
    /// What a run waits for after it has looked, if anything.
    gate: Option<Arc<tokio::sync::Semaphore>>,
    implicit: Value,
}

impl Counting {
    /// A read-only tool without cause to be served again, which touches nothing.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            about: About {
                name: name.to_owned(),
                description: format!("Does what {name} does."),
                parameters: json!({"type": "object", "properties": {}, "additionalProperties": true}),
                version: 1,
                origin: Origin::BuiltIn,
                read_only: true,
                exclusive: false,
                class: CacheClass::Never,
            },
            touches: Arc::new(|_| Effects::reading(Vec::new())),
            doing: Arc::new(|_, _, run| Output::text(format!("run {run}"))),
            runs: Arc::default(),
            gate: None,
            implicit: Value::Null,
        }
    }

    /// A read-only tool whose results may be served again for as long as nothing is written.
    pub(crate) fn reader(name: &str) -> Self {
        Self::named(name).class(CacheClass::Validated)
    }

    /// A tool that reads the file `path`.
    pub(crate) fn file_reader(name: &str) -> Self {
        Self::reader(name)
            .touching(|arguments| Effects::reading(vec![Touched::Path(path_of(arguments))]))
            .doing(|arguments, context, _| {
                let path = context.workspace.root().join(path_of(arguments));
                match context.witness.read(&path) {
                    Ok(bytes) => Output::text(String::from_utf8_lossy(&bytes)),
                    Err(error) => Output::error(format!("{}: {error}", path.display())),
                }
            })
    }

    /// A tool that writes `text` to the file `path`.
    pub(crate) fn file_writer(name: &str) -> Self {
        Self::named(name)
            .writing()
            .touching(|arguments| Effects::writing(vec![Touched::Path(path_of(arguments))]))
            .doing(|arguments, context, _| {
                let path = context.workspace.root().join(path_of(arguments));
                let text = arguments["text"].as_str().unwrap_or_default();
                std::fs::write(path, text).unwrap();
                Output::text("written")
            })
    }

    /// A tool of which nothing is known but that it is not read-only; it writes like
    /// [`Counting::file_writer`] if it is told to.
    pub(crate) fn unknown(name: &str) -> Self {
        Self::named(name)
            .writing()
            .touching(|_| Effects::UNKNOWN)
            .doing(|arguments, context, run| {
                if let Some(text) = arguments.get("text").and_then(Value::as_str) {
                    let path = context.workspace.root().join(path_of(arguments));
                    std::fs::write(path, text).unwrap();
                }
                Output::text(format!("run {run}"))
            })
    }

    pub(crate) fn class(mut self, class: CacheClass) -> Self {
        self.about.class = class;
        self
    }

    /// It is not read-only.
    pub(crate) fn writing(mut self) -> Self {
        self.about.read_only = false;
        self
    }

    pub(crate) fn parameters(mut self, parameters: Value) -> Self {
        self.about.parameters = parameters;
        self
    }

    pub(crate) fn version(mut self, version: u32) -> Self {
        self.about.version = version;
        self
    }

    pub(crate) fn from(mut self, server: &str) -> Self {
        self.about.origin = Origin::Mcp(server.to_owned());
        self
    }

    pub(crate) fn implicitly(mut self, input: Value) -> Self {
        self.implicit = input;
        self
    }

    pub(crate) fn touching(
        mut self,
        touches: impl Fn(&Arguments) -> Effects + Send + Sync + 'static,
    ) -> Self {
        self.touches = Arc::new(touches);
        self
    }

    pub(crate) fn doing(
        mut self,
        doing: impl Fn(&Arguments, &Context, usize) -> Output + Send + Sync + 'static,
    ) -> Self {
        self.doing = Arc::new(doing);
        self
    }

    /// Every run looks, then waits for a permit of this gate.
    pub(crate) fn gated(mut self, gate: &Arc<tokio::sync::Semaphore>) -> Self {
        self.gate = Some(Arc::clone(gate));
        self
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

pub(crate) fn path_of(arguments: &Arguments) -> PathBuf {
    PathBuf::from(arguments.get("path").and_then(Value::as_str).unwrap_or("."))
}

#[async_trait]
impl Tool for Counting {
    fn about(&self) -> &About {
        &self.about
    }

    fn effects(&self, arguments: &Arguments, _: &Context) -> Effects {
        (self.touches)(arguments)
    }

    fn implicit_inputs(&self, _: &Context) -> Value {
        self.implicit.clone()
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        let output = (self.doing)(&arguments, context, run);
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        output
    }
}

/// A layer, its clock, its workspace, and what it said.
pub(crate) struct World {
    pub(crate) tools: CachedTools,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) said: Arc<Mutex<Vec<String>>>,
    pub(crate) seals: Arc<Seals>,
    pub(crate) http: HttpClient,
    directory: tempfile::TempDir,
    calls: AtomicUsize,
}

/// What to make a world from.
pub(crate) struct Making {
    pub(crate) settings: Settings,
    pub(crate) mode: Mode,
    pub(crate) persistent: Option<Cache>,
    pub(crate) user: String,
    pub(crate) writers: Writers,
    pub(crate) seals: Arc<Seals>,
    pub(crate) ledger: Ledger,
    pub(crate) clock: Arc<ManualClock>,
}

impl Making {
    pub(crate) fn with(settings: Settings) -> Self {
        Self {
            settings,
            mode: Mode::On,
            persistent: None,
            user: "user".to_owned(),
            writers: Writers::new(),
            seals: Arc::new(Seals::none()),
            ledger: Ledger::none(),
            clock: Arc::new(ManualClock::at(START)),
        }
    }

    pub(crate) fn of(self, tools: &[&Counting]) -> World {
        let tools = tools
            .iter()
            .map(|tool| -> Arc<dyn Tool> { Arc::new((*tool).clone()) });
        self.over(&Registry::new(tools.collect()).unwrap())
    }

    pub(crate) fn over(self, registry: &Registry) -> World {
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&said);
        let options = Options {
            settings: self.settings,
            mode: self.mode,
            ledger: self.ledger,
            clock: self.clock.clone(),
            seals: Arc::clone(&self.seals),
            log: Arc::new(move |line| heard.lock().unwrap().push(line.to_owned())),
            persistent: self.persistent,
            user: self.user,
            writers: self.writers,
        };
        World {
            tools: CachedTools::new(registry, options).unwrap(),
            clock: self.clock,
            said,
            seals: self.seals,
            http: HttpClient::new(HttpOptions::default()).unwrap(),
            directory: tempfile::tempdir().unwrap(),
            calls: AtomicUsize::new(0),
        }
    }
}

/// Settings that keep results.
pub(crate) fn on() -> Settings {
    Settings {
        enabled: true,
        ..Settings::default()
    }
}

/// A layer that keeps results of these tools.
pub(crate) fn world(tools: &[&Counting]) -> World {
    Making::with(on()).of(tools)
}

/// An engine over a SQLite file.
pub(crate) fn persistent(path: &Path, clock: &Arc<ManualClock>) -> Cache {
    let memory = SqliteMemory::open(path, sqlite::Options::new(clock.clone())).unwrap();
    engine(Arc::new(memory), clock)
}

/// An engine over a memory in the process.
pub(crate) fn in_process(clock: &Arc<ManualClock>) -> Cache {
    engine(Arc::new(InProcessMemory::new(clock.clone())), clock)
}

fn engine(memory: Arc<dyn Memory>, clock: &Arc<ManualClock>) -> Cache {
    Cache::new(cachalot_cache::Options {
        memory: Some(memory),
        ledger: Ledger::none(),
        clock: clock.clone(),
        seals: Arc::new(Seals::none()),
        bounds: Bounds::default(),
        warn: Arc::new(|line| panic!("{line}")),
    })
}

impl World {
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.root().join(path), text).unwrap();
    }

    pub(crate) fn after(&self, time: Duration) {
        self.clock.advance(time);
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// What surrounds a batch of calls of a session.
    pub(crate) fn batch(&self, session: &str, verbatim: &[&str]) -> Batch {
        self.batch_in(&self.root(), session, verbatim)
    }

    pub(crate) fn batch_in(&self, root: &Path, session: &str, verbatim: &[&str]) -> Batch {
        Batch {
            context: Context {
                workspace: Arc::new(Workspace::open(root).unwrap()),
                session: session.to_owned(),
                environment: Arc::new(BTreeMap::new()),
                clock: self.clock.clone(),
                http: self.http.clone(),
                memory: None,
                seals: Arc::clone(&self.seals),
                gate: None,
                rules: Arc::default(),
                witness: Witness::default(),
            },
            verbatim: Arc::new(
                verbatim
                    .iter()
                    .map(|id| (*id).to_owned())
                    .collect::<BTreeSet<_>>(),
            ),
            watcher: Arc::new(()),
        }
    }

    /// Makes calls at once, in the session `main`; ids are `call-0`, `call-1`, ….
    pub(crate) async fn calls(&self, calls: &[(&str, Value)]) -> Vec<Answer> {
        self.calls_in("main", &[], calls).await
    }

    pub(crate) async fn calls_in(
        &self,
        session: &str,
        verbatim: &[&str],
        calls: &[(&str, Value)],
    ) -> Vec<Answer> {
        self.run(&self.batch(session, verbatim), calls).await
    }

    pub(crate) async fn run(&self, batch: &Batch, calls: &[(&str, Value)]) -> Vec<Answer> {
        let prepared = calls.iter().map(|(name, arguments)| {
            let number = self.calls.fetch_add(1, Ordering::SeqCst);
            self.tools.prepare(Call {
                id: format!("call-{number}"),
                name: (*name).to_owned(),
                arguments: arguments.to_string(),
            })
        });
        self.tools.run(prepared.collect(), batch).await
    }

    /// Makes one call.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Answer {
        self.calls(&[(name, arguments)]).await.remove(0)
    }

    /// Makes one call in another session.
    pub(crate) async fn call_in(&self, session: &str, name: &str, arguments: Value) -> Answer {
        self.calls_in(session, &[], &[(name, arguments)])
            .await
            .remove(0)
    }
}

/// The text of an answer.
pub(crate) fn text(answer: &Answer) -> String {
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

/// What was read, noted as read.
pub(crate) fn note(context: &Context, path: &str) {
    let path = context.workspace.root().join(path);
    context.witness.observe(Observation::Content(&path));
}

/// Reads nothing that could be told.
pub(crate) fn reads_unknown() -> Effects {
    Effects {
        reads: Extent::Unknown,
        writes: Extent::NOTHING,
    }
}
