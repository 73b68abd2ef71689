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
