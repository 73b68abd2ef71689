//! Failure of a run.

use cachalot_core::SourceSpan;

use crate::Failure;
use crate::script::ScriptFailure;
use crate::template::TemplateFailure;

/// The failure of a node that ends the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node `{node}` failed: {message}")]
pub struct RunFailure {
    /// The path of the node. Steps inside it are `node/step`, branches `node[3]`.
    pub node: String,
    /// The failure kind, a stable identifier: the kind of the action's or script's failure, or one of
    /// `template_error`, `no_transition`, `loop_limit`, `node_limit`, `validation_error`,
    /// `reflection_failed`, `needs_approval`.
    pub kind: &'static str,
    /// The message: what failed, on what, and what to do.
    pub message: String,
    /// The place in the agent file, as precisely as it is known.
    pub place: Option<SourceSpan>,
    /// Set when the same node may succeed if run again.
    pub retryable: bool,
}

impl RunFailure {
    pub(super) fn new(node: &str, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            node: node.to_owned(),
            kind,
            message: message.into(),
            place: None,
            retryable: false,
        }
    }

    pub(super) fn at(self, place: &SourceSpan) -> Self {
        Self {
            place: Some(place.clone()),
            ..self
        }
    }

    pub(super) fn from_template(node: &str, failure: TemplateFailure) -> Self {
        Self::new(node, "template_error", failure.message).at(&failure.place)
    }

    pub(super) fn from_action(node: &str, failure: Failure, place: &SourceSpan) -> Self {
        Self {
            retryable: failure.retryable,
            ..Self::new(node, failure.kind, failure.message).at(place)
        }
    }

    pub(super) fn from_script(node: &str, failure: ScriptFailure, place: SourceSpan) -> Self {
        Self::new(node, failure.kind, failure.message).at(&place)
    }
}
