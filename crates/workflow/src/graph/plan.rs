//! The plan of a run: cache hits and paid calls, as far as they can be determined without running
//! anything.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::work::merge;
use super::{MAX_NODES, initial_state};
use crate::format::{Agent, FanOut, Flow, Node, Output, Subgraph, Target, Work};
use crate::script::may_change_state;
use crate::template::{Condition, Prepared, Scope, State, TemplateContext};
use crate::{Action, Planned, Runtime};

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The nodes, in the order in which they would run.
    pub nodes: Vec<PlannedNode>,
    /// The reason why the plan ends before the run would; `None` if it is complete.
    pub ends: Option<String>,
}

/// The planned outcome of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedNode {
    /// The path of the node. Steps inside it are `node/step`, branches `node[3]`.
    pub node: String,
    /// The planned outcome.
    pub outcome: PlannedOutcome,
}

/// The planned outcome of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedOutcome {
    /// The node runs and is not a memoized step.
    Runs {
        /// The action, or `inline code`.
        work: String,
    },
    /// The cache answers.
    Hit {
        /// The handle of the entry.
        handle: String,
    },
    /// The node is memoized, but runs.
    Miss {
        /// The handle that the result would get.
        handle: Option<String>,
        /// The reason why the cache does not answer.
        reason: String,
    },
    /// The outcome depends on a node that would have to run first.
    Unknown {
        /// The node.
        node_to_run: String,
    },
    /// The node fails before it starts.
    Fails {
        /// The failure message.
        message: String,
    },
}

impl PlannedOutcome {
    fn runs(work: &str) -> Self {
        Self::Runs {
            work: work.to_owned(),
        }
    }
}

/// Plans a run. Looks up entries in the cache, but does not run, store or pay for anything.
pub async fn plan(agent: &Agent, input: Map<String, Value>, runtime: &Arc<Runtime>) -> Plan {
    let context = runtime.template_context(&agent.variables);
    let state = initial_state(agent, input);
    let mut planner = Planner {
        agent,
        runtime,
        context: context.with_inputs(&state),
        prefix: String::new(),
        plan: Plan::default(),
    };
    let ends = planner.walk(&agent.start, state, &[]).await;
    planner.plan.ends = ends.err().map(|ends| runtime.masked(&ends.0));
    planner.plan
}

/// The reason why a plan ends early.
struct PlanEnd(String);

struct Planner<'r> {
    agent: &'r Agent,
    runtime: &'r Arc<Runtime>,
    context: TemplateContext,
    /// The beginning of the paths of all nodes: empty, or the branch that runs this subgraph and `/`.
    prefix: String,
    plan: Plan,
}

impl<'r> Planner<'r> {
    fn record(&mut self, node: &str, outcome: PlannedOutcome) {
        self.plan.nodes.push(PlannedNode {
            node: node.to_owned(),
            outcome,
        });
    }

    /// Plans from `flow` to the end of the run, or to one of the nodes in `stops`.
    async fn walk(&mut self, flow: &'r Flow, state: State, stops: &[usize]) -> Result<(), PlanEnd> {
        let agent = self.agent;
        let mut state = state;
        let start = format!("{}__start__", self.prefix);
        let mut next = self.next(flow, &start, &mut state, None, stops).await?;
        let mut executed = 0;
        while let Target::Node(index) = next {
            if stops.contains(&index) {
                break;
            }
            executed += 1;
            if executed > MAX_NODES {
                return Err(PlanEnd(format!(
                    "the run would execute more than {MAX_NODES} nodes"
                )));
            }
            let node = &agent.nodes[index];
            let path = format!("{}{}", self.prefix, node.name);
            let result = self.node(node, &path, &mut state).await?;
            next = self
                .next(&node.flow, &path, &mut state, result, stops)
                .await?;
        }
        Ok(())
    }

    /// Returns the successor. Plans parallel branches one after the other first.
    async fn next(
        &mut self,
        flow: &'r Flow,
        node: &str,
        state: &mut State,
        result: Option<Value>,
        stops: &[usize],
    ) -> Result<Target, PlanEnd> {
        match flow {
            Flow::To(target) => Ok(*target),
            Flow::Rules(rules) => {
                let is_known = result.is_some();
                let scope =
                    Scope::new(&self.context, state).with_result(result.unwrap_or_default());
                for rule in rules {
                    let condition = rule.condition.as_ref();
                    if !is_known && condition.is_some_and(Condition::mentions_result) {
                        return Err(PlanEnd(format!(
                            "what comes after `{node}` is known when it has run"
                        )));
                    }
                    if self.condition_holds(condition, &scope, node, state).await? {
                        return Ok(rule.to);
                    }
                }
                Err(PlanEnd(format!(
                    "after `{node}` none of the conditions for what comes next holds"
                )))
            }
            Flow::Parallel { branches, fan_in } => {
                let base = state.flattened();
                let stops: Vec<usize> = stops.iter().copied().chain([*fan_in]).collect();
                for branch in branches {
                    let scope = Scope::new(&self.context, state);
                    let condition = branch.condition.as_ref();
                    if self.condition_holds(condition, &scope, node, state).await? {
                        Box::pin(self.walk(&branch.flow, base.branch(), &stops)).await?;
                    }
                }
                state.mark_unknown("parallel_results", node);
                Ok(Target::Node(*fan_in))
            }
        }
    }

