//! Converts model errors to failures of an action.

use super::arguments::CheckedArguments;
use crate::Failure;

/// Returns the failure of an action that called a model: the provider's message, with a hint.
pub(super) fn failure(given: &CheckedArguments<'_>, error: &cachalot_model::Error) -> Failure {
    Failure {
        retryable: error.retryable(),
        allows_alternatives: error.retryable(),
        ..given.failure(error.kind.name(), error)
    }
}
