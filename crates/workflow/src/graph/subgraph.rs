//! Runs the graph of another file as the work of a branch.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{RunFailure, Runner, initial_state};
use crate::Runtime;
use crate::format::Subgraph;
use crate::template::{Scope, State, TemplateContext};

impl Subgraph {
    /// Returns the dependencies of the subgraph in a run, and what its templates can read.
    pub(super) fn dependencies(&self, runtime: &Runtime) -> (Arc<Runtime>, TemplateContext) {
        let agent = &self.agent;
        let runtime = runtime.for_subgraph(
            &self.scope,
            &agent.settings.value,
            &agent.models,
            &agent.actions,
        );
        let context = runtime.template_context(&agent.variables);
        (Arc::new(runtime), context)
    }
}

impl Runner<'_> {
    /// Runs a subgraph to its end. Returns its final state.
    pub(super) async fn subgraph(
        &self,
        subgraph: &Subgraph,
        path: &str,
        state: &State,
    ) -> Result<State, RunFailure> {
        let (input, trusted) = self.input(subgraph, path, state).await?;
        let agent = &*subgraph.agent;
        let mut state = initial_state(agent, input);
        let (runtime, context) = subgraph.dependencies(self.runtime);
        let runner = Runner {
            agent,
            runtime: &runtime,
            scripts: self.scripts,
            context: context.with_inputs(&state),
            inputs: initial_state(agent, trusted),
            prefix: format!("{path}/"),
        };
        runner.walk(&agent.start, &mut state, Vec::new()).await?;
        Ok(state.flattened())
    }

    /// Returns the fields of `input`, and those of them that do not depend on changes that the run made to
    /// the state: only these may name hosts of requests.
    async fn input(
        &self,
        subgraph: &Subgraph,
        path: &str,
        state: &State,
    ) -> Result<(Map<String, Value>, Map<String, Value>), RunFailure> {
        let templates = &self.agent.templates;
        let scope = Scope::new(&self.context, state);
        let unchanged = Scope::new(&self.context, &self.inputs);
        let (mut input, mut trusted) = (Map::new(), Map::new());
        for (key, field) in &subgraph.input {
            let value = self.render(field, path, &scope).await?;
            if templates.renders_alike(field, &scope, &unchanged) {
                trusted.insert(key.clone(), value.clone());
            }
            input.insert(key.clone(), value);
        }
        Ok((input, trusted))
    }
}
