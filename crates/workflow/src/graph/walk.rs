//! The walk from node to node.

use std::cmp::Reverse;
use std::sync::Arc;

use cachalot_core::text::grouped;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::node::NodeOutcome;
use super::{MAX_NODES, RunFailure, Runner};
use crate::format::{Flow, Rule, Target};
use crate::template::{Condition, Scope, State};

impl Runner<'_> {
    /// Walks from `flow` to the end of the run, or to one of the nodes in `stops`, which does not run. The
    /// nodes change `state`; after a failure it is as the failed node left it.
    pub(super) fn walk<'s>(
        &'s self,
        flow: &'s Flow,
        state: &'s mut State,
        stops: Vec<usize>,
    ) -> BoxFuture<'s, Result<(), RunFailure>> {
        Box::pin(async move {
            let mut at = self
                .next(flow, &self.path("__start__"), state, None, &stops)
                .await?;
            let mut executed = 0;
            let mut runs = vec![0_usize; self.agent.nodes.len()];
            while let Target::Node(index) = at {
                if stops.contains(&index) {
                    break;
                }
                let node = &self.agent.nodes[index];
                let path = self.path(&node.name);
                executed += 1;
                if executed > MAX_NODES {
                    let message = self.node_limit_message(&runs);
                    let failure = RunFailure::new(&path, "node_limit", message).at(&node.place);
                    return Err(self.report(failure));
                }
                runs[index] += 1;
                at = match self.node(node, path.clone(), state).await? {
                    NodeOutcome::Fallback(fallback) => Target::Node(fallback),
                    NodeOutcome::Flow(result) => {
                        self.next(&node.flow, &path, state, Some(result), &stops)
                            .await?
                    }
                };
            }
            Ok(())
        })
    }

    /// Returns the message for a run that has reached the node limit. `runs` is the number of executions
    /// of each node.
    fn node_limit_message(&self, runs: &[usize]) -> String {
        /// The maximum number of nodes named in the message.
        const NAMED: usize = 3;
        let mut repeated: Vec<(usize, usize)> = runs.iter().copied().enumerate().collect();
        repeated.retain(|(_, times)| *times > 1);
        repeated.sort_by_key(|(index, times)| (Reverse(*times), *index));
        let mut named: Vec<String> = repeated
            .iter()
            .take(NAMED)
            .map(|(index, times)| {
                let name = &self.agent.nodes[*index].name;
                format!("`{name}` {} times", grouped(*times as u64))
            })
            .collect();
        if repeated.len() > NAMED {
            named.push(format!("{} more nodes", repeated.len() - NAMED));
        }
        format!(
            "stopped after {} nodes: {} ran in a cycle; see that a condition (`goto`, `edges`) leads \
             out of it, or repeat the steps in a `while_loop` with `max_iterations`",
            grouped(MAX_NODES as u64),
            named.join(", ")
        )
    }

    /// Returns the next position. Runs parallel branches to their end first.
    async fn next(
        &self,
        flow: &Flow,
        node: &str,
        state: &mut State,
        result: Option<Arc<Value>>,
        stops: &[usize],
    ) -> Result<Target, RunFailure> {
        match flow {
            Flow::To(target) => Ok(*target),
            Flow::Rules(rules) => self.first_rule(rules, node, state, result).await,
            Flow::Parallel { branches, fan_in } => {
                let results = self.parallel(branches, *fan_in, node, state, stops).await?;
                state.set("parallel_results", results);
                Ok(Target::Node(*fan_in))
            }
        }
    }

    /// Returns true if the condition of a rule or branch after `node` holds, or if there is none.
    pub(super) async fn holds(
        &self,
        condition: Option<&Condition>,
        node: &str,
        scope: &Scope,
    ) -> Result<bool, RunFailure> {
        let Some(condition) = condition else {
            return Ok(true);
        };
        let held = self.agent.templates.holds(condition, scope).await;
        held.map_err(|failure| self.report(RunFailure::from_template(node, failure)))
    }

    async fn first_rule(
        &self,
        rules: &[Rule],
        node: &str,
        state: &State,
        result: Option<Arc<Value>>,
    ) -> Result<Target, RunFailure> {
        let scope = Scope::new(&self.context, state);
        let scope = match result {
            Some(result) => scope.with_result(Arc::unwrap_or_clone(result)),
            None => scope,
        };
        for rule in rules {
            if self.holds(rule.condition.as_ref(), node, &scope).await? {
                return Ok(rule.to);
            }
        }
        let message = "none of the conditions for what comes next holds: add a rule without one";
        Err(self.report(RunFailure::new(node, "no_transition", message)))
    }
}
