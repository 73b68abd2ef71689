//! A simulator, a workspace with tools, a memory with sessions, and somebody who listens and answers
//! questions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{
    AgentDefinition, AgentDirectory, CancellationToken, Chat, ContextSource, Dependencies, Error,
    HookSetup, SourceFile, Team, Toolboxes, TurnReport,
};
use cachalot_cache::{Cache, CacheMode, Ledger, Witness};
use cachalot_core::{Clock, ManualClock, Millis, Problem, SecretSet, tree};
use cachalot_hooks::{Builtin, Builtins, HookDependencies, HookEntry};
use cachalot_mcp::settings::ToolsetKind;
use cachalot_model::{Catalog, Message, ModelDependencies, Models, RetryPauses};
use cachalot_prompt::{SessionFilter, SessionOverview, Sessions};
use cachalot_simulator::{RunningSimulator, Script, ScriptedReply, Simulator, SimulatorOptions};
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_store::Store;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{self, SqliteStore};
use cachalot_tools::builtin::{self, Shell, ShellSettings};
use cachalot_tools::cached::{self, CachedTools, WriteNotifier};
use cachalot_tools::{Registry, Tool, ToolContext, Toolbox, Workspace};

use crate::bodies;
use crate::event_recorder::{EventRecorder, ScriptedApprover};
use crate::hook_recorder::{DateBuiltin, HookRecorder, RecorderBuiltin};

/// 2026-11-21 02:42:00 UTC.
pub(crate) const NOW: Millis = 1_795_228_920_000;

/// A wire format, by a model that speaks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Messages,
    /// The same, with a model that thinks before everything that it says.
    Thinking,
}

pub(crate) const WIRES: [Wire; 4] = [Wire::Chat, Wire::Responses, Wire::Messages, Wire::Thinking];

impl Wire {
    /// A model at this address.
    pub(crate) fn model(self, url: &str) -> String {
        match self {
            Self::Chat => format!("provider: openai, model: gpt-4o-mini, base_url: '{url}/v1'"),
            Self::Responses => format!(
                "provider: openai, model: gpt-5-mini, format: responses, base_url: '{url}/v1'"
            ),
            Self::Messages => {
                format!("provider: anthropic, model: claude-sonnet-4-5, base_url: '{url}'")
            }
            Self::Thinking => format!(
                "provider: anthropic, model: claude-sonnet-4-5, thinking_budget: 2000, base_url: '{url}'"
            ),
        }
    }

    pub(crate) fn is_anthropic(self) -> bool {
        matches!(self, Self::Messages | Self::Thinking)
    }
}

/// Records retry pauses without waiting.
#[derive(Debug, Default)]
pub(crate) struct RecordedPauses(Mutex<Vec<Duration>>);

