//! Searches in documents as tools of agents.

use std::sync::Arc;

use cachalot_agent::Team;
use cachalot_cache::Scope;
use cachalot_mcp::settings::{ToolsetKind, ToolsetSettings};
use cachalot_model::Meter;
use cachalot_tools::Tool;
use cachalot_tools::builtin::{Embedder, RagSettings, RagTool};

use super::Workbench;
use crate::command_error::{CommandError, Result};
use crate::models::models;

impl Workbench {
    /// Returns the searches in documents of an agent's toolsets. `meter` counts their requests.
    ///
    /// # Errors
    /// An embedding model is unknown, the settings of the models are invalid, or two sources have one tool name.
    pub(super) fn search_tools(
        &self,
        team: &Team,
        toolsets: &ToolsetSettings,
        meter: &Meter,
    ) -> Result<Vec<Arc<dyn Tool>>> {
        let sources = sources(toolsets).collect::<Vec<&RagSettings>>();
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let inner = &self.0;
        let environment = &inner.parts.process_environment;
        let models = models(
            environment,
            team.configured.clone(),
            &inner.context.secret_set,
            Arc::clone(&inner.parts.warn),
        )?;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        for (place, settings) in sources.iter().enumerate() {
            let mut earlier = sources[..place].iter();
            match earlier.find(|earlier| earlier.name == settings.name) {
                Some(same) if same == settings => continue,
                Some(_) => {
                    return Err(CommandError::failed(format!(
                        "two sources of `rag` have the tool name `{}`: give one of them another name (`tool: {{name: …}}`)",
                        settings.name
                    )));
                }
                None => {}
            }
            let embedder = match &settings.embeddings {
                None => None,
                Some(search) => Some(Embedder {
                    model: models
                        .find(&search.embedding_model.value)
                        .map_err(CommandError::failed)?,
                    cache: inner.parts.cache.clone(),
                    mode: inner.parts.mode,
                    scope: Scope::User(environment.user()),
                    meter: meter.clone(),
                    dimensions: search.dimensions,
                }),
            };
            let directory = environment.directory.join(&team.directory);
            tools.push(Arc::new(RagTool::new(
                (*settings).clone(),
                directory,
                embedder,
            )));
        }
        Ok(tools)
    }
}

fn sources(toolsets: &ToolsetSettings) -> impl Iterator<Item = &RagSettings> {
    toolsets
        .toolsets
        .iter()
        .filter_map(|toolset| match &toolset.kind {
            ToolsetKind::Rag(settings) => Some(&**settings),
            _ => None,
        })
}
