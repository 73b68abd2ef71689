//! The work of a node and the effect of its result on the state.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use super::node::NodeOutcome;
use super::{RunFailure, Runner};
use crate::Failure;
use crate::action::{Action, announced};
use crate::format::{Language, Node, Output, Work};
use crate::origin::Origin;
use crate::report::{Event, NODE};
use crate::script::{Script, ScriptResult};
use crate::template::{Condition, Prepared, Scope, State};

impl Runner<'_> {
    /// Runs the work of a node once, and sets the fields of its result. Returns the result.
    pub(super) fn work<'s>(
        &'s self,
        node: &'s Node,
        path: &'s str,
        state: &'s mut State,
    ) -> BoxFuture<'s, Result<Arc<Value>, RunFailure>> {
        Box::pin(async move {
            let result = match &node.work {
                Work::Nothing => Arc::default(),
                Work::Run { script, language } => {
                    let ScriptResult {
                        returned: result,
                        changes,
                        printed: _,
                    } = self.script(script, *language, node, path, state).await?;
                    changes.removed.iter().for_each(|key| state.remove(key));
                    state.merge(changes.set);
                    if !result.is_null() {
                        merge(&node.output, state, &result);
                    }
                    Arc::new(result)
                }
                Work::Action { action, with } => {
                    let result = self.action(&**action, with, node, path, state).await?;
                    merge(&node.output, state, &result);
                    result
                }
                Work::Steps(steps) => self.steps(steps, path, state).await?,
                Work::While {
                    condition,
                    max_iterations,
                    body,
                } => {
                    self.repeat(condition, *max_iterations, body, node, path, state)
                        .await?
                }
                Work::Reflection(reflection) => {
                    let result = self.reflect(reflection, node, path, state).await?;
                    merge(&node.output, state, &result);
                    Arc::new(result)
                }
                Work::Retries(retries) => {
                    let result = self.retry(retries, node, path, state).await?;
                    merge(&node.output, state, &result);
                    Arc::new(result)
                }
                Work::Subgraph(subgraph) => {
                    *state = self.subgraph(subgraph, path, state).await?;
                    Arc::default()
                }
                Work::FanOut(fan_out) => {
                    let results = self.fan_out(fan_out, node, path, state).await?;
                    state.set("parallel_results", results.clone());
                    Arc::new(results)
                }
            };
            self.output(&node.output, path, state, &result).await?;
            Ok(result)
        })
    }

    async fn action(
        &self,
        action: &dyn Action,
        with: &Prepared,
        node: &Node,
        path: &str,
        state: &State,
    ) -> Result<Arc<Value>, RunFailure> {
        let scope = Scope::new(&self.context, state);
        let given = match self.render(with, path, &scope).await? {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => {
                let message = format!("`with` is {}: expected a mapping", kind_name(&other));
                return Err(RunFailure::new(path, "validation_error", message).at(&node.place));
            }
        };
        let failed = {
            let scope = scope.clone();
            move |failure| self.action_failure(failure, with, node, path, &scope)
        };
        let arguments = action.metadata().check(given).map_err(&failed)?;
        let origin = Origin {
            templates: self.agent.templates.clone(),
            with: with.clone(),
            scope,
            inputs: self.inputs.clone(),
        };
        let running = announced(action, arguments, self.runtime, |arguments| {
            origin.run_call(action.run_shared(arguments, self.runtime))
        });
        NODE.scope(path.to_owned(), running).await.map_err(failed)
    }

    /// Converts the failure of an action. If required arguments look up something undefined, the message
    /// names it, and the place is that of the first template.
    fn action_failure(
        &self,
        mut failure: Failure,
        with: &Prepared,
        node: &Node,
        path: &str,
        scope: &Scope,
    ) -> RunFailure {
        let mut place = None;
        if failure.kind == "validation_error" {
            for name in required_parameters(&failure.message.clone()) {
                let undefined = self.agent.templates.undefined_argument(with, name, scope);
                if let Some((message, at)) = undefined {
                    failure.message = format!("{}: {message}", failure.message);
                    place.get_or_insert(at);
                }
            }
        }
        RunFailure::from_action(path, failure, place.as_ref().unwrap_or(&node.place))
    }

    async fn script(
        &self,
        script: &Script,
        language: Language,
        node: &Node,
        path: &str,
        state: &State,
    ) -> Result<ScriptResult, RunFailure> {
        let runner = match language {
            Language::Python => &self.scripts.python,
            Language::Lua => &self.scripts.lua,
            Language::Python3 => &self.scripts.python3,
        };
        let state = state.to_map();
        let ran = NODE
            .scope(
                path.to_owned(),
                runner.run(script, &state, &self.agent.variables),
            )
            .await;
        let printed = match &ran {
            Ok(ended) => &ended.printed,
            Err(failure) => &failure.printed,
        };
        if !printed.is_empty() {
            let text = self.masked(printed.strip_suffix('\n').unwrap_or(printed));
            self.emit(Event::Printed {
                node: path.to_owned(),
                text,
            });
        }
        ran.map_err(|failure| {
            let line = failure
                .line
                .and_then(|line| self.agent.templates.line(&node.place, line));
            RunFailure::from_script(path, failure, line.unwrap_or_else(|| node.place.clone()))
        })
    }

    async fn steps(
        &self,
        steps: &[Node],
        path: &str,
        state: &mut State,
    ) -> Result<Arc<Value>, RunFailure> {
        let mut last = Arc::default();
        for step in steps {
            let path = format!("{path}/{}", step.name);
            last = match self.node(step, path, state).await? {
                NodeOutcome::Flow(result) => result,
                NodeOutcome::Fallback(_) => Arc::default(),
            };
        }
        Ok(last)
    }

    async fn repeat(
        &self,
        condition: &Condition,
        maximum: u32,
        body: &[Node],
        node: &Node,
        path: &str,
        state: &mut State,
    ) -> Result<Arc<Value>, RunFailure> {
        let mut last = Arc::default();
        // One check more than iterations: the condition has to fail after the last one.
        for iteration in 0..=maximum {
            // The scope shares the state and must be dropped before the body changes it; otherwise the
            // change would copy the state.
            let holds = {
                let scope = Scope::new(&self.context, state);
                self.agent.templates.holds(condition, &scope).await
            };
            if !holds.map_err(|failure| RunFailure::from_template(path, failure))? {
                return Ok(last);
            }
            if iteration < maximum {
                last = self.steps(body, path, state).await?;
            }
        }
        let message = format!(
            "the condition still holds after {maximum} iterations: \
             raise `max_iterations`, or see that the body makes it false"
        );
        Err(RunFailure::new(path, "loop_limit", message).at(&node.place))
    }

    /// Sets the fields that `output` names.
    async fn output(
        &self,
        output: &Output,
        path: &str,
        state: &mut State,
        result: &Value,
    ) -> Result<(), RunFailure> {
        match output {
            Output::Merge => {}
            Output::Key(key) => state.set(key.as_str(), result.clone()),
            Output::Map(fields) => {
                let scope = Scope::new(&self.context, state).with_result(result.clone());
                let mut rendered = Map::new();
                for (key, field) in fields {
                    rendered.insert(key.clone(), self.render(field, path, &scope).await?);
                }
                // The scope shares the state, and the change would copy it.
                drop(scope);
                state.merge(rendered);
            }
        }
        Ok(())
    }
}

/// Returns the names of parameters that a message reports as missing.
fn required_parameters(message: &str) -> impl Iterator<Item = &str> {
    let parts = message.split("parameter `").skip(1);
    parts.filter_map(|part| {
        let (name, rest) = part.split_once('`')?;
        rest.starts_with(" is required").then_some(name)
    })
}

/// Merges a result into the state if no `output` is set.
pub(super) fn merge(output: &Output, state: &mut State, result: &Value) {
    match (output, result) {
        (Output::Merge, Value::Object(fields)) => state.merge(fields.clone()),
        (Output::Merge, other) => state.set("result", other.clone()),
        _ => {}
    }
}

pub(super) fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
