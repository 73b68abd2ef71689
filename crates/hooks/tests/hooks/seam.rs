//! The interface between builtins and the runtime, tested with agents that tests define.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_core::tree::{self, Node};
use cachalot_core::{Digest, ManualClock, Problem, SecretSet};
use cachalot_hooks::builtin::BuiltinDependencies;
use cachalot_hooks::builtin::cache_response::{CacheResponse, FlatFileError};
use cachalot_hooks::input::{
    Answer, Compaction, Notification, Prompt, Switch, ToolResponse, ToolUse,
};
use cachalot_hooks::{
    AgentLookup, AgentView, Builtin, Builtins, Event, Fault, Hooks, Input, Output,
};
use cachalot_model::{Catalog, Message, Model, ModelConfiguration, ModelDependencies, Models};
use cachalot_storage::{HttpClient, HttpOptions};
use tempfile::TempDir;

use crate::hook_builder::{entry, hook_dependencies};

/// An agent that a test defines.
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) models: Vec<Model>,
    pub(crate) sections: Vec<(String, Node)>,
}

impl Agent {
    /// An agent with these models and, in YAML, these sections.
    pub(crate) fn of(name: &str, models: &[&str], sections: &str) -> Self {
        let sections = match sections {
            "" => Vec::new(),
            text => tree::parse("agent.yaml", text)
                .unwrap()
                .as_map()
                .unwrap()
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.clone()))
                .collect(),
        };
        Self {
            name: name.to_owned(),
            models: models.iter().map(|name| model(name)).collect(),
            sections,
        }
    }
}

impl AgentView for Agent {
    fn name(&self) -> &str {
        &self.name
    }

    fn models(&self) -> Vec<Model> {
        self.models.clone()
    }

    fn fingerprint(&self, session: &str) -> Option<Digest> {
        (!session.is_empty()).then(|| Digest::sha256(self.name.as_bytes()))
    }

    fn section(&self, name: &str) -> Option<&Node> {
        let named = self.sections.iter().find(|(known, _)| known == name);
        named.map(|(_, section)| section)
    }
}

/// Agents by hand.
#[derive(Default)]
pub(crate) struct Team(pub(crate) Vec<Arc<Agent>>);

impl AgentLookup for Team {
    fn agent(&self, name: &str) -> Option<Arc<dyn AgentView>> {
        let found = self.0.iter().find(|agent| agent.name == name)?;
        Some(Arc::clone(found) as Arc<dyn AgentView>)
    }
}

/// `provider/model`, or `provider/model@base_url`.
pub(crate) fn model(name: &str) -> Model {
    let (name, base_url) = match name.split_once('@') {
        Some((name, url)) => (name, Some(url.to_owned())),
        None => (name, None),
    };
    let hook_dependencies = ModelDependencies {
        environment: BTreeMap::new(),
        clock: Arc::new(ManualClock::default()),
        http: HttpOptions::default(),
        catalog: Catalog::built_in(),
    };
    let settings = cachalot_model::ModelSettings {
        base_url,
        ..Default::default()
    };
    Models::new(hook_dependencies, ModelConfiguration::default())
        .choose(Some(name), &settings)
        .unwrap()
}

/// Noon of a day.
pub(crate) const NOW: i64 = 1_795_262_400_000;

