//! An environment in which handlers run as processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_core::{ManualClock, Problem};
use cachalot_hooks::{
    Action, Builtins, Definition, Dialect, Event, HandlerReport, HookDependencies, HookEntry,
    HookTools, Hooks, Input, Matcher, Verdict,
};
use cachalot_model::{Catalog, ModelConfiguration, ModelSettings, Models};
use cachalot_storage::{HttpClient, HttpOptions};
use tempfile::TempDir;

use crate::hook_builder::EmptyAgent;

/// Longer than any handler takes that does not hang, however busy the machine is.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A temporary directory, an environment, and models.
pub(crate) struct HandlerFixture {
    pub(crate) directory: TempDir,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) models: Vec<(String, ModelSettings)>,
    pub(crate) tools: Option<Arc<dyn HookTools>>,
}

impl HandlerFixture {
    pub(crate) fn new() -> Self {
        let path = std::env::var("PATH").unwrap();
        let variables = [("PATH", path.as_str()), ("TEST_KEY", "sk-test")];
        Self {
            directory: tempfile::tempdir().unwrap(),
            environment: variables
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            models: Vec::new(),
            tools: None,
        }
    }

    pub(crate) fn with(mut self, variable: &str, value: &str) -> Self {
        self.environment
            .insert(variable.to_owned(), value.to_owned());
        self
    }

    /// The directory without symbolic links.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    pub(crate) fn hook_dependencies(&self) -> HookDependencies {
        let clock = Arc::new(ManualClock::at(0));
        let models = cachalot_model::ModelDependencies {
            environment: self.environment.clone(),
            clock: clock.clone(),
            http: HttpOptions::default(),
            catalog: Catalog::built_in(),
        };
        let configured = ModelConfiguration {
            models: self.models.clone(),
            ..ModelConfiguration::default()
        };
        HookDependencies {
            builtins: Arc::new(Builtins::default()),
            models: Models::new(models, configured),
            http: HttpClient::new(HttpOptions::default()).unwrap(),
            environment: Arc::new(self.environment.clone()),
            clock,
            directory: self.root(),
            sandbox: None,
            tools: self.tools.clone(),
        }
    }

    pub(crate) fn hooks(&self, entries: Vec<HookEntry>) -> Result<Hooks, Vec<Problem>> {
        Hooks::assemble(entries, &EmptyAgent, &self.hook_dependencies())
    }

    /// The problem of a hook.
    pub(crate) fn problem(&self, entry: HookEntry) -> Problem {
        let Err(mut problems) = self.hooks(vec![entry]) else {
            panic!("it is ready");
        };
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.remove(0)
    }

    /// The verdict of a hook.
    pub(crate) async fn verdict(&self, entry: HookEntry, mut input: Input) -> Verdict {
        input.event = entry.event;
        let hooks = self.hooks(vec![entry]).unwrap();
        tokio::time::timeout(2 * TIMEOUT, hooks.fire(input))
            .await
            .expect("a hook that ends")
    }

    /// The report of a hook.
    pub(crate) async fn report(&self, entry: HookEntry, input: Input) -> HandlerReport {
        let mut verdict = self.verdict(entry, input).await;
        assert_eq!(verdict.reports.len(), 1);
        verdict.reports.remove(0)
    }

    /// The fault of a hook.
    pub(crate) async fn fault(&self, entry: HookEntry, input: Input) -> String {
        self.report(entry, input).await.result.unwrap_err().message
    }

    pub(crate) fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(file)).unwrap()
    }
}

/// A hook as a file names it.
pub(crate) fn entry(event: Event, action: Action) -> HookEntry {
    HookEntry {
        event,
        event_name: Arc::from(event.name()),
        matcher: Matcher::ALL,
        only: None,
        definition: Definition {
            timeout: TIMEOUT,
            ..Definition::new(action)
        },
        dialect: Dialect::DockerAgent,
        source: Arc::from("agent.yaml"),
        place: None,
    }
}

pub(crate) fn command(event: Event, line: impl Into<String>) -> HookEntry {
    entry(event, Action::Command { line: line.into() })
}

/// The running processes of these groups, without zombies.
pub(crate) fn running(groups: &[String]) -> Vec<String> {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|process| std::fs::read_to_string(process.ok()?.path().join("stat")).ok())
        .filter(|stat| {
            let mut fields = stat[stat.rfind(')').unwrap() + 1..].split_whitespace();
            let (state, group) = (fields.next().unwrap(), fields.nth(1).unwrap());
            state != "Z" && groups.iter().any(|known| known == group)
        })
        .collect()
}

/// Waits until nothing of these process groups is running.
pub(crate) async fn until_gone(groups: &[String]) {
    let begun = Instant::now();
    loop {
        let left = running(groups);
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "left: {left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
