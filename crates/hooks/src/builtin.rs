//! Builtin handlers. They see the runtime through [`AgentLookup`] only.

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
mod redact_secrets;
mod request;
mod simple;
mod strip_unsupported_modalities;
mod unload;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::tree::Node;
use cachalot_core::{Clock, Problem, SecretSet};
use cachalot_storage::HttpClient;
use serde_json::{Value, json};

use crate::input::Input;
use crate::lookup::{AgentLookup, AgentView};
use crate::output::{Fault, Output};
use crate::{Event, Matcher};

/// A handler that is part of the program.
#[async_trait]
pub trait Builtin: Send + Sync {
    /// The name by which hook files refer to it.
    fn name(&self) -> &'static str;

    /// A description in one or two sentences, for users.
    fn about(&self) -> &'static str;

    /// The events that the builtin supports.
    fn events(&self) -> &'static [Event];

    /// Validates the arguments that a hook file passes to the builtin.
    ///
    /// # Errors
    /// The problem and the fix.
    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        let _ = arguments;
        Ok(())
    }

    /// The configuration sections of an agent that belong to this builtin.
    fn sections(&self) -> &'static [&'static str] {
        &[]
    }

    /// Validates one of its sections; problems are pushed to `problems`.
    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        let _ = (name, section, problems);
    }

    /// The JSON Schema of one of its sections. Default: a boolean.
    fn section_schema(&self, name: &str) -> Value {
        let _ = name;
        json!({ "description": self.about(), "type": "boolean" })
    }

    /// The hooks that the builtin adds to an agent because of the agent's sections. They run after the
    /// hooks of files. Default: none.
    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let _ = agent;
        Vec::new()
    }

    /// Returns true if the work continues when the builtin fails, at events where a failing hook
    /// otherwise denies ([`FailureEffect::DenialByDefault`](crate::contract::FailureEffect::DenialByDefault)). For
    /// builtins that guard nothing: caches, and builtins that extend or shorten messages.
    fn fails_open(&self) -> bool {
        false
    }

    /// Returns true if the output of a running tool may be shown and passed on before the builtin has processed
    /// the result: the builtin only extends or shortens results, or masks what tools mask themselves (the known
    /// secrets). Default: false.
    fn permits_live_output(&self, arguments: &[String]) -> bool {
        let _ = arguments;
        false
    }

    /// Returns true if the builtin runs after all other hooks of `event`, independent of its position in
    /// the configuration. At `stop`, [`Answer::rejected`](crate::input::Answer::rejected) then holds the
    /// combined decision of the other hooks.
    fn runs_last(&self, event: Event) -> bool {
        let _ = event;
        false
    }

    /// Handles an event.
    ///
    /// # Errors
    /// A [`Fault`] if the builtin failed and has no output.
    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault>;
}

/// The error of arguments that a builtin does not accept: the problem, `; `, and the fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArgumentsError(pub String);

impl From<ArgumentsError> for Fault {
    fn from(error: ArgumentsError) -> Self {
        Self::new(error.0)
    }
}

/// The error of a builtin that cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The builtin has no name.
    #[error("a builtin needs a name")]
    Unnamed,
    /// The name is registered already.
    #[error("there is a builtin `{0}` already")]
    Duplicate(&'static str),
    /// Another builtin owns a section.
    #[error("`{name}`: another builtin has the section `{section}`")]
    SectionTaken {
        /// The name of the builtin.
        name: &'static str,
        /// The section.
        section: &'static str,
    },
}

/// A hook that a builtin adds to an agent by itself.
#[derive(Debug, Clone)]
pub struct Injection {
    /// The event to handle.
    pub event: Event,
    /// The tools that the hook applies to.
    pub matcher: Matcher,
    /// The arguments of the builtin.
    pub arguments: Vec<String>,
}

impl Injection {
    /// A hook for `event`, for all tools, without arguments.
    #[must_use]
    pub fn for_event(event: Event) -> Self {
        Self {
            event,
            matcher: Matcher::ALL,
            arguments: Vec::new(),
        }
    }
}

/// The registry of builtins. Iteration follows the order of registration, which is also the order in
/// which builtins inject hooks.
#[derive(Default)]
pub struct Builtins {
    registered: Vec<Arc<dyn Builtin>>,
}

/// Dependencies of the standard builtins.
pub struct BuiltinDependencies {
    /// Access to the agents of the runtime.
    pub lookup: Arc<dyn AgentLookup>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The HTTP client for outgoing requests.
    pub http: HttpClient,
    /// The secrets to redact.
    pub secret_set: Arc<SecretSet>,
    /// The environment variables.
    pub environment: Arc<BTreeMap<String, String>>,
}

impl Builtins {
    /// Returns a registry with the builtins that need no dependencies beyond `dependencies`.
    #[must_use]
    pub fn standard(dependencies: &BuiltinDependencies) -> Self {
        let all: Vec<Arc<dyn Builtin>> = vec![
            Arc::new(add_date::AddDate::new(dependencies)),
            Arc::new(add_environment_info::AddEnvironmentInfo),
            Arc::new(add_prompt_files::AddPromptFiles::new(dependencies)),
            Arc::new(add_directory_listing::AddDirectoryListing),
            Arc::new(add_git_status::AddGitStatus::new(dependencies)),
            Arc::new(http_post::HttpPost::new(dependencies)),
            Arc::new(max_iterations::MaxIterations),
            Arc::new(unload::Unload::new(dependencies)),
            Arc::new(strip_unsupported_modalities::StripUnsupportedModalities::new(dependencies)),
            // Order of injection: redact secrets, then elide repeated results (compared in full), and
            // truncate last.
            Arc::new(redact_secrets::RedactSecrets::new(dependencies)),
            Arc::new(elide_repeated_tool_results::ElideRepeatedToolResults::new(
                dependencies,
            )),
            Arc::new(limit_large_tool_results::LimitLargeToolResults::new(
                dependencies,
            )),
        ];
        let mut builtins = Self::default();
        for builtin in all {
            let registered = builtins.register(builtin);
            debug_assert!(registered.is_ok(), "{registered:?}");
        }
        builtins
    }

    /// Registers a builtin.
    ///
    /// # Errors
    /// The name is empty or already registered, or another builtin owns one of its sections.
    pub fn register(&mut self, builtin: Arc<dyn Builtin>) -> Result<(), RegistrationError> {
        let name = builtin.name();
        if name.is_empty() {
            return Err(RegistrationError::Unnamed);
        }
        if self.get(name).is_some() {
            return Err(RegistrationError::Duplicate(name));
        }
        let mut own = builtin.sections().iter();
        if let Some(section) = own.find(|section| self.owner(section).is_some()) {
            return Err(RegistrationError::SectionTaken { name, section });
        }
        self.registered.push(builtin);
        Ok(())
    }

    /// Returns the builtin with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Builtin>> {
        self.iter().find(|builtin| builtin.name() == name)
    }

    /// Iterates over all builtins in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Builtin>> {
        self.registered.iter()
    }

    /// The names of the sections of all builtins.
    pub fn sections(&self) -> impl Iterator<Item = &'static str> {
        self.iter()
            .flat_map(|builtin| builtin.sections().iter().copied())
    }

    /// Returns the builtin that owns a section.
    #[must_use]
    pub fn owner(&self, section: &str) -> Option<&Arc<dyn Builtin>> {
        self.iter()
            .find(|builtin| builtin.sections().contains(&section))
    }
}
