//! Actions of workflows as tools of agents.

use std::sync::Arc;

use cachalot_agent::Team;
use cachalot_core::tree::expand;
use cachalot_mcp::settings::{ToolsetKind, ToolsetSettings};
use cachalot_model::Meter;
use cachalot_tools::Tool;
use cachalot_workflow::Runtime;
use cachalot_workflow::actions::action_tool::ActionTool;
use cachalot_workflow::actions::builtin;
use cachalot_workflow::report::{Event, Reporter};
use cachalot_workflow::session::SessionMemory;

use super::Workbench;
use crate::command_error::Result;
use crate::models::models;
use crate::random::RandomNumbers;
use crate::wiring::{Warn, run_id};

/// Forwards the warnings of actions.
struct Warnings(Warn);

impl Reporter for Warnings {
    fn report(&self, event: Event) {
        if let Event::Warning { message } = event {
            (self.0)(&message);
        }
    }
}

impl Workbench {
    /// Returns the actions that the toolsets of an agent allow, as tools. The calls of a session share the
    /// budget of the file, apart from that of its turns.
    ///
    /// # Errors
    /// The settings of the models are invalid.
    pub(super) fn action_tools(
        &self,
        team: &Team,
        toolsets: &ToolsetSettings,
    ) -> Result<Vec<Arc<dyn Tool>>> {
        let is_actions = |kind: &ToolsetKind| matches!(kind, ToolsetKind::Actions(_));
        if !toolsets
            .toolsets
            .iter()
            .any(|toolset| is_actions(&toolset.kind))
        {
            return Ok(Vec::new());
        }
        let registry = Arc::new(builtin());
        let runtime = Arc::new(self.action_runtime(team, Arc::clone(&registry))?);
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for toolset in &toolsets.toolsets {
            let ToolsetKind::Actions(names) = &toolset.kind else {
                continue;
            };
            for action in names.iter().filter_map(|name| registry.get(name)) {
                let is_selected = !toolset.read_only || action.metadata().read_only;
                let tool = ActionTool::new(Arc::clone(action), Arc::clone(&runtime));
                let name = tool.name();
                if is_selected && !tools.iter().any(|known| known.metadata().name == name) {
                    tools.push(Arc::new(tool));
                }
            }
        }
        Ok(tools)
    }

    /// Returns the dependencies of actions that agents call.
    fn action_runtime(
        &self,
        team: &Team,
        actions: Arc<cachalot_workflow::Registry>,
    ) -> Result<Runtime> {
        let inner = &self.0;
        let environment = &inner.parts.process_environment.environment;
        // The loader of the file has reported its problems.
        let settings = team
            .settings
            .as_ref()
            .map(|node| expand(node, None, environment, &mut Vec::new()).to_value());
        Ok(Runtime {
            models: models(
                &inner.parts.process_environment,
                team.configured.clone(),
                &inner.context.secret_set,
                Arc::clone(&inner.parts.warn),
            )?,
            meter: Meter::new(team.budget.clone(), Arc::clone(&inner.context.clock)),
            team: None,
            agent_host: None,
            session: SessionMemory::default(),
            agent: "chat".to_owned(),
            run: run_id(),
            directory: inner.context.workspace.root().to_owned(),
            environment: environment.clone(),
            settings: settings.unwrap_or_default(),
            clock: Arc::clone(&inner.context.clock),
            random: Arc::new(RandomNumbers::default()),
            storage: inner
                .parts
                .process_environment
                .storage(inner.context.workspace.root())?,
            store: inner.context.store.clone(),
            cache: inner.parts.cache.clone(),
            mode: inner.parts.mode,
            secret_set: Arc::clone(&inner.context.secret_set),
            secrets: std::collections::BTreeMap::new(),
            actions,
            tools: self.tool_services(&team.permissions),
            sandbox: None,
            reporter: Arc::new(Warnings(Arc::clone(&inner.parts.warn))),
        })
    }
}
