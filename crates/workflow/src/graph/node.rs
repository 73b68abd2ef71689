//! Execution of one node: events, retries, and handling of its failure.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{RunFailure, Runner};
use crate::format::{ErrorMode, Node, OnError};
use crate::report::Event;
use crate::template::State;

/// The maximum delay before a retry, and between two rounds of a loop.
pub(super) const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The outcome of a node that determines its successor.
pub(super) enum NodeOutcome {
    /// The node ended with this result; its flow determines the successor.
    Flow(Arc<Value>),
    /// The node failed, and this fallback node runs next.
    Fallback(usize),
}

impl Runner<'_> {
    /// Runs a node with its retries. `path` is the node's name in events. A node that ends the run leaves
    /// the fields in `state` that its steps have set.
    pub(super) fn node<'s>(
        &'s self,
        node: &'s Node,
        path: String,
        state: &'s mut State,
    ) -> BoxFuture<'s, Result<NodeOutcome, RunFailure>> {
        Box::pin(async move {
            self.emit(Event::Started { node: path.clone() });
            let began = Instant::now();
            let mut attempt = 1;
            let failure = loop {
                // A state without other owners is changed in place instead of copied.
                let before = needs_state_after_failure(&node.on_error).then(|| state.clone());
                let worked = self.work(node, &path, state).await;
                if let (Err(_), Some(before)) = (&worked, before) {
                    *state = before;
                }
                match worked {
                    Ok(result) => {
                        self.emit(Event::Finished {
                            node: path,
                            time: began.elapsed(),
                        });
                        return Ok(NodeOutcome::Flow(result));
                    }
                    Err(failure) if is_retried(&node.on_error, &failure, attempt) => {
                        let after = delay(&node.on_error, attempt);
                        attempt += 1;
                        let message = self.masked(&failure.message);
                        self.emit(Event::Retrying {
                            node: path.clone(),
                            attempt,
                            after,
                            message,
                        });
                        tokio::time::sleep(after).await;
                    }
                    Err(failure) => break self.mask_failure(failure),
                }
            };
            let message = failure.message.clone();
            self.emit(Event::Failed {
                node: path,
                time: began.elapsed(),
                message,
            });
            self.after_failure(&node.on_error, failure, state)
        })
    }

    fn after_failure(
        &self,
        on_error: &OnError,
        failure: RunFailure,
        state: &mut State,
    ) -> Result<NodeOutcome, RunFailure> {
        let after = match (on_error.fallback, on_error.mode) {
            (Some(fallback), _) => NodeOutcome::Fallback(fallback),
            (None, ErrorMode::Graceful) => NodeOutcome::Flow(Arc::default()),
            (None, ErrorMode::Raise | ErrorMode::Retry) => return Err(failure),
        };
        state.set(
            "__error__",
            json!({ "node": failure.node, "error": failure.message, "error_type": failure.kind }),
        );
        Ok(after)
    }

    /// Masks secrets in the failure's message.
    pub(super) fn mask_failure(&self, failure: RunFailure) -> RunFailure {
        RunFailure {
            message: self.masked(&failure.message),
            ..failure
        }
    }

    /// Masks secrets in a failure between two nodes and reports it as an event.
    pub(super) fn report(&self, failure: RunFailure) -> RunFailure {
        let failure = self.mask_failure(failure);
        let (node, message) = (failure.node.clone(), failure.message.clone());
        self.emit(Event::Failed {
            node,
            time: Duration::ZERO,
            message,
        });
        failure
    }
}

/// True if the state from before the node is needed after the node has failed.
fn needs_state_after_failure(on_error: &OnError) -> bool {
    on_error.mode != ErrorMode::Raise || on_error.fallback.is_some()
}

fn is_retried(on_error: &OnError, failure: &RunFailure, attempt: u32) -> bool {
    let is_retryable = match &on_error.retryable {
        Some(kinds) => kinds.iter().any(|kind| kind == failure.kind),
        None => failure.retryable,
    };
    on_error.mode == ErrorMode::Retry && is_retryable && attempt <= on_error.max_retries
}

/// Returns the delay before the next attempt after `attempts` attempts.
fn delay(on_error: &OnError, attempts: u32) -> Duration {
    let exponent = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
    let seconds = on_error.delay.as_secs_f64() * on_error.multiplier.powi(exponent);
    Duration::try_from_secs_f64(seconds)
        .unwrap_or(MAX_DELAY)
        .min(MAX_DELAY)
}
