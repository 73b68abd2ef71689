//! Providers of models: the simulator in a thread of its own, and a run that knows where it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_model::{Catalog, Meter, ModelDependencies, Models, RetryPauses};
use cachalot_simulator::{
    ReceivedRequest, RunningSimulator, Script, ScriptedReply, Simulator, SimulatorOptions,
};
use cachalot_storage::HttpOptions;
use cachalot_workflow::Runtime;
use cachalot_workflow::format::{self, Agent};
use serde_json::Value;
use tokio::sync::oneshot;

/// The key of the simulator.
pub const KEY: &str = "sk-simulated-0123456789";

/// A simulator on a loopback port of its own. When it is dropped, every request must have been one
/// that the providers would take.
pub struct Provider {
    running: Arc<RunningSimulator>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    forgiving: bool,
}

impl Provider {
    /// Serves from now on.
    pub fn start(script: Script) -> Self {
        let (started, start) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let options = SimulatorOptions {
                    script,
                    ..SimulatorOptions::default()
                };
                let running = Arc::new(Simulator::start(options).await.unwrap());
                started.send(Arc::clone(&running)).unwrap();
                drop(running);
                let _ = stopped.await;
            });
        });
        Self {
            running: start.recv().unwrap(),
            stop: Some(stop),
            thread: Some(thread),
            forgiving: false,
        }
    }

    /// The built-in scenario.
    pub fn built_in() -> Self {
        Self::start(Script::built_in())
    }

    /// The n-th request gets the n-th reply, the last one is repeated.
    pub fn replies(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::start(Script::replies(replies.into_iter().collect()))
    }

    /// The n-th request gets the n-th text, the last one is repeated.
    pub fn answers<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        Self::start(Script::answers(texts))
    }

    /// The same; requests may be refused.
    pub fn forgiving(mut self) -> Self {
        self.forgiving = true;
        self
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        self.running.url()
    }

    /// Variables with its address and a valid key.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let variables = [
            ("OPENAI_BASE_URL", format!("{}/v1", self.url())),
            ("OPENAI_API_KEY", KEY.to_owned()),
            ("ANTHROPIC_BASE_URL", self.url()),
            ("ANTHROPIC_API_KEY", KEY.to_owned()),
        ];
        variables
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    /// Everything that it was sent, in order.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.running.received()
    }

    /// The number of requests.
    pub fn requests(&self) -> usize {
        self.received().len()
    }

    /// The body of the last request.
    #[track_caller]
    pub fn last(&self) -> Value {
        self.received().last().expect("a request").json()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if !self.forgiving && !std::thread::panicking() {
            let violations = self.running.violations();
            assert!(violations.is_empty(), "{violations:#?}");
        }
    }
}

/// Does not wait.
pub struct NoPauses;

#[async_trait]
impl RetryPauses for NoPauses {
    async fn pause(&self, _: Duration) {
        tokio::task::yield_now().await;
    }

    fn jitter(&self) -> f64 {
        0.5
    }
}

/// Makes a run one of an agent file with these keys, in an environment in which these variables are
/// set, too.
pub fn configure(
    runtime: &mut Runtime,
    environment: &BTreeMap<String, String>,
    file: &str,
) -> Agent {
    runtime.environment.extend(environment.clone());
    let text = if file.contains("\nnodes:") {
        file.to_owned()
    } else {
        format!("{file}\nnodes: [{{name: nothing}}]\n")
    };
    let name = runtime.directory.join("agent.yaml");
    let loaded = format::load(
        &name.to_string_lossy(),
        &text,
        &runtime.actions,
        &runtime.environment,
        &cachalot_agent::definition::Builtins::default(),
    );
    let agent = loaded.unwrap_or_else(|problems| {
        let reported: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("{}\n{text}", reported.join("\n"))
    });
    let dependencies = ModelDependencies {
        environment: runtime.environment.clone(),
        clock: Arc::clone(&runtime.clock),
        http: HttpOptions::default(),
        catalog: Catalog::built_in(),
    };
    let models = Models::new(dependencies, agent.models.clone()).with_pauses(Arc::new(NoPauses));
    runtime.models = match runtime.secret_set.key() {
        Some(key) => models.with_digest_key(key.clone()),
        None => models,
    };
    runtime.meter = Meter::new(agent.budget.clone(), Arc::clone(&runtime.clock));
    runtime.team = agent.team.clone();
    runtime.settings = agent.settings.value.clone();
    agent
}
