//! Retries: whether there is another one, and the pause before it.

use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use cachalot_core::Millis;
use cachalot_core::duration;
use cachalot_storage::header::{HeaderMap, RETRY_AFTER};

use crate::error::{Error, ErrorKind};

/// The first pause, the maximum of the exponential backoff, and the maximum pause that a server may ask
/// for.
const INITIAL_PAUSE: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(8);
const MAX_REQUESTED_PAUSE: Duration = Duration::from_secs(60);

/// The maximum of the exponential backoff after a rate limit. Most limits are per minute.
const MAX_RATE_LIMIT_BACKOFF: Duration = Duration::from_secs(30);

/// A pause that a rate limit of the provider causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimitPause<'a> {
    /// The name of the provider.
    pub provider: &'a str,
    /// The name of the model.
    pub model: &'a str,
    /// The length of the pause.
    pub time: Duration,
    /// The maximum of all pauses of the request that rate limits cause.
    pub limit: Duration,
}

/// Waits between attempts. Passed in, so that tests take no time and can check the requested pauses.
#[async_trait]
pub trait RetryPauses: Send + Sync {
    /// Waits for this time.
    async fn pause(&self, time: Duration);

    /// Returns a random number in `[0, 1)`, so that clients that failed at the same time do not retry at
    /// the same time.
    fn jitter(&self) -> f64;

    /// Is called before a pause that a rate limit causes, which may be long. Does nothing by default.
    fn announce(&self, _: &RateLimitPause<'_>) {}
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

/// Limits of the retries of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryLimits {
    /// The maximum number of retries; those after a rate limit do not count, unless `rate_limit_wait` is zero.
    pub(super) retries: u32,
    /// The maximum sum of the pauses that rate limits cause.
    pub(super) rate_limit_wait: Duration,
}

impl RetryLimits {
    /// Returns true if the error is a rate limit that is waited for, whose retries do not count.
    pub(super) fn wait_for(self, error: &Error) -> bool {
        error.kind == ErrorKind::Limited && !self.rate_limit_wait.is_zero()
    }
}

/// The retries of one request so far.
#[derive(Debug, Default)]
pub(super) struct Retries {
    /// The number of failures other than rate limits that are waited for.
    failures: u32,
    /// The number of rate limits that were waited for, and the sum of the pauses.
    limited: u32,
    waited: Duration,
}

impl Retries {
    /// Returns the number of attempts, the current one included.
    pub(super) fn tries(&self) -> u32 {
        1_u32
            .saturating_add(self.failures)
            .saturating_add(self.limited)
    }

    /// Counts a failed attempt. Returns the pause before the next one; `None` if there is none.
    pub(super) fn pause(
        &mut self,
        error: &Error,
        limits: RetryLimits,
        pauses: &dyn RetryPauses,
    ) -> Option<Duration> {
        if limits.wait_for(error) {
            let pause = self.rate_limit_pause(error, limits.rate_limit_wait, pauses)?;
            self.limited += 1;
            self.waited += pause;
            return Some(pause);
        }
        if self.failures >= limits.retries {
            return None;
        }
        let pause = match error.retry_after {
            Some(requested) => (requested <= MAX_REQUESTED_PAUSE).then_some(requested)?,
            None => backoff(self.failures, MAX_BACKOFF, pauses),
        };
        self.failures += 1;
        Some(pause)
    }

    /// A server that always asks for no pause does not get requests without end: the second pause and later ones are at
    /// least as long as without its request.
    fn rate_limit_pause(
        &self,
        error: &Error,
        limit: Duration,
        pauses: &dyn RetryPauses,
    ) -> Option<Duration> {
        let left = limit.saturating_sub(self.waited);
        let backoff = backoff(self.limited, MAX_RATE_LIMIT_BACKOFF, pauses);
        let pause = match error.retry_after {
            Some(requested) if requested > left => return None,
            Some(requested) if self.limited == 0 => requested,
            Some(requested) => requested.max(backoff),
            None => backoff,
        };
        (!left.is_zero()).then(|| pause.min(left))
    }

    /// Returns the reason for the end of the retries, as the end of the message of the last error; empty if there was one
    /// attempt.
    pub(super) fn reason(&self, error: &Error, limits: RetryLimits) -> String {
        let mut reason = match self.tries() {
            1 => String::new(),
            tries => format!("; tried {tries} times"),
        };
        if !limits.wait_for(error) {
            return reason;
        }
        let limit = duration::shown(limits.rate_limit_wait);
        match error.retry_after {
            Some(requested) if requested > limits.rate_limit_wait => {
                reason += &format!(
                    "; the server asks to wait {}, longer than `rate_limit_wait` ({limit})",
                    shown(requested)
                );
            }
            _ if !self.waited.is_zero() => {
                reason += &format!(
                    " and waited {} for the rate limit (`rate_limit_wait` is {limit})",
                    shown(self.waited)
                );
            }
            _ => {}
        }
        reason
    }
}

/// Returns a duration for a message, in whole seconds.
fn shown(time: Duration) -> String {
    let is_whole = time.subsec_nanos() == 0;
    duration::shown(Duration::from_secs(
        time.as_secs().saturating_add(u64::from(!is_whole)),
    ))
}

/// Returns the exponential backoff after `before` earlier pauses, minus a random part.
fn backoff(before: u32, maximum: Duration, pauses: &dyn RetryPauses) -> Duration {
    let doubled = INITIAL_PAUSE.saturating_mul(1_u32.checked_shl(before).unwrap_or(u32::MAX));
    doubled
        .min(maximum)
        .mul_f64(1.0 - 0.25 * pauses.jitter().clamp(0.0, 1.0))
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
