//! A run with test actions and test inline code.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::{Cache, CacheBounds, CacheMode, Ledger};
use cachalot_core::secret::DigestKey;
use cachalot_core::{ManualClock, Secret, SecretSet, Spend};
use cachalot_model::{Budget, Meter, ModelConfiguration, Models};
use cachalot_storage::{HttpClient, HttpOptions, Storage};
use cachalot_store::in_process::InProcessStore;
use cachalot_workflow::Registry;
use cachalot_workflow::action::runtime::Random;
use cachalot_workflow::format::{self, Agent, Language};
use cachalot_workflow::graph::{self, Plan, RunFailure, Scripts};
use cachalot_workflow::report::{Event, Memoized, Reporter, current_node};
use cachalot_workflow::script::{Script, ScriptFailure, ScriptResult, ScriptRunner};
use cachalot_workflow::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, ParameterKind, Planned,
    Runtime,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::rendering::object;

/// The events of a run.
#[derive(Default)]
pub(crate) struct EventLog {
    pub(crate) events: Mutex<Vec<Event>>,
    /// The number of runs of actions.
    pub(crate) runs: AtomicUsize,
    /// The number of running actions, and its maximum.
    running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
    /// The number of actions that were dropped before their end.
    pub(crate) dropped: AtomicUsize,
}

impl Reporter for EventLog {
    fn report(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }
}

impl EventLog {
    /// The events, one word and the node each, without times.
    pub(crate) fn shown(&self) -> Vec<String> {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .map(|event| match event {
                Event::Started { node } => format!("+ {node}"),
                Event::Finished { node, .. } => format!("- {node}"),
                Event::Answered { node, memoized } => format!("= {node}: {}", memoized.outcome),
                Event::Failed { node, message, .. } => format!("! {node}: {message}"),
                Event::Retrying {
                    node,
                    attempt,
                    after,
                    ..
                } => format!("~ {node}: {attempt} after {after:?}"),
                Event::Progress { node, done, total } => format!("% {node}: {done}/{total}"),
                Event::Printed { node, text } => format!("> {node}: {text}"),
                other => format!("{other:?}"),
            })
            .collect()
    }

    pub(crate) fn started(&self) -> Vec<String> {
        self.shown()
            .iter()
            .filter_map(|event| event.strip_prefix("+ "))
            .map(str::to_owned)
            .collect()
    }
}

const fn parameter(name: &'static str, kind: ParameterKind, required: bool) -> Parameter {
    Parameter {
        required,
        ..Parameter::optional(name, kind, "For tests.")
    }
}

/// `test.echo`: after `wait` milliseconds returns `value`, or fails `fails` times first.
struct Echo {
    about: OperationMetadata,
    reported: Arc<EventLog>,
    failed: Mutex<BTreeMap<String, u64>>,
}

struct Running<'a>(&'a EventLog, bool);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        if !self.1 {
            self.0.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[async_trait]
impl Operation for Echo {
    type Context = Runtime;
    type Output = Result<Value, Failure>;

