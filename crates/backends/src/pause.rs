//! Pauses between the attempts of calls that collide.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

/// Maximum pause after the first attempt, and after the last one, in milliseconds.
const PAUSES: [u64; 2] = [20, 300];

/// Returns a random pause after an attempt, counted from one, so that calls that collided do not do so again.
pub(crate) fn random_pause(attempt: u32) -> Duration {
    let most = PAUSES[1].min(PAUSES[0] * u64::from(attempt));
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(random % most)
}