impl RecordedPauses {
    pub(crate) fn waited(&self) -> Vec<Duration> {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl RetryPauses for RecordedPauses {
    async fn pause(&self, time: Duration) {
        self.0.lock().unwrap().push(time);
    }

    fn jitter(&self) -> f64 {
        0.0
    }
}

/// Dependencies of agents in a test. [`Fixture::check`] must be called at its end.
pub(crate) struct Fixture {
    pub(crate) simulator: RunningSimulator,
    pub(crate) root: tempfile::TempDir,
    pub(crate) reported: Arc<EventRecorder>,
    pub(crate) answers: Arc<ScriptedApprover>,
    pub(crate) pauses: Arc<RecordedPauses>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Sources of the context of a message.
    pub(crate) sources: Vec<Arc<dyn ContextSource>>,
    /// Further tools of all agents.
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    /// The cache of tool results beyond their session.
    pub(crate) results: Option<Cache>,
    /// Instructions of the toolsets.
    pub(crate) instructions: Vec<String>,
    /// Keys of the model, beside where it is.
    pub(crate) model_keys: String,
    /// The model, in place of the one of `wire`.
    pub(crate) model: Option<String>,
    /// Records the inputs of hooks.
    pub(crate) hook_recorder: Arc<HookRecorder>,
    /// Hooks that apply to all agents.
    pub(crate) hooks: Vec<HookEntry>,
    /// Further builtins.
    pub(crate) builtins: Vec<Arc<dyn Builtin>>,
    pub(crate) agent_directory: Arc<AgentDirectory>,
    /// Files that agents do not write.
    pub(crate) protected: Vec<PathBuf>,
    pub(crate) wire: Wire,
    /// Additional environment variables.
    pub(crate) environment: BTreeMap<String, String>,
    file: String,
    memory: Arc<dyn Store>,
    database: Option<(tempfile::TempDir, PathBuf)>,
    names: Arc<AtomicUsize>,
    write_notifier: WriteNotifier,
    is_checked: bool,
}

impl Fixture {
    /// With this agent file, whose models (`models:`) are made here: `test`.
    pub(crate) async fn new(wire: Wire, file: &str, replies: Vec<ScriptedReply>) -> Self {
        let thoughtful = |mut reply: ScriptedReply| {
            if wire == Wire::Thinking {
                reply
                    .reasoning
                    .get_or_insert_with(|| "Let me think.".to_owned());
            }
            reply
        };
        let replies = replies.into_iter().map(thoughtful).collect();
        Self::scripted(wire, file, Script::replies(replies)).await
    }

    pub(crate) async fn scripted(wire: Wire, file: &str, script: Script) -> Self {
        let options = SimulatorOptions {
            script,
            ..SimulatorOptions::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(NOW));
        Self {
            simulator: Simulator::start(options).await.unwrap(),
            root: tempfile::tempdir().unwrap(),
            reported: Arc::default(),
            answers: Arc::default(),
            pauses: Arc::default(),
            sources: Vec::new(),
            tools: Vec::new(),
            results: None,
            instructions: Vec::new(),
            model_keys: String::new(),
            model: None,
            hook_recorder: Arc::default(),
            hooks: Vec::new(),
            builtins: Vec::new(),
            agent_directory: Arc::default(),
            protected: Vec::new(),
            wire,
            environment: BTreeMap::new(),
            file: file.to_owned(),
            memory: Arc::new(InProcessStore::new(Arc::clone(&clock))),
            clock,
            database: None,
            names: Arc::default(),
            write_notifier: WriteNotifier::new(),
            is_checked: false,
        }
    }

    /// With its sessions in a file.
    pub(crate) fn in_file(mut self) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory.db");
        self.memory = open(&path, &self.clock);
        self.database = Some((directory, path));
        self
    }

    /// With its sessions in this memory.
    pub(crate) fn store_in(&mut self, memory: Arc<dyn Store>) {
        self.memory = memory;
    }

    /// The store as another process opens it, and everything else as it is.
    pub(crate) fn elsewhere(&self) -> Arc<dyn Store> {
        let (_, path) = self.database.as_ref().expect("a world in a file");
        open(path, &self.clock)
    }

    /// Another process begins.
    pub(crate) fn restart(&mut self) {
        self.memory = Arc::new(InProcessStore::new(Arc::clone(&self.clock)));
        self.memory = self.elsewhere();
        self.write_notifier = WriteNotifier::new();
    }

    /// Another file takes the place of the one before.
    pub(crate) fn rewrite(&mut self, file: &str) {
        file.clone_into(&mut self.file);
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        std::fs::write(self.root.path().join(path), text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.path().join(path)).unwrap()
    }

    pub(crate) fn team(&self) -> Arc<Team> {
        let model = self.model.clone();
        let model = model.unwrap_or_else(|| self.wire.model(&self.simulator.url()));
        let keys = &self.model_keys;
        let text = format!(
            "{}\nmodels:\n  test: {{{model}, token_key: TEST_KEY{keys}}}\n",
            self.file
        );
        let builtins = self.all_builtins();
        Arc::new(load_with(&text, self.root.path(), &builtins).unwrap())
    }

    fn all_builtins(&self) -> Builtins {
        let mut builtins = Builtins::default();
        let own: [Arc<dyn Builtin>; 2] = [
            Arc::new(RecorderBuiltin(Arc::clone(&self.hook_recorder))),
            Arc::new(DateBuiltin(Arc::clone(&self.clock))),
        ];
        for builtin in own.iter().chain(&self.builtins) {
            builtins.register(Arc::clone(builtin)).unwrap();
        }
        builtins
    }

    pub(crate) fn dependencies(&self) -> Dependencies {
        self.dependencies_over(Arc::clone(&self.memory))
    }

    pub(crate) fn dependencies_over(&self, memory: Arc<dyn Store>) -> Dependencies {
        let secret_set = Arc::new(SecretSet::empty());
        let mut environment = environment();
        environment.extend(self.environment.clone());
        let models = Models::new(
            ModelDependencies {
                environment: environment.clone(),
                clock: Arc::clone(&self.clock),
                http: HttpOptions::default(),
                catalog: Catalog::built_in(),
            },
            self.team().configured.clone(),
        )
        .with_pauses(Arc::clone(&self.pauses) as Arc<dyn RetryPauses>);
        let names = Arc::clone(&self.names);
        let hooks = HookSetup {
            dependencies: HookDependencies {
                builtins: Arc::new(self.all_builtins()),
                models: models.clone(),
                http: HttpClient::new(HttpOptions::default()).unwrap(),
                environment: Arc::new(environment.clone()),
                clock: Arc::clone(&self.clock),
                directory: self.root.path().to_owned(),
                sandbox: None,
                tools: None,
            },
            agent_directory: Arc::clone(&self.agent_directory),
            entries: self.hooks.clone(),
        };
        Dependencies {
            hooks: Some(hooks),
            toolboxes: Arc::new(TestToolboxes {
                tools: self.tools.clone(),
                results: self.results.clone(),
                instructions: self.instructions.clone(),
                clock: Arc::clone(&self.clock),
                write_notifier: self.write_notifier.clone(),
            }),
            tools: ToolContext {
                workspace: Arc::new(Workspace::open(self.root.path()).unwrap()),
                session: String::new(),
                environment: Arc::new(environment),
                clock: Arc::clone(&self.clock),
                http: HttpClient::new(HttpOptions::default()).unwrap(),
                store: None,
                secret_set: Arc::clone(&secret_set),
                user: None,
                sampler: None,
                gate: None,
                rules: Arc::default(),
                sandbox: None,
                witness: Witness::default(),
                output: cachalot_tools::LiveOutput::default(),
            },
            models,
            sessions: Sessions::new(memory, Arc::clone(&self.clock), secret_set),
            clock: Arc::clone(&self.clock),
            context: self.sources.clone(),
            listener: Arc::clone(&self.reported) as _,
            approver: Arc::clone(&self.answers) as _,
            human_paced: false,
            single_turn: false,
            protected: self.protected.clone(),
            strict_forks: true,
            new_session_id: Arc::new(move || {
                format!("session-{}", names.fetch_add(1, Ordering::SeqCst))
            }),
        }
    }

    pub(crate) async fn chat(&self) -> Chat {
        Chat::begin(self.dependencies(), self.team(), None)
            .await
            .unwrap()
    }

    pub(crate) async fn resume(&self, session: &str) -> Result<Chat, Error> {
        Chat::resume(self.dependencies(), self.team(), session).await
    }

    /// Runs a turn without cancellation.
    pub(crate) async fn turn(&self, chat: &mut Chat, said: &str) -> TurnReport {
        chat.turn(said, &CancellationToken::default())
            .await
            .unwrap()
    }

    pub(crate) async fn session(&self, id: &str) -> SessionOverview {
        let sessions = self.sessions().await;
        let found = sessions.into_iter().find(|overview| overview.head.id == id);
        found.unwrap_or_else(|| panic!("no session {id}"))
    }

    pub(crate) async fn sessions(&self) -> Vec<SessionOverview> {
        let sessions = self.dependencies().sessions;
        let listed = sessions.list(&SessionFilter::default()).await.unwrap();
        listed
            .into_iter()
            .map(|summary| summary.state.unwrap())
            .collect()
    }

    /// The requests that were answered, or are to be.
    pub(crate) fn bodies(&self) -> Vec<serde_json::Value> {
        let received = self.simulator.received();
        received.iter().map(|request| request.json()).collect()
    }

    /// The newest request.
    pub(crate) fn last_body(&self) -> serde_json::Value {
        self.bodies().pop().expect("a request")
    }

    /// Waits until it holds, for a while.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..12_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{what} does not come about");
    }

