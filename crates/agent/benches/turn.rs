//! A turn's own overhead at 200 messages: everything but the provider and the tools. The provider is
//! the simulator, on a thread of its own; the time from asking it to its last byte is measured within
//! the same turn and taken out. The tools answer at once, and so does a hook that answers whole turns.
//! Medians over interleaved turns.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use cachalot_agent::{
    AgentDefinition, AgentDirectory, CancellationToken, Chat, Dependencies, Error, Event,
    HookSetup, Listener, SourceFile, Team, Toolboxes,
};
use cachalot_cache::Witness;
use cachalot_core::{Clock, SecretSet, Spend, SystemClock, Witnesses, tree};
use cachalot_hooks::{
    AgentView, Builtin, Builtins, Fault, HookDependencies, Injection, Input, Output as Said,
    Synthetic,
};
use cachalot_model::{Catalog, ModelDependencies, Models, ToolDefinition};
use cachalot_prompt::{Prompt, SessionHead, Sessions};
use cachalot_simulator::{Script, Simulator, SimulatorOptions};
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_store::Store;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use cachalot_tools::{
    Arguments, BatchContext, CallOutcome, Origin, PreparedCall, ReadyCall, Tool, ToolCall,
    ToolCallResult, ToolContext, ToolOutput, Toolbox, Workspace,
};
use serde_json::json;

const MESSAGES: u64 = 200;
const ROUNDS: usize = 60;

/// How long the provider took, in the turn under way.
#[derive(Default)]
struct Provider(Mutex<Duration>);

impl Listener for Provider {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::ModelCallEnded { elapsed, .. } = event {
            *self.0.lock().unwrap() += *elapsed;
        }
    }
}

/// What a hook has an answer to.
const KNOWN: &str = "you know";

/// A hook that answers whole turns.
struct Knowing;

#[async_trait]
impl Builtin for Knowing {
    fn name(&self) -> &'static str {
        "knowing"
    }

    fn about(&self) -> &'static str {
        "Knows."
    }

    fn events(&self) -> &'static [cachalot_hooks::Event] {
        &[cachalot_hooks::Event::PreUserTurn]
    }

    fn inject(&self, _: &dyn AgentView) -> Vec<Injection> {
        vec![Injection::for_event(cachalot_hooks::Event::PreUserTurn)]
    }

    async fn run(&self, _: &[String], input: &Input) -> Result<Said, Fault> {
        let is_known = input.last_user_message.as_deref() == Some(KNOWN);
        Ok(Said {
            synthetic: is_known.then(|| Synthetic {
                content: "words of an answer ".repeat(40),
                ..Synthetic::default()
            }),
            ..Said::default()
        })
    }
}

/// Tools that answer at once.
struct AtOnce;

#[async_trait]
impl Toolbox for AtOnce {
    fn definitions(&self) -> Vec<ToolDefinition> {
        [
            "read_file",
            "write_file",
            "edit_file",
            "grep",
            "glob",
            "list_dir",
            "shell",
        ]
        .map(|name| ToolDefinition {
            name: name.to_owned(),
            description: "Does what its name says, with all the care that one may expect."
                .repeat(4),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        })
        .to_vec()
    }

    fn writing_tools(&self) -> Vec<String> {
        vec!["write_file".to_owned()]
    }

    fn prepare(&self, call: ToolCall) -> PreparedCall {
        let arguments: Arguments = serde_json::from_str(&call.arguments).unwrap();
        PreparedCall::Ready(ReadyCall {
            call,
            resource_access: cachalot_operation::ResourceAccess::default(),
            arguments,
            origin: Origin::BuiltIn,
            read_only: true,
        })
    }

    fn prepare_rewritten(&self, call: &ToolCall, _: Arguments) -> PreparedCall {
        self.prepare(call.clone())
    }

    async fn run(&self, calls: Vec<PreparedCall>, batch: &BatchContext) -> Vec<ToolCallResult> {
        let answer = |prepared: PreparedCall| {
            batch
                .observer
                .call_started(prepared.call(), &batch.context.output);
            let answer = ToolCallResult {
                call: prepared.call().clone(),
                output: ToolOutput::text("a line of a file\n".repeat(60)),
                outcome: CallOutcome::Ran(None),
                elapsed: Duration::ZERO,
                saved: Spend::default(),
                witnesses: Witnesses::default(),
                expires: None,
            };
            batch.observer.call_finished(&answer);
            answer
        };
        calls.into_iter().map(answer).collect()
    }
}

struct TestToolboxes;

