//! Limits of requests and tokens per minute.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The largest number of tokens that are owed.
const MOST_OWED: f64 = 1e12;
const MINUTE: Duration = Duration::from_secs(60);

/// Limits of one key. Each is a bucket that holds the amount of one minute and fills at a constant rate.
#[derive(Debug)]
pub(crate) struct RateLimit {
    requests: Option<Bucket>,
    /// May be overdrawn, because the tokens of an answer are known at its end.
    tokens: Option<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    per_minute: f64,
    state: Mutex<BucketState>,
}

#[derive(Debug, Clone, Copy)]
struct BucketState {
    level: f64,
    at: Option<Instant>,
}

impl RateLimit {
    pub(crate) fn new(requests: Option<u32>, tokens: Option<u32>) -> Self {
        Self {
            requests: requests.map(Bucket::new),
            tokens: tokens.map(Bucket::new),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// The name of the limit that is reached, and the time after which a request is admitted.
    pub(crate) fn admit(&self, now: Instant) -> Result<(), (&'static str, Duration)> {
        // Checked first, without taking any: a request that is refused for its tokens must not count as a request.
        if let Some(tokens) = &self.tokens {
            tokens.take(0.0, now).map_err(|wait| ("tokens", wait))?;
        }
        match &self.requests {
            Some(requests) => requests.take(1.0, now).map_err(|wait| ("requests", wait)),
            None => Ok(()),
        }
    }

    /// Counts the tokens of an answer.
    pub(crate) fn count_tokens(&self, tokens: u64, now: Instant) {
        if let Some(bucket) = &self.tokens {
            let mut state = bucket.filled(now);
            state.level = (state.level - tokens as f64).max(-MOST_OWED);
        }
    }
}

impl Bucket {
    fn new(per_minute: u32) -> Self {
        Self {
            per_minute: f64::from(per_minute),
            state: Mutex::new(BucketState {
                level: f64::from(per_minute),
                at: None,
            }),
        }
    }

    fn filled(&self, now: Instant) -> parking_lot::MutexGuard<'_, BucketState> {
        let mut state = self.state.lock();
        if let Some(at) = state.at {
            let passed = now.saturating_duration_since(at).as_secs_f64();
            let filled = state.level + self.per_minute * passed / MINUTE.as_secs_f64();
            state.level = filled.min(self.per_minute);
        }
        state.at = Some(now);
        state
    }

    /// Takes an amount if the bucket holds it, and more than nothing.
    fn take(&self, amount: f64, now: Instant) -> Result<(), Duration> {
        let mut state = self.filled(now);
        let missing = amount.max(1.0) - state.level;
        if missing > 0.0 {
            let wait = missing / self.per_minute * MINUTE.as_secs_f64();
            return Err(Duration::from_secs_f64(wait));
        }
        state.level -= amount;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_limited_and_admitted_again() {
        let (limit, start) = (RateLimit::new(Some(60), None), Instant::now());
        assert!((0..60).all(|_| limit.admit(start).is_ok()));
        let (name, wait) = limit.admit(start).unwrap_err();
        assert_eq!((name, wait), ("requests", Duration::from_secs(1)));
        assert!(limit.admit(start + Duration::from_secs(1)).is_ok());
        assert!(limit.admit(start + Duration::from_secs(1)).is_err());
    }

    #[test]
    fn tokens_are_counted_afterwards() {
        let (limit, start) = (RateLimit::new(None, Some(600)), Instant::now());
        assert!(limit.admit(start).is_ok());
        limit.count_tokens(1_200, start);
        let (name, wait) = limit.admit(start).unwrap_err();
        assert_eq!(name, "tokens");
        assert!(
            wait > Duration::from_secs(60) && wait < Duration::from_secs(61),
            "{wait:?}"
        );
        assert!(limit.admit(start + Duration::from_secs(61)).is_ok());
    }
}