/// Dependencies of builtins: a directory, a home, agents.
pub(crate) struct Fixture {
    pub(crate) directory: TempDir,
    pub(crate) home: TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) builtins: Builtins,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::of(Vec::new())
    }

    pub(crate) fn of(agents: Vec<Agent>) -> Self {
        let path = std::env::var("PATH").unwrap();
        Self::with_path(agents, &path)
    }

    /// Looks up programs in `path`.
    pub(crate) fn with_path(agents: Vec<Agent>, path: &str) -> Self {
        Self::with_variables(agents, &[("PATH", path)])
    }

    /// With these environment variables, beside `HOME`.
    pub(crate) fn with_variables(agents: Vec<Agent>, variables: &[(&str, &str)]) -> Self {
        let (directory, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let clock = Arc::new(ManualClock::at(NOW));
        let own = ("HOME".to_owned(), home.path().display().to_string());
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let environment: BTreeMap<String, String> = variables.chain([own]).collect();
        let builtins = Builtins::standard(&BuiltinDependencies {
            lookup: Arc::new(Team(agents.into_iter().map(Arc::new).collect())),
            clock: Arc::clone(&clock) as _,
            http: HttpClient::new(HttpOptions::default()).unwrap(),
            secret_set: Arc::new(SecretSet::empty()),
            environment: Arc::new(environment.clone()),
        });
        Self {
            directory,
            home,
            clock,
            environment,
            builtins,
        }
    }

    pub(crate) fn builtin(&self, name: &str) -> &Arc<dyn Builtin> {
        self.builtins.get(name).unwrap()
    }

    /// An event in the directory.
    pub(crate) fn input(&self, event: Event) -> Input {
        plausible(event, self.directory.path().to_owned())
    }

    /// Runs a builtin as the first file that names it would have it.
    pub(crate) async fn run(
        &self,
        name: &str,
        arguments: &[&str],
        input: &Input,
    ) -> Result<Output, Fault> {
        let builtin = self.builtin(name);
        assert!(builtin.events().contains(&input.event));
        let arguments = texts(arguments);
        builtin.check_arguments(&arguments).unwrap();
        builtin.run(&arguments, input).await
    }

    /// The context that it adds.
    pub(crate) async fn context(&self, name: &str, arguments: &[&str], event: Event) -> String {
        let output = self.run(name, arguments, &self.input(event)).await.unwrap();
        output.additional_context.unwrap()
    }

    /// The problem of these arguments.
    pub(crate) fn refusal(&self, name: &str, arguments: &[&str]) -> String {
        let said = self.builtin(name).check_arguments(&texts(arguments));
        said.unwrap_err().0
    }

    /// Problems of a section, in YAML.
    pub(crate) fn problems(&self, name: &str, yaml: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let node = tree::parse("agent.yaml", yaml).unwrap();
        let section = node.get(name).unwrap();
        let owner = self.builtins.owner(name).unwrap();
        owner.check_section(name, section, &mut problems);
        problems
    }

    /// The events for which it adds itself to an agent, and with what arguments.
    pub(crate) fn injected(&self, name: &str, agent: &Agent) -> Vec<(Event, Vec<String>)> {
        let injections = self.builtin(name).inject(agent);
        injections
            .into_iter()
            .map(|injection| (injection.event, injection.arguments))
            .collect()
    }
}

pub(crate) fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

/// An event of the middle of a turn, with everything that it could be about.
pub(crate) fn plausible(event: Event, cwd: PathBuf) -> Input {
    let messages = ["What is in the file?", "Let me look."];
    Input {
        event,
        session_id: "s-1".to_owned(),
        turn_id: "s-1/t-1".to_owned(),
        cwd,
        agent_name: "root".to_owned(),
        model_id: "openai/gpt-4o".to_owned(),
        iteration: 1,
        last_user_message: Some(messages[0].to_owned()),
        source: Some("startup".to_owned()),
        reason: Some("normal".to_owned()),
        prompt: Some(Prompt {
            text: messages[0].to_owned(),
            prefix: Some(Digest::sha256(b"before")),
            ..Prompt::default()
        }),
        messages: messages
            .iter()
            .map(|text| Arc::new(Message::user(*text)))
            .collect(),
        unsent: 1,
        tool: Some(ToolUse {
            name: "read_file".to_owned(),
            id: "call-1".to_owned(),
            category: "builtin".to_owned(),
            ..ToolUse::default()
        }),
        tool_response: Some(ToolResponse {
            text: "a line\n".to_owned(),
            is_error: false,
        }),
        answer: Some(Answer {
            text: "A line.".to_owned(),
            ..Answer::default()
        }),
        switch: Some(Switch {
            from_agent: "root".to_owned(),
            to_agent: "helper".to_owned(),
            kind: "transfer_task",
        }),
        compaction: Some(Compaction::default()),
        max_iterations: Some(10),
        notification: Some(Notification::default()),
        error_message: Some("it broke".to_owned()),
        ..Input::default()
    }
}

/// Arguments that it accepts.
fn accepted(builtin: &dyn Builtin) -> Vec<String> {
    let candidates: [&[&str]; 4] = [
        &[],
        &["25"],
        &["AGENTS.md"],
        // Nobody listens there.
        &["http://127.0.0.1:1/hook"],
    ];
    let mut candidates = candidates.iter().map(|arguments| texts(arguments));
    candidates
        .find(|arguments| builtin.check_arguments(arguments).is_ok())
        .unwrap_or_else(|| panic!("`{}` accepts none of them", builtin.name()))
}