    async fn condition_holds(
        &self,
        condition: Option<&Condition>,
        scope: &Scope,
        node: &str,
        state: &State,
    ) -> Result<bool, PlanEnd> {
        let Some(condition) = condition else {
            return Ok(true);
        };
        let holds = self.agent.templates.holds(condition, scope).await;
        // Before the outcome is used: a condition that has read an unknown field has no outcome.
        if let Some(node_to_run) = state.take_first_read() {
            return Err(PlanEnd(format!(
                "what comes after `{node}` is known when `{node_to_run}` has run"
            )));
        }
        holds.map_err(|failure| PlanEnd(format!("what comes after `{node}`: {failure}")))
    }

    /// Plans one node. Returns its result if it is known.
    async fn node(
        &mut self,
        node: &'r Node,
        path: &str,
        state: &mut State,
    ) -> Result<Option<Value>, PlanEnd> {
        match &node.work {
            Work::Nothing => Ok(Some(Value::Null)),
            Work::Run { script, .. } => {
                self.record(path, PlannedOutcome::runs("inline code"));
                if may_change_state(&script.source) {
                    state.mark_all_unknown(path);
                }
                mark_unknown(&node.output, path, state);
                Ok(None)
            }
            Work::Reflection(_) | Work::Retries(_) => {
                let is_reflection = matches!(node.work, Work::Reflection(_));
                let work = if is_reflection {
                    "reflection.loop"
                } else {
                    "retry.loop"
                };
                self.record(path, PlannedOutcome::runs(work));
                mark_unknown(&node.output, path, state);
                Ok(None)
            }
            Work::Action { action, with } => {
                let (outcome, result) = self.action(&**action, with, state).await;
                self.record(path, outcome);
                match &result {
                    Some(result) => merge(&node.output, state, result),
                    None => mark_unknown(&node.output, path, state),
                }
                self.output(&node.output, path, state, result.as_ref())
                    .await;
                Ok(result)
            }
            Work::Steps(steps) => {
                let mut result = Some(Value::Null);
                for step in steps {
                    let path = format!("{path}/{}", step.name);
                    result = Box::pin(self.node(step, &path, state)).await?;
                }
                self.output(&node.output, path, state, result.as_ref())
                    .await;
                Ok(result)
            }
            Work::While {
                condition,
                max_iterations,
                body,
            } => {
                self.repeat(condition, *max_iterations, body, path, state)
                    .await?;
                mark_named_unknown(&node.output, path, state);
                Ok(None)
            }
            Work::Subgraph(subgraph) => {
                self.subgraph(subgraph, path, state).await?;
                Ok(None)
            }
            Work::FanOut(fan_out) => {
                self.fan_out(fan_out, path, state).await?;
                state.mark_unknown("parallel_results", path);
                mark_named_unknown(&node.output, path, state);
                Ok(None)
            }
        }
    }

    async fn repeat(
        &mut self,
        condition: &Condition,
        maximum: u32,
        body: &'r [Node],
        path: &str,
        state: &mut State,
    ) -> Result<(), PlanEnd> {
        // One check more than iterations: the condition has to fail after the last one.
        for iteration in 0..=maximum {
            let scope = Scope::new(&self.context, state);
            let holds = self.condition_holds(Some(condition), &scope, path, state);
            if !holds.await? {
                return Ok(());
            }
            for step in body.iter().filter(|_| iteration < maximum) {
                let path = format!("{path}/{}", step.name);
                Box::pin(self.node(step, &path, state)).await?;
            }
        }
        Err(PlanEnd(format!(
            "the condition of `{path}` still holds after {maximum} iterations"
        )))
    }

