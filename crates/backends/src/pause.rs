//! Pauses between the attempts of calls that collide.

use std::time::Duration;

use crate::random::random;

/// Maximum pause after the first attempt, and after the last one, in milliseconds.
const PAUSES: [u64; 2] = [20, 300];

/// Returns a random pause after an attempt, counted from one, so that calls that collided do not do so again.
pub(crate) fn random_pause(attempt: u32) -> Duration {
    random_within(max_pause(attempt))
}

/// Returns the maximum pause after an attempt, counted from one.
pub(crate) fn max_pause(attempt: u32) -> Duration {
    Duration::from_millis(PAUSES[1].min(PAUSES[0] * u64::from(attempt)))
}

/// Returns a random time below `most`.
pub(crate) fn random_within(maximum: Duration) -> Duration {
    let maximum = u64::try_from(maximum.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(random() % maximum.max(1))
}
