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
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    struct Fixed(f64);

    #[async_trait]
    impl RetryPauses for Fixed {
        async fn pause(&self, _: Duration) {}
        fn jitter(&self) -> f64 {
            self.0
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_vary() {
        let error = Error::new(ErrorKind::Unavailable, "x");
        let milliseconds = |jitter, tries| {
            pause_before_retry(&error, tries, &Fixed(jitter))
                .unwrap()
                .as_millis()
        };
        assert_eq!(
            [1, 2, 3, 4, 5, 6, 40, u32::MAX].map(|tries| milliseconds(0.0, tries)),
            [500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000, 8_000]
        );
        assert_eq!(milliseconds(1.0, 1), 375);
        assert!((0..1_000).all(|_| (0.0..1.0).contains(&SystemRetryPauses.jitter())));
    }

    #[test]
    fn retry_after_is_honored_up_to_a_limit() {
        let mut error = Error::new(ErrorKind::Limited, "x");
        for (requested_pause, waited) in [(0, true), (1, true), (60, true), (61, false)] {
            error.retry_after = Some(Duration::from_secs(requested_pause));
            let pause = pause_before_retry(&error, 1, &Fixed(0.5));
            assert_eq!(pause, waited.then(|| Duration::from_secs(requested_pause)));
        }
    }

    #[test]
    fn retry_after_is_read_in_three_formats() {
        let now = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT
        for (name, value, expected) in [
            ("retry-after", "7", Some(7_000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT", Some(0)),
            ("retry-after", "soon", None),
            ("retry-after", "-5", None),
            ("retry-after", "NaN", None),
            ("retry-after-ms", "250", Some(250)),
            ("x-other", "7", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            let wait = requested_pause(&headers, now).map(|wait| wait.as_millis());
            assert_eq!(wait, expected, "{name}: {value}");
        }
        let mut both = HeaderMap::new();
        both.insert("retry-after", "7".parse().unwrap());
        both.insert("retry-after-ms", "10".parse().unwrap());
        assert_eq!(requested_pause(&both, now), Some(Duration::from_millis(10)));
    }
}
