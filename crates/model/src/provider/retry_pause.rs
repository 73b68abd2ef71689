//! Pauses between retries.

use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use cachalot_core::Millis;
use cachalot_storage::header::{HeaderMap, RETRY_AFTER};

use crate::error::Error;

/// The first pause, the maximum of the exponential backoff, and the maximum pause that a server may ask
/// for.
const INITIAL_PAUSE: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(8);
const MAX_REQUESTED_PAUSE: Duration = Duration::from_secs(60);

/// Waits between attempts. Passed in, so that tests take no time and can check the requested pauses.
#[async_trait]
pub trait RetryPauses: Send + Sync {
    /// Waits for this time.
    async fn pause(&self, time: Duration);

    /// Returns a random number in `[0, 1)`, so that clients that failed at the same time do not retry at
    /// the same time.
    fn jitter(&self) -> f64;
}

/// Waits in real time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRetryPauses;

#[async_trait]
impl RetryPauses for SystemRetryPauses {
    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn jitter(&self) -> f64 {
        let mut bytes = [0; 4];
        // A failure of the random generator only means no jitter.
        let _ = getrandom::fill(&mut bytes);
        f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Returns the pause after `tries` attempts; `None` if the server asks for a longer pause than
/// [`MAX_REQUESTED_PAUSE`].
pub(super) fn pause_before_retry(
    error: &Error,
    tries: u32,
    pauses: &dyn RetryPauses,
) -> Option<Duration> {
    if let Some(requested_pause) = error.retry_after {
        return (requested_pause <= MAX_REQUESTED_PAUSE).then_some(requested_pause);
    }
    let doubled = INITIAL_PAUSE.saturating_mul(
        1_u32
            .checked_shl(tries.saturating_sub(1))
            .unwrap_or(u32::MAX),
    );
    Some(
        doubled
            .min(MAX_BACKOFF)
            .mul_f64(1.0 - 0.25 * pauses.jitter().clamp(0.0, 1.0)),
    )
}

/// Parses the pause that a server asks for: `retry-after-ms`, or `Retry-After` in seconds or as a date.
pub(super) fn requested_pause(headers: &HeaderMap, now: Millis) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| number(text, 0.001)) {
        return Some(wait);
    }
    let after = text(RETRY_AFTER.as_str())?;
    number(after, 1.0).or_else(|| {
        let until = httpdate::parse_http_date(after).ok()?;
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(now).ok()?);
        Some(until.duration_since(now).unwrap_or_default())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/provider/retry_pause.rs"]
mod tests;
