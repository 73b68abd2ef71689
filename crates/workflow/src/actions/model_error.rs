//! Converts model errors to failures of an action.

use cachalot_model::ErrorKind;

use super::arguments::CheckedArguments;
use crate::Failure;

/// Returns the failure of an action that called a model: the provider's message, with a hint.
pub(super) fn failure(given: &CheckedArguments<'_>, error: &cachalot_model::Error) -> Failure {
    Failure {
        retryable: error.retryable(),
        allows_alternatives: error.retryable(),
        ..given.failure(kind(error.kind), error)
    }
}

/// Returns the stable error name, as used in `retryable_errors`.
pub(super) fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unauthorized => "unauthorized",
        ErrorKind::Rejected => "rejected",
        ErrorKind::TooLong => "too_long",
        ErrorKind::Limited => "rate_limited",
        ErrorKind::OutOfCredit => "out_of_credit",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unreachable => "connection_error",
        ErrorKind::TimedOut => "timeout",
        ErrorKind::CutOff => "cut_off",
        ErrorKind::Malformed => "malformed_answer",
        ErrorKind::Configuration => "configuration_error",
        ErrorKind::OverBudget => "over_budget",
        _ => "provider_error",
    }
}