    /// Every request was such that the provider accepts it, and continues the one before it.
    pub(crate) fn check(mut self) {
        self.is_checked = true;
        assert_eq!(self.simulator.violations(), [] as [String; 0]);
        bodies::check(&self.simulator.received());
    }

    /// Same as [`Fixture::check`], for a conversation that starts again with the request of this number.
    pub(crate) fn check_from(self, restarted: usize) {
        self.check_between(&[restarted]);
    }

    /// Same as [`Fixture::check`], where the requests of these numbers continue no earlier request.
    pub(crate) fn check_between(mut self, anew: &[usize]) {
        self.is_checked = true;
        assert_eq!(self.simulator.violations(), [] as [String; 0]);
        let received = self.simulator.received();
        let ends = anew.iter().copied().chain([received.len()]);
        let mut from = 0;
        for to in ends {
            bodies::check(&received[from..to]);
            from = to;
        }
    }

    /// The messages of a session.
    pub(crate) async fn messages(&self, session: &str) -> Vec<Arc<Message>> {
        let opened = self.dependencies().sessions.open(session).await.unwrap();
        opened.unwrap().prompt.messages()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        assert!(
            self.is_checked || std::thread::panicking(),
            "the requests of this test were not checked"
        );
    }
}

fn open(path: &Path, clock: &Arc<dyn Clock>) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, sqlite::SqliteOptions::new(Arc::clone(clock))).unwrap())
}

