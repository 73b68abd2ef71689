//! The agent host of tests: real tools and sessions, in process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use cachalot_agent::definition::Builtins;
use cachalot_agent::{
    AgentDefinition, Dependencies, Error, ErrorKind, Listener, Team, Toolboxes, event::DenyAll,
};
use cachalot_cache::Witness;
use cachalot_core::SecretSet;
use cachalot_mcp::settings::{self, McpServerPool, assemble};
use cachalot_model::Models;
use cachalot_prompt::Sessions;
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_store::in_process::InProcessStore;
use cachalot_tools::{Registry, Tool, ToolContext, Toolbox, Workspace};
use cachalot_workflow::Runtime;
use cachalot_workflow::action::runtime::AgentHost;

/// The agent host of tests. Tools work in the directory of the run.
#[derive(Clone)]
pub struct TestAgentHost {
    models: Models,
    context: ToolContext,
    sessions: Sessions,
    begun: Arc<AtomicUsize>,
}

impl TestAgentHost {
    /// For the agents of this run, as it is configured now.
    pub fn of(runtime: &Runtime) -> Self {
        let clock = Arc::clone(&runtime.clock);
        let memory = Arc::new(InProcessStore::new(Arc::clone(&clock)));
        let secret_set = Arc::new(SecretSet::empty());
        Self {
            models: runtime.models.clone(),
            context: ToolContext {
                workspace: Arc::new(Workspace::open(&runtime.directory).unwrap()),
                session: String::new(),
                environment: Arc::new(runtime.environment.clone()),
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
            sessions: Sessions::new(memory, clock, secret_set),
            begun: Arc::default(),
        }
    }
}

#[async_trait]
impl AgentHost for TestAgentHost {
    async fn dependencies(
        &self,
        team: &Arc<Team>,
        listener: Arc<dyn Listener>,
    ) -> Result<Dependencies, cachalot_agent::Error> {
        let begun = Arc::clone(&self.begun);
        Ok(Dependencies {
            models: self.models.with_configuration(team.configured.clone()),
            toolboxes: Arc::new(self.clone()),
            tools: self.context.clone(),
            sessions: self.sessions.clone(),
            clock: Arc::clone(&self.context.clock),
            context: Vec::new(),
            hooks: None,
            listener,
            approver: Arc::new(DenyAll),
            human_paced: false,
            single_turn: false,
            protected: Vec::new(),
            strict_forks: true,
            new_session_id: Arc::new(move || {
                format!("session-{}", begun.fetch_add(1, Ordering::SeqCst))
            }),
        })
    }

    fn adds_hooks(&self) -> bool {
        false
    }

    fn builtins(&self) -> Arc<Builtins> {
        Arc::default()
    }
}

#[async_trait]
impl Toolboxes for TestAgentHost {
    async fn toolbox(
        &self,
        _: &Team,
        agent: &AgentDefinition,
        _: &str,
        own: Vec<Arc<dyn Tool>>,
        _: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Arc<dyn Toolbox>, Error> {
        let toolsets = agent.toolsets.as_ref();
        assert!(
            toolsets.is_none_or(|parsed| parsed.problems.is_empty()),
            "{toolsets:?}"
        );
        let toolsets = toolsets
            .map(|parsed| parsed.value.clone())
            .unwrap_or_default();
        let dependencies = settings::ToolDependencies {
            mcp: cachalot_mcp::McpDependencies {
                directory: self.context.workspace.root().to_owned(),
                environment: Arc::clone(&self.context.environment),
                secret_set: Arc::clone(&self.context.secret_set),
                reporter: Arc::new(SilentReporter),
                write_notifier: Default::default(),
                sandbox: None,
                asks_user: false,
            },
            built_in: Default::default(),
            servers: McpServerPool::new(),
        };
        let wrong = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Tools, error.to_string());
        let assembled = assemble(&toolsets, &dependencies)
            .await
            .map_err(|error| wrong(&error))?;
        let mut tools = assembled.tools;
        tools.extend(own);
        let registry = Registry::new(tools).map_err(|error| wrong(&error))?;
        Ok(Arc::new(registry))
    }
}

struct SilentReporter;

impl cachalot_mcp::Reporter for SilentReporter {
    fn warning(&self, _: &str) {}

    fn list_changed(&self, _: &str) {}
}
