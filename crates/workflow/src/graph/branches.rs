//! Parallel branches: one per edge or one per item.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value, json};

use super::node::NodeOutcome;
use super::work::kind_name;
use super::{DEFAULT_CONCURRENCY, RunFailure, Runner};
use crate::format::{Branch, FanOut, Node, Subgraph, Work};
use crate::report::Event;
use crate::template::{Scope, State};

impl Runner<'_> {
    /// Runs the branches that start at one node, up to the node where they meet. A failed branch does not
    /// fail the node; its result reports the error.
    pub(super) async fn parallel(
        &self,
        branches: &[Branch],
        fan_in: usize,
        node: &str,
        state: &State,
        stops: &[usize],
    ) -> Result<Value, RunFailure> {
        let scope = Scope::new(&self.context, state);
        let mut started = Vec::new();
        // All conditions see the state before the branches, and one that fails ends the node before anything has run.
        for branch in branches {
            if self.holds(branch.condition.as_ref(), node, &scope).await? {
                started.push(branch);
            }
        }
        let base = state.flattened();
        let stops: Vec<usize> = stops.iter().copied().chain([fan_in]).collect();
        let mut runs = Vec::with_capacity(started.len());
        for (index, branch) in started.into_iter().enumerate() {
            let (mut state, stops) = (base.branch(), stops.clone());
            let name = self.agent.nodes[branch.head].name.as_str();
            runs.push(async move {
                match self.walk(&branch.flow, &mut state, stops).await {
                    Ok(()) => (index, succeeded(name, index, state, None)),
                    Err(failure) => (index, failed(name, index, &failure, json!({}))),
                }
            });
        }
        Ok(results_of(runs, self.agent.settings.parallel.max_workers).await)
    }

    /// Runs one branch per item. With `fail_fast`, no branch starts after one has failed; running branches
    /// finish.
    pub(super) async fn fan_out(
        &self,
        fan_out: &FanOut,
        node: &Node,
        path: &str,
        state: &State,
    ) -> Result<Value, RunFailure> {
        let items = self.items(fan_out, node, path, state).await?;
        let total = items.len();
        let done = AtomicUsize::new(0);
        let is_cancelled = AtomicBool::new(false);
        let base = state.flattened();
        self.emit(Event::Progress {
            node: path.to_owned(),
            done: 0,
            total,
        });
        let mut runs = Vec::with_capacity(total);
        for (index, item) in items.into_iter().enumerate() {
            let mut state = base.branch();
            state.set(fan_out.item.as_str(), item);
            state.set(fan_out.index.as_str(), Value::from(index));
            // The reported state of a branch that fails: only its item and index.
            let began = state.clone().into_own_fields();
            let name = format!("{path}[{index}]");
            let (done, is_cancelled) = (&done, &is_cancelled);
            runs.push(async move {
                // Checked when the future is polled for the first time, which happens when a slot is free.
                if is_cancelled.load(Ordering::Relaxed) {
                    return (index, cancelled(&name, index));
                }
                let ran = self.node(&fan_out.branch, name.clone(), &mut state);
                let ran = ran.await;
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                self.emit(Event::Progress {
                    node: path.to_owned(),
                    done,
                    total,
                });
                match ran {
                    Ok(NodeOutcome::Flow(result)) => {
                        let outcome = match &fan_out.branch.work {
                            Work::Subgraph(subgraph) => {
                                subgraph_result(&name, index, state, began, subgraph)
                            }
                            _ => {
                                let result = Arc::unwrap_or_clone(result);
                                succeeded(&name, index, state, Some(result))
                            }
                        };
                        (index, outcome)
                    }
                    Ok(NodeOutcome::Fallback(_)) => (index, succeeded(&name, index, state, None)),
                    Err(failure) => {
                        is_cancelled.fetch_or(fan_out.fail_fast, Ordering::Relaxed);
                        (index, failed(&name, index, &failure, Value::Object(began)))
                    }
                }
            });
        }
        let concurrency = fan_out
            .concurrency
            .or(self.agent.settings.parallel.max_workers);
        Ok(results_of(runs, concurrency).await)
    }

    async fn items(
        &self,
        fan_out: &FanOut,
        node: &Node,
        path: &str,
        state: &State,
    ) -> Result<Vec<Value>, RunFailure> {
        let scope = Scope::new(&self.context, state);
        match self.render(&fan_out.items, path, &scope).await? {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(Vec::new()),
            other => {
                let message = format!("`items` is {}: expected a list", kind_name(&other));
                Err(RunFailure::new(path, "validation_error", message).at(&node.place))
            }
        }
    }
}

fn succeeded(branch: &str, index: usize, state: State, result: Option<Value>) -> Value {
    let mut outcome = json!({ "branch": branch, "index": index, "success": true, "state": state.into_own_fields() });
    if let (Some(result), Some(fields)) = (result, outcome.as_object_mut()) {
        fields.insert("result".to_owned(), result);
    }
    outcome
}

/// Returns the result of a branch that ran a subgraph: its final state, with the item and the index. The
/// file in it shows those who read it that the branch did not see the state of the outer file.
fn subgraph_result(
    branch: &str,
    index: usize,
    mut state: State,
    began: Map<String, Value>,
    subgraph: &Subgraph,
) -> Value {
    state.merge(began);
    let mut outcome = succeeded(branch, index, state, None);
    if let Some(fields) = outcome.as_object_mut() {
        fields.insert("subgraph".to_owned(), Value::from(subgraph.file.as_str()));
    }
    outcome
}

fn failed(branch: &str, index: usize, failure: &RunFailure, state: Value) -> Value {
    json!({
        "branch": branch, "index": index, "success": false, "state": state,
        "error": failure.message, "error_type": failure.kind,
    })
}

/// Returns the result of a branch that `fail_fast` kept from starting.
fn cancelled(branch: &str, index: usize) -> Value {
    json!({
        "branch": branch, "index": index, "success": false, "state": {},
        "error": "not run: another branch has failed, and `fail_fast` is set",
        "error_type": "cancelled",
    })
}

/// Runs the branches, at most `concurrency` of them at a time. Returns their results in order.
async fn results_of(
    branches: Vec<impl Future<Output = (usize, Value)>>,
    concurrency: Option<usize>,
) -> Value {
    let concurrency = concurrency.unwrap_or(DEFAULT_CONCURRENCY);
    // Unordered, so that a slow branch does not keep the slots of branches after it that have ended.
    let ended = stream::iter(branches).buffer_unordered(concurrency);
    let mut results: Vec<(usize, Value)> = ended.collect().await;
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
