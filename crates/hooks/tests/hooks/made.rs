//! Hooks made by hand: builtins that say what a test wants them to say.

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

/// An agent that has nothing.
pub(crate) struct Nobody;

impl AgentView for Nobody {
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

/// A builtin that says, given the number of a hook, what that hook says.
struct Says(Vec<Say>);

#[async_trait]
impl Builtin for Says {
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

/// Hooks to come, for one event.
pub(crate) struct Made {
    event: Event,
    entries: Vec<HookEntry>,
    says: Vec<Say>,
}

impl Made {
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

    /// Another hook, which always says this.
    pub(crate) fn says(self, output: Output) -> Self {
        self.hook(move |_| {
            let output = output.clone();
            async move { Ok(output) }
        })
    }

    /// Another hook, which fails.
    pub(crate) fn fails(self) -> Self {
        self.hook(|_| async { Err(Fault::new("broken")) })
    }

    /// The last hook, changed.
    pub(crate) fn but(mut self, change: impl FnOnce(&mut HookEntry)) -> Self {
        change(self.entries.last_mut().unwrap());
        self
    }

    pub(crate) fn hooks(self) -> Hooks {
        let mut builtins = Builtins::default();
        builtins.register(Arc::new(Says(self.says))).unwrap();
        Hooks::assemble(self.entries, &Nobody, &surroundings(builtins)).unwrap()
    }

    /// What comes of an input.
    pub(crate) async fn fire(self, mut input: Input) -> Verdict {
        input.event = self.event;
        self.hooks().fire(input).await
    }

    /// What comes of an input that says nothing.
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
pub(crate) fn surroundings(builtins: Builtins) -> HookDependencies {
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
    }
}
