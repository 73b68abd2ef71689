//! The timeout and the effect of a failure.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::config::Located;
use cachalot_core::duration::{Range, YEAR};
use cachalot_core::tree::{Node, NodeKind};

use super::OnError;
use crate::contract::BlockEffect;
use crate::{Dialect, Event};

/// Returns the timeout: a duration or whole seconds in our files, a number in the unit of the runtime in
/// others. A missing value, or one that is not positive, means `default`.
pub(super) fn timeout(
    node: Option<&Node>,
    dialect: Dialect,
    default: Duration,
    problems: &mut Vec<Problem>,
) -> Duration {
    let Some(node) = node else {
        return default;
    };
    let is_ours = dialect == Dialect::DockerAgent;
    if is_ours && node.as_text().is_some() {
        problems.extend(Range::ANY.problem("`timeout`", node));
        let written = Range::ANY
            .read(node)
            .ok()
            .filter(|duration| !duration.is_zero());
        return written.map_or(default, |timeout| timeout.min(YEAR));
    }
    let number = node.as_f64().filter(|number| number.is_finite());
    let is_whole = matches!(node.kind, NodeKind::Integer(_) | NodeKind::Unsigned(_));
    if number.is_none() || (is_ours && !is_whole) {
        problems.push(node.wrong_type("`timeout`", "a whole number of seconds"));
    }
    let Some(number) = number else {
        return default;
    };
    let seconds = if dialect.vocabulary().timeouts_in_milliseconds {
        number / 1000.0
    } else {
        number
    };
    if seconds > 0.0 {
        Duration::from_secs_f64(seconds.min(YEAR.as_secs_f64()))
    } else {
        default
    }
}

/// Returns the effect of a failure, and reports one that the event cannot have.
pub(super) fn on_error(
    chosen: Option<Located<OnError>>,
    event: Event,
    problems: &mut Vec<Problem>,
) -> Option<OnError> {
    let Located { value, place } = chosen?;
    if value == OnError::Block && event.contract().blocks != BlockEffect::Refusal {
        let message = format!("`on_error: block` on `{event}`, where nothing can be blocked");
        let problem = Problem::new("nothing-to-block", message).at(&place);
        problems.push(problem.help("write `warn` or `ignore`"));
    }
    Some(value)
}