    async fn fan_out(
        &mut self,
        fan_out: &'r FanOut,
        path: &str,
        state: &State,
    ) -> Result<(), PlanEnd> {
        let scope = Scope::new(&self.context, state);
        let items = self.agent.templates.render(&fan_out.items, &scope).await;
        if let Some(node_to_run) = state.take_first_read() {
            self.record(path, PlannedOutcome::Unknown { node_to_run });
            return Ok(());
        }
        let items = match items {
            Ok(Value::Null) => Ok(Value::Array(Vec::new())),
            items => items,
        };
        let Ok(Value::Array(items)) = items else {
            self.record(
                path,
                PlannedOutcome::Fails {
                    message: "`items` is no list".to_owned(),
                },
            );
            return Ok(());
        };
        let base = state.flattened();
        for (index, item) in items.into_iter().enumerate() {
            let mut state = base.branch();
            state.set(fan_out.item.as_str(), item);
            state.set(fan_out.index.as_str(), Value::from(index));
            let path = format!("{path}[{index}]");
            Box::pin(self.node(&fan_out.branch, &path, &mut state)).await?;
        }
        Ok(())
    }

    async fn subgraph(
        &mut self,
        subgraph: &Subgraph,
        path: &str,
        state: &State,
    ) -> Result<(), PlanEnd> {
        let scope = Scope::new(&self.context, state);
        let (mut input, mut unknown) = (Map::new(), Vec::new());
        for (key, field) in &subgraph.input {
            let value = self.agent.templates.render(field, &scope).await;
            match (state.take_first_read(), value) {
                (Some(node_to_run), _) => unknown.push((key, node_to_run)),
                (None, Ok(value)) => {
                    input.insert(key.clone(), value);
                }
                (None, Err(failure)) => {
                    let message = self.runtime.masked(&failure.message);
                    self.record(path, PlannedOutcome::Fails { message });
                    return Ok(());
                }
            }
        }
        let mut state = initial_state(&subgraph.agent, input);
        for (key, node_to_run) in unknown {
            state.mark_unknown(key, &node_to_run);
        }
        let (runtime, context) = subgraph.dependencies(self.runtime);
        let mut planner = Planner {
            agent: &subgraph.agent,
            runtime: &runtime,
            context: context.with_inputs(&state),
            prefix: format!("{path}/"),
            plan: std::mem::take(&mut self.plan),
        };
        let ended = Box::pin(planner.walk(&subgraph.agent.start, state, &[])).await;
        self.plan = planner.plan;
        ended
    }

    async fn action(
        &self,
        action: &dyn Action,
        with: &Prepared,
        state: &State,
    ) -> (PlannedOutcome, Option<Value>) {
        let scope = Scope::new(&self.context, state);
        let rendered = self.agent.templates.render(with, &scope).await;
        if let Some(node_to_run) = state.take_first_read() {
            return (PlannedOutcome::Unknown { node_to_run }, None);
        }
        let fails = |message: &str| {
            (
                PlannedOutcome::Fails {
                    message: self.runtime.masked(message),
                },
                None,
            )
        };
        let given = match rendered {
            Ok(Value::Object(fields)) => fields,
            Ok(Value::Null) => Map::new(),
            Ok(_) => return fails("`with` is no mapping"),
            Err(failure) => return fails(&failure.message),
        };
        let arguments = match action.metadata().check(given) {
            Ok(arguments) => arguments,
            Err(failure) => return fails(&failure.message),
        };
        match action.plan(arguments, self.runtime).await {
            Ok(Planned::Hit { result, handle }) => (PlannedOutcome::Hit { handle }, Some(result)),
            Ok(Planned::Miss { handle, reason }) => (
                PlannedOutcome::Miss {
                    handle,
                    reason: self.runtime.masked(&reason),
                },
                None,
            ),
            Ok(Planned::Runs) => (PlannedOutcome::runs(&action.metadata().name), None),
            Err(failure) => fails(&failure.message),
        }
    }

    /// Sets the fields that `output` names if the result is known, and forgets a field whose value is not.
    async fn output(
        &mut self,
        output: &Output,
        path: &str,
        state: &mut State,
        result: Option<&Value>,
    ) {
        let Some(result) = result else { return };
        match output {
            Output::Merge => {}
            Output::Key(key) => state.set(key.as_str(), result.clone()),
            Output::Map(fields) => {
                let scope = Scope::new(&self.context, state).with_result(result.clone());
                for (key, field) in fields {
                    match self.agent.templates.render(field, &scope).await {
                        Ok(value) if state.take_first_read().is_none() => {
                            state.set(key.as_str(), value)
                        }
                        _ => state.mark_unknown(key, path),
                    }
                }
            }
        }
    }
}

/// Marks the fields that the node would set as unknown, because it did not run.
fn mark_unknown(output: &Output, path: &str, state: &mut State) {
    match output {
        Output::Merge => state.mark_all_unknown(path),
        named => mark_named_unknown(named, path, state),
    }
}

fn mark_named_unknown(output: &Output, path: &str, state: &mut State) {
    match output {
        Output::Merge => {}
        Output::Key(key) => state.mark_unknown(key, path),
        Output::Map(fields) => fields
            .iter()
            .for_each(|(key, _)| state.mark_unknown(key, path)),
    }
}