pub(crate) fn environment() -> BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    BTreeMap::from([
        ("TEST_KEY".to_owned(), "sk-test".to_owned()),
        ("PATH".to_owned(), path),
    ])
}

/// The team that a file describes.
pub(crate) fn load(text: &str, directory: &Path) -> Result<Team, Vec<Problem>> {
    load_with(text, directory, &some_builtins())
}

/// An ear, and a clock that speaks.
pub(crate) fn some_builtins() -> Builtins {
    let mut builtins = Builtins::default();
    let clock = Arc::new(ManualClock::at(NOW));
    builtins
        .register(Arc::new(RecorderBuiltin(Arc::default())))
        .unwrap();
    builtins.register(Arc::new(DateBuiltin(clock))).unwrap();
    builtins
}

fn load_with(text: &str, directory: &Path, builtins: &Builtins) -> Result<Team, Vec<Problem>> {
    let environment = environment();
    let written = SourceFile {
        text,
        directory,
        environment: &environment,
        builtins,
    };
    Team::load(&tree::parse("team.yaml", text)?, &written)
}

/// The tools of toolsets `filesystem` and `shell`, those that a test brings, and those of the runtime.
struct TestToolboxes {
    tools: Vec<Arc<dyn Tool>>,
    results: Option<Cache>,
    instructions: Vec<String>,
    clock: Arc<dyn Clock>,
    write_notifier: WriteNotifier,
}

#[async_trait]
impl Toolboxes for TestToolboxes {
    async fn toolbox(
        &self,
        team: &Team,
        agent: &AgentDefinition,
        _session: &str,
        own: Vec<Arc<dyn Tool>>,
        _warn: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error> {
        let mut tools = self.tools.clone();
        tools.extend(own);
        assert!(team.tool_errors(agent).is_empty());
        let toolsets = agent.toolsets.iter().flat_map(|it| &it.value.toolsets);
        for toolset in toolsets {
            match &toolset.kind {
                ToolsetKind::Filesystem(_) => tools.extend(builtin::files()),
                ToolsetKind::Shell(_) => {
                    tools.push(Arc::new(Shell::new(ShellSettings::default()).unwrap()));
                }
                other => panic!("no toolset {other:?} here"),
            }
        }
        let settings = team.shared_tools.results.as_ref();
        let settings = settings.map(|results| results.value.clone());
        let options = cached::CachedToolsOptions {
            settings: settings.unwrap_or_default(),
            mode: CacheMode::On,
            ledger: Ledger::disabled(),
            clock: Arc::clone(&self.clock),
            secret_set: Arc::new(SecretSet::empty()),
            log: Arc::new(|_| {}),
            persistent: self.results.clone(),
            user: "somebody".to_owned(),
            write_notifier: self.write_notifier.clone(),
        };
        let registry = Registry::new(tools).unwrap();
        Ok(Arc::new(CachedTools::new(&registry, options).unwrap()))
    }

    fn instructions(&self, _team: &Team, _agent: &AgentDefinition) -> Vec<String> {
        self.instructions.clone()
    }
}
