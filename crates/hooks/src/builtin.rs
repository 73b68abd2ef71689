//! Handlers that come with the program. They see the runtime through [`AgentLookup`] only.

mod add_date;
mod add_directory_listing;
mod add_environment_info;
mod add_git_status;
mod add_prompt_files;
pub mod cache_response;
mod elide_repeated_tool_results;
mod flag;
mod http_post;
mod limit_large_tool_results;
mod max_iterations;
pub(crate) mod paragraph;
mod plain;
mod redact_secrets;
mod request;
mod strip_unsupported_modalities;
mod unload;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::tree::Node;
use cachalot_core::{Clock, Problem, Seals};
use cachalot_storage::HttpClient;
use serde_json::{Value, json};

use crate::input::Input;
use crate::lookup::{AgentLookup, AgentView};
use crate::output::{Fault, Output};
use crate::{Event, Matcher};

/// A handler that comes with the program.
#[async_trait]
pub trait Builtin: Send + Sync {
    /// By what name files name it.
    fn name(&self) -> &'static str;

    /// What it does, in a sentence or two.
    fn about(&self) -> &'static str;

    /// The events that it makes sense for.
    fn events(&self) -> &'static [Event];

    /// What is wrong with arguments that a file gives it.
    ///
    /// # Errors
    /// What, and what would be right.
    fn check_arguments(&self, arguments: &[String]) -> Result<(), String> {
        let _ = arguments;
        Ok(())
    }

    /// The sections of an agent's configuration that are its own.
    fn sections(&self) -> &'static [&'static str] {
        &[]
    }

    /// What is wrong with one of its sections.
    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        let _ = (name, section, problems);
    }

    /// The JSON Schema of one of its sections; by default that it is `true` or `false`.
    fn section_schema(&self, name: &str) -> Value {
        let _ = name;
        json!({ "description": self.about(), "type": "boolean" })
    }

    /// The hooks that it adds to an agent because of the agent's sections, behind those that files
    /// name. By default none.
    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let _ = agent;
        Vec::new()
    }

    /// Returns whether the work goes on if it fails, at events where a failing hook otherwise forbids
    /// ([`Failure::DenialByDefault`](crate::contract::Failure::DenialByDefault)). For builtins that guard
    /// nothing: caches, and what adds to messages or shortens them.
    fn fails_open(&self) -> bool {
        false
    }

    /// Returns whether it runs after all other hooks of an event, wherever the configuration names it.
    /// At `stop`, [`Answer::rejected`](crate::input::Answer::rejected) then holds the decision of all
    /// others.
    fn runs_last(&self, event: Event) -> bool {
        let _ = event;
        false
    }

    /// Hears, and says.
    ///
    /// # Errors
    /// It has nothing to say.
    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault>;
}

/// A hook that a builtin adds for itself.
#[derive(Debug, Clone)]
pub struct Injection {
    /// For which event.
    pub event: Event,
    /// For which tools.
    pub matcher: Matcher,
    /// With which arguments.
    pub arguments: Vec<String>,
}

impl Injection {
    /// For an event, all tools, without arguments.
    #[must_use]
    pub fn of(event: Event) -> Self {
        Self {
            event,
            matcher: Matcher::ALL,
            arguments: Vec::new(),
        }
    }
}

/// The builtins that there are, in the order in which they were registered, which is the order in
/// which they add hooks for themselves.
#[derive(Default)]
pub struct Builtins {
    registered: Vec<Arc<dyn Builtin>>,
    by_name: BTreeMap<&'static str, usize>,
}

/// What the builtins that come with the program are made of.
pub struct Parts {
    /// How they see the runtime.
    pub lookup: Arc<dyn AgentLookup>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// For requests.
    pub http: HttpClient,
    /// The secrets that must not leave.
    pub seals: Arc<Seals>,
    /// The environment variables.
    pub environment: Arc<BTreeMap<String, String>>,
}

impl Builtins {
    /// The builtins that come with the program and need nothing else.
    #[must_use]
    pub fn standard(parts: &Parts) -> Self {
        let all: Vec<Arc<dyn Builtin>> = vec![
            Arc::new(add_date::AddDate::new(parts)),
            Arc::new(add_environment_info::AddEnvironmentInfo),
            Arc::new(add_prompt_files::AddPromptFiles::new(parts)),
            Arc::new(add_directory_listing::AddDirectoryListing),
            Arc::new(add_git_status::AddGitStatus::new(parts)),
            Arc::new(http_post::HttpPost::new(parts)),
            Arc::new(max_iterations::MaxIterations),
            Arc::new(unload::Unload::new(parts)),
            Arc::new(strip_unsupported_modalities::StripUnsupportedModalities::new(parts)),
            // Results are looked at without secrets and as a whole, and cut last.
            Arc::new(redact_secrets::RedactSecrets::new(parts)),
            Arc::new(elide_repeated_tool_results::ElideRepeatedToolResults::new(
                parts,
            )),
            Arc::new(limit_large_tool_results::LimitLargeToolResults::new(parts)),
        ];
        let mut builtins = Self::default();
        for builtin in all {
            let registered = builtins.register(builtin);
            debug_assert!(registered.is_ok(), "{registered:?}");
        }
        builtins
    }

    /// Adds one.
    ///
    /// # Errors
    /// There is one of that name, or with one of its sections.
    pub fn register(&mut self, builtin: Arc<dyn Builtin>) -> Result<(), String> {
        let name = builtin.name();
        if name.is_empty() {
            return Err("a builtin needs a name".to_owned());
        }
        if self.by_name.contains_key(name) {
            return Err(format!("there is a builtin `{name}` already"));
        }
        let mut own = builtin.sections().iter();
        if let Some(section) = own.find(|section| self.owner(section).is_some()) {
            return Err(format!(
                "`{name}`: another builtin has the section `{section}`"
            ));
        }
        self.by_name.insert(name, self.registered.len());
        self.registered.push(builtin);
        Ok(())
    }

    /// The builtin of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Builtin>> {
        self.by_name.get(name).map(|index| &self.registered[*index])
    }

    /// All of them, in the order in which they were registered.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Builtin>> {
        self.registered.iter()
    }

    /// The names of all sections.
    pub fn sections(&self) -> impl Iterator<Item = &'static str> {
        self.iter()
            .flat_map(|builtin| builtin.sections().iter().copied())
    }

    /// The builtin that a section belongs to.
    #[must_use]
    pub fn owner(&self, section: &str) -> Option<&Arc<dyn Builtin>> {
        self.iter()
            .find(|builtin| builtin.sections().contains(&section))
    }
}