#[tokio::test]
async fn every_builtin_runs_on_each_of_its_events() {
    let agents = || {
        vec![
            Agent::of("root", &["openai/gpt-4o"], ""),
            Agent::of("helper", &["openai/o3-mini"], ""),
        ]
    };
    for (agents, what) in [(agents(), "agents"), (Vec::new(), "nobody")] {
        let mut fixture = Fixture::of(agents);
        // The one that needs more than the others, and is registered by whoever has that.
        let replays = CacheResponse::new(
            Arc::new(Team::default()),
            Arc::new(|_| Err(FlatFileError("nothing is kept here".to_owned()))),
            Arc::clone(&fixture.clock) as _,
            Arc::new(SecretSet::empty()),
        );
        fixture.builtins.register(Arc::new(replays)).unwrap();
        std::fs::write(fixture.directory.path().join("AGENTS.md"), "Be kind.").unwrap();
        for builtin in fixture.builtins.iter() {
            let name = builtin.name();
            assert!(!builtin.about().is_empty() && !builtin.events().is_empty());
            let arguments = accepted(&**builtin);
            for &event in builtin.events() {
                let full = fixture.input(event);
                let said = builtin.run(&arguments, &full).await;
                assert!(said.is_ok(), "{name} at {event} before {what}: {said:?}");
                // An event that says nothing is no reason to break down.
                let empty = Input {
                    event,
                    ..Input::default()
                };
                let said = builtin.run(&arguments, &empty).await;
                assert!(said.is_ok(), "{name} at {event}, empty: {said:?}");
            }
        }
    }
}

#[test]
fn injected_events_and_arguments_are_valid_for_the_builtin() {
    let fixture = Fixture::new();
    let sections = "{add_date: true, add_environment_info: true, add_prompt_files: [AGENTS.md, --depth=1], strip_unsupported_modalities: true}";
    for agent in [
        Agent::of("root", &["openai/gpt-4o"], sections),
        Agent::of("bare", &["openai/o3-mini"], ""),
    ] {
        for builtin in fixture.builtins.iter() {
            for injection in builtin.inject(&agent) {
                assert!(builtin.events().contains(&injection.event));
                builtin.check_arguments(&injection.arguments).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn context_of_sections_is_added_in_a_fixed_order() {
    let fixture = Fixture::new();
    std::fs::write(fixture.directory.path().join("AGENTS.md"), "Be kind.").unwrap();
    let sections = "{add_prompt_files: [AGENTS.md], add_date: true, add_environment_info: true}";
    let agent = Agent::of("root", &["openai/gpt-4o"], sections);
    let (start, turn) = (
        fixture.input(Event::SessionStart),
        fixture.input(Event::TurnStart),
    );
    let git = entry(Event::TurnStart, "add_git_status", &[]);
    let hooks = Hooks::assemble(vec![git], &agent, &hook_dependencies(fixture.builtins)).unwrap();
    let verdict = hooks.fire(turn).await;
    assert_eq!(
        verdict.context,
        [
            "The time is 2026-11-21T12:00:00.000Z.",
            "<file name=\"AGENTS.md\">\nBe kind.\n</file>",
        ]
    );
    assert!(verdict.messages.is_empty(), "{:?}", verdict.messages);
    let verdict = hooks.fire(start).await;
    assert!(verdict.context[0].starts_with("<environment>\n"));
    assert_eq!(verdict.context.len(), 1);
}

#[test]
fn every_section_has_one_owner_and_may_be_empty() {
    let fixture = Fixture::new();
    let sections: Vec<&str> = fixture.builtins.sections().collect();
    let apart: BTreeSet<&str> = sections.iter().copied().collect();
    assert_eq!(sections.len(), apart.len());
    for section in [
        "add_date",
        "add_environment_info",
        "add_prompt_files",
        "strip_unsupported_modalities",
    ] {
        assert_eq!(fixture.builtins.owner(section).unwrap().name(), section);
        assert_eq!(fixture.problems(section, &format!("{section}:")), []);
        let agent = Agent::of("root", &["openai/gpt-4o"], &format!("{section}:"));
        assert_eq!(fixture.injected(section, &agent), []);
    }
    assert!(fixture.builtins.owner("add_dates").is_none());
}

#[test]
fn name_or_section_cannot_be_registered_twice() {
    let mut fixture = Fixture::new();
    let date = Arc::clone(fixture.builtin("add_date"));
    let refusal = fixture.builtins.register(date).unwrap_err().to_string();
    assert!(refusal.contains("`add_date` already"), "{refusal}");
}

#[test]
fn crate_does_not_depend_on_agent_tools_or_prompt() {
    let manifest = include_str!("../../Cargo.toml");
    let dependencies = manifest.split("[dependencies]").nth(1).unwrap();
    let dependencies = dependencies.split("\n[").next().unwrap();
    let ours: Vec<&str> = dependencies
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| name.starts_with("cachalot-"))
        .collect();
    let allowed = [
        "cachalot-cache",
        "cachalot-core",
        "cachalot-model",
        "cachalot-operation",
        "cachalot-process",
        "cachalot-storage",
    ];
    assert_eq!(ours, allowed);
    let mut count = 0;
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut |path, text| {
            count += 1;
            for room in ["agent", "tools", "prompt", "workflow", "gateway", "memory"] {
                let named = format!("cachalot_{room}");
                assert!(!text.contains(&named), "{} names {named}", path.display());
            }
        },
    );
    assert!(count > 20, "{count}");
}

fn sources(directory: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, look);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            look(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
