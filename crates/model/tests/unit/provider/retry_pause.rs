//! Unit tests of `src/provider/retry_pause.rs`.

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

const LIMITS: RetryLimits = RetryLimits {
    retries: u32::MAX,
    rate_limit_wait: Duration::from_secs(60),
};

/// Returns the pauses of a request that fails with these errors.
fn pauses(errors: &[Error], limits: RetryLimits, jitter: f64) -> (Vec<Option<u128>>, Retries) {
    let mut retries = Retries::default();
    let mut pause = |error| retries.pause(error, limits, &Fixed(jitter));
    let milliseconds = |time: Duration| time.as_millis();
    let all = errors.iter().map(|error| pause(error).map(milliseconds));
    (all.collect(), retries)
}

fn limited(retry_after: Option<u64>) -> Error {
    let mut error = Error::new(ErrorKind::Limited, "x");
    error.retry_after = retry_after.map(Duration::from_secs);
    error
}

#[test]
fn pauses_double_up_to_a_limit_and_vary() {
    let errors = vec![Error::new(ErrorKind::Unavailable, "x"); 40];
    let (all, _) = pauses(&errors, LIMITS, 0.0);
    let first = [500, 1_000, 2_000, 4_000, 8_000, 8_000].map(Some);
    assert_eq!((&all[..6], all[39]), (&first[..], Some(8_000)));
    assert_eq!(pauses(&errors[..1], LIMITS, 1.0).0, [Some(375)]);
    assert!((0..1_000).all(|_| (0.0..1.0).contains(&SystemRetryPauses.jitter())));
}

#[test]
fn retry_after_is_honored_up_to_a_limit() {
    let mut error = Error::new(ErrorKind::Unavailable, "x");
    for (requested_pause, waited) in [(0, true), (1, true), (60, true), (61, false)] {
        error.retry_after = Some(Duration::from_secs(requested_pause));
        let pause = waited.then(|| u128::from(requested_pause) * 1_000);
        let (all, _) = pauses(std::slice::from_ref(&error), LIMITS, 0.5);
        assert_eq!(all, [pause]);
    }
}

#[test]
fn rate_limits_are_waited_for_until_their_time_is_used_up() {
    // Without a time from the server, up to 30 s; the last pause is the rest of the minute.
    let (all, retries) = pauses(&vec![limited(None); 9], LIMITS, 0.0);
    let expected = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 28_500].map(Some);
    assert_eq!((&all[..7], &all[7..]), (&expected[..], &[None, None][..]));
    let reason = retries.reason(&limited(None), LIMITS);
    assert_eq!(
        reason,
        "; tried 8 times and waited 1m for the rate limit (`rate_limit_wait` is 1m)"
    );
    // The time that the server asks for, and never without end.
    let (all, _) = pauses(
        &[limited(Some(20)), limited(Some(20)), limited(Some(21))],
        LIMITS,
        0.0,
    );
    assert_eq!(all, [Some(20_000), Some(20_000), None]);
    let (all, _) = pauses(&vec![limited(Some(0)); 20], LIMITS, 0.0);
    assert_eq!(all[..4], [Some(0), Some(1_000), Some(2_000), Some(4_000)]);
    assert!(all.contains(&None), "{all:?}");
    let (all, retries) = pauses(&[limited(Some(3_600))], LIMITS, 0.0);
    assert_eq!(all, [None]);
    let reason = retries.reason(&limited(Some(3_600)), LIMITS);
    assert_eq!(
        reason,
        "; the server asks to wait 1h, longer than `rate_limit_wait` (1m)"
    );
}

#[test]
fn rate_limits_do_not_use_up_the_retries_of_other_failures() {
    let failed = Error::new(ErrorKind::Unavailable, "x");
    let errors = [
        limited(None),
        failed.clone(),
        limited(None),
        failed.clone(),
        failed.clone(),
    ];
    let limits = RetryLimits {
        retries: 2,
        ..LIMITS
    };
    let (all, retries) = pauses(&errors, limits, 0.0);
    assert_eq!(all, [Some(500), Some(500), Some(1_000), Some(1_000), None]);
    assert_eq!(retries.reason(&failed, limits), "; tried 5 times");
    // Without time for rate limits, they are failures like others.
    let none = RetryLimits {
        retries: 2,
        rate_limit_wait: Duration::ZERO,
    };
    let (all, retries) = pauses(&vec![limited(None); 3], none, 0.0);
    assert_eq!(all, [Some(500), Some(1_000), None]);
    assert_eq!(retries.reason(&limited(None), none), "; tried 3 times");
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