#[async_trait]
impl Toolboxes for TestToolboxes {
    async fn toolbox(
        &self,
        _: &Team,
        _: &AgentDefinition,
        _: &str,
        _: Vec<Arc<dyn Tool>>,
        _: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error> {
        Ok(Arc::new(AtOnce))
    }
}

fn script() -> Script {
    let text = "A line of an answer.\n".repeat(50).replace('\n', " ");
    let script = format!(
        "rules:\n  - user: '^look'\n    steps:\n      - tool_calls: [{{name: read_file, arguments: {{path: a}}}}]\n      - text: '{text}'\notherwise: {{text: '{text}'}}\n"
    );
    Script::parse("script.yaml", &script).unwrap()
}

struct Fixture {
    team: Arc<Team>,
    dependencies: Dependencies,
    provider: Arc<Provider>,
    /// The conversation that every turn continues.
    prompt: Prompt,
    head: SessionHead,
    names: Arc<AtomicUsize>,
}

impl Fixture {
    async fn over(
        memory: Arc<dyn Store>,
        model: &str,
        root: &std::path::Path,
        names: &Arc<AtomicUsize>,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let environment = BTreeMap::from([("KEY".to_owned(), "sk-bench".to_owned())]);
        let text = format!(
            "models: {{m: {{{model}, token_key: KEY}}}}\nagents: {{root: {{model: m, instruction: You look into files.}}}}\npermissions: {{deny: ['*:path=.env*'], ask: ['shell:command=git push*']}}\n"
        );
        let written = SourceFile {
            text: &text,
            directory: root,
            environment: &environment,
            builtins: &Builtins::default(),
        };
        let team = Team::load(&tree::parse("team.yaml", &text).unwrap(), &written).unwrap();
        let models = Models::new(
            ModelDependencies {
                environment: environment.clone(),
                clock: Arc::clone(&clock),
                http: HttpOptions::default(),
                catalog: Catalog::built_in(),
            },
            team.configured.clone(),
        );
        let provider = Arc::new(Provider::default());
        let naming = Arc::clone(names);
        let secret_set = Arc::new(SecretSet::empty());
        let mut builtins = Builtins::default();
        builtins.register(Arc::new(Knowing)).unwrap();
        let hooks = HookSetup {
            dependencies: HookDependencies {
                builtins: Arc::new(builtins),
                models: models.clone(),
                http: HttpClient::new(HttpOptions::default()).unwrap(),
                environment: Arc::new(environment.clone()),
                clock: Arc::clone(&clock),
                directory: root.to_owned(),
                sandbox: None,
                tools: None,
            },
            agent_directory: Arc::new(AgentDirectory::default()),
            entries: Vec::new(),
        };
        let dependencies = Dependencies {
            toolboxes: Arc::new(TestToolboxes),
            tools: ToolContext {
                workspace: Arc::new(Workspace::open(root).unwrap()),
                session: String::new(),
                environment: Arc::new(environment),
                clock: Arc::clone(&clock),
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
            sessions: Sessions::new(memory, Arc::clone(&clock), secret_set),
            clock,
            context: Vec::new(),
            hooks: Some(hooks),
            listener: Arc::clone(&provider) as _,
            approver: Arc::new(cachalot_agent::event::DenyAll),
            human_paced: false,
            single_turn: false,
            protected: Vec::new(),
            strict_forks: false,
            new_session_id: Arc::new(move || format!("s{}", naming.fetch_add(1, Ordering::SeqCst))),
        };
        let team = Arc::new(team);
        let mut chat = Chat::begin(dependencies.clone(), Arc::clone(&team), None)
            .await
            .unwrap();
        for number in 0..MESSAGES / 2 {
            let said = format!("message {number}: {}", "words of the user ".repeat(20));
            chat.turn(&said, &CancellationToken::default())
                .await
                .unwrap();
        }
        let session = dependencies
            .sessions
            .open(chat.session())
            .await
            .unwrap()
            .unwrap();
        Self {
            prompt: session.prompt.clone(),
            head: session.head.clone(),
            team,
            dependencies,
            provider,
            names: Arc::clone(names),
        }
    }

    /// How long a turn takes, and how much of it is the provider's.
    async fn turn(&self, said: &str) -> (Duration, Duration) {
        let id = format!("t{}", self.names.fetch_add(1, Ordering::SeqCst));
        let head = SessionHead {
            id: id.clone(),
            ..self.head.clone()
        };
        let sessions = &self.dependencies.sessions;
        sessions
            .create_from(head, self.prompt.clone())
            .await
            .unwrap();
        let mut chat = Chat::resume(self.dependencies.clone(), Arc::clone(&self.team), &id)
            .await
            .unwrap();
        *self.provider.0.lock().unwrap() = Duration::ZERO;
        let began = Instant::now();
        chat.turn(said, &CancellationToken::default())
            .await
            .unwrap();
        let all = began.elapsed();
        (all, *self.provider.0.lock().unwrap())
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The address of a simulator on a thread of its own.
fn simulator() -> String {
    let (tell, reported) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let options = SimulatorOptions {
                script: script(),
                ..SimulatorOptions::default()
            };
            let running = Simulator::start(options).await.unwrap();
            tell.send(running.url()).unwrap();
            running.stopped().await;
        });
    });
    reported.recv().unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = simulator();
    let root = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let memories: [(&str, Arc<dyn Store>); 2] = [
        (
            "in-process",
            Arc::new(InProcessStore::new(Arc::clone(&clock))),
        ),
        ("SQLite", {
            let path = root.path().join("memory.db");
            Arc::new(SqliteStore::open(&path, SqliteOptions::new(clock)).unwrap())
        }),
    ];
    let models = [
        format!("provider: openai, model: gpt-4o-mini, base_url: '{url}/v1'"),
        format!("provider: anthropic, model: claude-sonnet-4-5, base_url: '{url}'"),
    ];
    let names = Arc::new(AtomicUsize::new(0));
    for (name, memory) in memories {
        for model in &models {
            let fixture = Fixture::over(Arc::clone(&memory), model, root.path(), &names).await;
            let kinds = [
                ("answer", "tell me"),
                ("call, result, answer", "look"),
                ("answered by a hook", KNOWN),
            ];
            let mut own = [Vec::new(), Vec::new(), Vec::new()];
            let mut all = [Vec::new(), Vec::new(), Vec::new()];
            for _ in 0..ROUNDS {
                for (at, (_, said)) in kinds.iter().enumerate() {
                    let (time, provider) = fixture.turn(said).await;
                    own[at].push(time.saturating_sub(provider));
                    all[at].push(time);
                }
            }
            for (at, (kind, _)) in kinds.iter().enumerate() {
                println!(
                    "{name:>10}, {:<9} {kind:<21} own {:>9.1?}   with the simulator {:>9.1?}",
                    fixture.head.provider,
                    median(&mut own[at]),
                    median(&mut all[at])
                );
            }
        }
    }
}
