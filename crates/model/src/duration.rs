//! Durations and ages in sections of files.

use std::time::Duration;

use cachalot_core::config::ParameterKind;
use cachalot_core::duration::{CENTURY, Range, YEAR};

/// Minimum of a duration and of an age.
const MIN: Duration = Duration::from_millis(1);

/// A duration of at least a millisecond and at most a year.
pub const DURATION: ParameterKind = ParameterKind::Duration(Range::ANY.at_least(MIN).at_most(YEAR));

/// An age. A number alone is refused, because it could be meant as days.
pub const AGE: Range = Range::ANY.at_least(MIN).at_most(CENTURY).with_unit();

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/duration.rs"]
mod tests;