    fn metadata(&self) -> &OperationMetadata {
        &self.about
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        if let Some(plan) = arguments.get("plan").and_then(Value::as_str) {
            let memoized = Memoized {
                outcome: if plan == "hit" { "hit" } else { "pays" },
                handle: None,
                reason: None,
                paid: Spend::default(),
                saved: Spend::default(),
            };
            runtime.reporter.report(Event::Answered {
                node: current_node(),
                memoized,
            });
        }
        self.reported.runs.fetch_add(1, Ordering::SeqCst);
        let now = self.reported.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.reported.most_running.fetch_max(now, Ordering::SeqCst);
        let mut running = Running(&self.reported, false);
        if let Some(wait) = arguments.get("wait").and_then(Value::as_u64) {
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        running.1 = true;
        let fails = arguments.get("fails").and_then(Value::as_u64).unwrap_or(0);
        let mut failed = self.failed.lock().unwrap();
        let failed = failed.entry(current_node()).or_default();
        if *failed < fails {
            *failed += 1;
            let message = format!(
                "failure {failed} of {}",
                arguments.get("value").unwrap_or(&Value::Null)
            );
            return Err(match arguments.get("kind").and_then(Value::as_str) {
                Some("passing") => Failure::transient("timeout", message),
                _ => Failure::new("broken", message),
            });
        }
        Ok(arguments.get("value").cloned().unwrap_or(Value::Null))
    }
}

#[async_trait]
impl Action for Echo {
    async fn plan(&self, arguments: Arguments, _: &Runtime) -> Result<Planned, Failure> {
        Ok(match arguments.get("plan").and_then(Value::as_str) {
            Some("hit") => Planned::Hit {
                result: arguments["value"].clone(),
                handle: "cache:x".to_owned(),
            },
            Some("pays") => Planned::Miss {
                handle: Some("cache:x".to_owned()),
                reason: "no entry".to_owned(),
            },
            _ => Planned::Runs,
        })
    }
}

/// Inline code is JSON with `of_name` for fields of the state, after an optional `print("TEXT")` line;
/// `fail` fails on its second line.
struct JsonRunner;

#[async_trait]
impl ScriptRunner for JsonRunner {
    async fn run(
        &self,
        script: &Script,
        state: &Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Result<ScriptResult, ScriptFailure> {
        let mut printed = String::new();
        let mut source = script.source.trim().to_owned();
        if let Some(rest) = source.strip_prefix("print(\"") {
            let (text, rest) = rest.split_once("\")\n").unwrap_or((rest, ""));
            printed = format!("{text}\n");
            source = rest.to_owned();
        }
        if source.starts_with("fail") {
            let line = Some(script.first_line + 1);
            return Err(ScriptFailure {
                kind: "script_error",
                message: "it failed".to_owned(),
                line,
                printed,
            });
        }
        let source = source.strip_prefix("return ").unwrap_or(&source);
        let mut source = source.trim_matches(['(', ')']).to_owned();
        for (name, value) in state.iter().chain(variables) {
            source = source.replace(&format!("of_{name}"), &value.to_string());
        }
        if let Some((left, right)) = source.split_once(" + ") {
            let sum = left.parse::<i64>().unwrap() + right.parse::<i64>().unwrap();
            return Ok(ScriptResult {
                returned: json!({ "count": sum }),
                printed,
                ..ScriptResult::default()
            });
        }
        let returned = if source.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&source).expect(&source)
        };
        Ok(ScriptResult {
            returned,
            printed,
            ..ScriptResult::default()
        })
    }
}

struct FixedRandom;

impl Random for FixedRandom {
    fn unit(&self) -> f64 {
        0.5
    }
}

/// A run with its directory and events.
pub(crate) struct Fixture {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) reported: Arc<EventLog>,
    pub(crate) directory: TempDir,
}

const ECHO: &[Parameter] = &[
    parameter("value", ParameterKind::Any, false),
    parameter("wait", ParameterKind::Integer, false),
    parameter("fails", ParameterKind::Integer, false),
    parameter("kind", ParameterKind::Text, false),
    parameter("plan", ParameterKind::Text, false),
];

const NEEDS: &[Parameter] = &[
    parameter("path", ParameterKind::Text, true),
    parameter("count", ParameterKind::Integer, false),
    parameter("ratio", ParameterKind::Number, false),
    parameter("flag", ParameterKind::Boolean, false),
    parameter("fields", ParameterKind::Object, false),
    parameter("items", ParameterKind::List, false),
];

