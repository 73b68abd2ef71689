//! `unload`: unloads the local models of an agent that is switched away from.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_storage::HttpClient;
use futures_util::future::join_all;

use super::simple::SimpleBuiltin;
use super::{BuiltinDependencies, request};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentLookup;
use crate::output::{Fault, Output};

mod runner;

use runner::LoadedModel;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Frees the memory of the models of an agent when another agent takes over.
pub(super) struct Unload {
    lookup: Arc<dyn AgentLookup>,
    http: HttpClient,
    limit: Duration,
}

impl Unload {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        Self {
            lookup: Arc::clone(&dependencies.lookup),
            http: dependencies.http.clone(),
            limit: TIMEOUT,
        }
    }

    /// The models of an agent that are on a server that can unload them.
    fn loaded(&self, agent: &str) -> Vec<LoadedModel> {
        let mut loaded = Vec::new();
        let agent = self.lookup.agent(agent);
        for model in agent.iter().flat_map(|agent| agent.models()) {
            if let Some(model) = LoadedModel::from_model(&model)
                && !loaded.contains(&model)
            {
                loaded.push(model);
            }
        }
        loaded
    }

    async fn unload(&self, model: LoadedModel) -> Option<String> {
        let body = model.body().to_string().into_bytes();
        let url = model.url.as_str();
        let done = request::post(&self.http, url, "application/json", body, self.limit).await;
        let wrong = done.err()?;
        Some(format!("`{}` was not unloaded: {wrong}", model.name))
    }
}

#[async_trait]
impl SimpleBuiltin for Unload {
    const NAME: &'static str = "unload";
    const ABOUT: &'static str = "Has Ollama and Docker Model Runner free the memory that an agent's models use when another agent continues, unless that agent uses the same models.";
    const EVENTS: &'static [Event] = &[Event::OnAgentSwitch];

    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        let Some(switch) = &input.switch else {
            return Ok(Output::default());
        };
        let still_used = self.loaded(&switch.to_agent);
        let mut left = self.loaded(&switch.from_agent);
        left.retain(|model| !still_used.contains(model));
        let wrong: Vec<String> = join_all(left.into_iter().map(|model| self.unload(model)))
            .await
            .into_iter()
            .flatten()
            .collect();
        Ok(Output {
            system_message: (!wrong.is_empty()).then(|| wrong.join("\n")),
            ..Output::default()
        })
    }
}
