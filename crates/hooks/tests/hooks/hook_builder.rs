//! Hooks of tests: builtins with scripted outputs.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use cachalot_core::tree::Node;
use cachalot_core::{Digest, ManualClock};
use cachalot_hooks::{
    Action, AgentView, Builtin, Builtins, Definition, Dialect, Event, Fault, HookDependencies,
    HookEntry, Hooks, Input, Matcher, Output, Verdict,
};
use cachalot_model::{Catalog, Model, ModelConfiguration, Models};
use cachalot_storage::{HttpClient, HttpOptions};
use futures_util::future::BoxFuture;

static ALL: LazyLock<Vec<Event>> = LazyLock::new(|| Event::all().collect());

type Say = Box<dyn Fn(Input) -> BoxFuture<'static, Result<Output, Fault>> + Send + Sync>;

/// An agent without settings.
pub(crate) struct EmptyAgent;

impl AgentView for EmptyAgent {
    fn name(&self) -> &'static str {
        "nobody"
    }

    fn models(&self) -> Vec<Model> {
        Vec::new()
    }

    fn fingerprint(&self, _: &str) -> Option<Digest> {
        None
    }

    fn section(&self, _: &str) -> Option<&Node> {
        None
    }
}

/// A builtin that returns the scripted output of a hook, given its number.
struct ScriptedBuiltin(Vec<Say>);

#[async_trait]
impl Builtin for ScriptedBuiltin {
    fn name(&self) -> &'static str {
        "say"
    }

    fn about(&self) -> &'static str {
        "Says what a test wants."
    }

    fn events(&self) -> &'static [Event] {
        &ALL
    }

    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault> {
        let number: usize = arguments[0].parse().unwrap();
        (self.0[number])(input.clone()).await
    }
}

/// A builder of hooks for one event.
pub(crate) struct HookBuilder {
    event: Event,
    entries: Vec<HookEntry>,
    says: Vec<Say>,
}

impl HookBuilder {
    pub(crate) fn of(event: Event) -> Self {
        Self {
            event,
            entries: Vec::new(),
            says: Vec::new(),
        }
    }

    /// Another hook, called `hook-0`, `hook-1`, …, of `agent.yaml`.
    pub(crate) fn hook<F>(mut self, say: impl Fn(Input) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Output, Fault>> + Send + 'static,
    {
        let number = self.says.len();
        self.says.push(Box::new(move |input| Box::pin(say(input))));
        let mut entry = entry(self.event, "say", &[&number.to_string()]);
        entry.definition.name = Some(format!("hook-{number}"));
        self.entries.push(entry);
        self
    }

    /// Adds a hook that always returns this output.
    pub(crate) fn says(self, output: Output) -> Self {
        self.hook(move |_| {
            let output = output.clone();
            async move { Ok(output) }
        })
    }

    /// Adds a hook that fails.
    pub(crate) fn fails(self) -> Self {
        self.hook(|_| async { Err(Fault::new("broken")) })
    }

    /// Changes the last hook.
    pub(crate) fn but(mut self, change: impl FnOnce(&mut HookEntry)) -> Self {
        change(self.entries.last_mut().unwrap());
        self
    }

    pub(crate) fn hooks(self) -> Hooks {
        let mut builtins = Builtins::default();
        builtins
            .register(Arc::new(ScriptedBuiltin(self.says)))
            .unwrap();
        Hooks::assemble(self.entries, &EmptyAgent, &hook_dependencies(builtins)).unwrap()
    }

    /// The verdict on an input.
    pub(crate) async fn fire(self, mut input: Input) -> Verdict {
        input.event = self.event;
        self.hooks().fire(input).await
    }

    /// The verdict on an empty input.
    pub(crate) async fn verdict(self) -> Verdict {
        self.fire(Input::default()).await
    }
}

/// A builtin as a file names it.
pub(crate) fn entry(event: Event, builtin: &str, arguments: &[&str]) -> HookEntry {
    HookEntry {
        event,
        event_name: Arc::from(event.name()),
        matcher: Matcher::ALL,
        only: None,
        definition: Definition::new(Action::Builtin {
            name: builtin.to_owned(),
            arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        }),
        dialect: Dialect::DockerAgent,
        source: Arc::from("agent.yaml"),
        place: None,
    }
}

/// A world with these builtins, and nothing else.
pub(crate) fn hook_dependencies(builtins: Builtins) -> HookDependencies {
    let clock = Arc::new(ManualClock::at(0));
    let models = cachalot_model::ModelDependencies {
        environment: BTreeMap::new(),
        clock: clock.clone(),
        http: HttpOptions::default(),
        catalog: Catalog::built_in(),
    };
    HookDependencies {
        builtins: Arc::new(builtins),
        models: Models::new(models, ModelConfiguration::default()),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
        environment: Arc::default(),
        clock,
        directory: PathBuf::from("/"),
        sandbox: None,
        tools: None,
    }
}