/// The actions of tests: `test.echo`, and `test.needs` whose arguments are of all kinds.
pub(crate) fn registry(reported: &Arc<EventLog>) -> Registry {
    let mut registry = Registry::default();
    let about = |names: &'static [&'static str], parameters| {
        OperationMetadata::declared(names[0], &names[1..], "For tests.", parameters)
    };
    for (names, parameters) in [
        (&["test.echo", "actions.test_echo"][..], ECHO),
        (&["test.needs"][..], NEEDS),
    ] {
        registry.register(Echo {
            about: about(names, parameters),
            reported: Arc::clone(reported),
            failed: Mutex::default(),
        });
    }
    registry
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let reported = Arc::new(EventLog::default());
        let clock = Arc::new(ManualClock::at(1_795_228_920_000));
        let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([7; 32])));
        let cache = Cache::new(cachalot_cache::CacheOptions {
            local: None,
            store: Some(Arc::new(InProcessStore::new(clock.clone()))),
            ledger: Ledger::disabled(),
            clock: clock.clone(),
            secret_set: Arc::clone(&secret_set),
            bounds: CacheBounds::default(),
            warn: Arc::new(|_| {}),
        });
        let storage = Storage::new(cachalot_storage::StorageOptions {
            directory: directory.path().to_owned(),
            environment: BTreeMap::new(),
            http: HttpClient::new(HttpOptions::default()).unwrap(),
        });
        let runtime = Runtime {
            models: Models::new(
                cachalot_model::ModelDependencies {
                    environment: BTreeMap::new(),
                    clock: clock.clone(),
                    http: cachalot_storage::HttpOptions::default(),
                    catalog: cachalot_model::Catalog::built_in(),
                },
                ModelConfiguration::default(),
            ),
            meter: Meter::new(Budget::default(), clock.clone()),
            team: None,
            agent_host: None,
            session: cachalot_workflow::session::SessionMemory::default(),
            run: "run".to_owned(),
            agent: "test".to_owned(),
            directory: directory.path().to_owned(),
            environment: BTreeMap::from([("HOME".to_owned(), "/home/ada".to_owned())]),
            settings: json!({"name": "agent"}),
            clock,
            random: Arc::new(FixedRandom),
            storage,
            store: None,
            cache,
            mode: CacheMode::On,
            secret_set,
            secrets: BTreeMap::from([(
                "TOKEN".to_owned(),
                Secret::new("hunter2-hunter2".to_owned()),
            )]),
            actions: Arc::new(registry(&reported)),
            tools: cachalot_workflow::action::runtime::ToolServices::default(),
            sandbox: None,
            reporter: Arc::clone(&reported) as Arc<dyn Reporter>,
        };
        Self {
            runtime: Arc::new(runtime),
            reported,
            directory,
        }
    }

    /// Loads a file with this path.
    pub(crate) fn read(
        &self,
        file: &str,
        text: &str,
    ) -> Result<Agent, Vec<cachalot_core::Problem>> {
        format::load(
            file,
            text,
            &self.runtime.actions,
            &BTreeMap::new(),
            &cachalot_agent::definition::Builtins::default(),
        )
    }

    pub(crate) fn load(&self, text: &str) -> Agent {
        match self.read("agent.yaml", text) {
            Ok(agent) => agent,
            Err(problems) => panic!("{}", shown(&problems)),
        }
    }

    pub(crate) async fn run(&self, text: &str, input: Value) -> Result<Value, RunFailure> {
        self.run_agent(&self.load(text), input).await
    }

    pub(crate) async fn run_agent(&self, agent: &Agent, input: Value) -> Result<Value, RunFailure> {
        graph::run(agent, object(input), &self.runtime, &json_scripts())
            .await
            .map(Value::Object)
    }

    /// Runs an agent. Returns the nodes and the languages of the blocks that ran.
    pub(crate) async fn languages(&self, agent: &Agent, input: Value) -> Vec<String> {
        let calls = Arc::default();
        let runner = |language| {
            Arc::new(LanguageRunner {
                language,
                calls: Arc::clone(&calls),
            })
        };
        let scripts = Scripts {
            python: runner(Language::Python),
            lua: runner(Language::Lua),
            python3: runner(Language::Python3),
        };
        graph::run(agent, object(input), &self.runtime, &scripts)
            .await
            .unwrap();
        std::mem::take(&mut calls.lock().unwrap())
    }

    /// Runs a file. Returns the state also if the run fails.
    pub(crate) async fn run_in(&self, text: &str, input: Value) -> (Result<(), RunFailure>, Value) {
        let agent = self.load(text);
        let mut state = graph::initial_state(&agent, object(input));
        let ended = graph::run_in(&agent, &mut state, &self.runtime, &json_scripts()).await;
        (ended, Value::Object(state.into_fields()))
    }

    pub(crate) async fn plan(&self, text: &str, input: Value) -> Plan {
        let agent = self.load(text);
        graph::plan(&agent, object(input), &self.runtime).await
    }
}

/// Records the node and the language of each block. Every block sets `x` to true, and `loop/1` to false.
struct LanguageRunner {
    language: Language,
    calls: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl ScriptRunner for LanguageRunner {
    async fn run(
        &self,
        _: &Script,
        _: &Map<String, Value>,
        _: &Map<String, Value>,
    ) -> Result<ScriptResult, ScriptFailure> {
        let node = current_node();
        let returned = json!({ "x": node != "loop/1" });
        self.calls
            .lock()
            .unwrap()
            .push(format!("{node} {:?}", self.language));
        Ok(ScriptResult {
            returned,
            ..ScriptResult::default()
        })
    }
}

fn json_scripts() -> Scripts {
    Scripts {
        python: Arc::new(JsonRunner),
        lua: Arc::new(JsonRunner),
        python3: Arc::new(JsonRunner),
    }
}

pub(crate) fn shown(problems: &[cachalot_core::Problem]) -> String {
    problems
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

#[track_caller]
pub(crate) fn fields(state: &Value, keys: &[&str]) -> Value {
    keys.iter()
        .map(|key| state.get(*key).cloned().unwrap_or(json!("<unset>")))
        .collect()
}

pub(crate) async fn run(text: &str, input: Value) -> Value {
    Fixture::new().run(text, input).await.unwrap()
}

pub(crate) async fn fails(text: &str, input: Value) -> RunFailure {
    Fixture::new().run(text, input).await.unwrap_err()
}
