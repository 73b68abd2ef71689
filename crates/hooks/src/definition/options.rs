//! The timeout and the effect of a failure.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::spec::Values;
use cachalot_core::tree::NodeKind;

use super::OnError;
use super::tables::ON_ERROR;
use crate::contract::BlockEffect;
use crate::{Dialect, Event};

/// The maximum timeout, a year: avoids overflows in clock arithmetic.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Returns the timeout: whole seconds in our files, the unit of the runtime in others. A missing value,
/// or one that is not positive, means `default`.
pub(super) fn timeout(
    values: Values<'_>,
    dialect: Dialect,
    default: Duration,
    problems: &mut Vec<Problem>,
) -> Duration {
    let Some(node) = values.node("timeout") else {
        return default;
    };
    let Some(number) = node.as_f64().filter(|number| number.is_finite()) else {
        return default;
    };
    let is_whole = matches!(node.kind, NodeKind::Integer(_) | NodeKind::Unsigned(_));
    if !is_whole && dialect == Dialect::DockerAgent {
        problems.push(node.wrong_type("`timeout`", "a whole number of seconds"));
    }
    let seconds = match dialect.vocabulary().timeouts_in_milliseconds {
        true => number / 1000.0,
        false => number,
    };
    match seconds > 0.0 {
        true => Duration::from_secs_f64(seconds.min(MAX_SECONDS)),
        false => default,
    }
}

pub(super) fn on_error(
    values: Values<'_>,
    event: Event,
    problems: &mut Vec<Problem>,
) -> Option<OnError> {
    let chosen = values.choice("on_error", &ON_ERROR)?;
    if chosen == OnError::Block && event.contract().blocks != BlockEffect::Refusal {
        problems.push(
            Problem::new(
                "nothing-to-block",
                format!("`on_error: block` on `{event}`, where nothing can be blocked"),
            )
            .at(&values.place("on_error"))
            .help("write `warn` or `ignore`"),
        );
    }
    Some(chosen)
}
