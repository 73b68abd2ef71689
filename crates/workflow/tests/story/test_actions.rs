//! Actions for tests: they count their runs, and answer, fail or wait as scripted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_workflow::{
    Action, Arguments, Failure, Operation, OperationMetadata, Parameter, ParameterKind, Runtime,
};
use serde_json::{Value, json};
use tokio::sync::Barrier;

const fn any(name: &'static str) -> Parameter {
    Parameter::optional(name, ParameterKind::Any, "Anything.")
}

/// The default parameters of test actions.
const PARAMETERS: &[Parameter] = &[
    any("x"),
    any("y"),
    any("value"),
    any("file"),
    any("model"),
    any("note").unkeyed(),
];

type Answer = dyn Fn(usize, &Arguments) -> Result<Value, Failure> + Send + Sync;
type Implied = dyn Fn(&Arguments, &Runtime) -> Result<Value, Failure> + Send + Sync;

/// An action with scripted behavior. Clones share the count.
#[derive(Clone)]
pub(crate) struct TestAction {
    about: OperationMetadata,
    answer: Arc<Answer>,
    implied: Arc<Implied>,
    takes: Duration,
    /// Number of runs that wait for each other.
    together: Arc<Barrier>,
    runs: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Arguments>>>,
}

impl TestAction {
    /// An action called `name` that answers with the number of its run and what it was given.
    pub(crate) fn named(name: &'static str) -> Self {
        let names: &'static [&'static str] = Box::leak(Box::new([name]));
        Self {
            about: OperationMetadata::declared(
                names[0],
                &names[1..],
                "An act of a test.",
                PARAMETERS,
            ),
            answer: Arc::new(|run, given| Ok(json!({"run": run, "given": given}))),
            implied: Arc::new(|_, _| Ok(Value::Null)),
            takes: Duration::ZERO,
            together: Arc::new(Barrier::new(1)),
            runs: Arc::default(),
            seen: Arc::default(),
        }
    }

    /// `test.test_action`.
    pub(crate) fn new() -> Self {
        Self::named("test.act")
    }

    pub(crate) fn version(mut self, version: u32) -> Self {
        self.about.version = version;
        self
    }

    pub(crate) fn answers(
        self,
        answer: impl Fn(usize, &Arguments) -> Result<Value, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(answer),
            ..self
        }
    }

    /// Always gives the same.
    pub(crate) fn gives(self, value: Value) -> Self {
        self.answers(move |_, _| Ok(value.clone()))
    }

    /// Always fails.
    pub(crate) fn fails(self, failure: Failure) -> Self {
        self.answers(move |_, _| Err(failure.clone()))
    }

    pub(crate) fn takes(self, time: Duration) -> Self {
        Self {
            takes: time,
            ..self
        }
    }

    /// Each run waits until `runs` are in progress.
    pub(crate) fn together(self, runs: usize) -> Self {
        Self {
            together: Arc::new(Barrier::new(runs)),
            ..self
        }
    }

    pub(crate) fn implies(
        self,
        implied: impl Fn(&Arguments, &Runtime) -> Result<Value, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            implied: Arc::new(implied),
            ..self
        }
    }

    /// The number of runs.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// The arguments of each run.
    pub(crate) fn seen(&self) -> Vec<Arguments> {
        self.seen.lock().unwrap().clone()
    }
}

#[async_trait]
impl Operation for TestAction {
    type Context = Runtime;
    type Output = Result<Value, Failure>;

    fn metadata(&self) -> &OperationMetadata {
        &self.about
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        (self.implied)(arguments, runtime)
    }

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst) + 1;
        self.seen.lock().unwrap().push(arguments.clone());
        self.together.wait().await;
        if !self.takes.is_zero() {
            tokio::time::sleep(self.takes).await;
        }
        (self.answer)(run, &arguments)
    }
}

impl Action for TestAction {}
