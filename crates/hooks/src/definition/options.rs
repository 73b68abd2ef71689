//! Parses the timeout and the effect of a failure.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::tree::{NodeKind, Section};

use super::OnError;
use super::keys::choice;
use crate::contract::BlockEffect;
use crate::{Dialect, Event};

/// The maximum timeout, a year: avoids overflows in clock arithmetic.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Parses the timeout: whole seconds in our files, the unit of the runtime in others. A missing value,
/// or one that is not positive, means `default`.
pub(super) fn timeout(
    section: &mut Section<'_>,
    dialect: Dialect,
    default: Duration,
    problems: &mut Vec<Problem>,
) -> Duration {
    let Some(node) = section.present("timeout") else {
        return default;
    };
    let is_whole = matches!(node.kind, NodeKind::Integer(_) | NodeKind::Unsigned(_));
    let number = node.as_f64().filter(|number| number.is_finite());
    let number = number.filter(|_| is_whole || dialect != Dialect::DockerAgent);
    let Some(number) = number else {
        problems.push(node.wrong_type("`timeout`", "a whole number of seconds"));
        return default;
    };
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
    section: &mut Section<'_>,
    event: Event,
    problems: &mut Vec<Problem>,
) -> Option<OnError> {
    let choices = [
        ("warn", OnError::Warn),
        ("ignore", OnError::Ignore),
        ("block", OnError::Block),
    ];
    let chosen = choice(section, "on_error", &choices, problems)?;
    if chosen == OnError::Block && event.contract().blocks != BlockEffect::Refusal {
        let problem = Problem::new(
            "nothing-to-block",
            format!("`on_error: block` on `{event}`, where nothing can be blocked"),
        )
        .help("write `warn` or `ignore`");
        problems.push(match section.node("on_error") {
            Some(node) => problem.at(&node.place),
            None => problem,
        });
    }
    Some(chosen)
}
