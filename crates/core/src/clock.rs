//! Clocks, which are passed in so that every test is deterministic.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch, UTC.
pub type Millis = i64;

/// A clock for the time of day. Implementations are cheap and never block.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the milliseconds since the Unix epoch.
    fn now(&self) -> Millis;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        millis(SystemTime::now())
    }
}

/// Returns the milliseconds since the Unix epoch of a time of the machine.
#[must_use]
pub fn millis(time: SystemTime) -> Millis {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        // A time before 1970 is negative, so that it stays monotonic with the machine's clock.
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    }
}

/// A clock that advances only by calls of its methods.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock with the time `now`.
    #[must_use]
    pub fn at(now: Millis) -> Self {
        Self(AtomicI64::new(now))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    /// Sets the clock.
    pub fn set(&self, now: Millis) {
        self.0.store(now, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

/// Formats a time as ISO 8601 in UTC with milliseconds: `2026-11-21T02:42:00.123Z`. Years outside 0–9999 are
/// clamped.
#[must_use]
pub fn iso8601(at: Millis) -> String {
    // The range of years with four digits.
    let at = at.clamp(-62_167_219_200_000, 253_402_300_799_999);
    let days = at.div_euclid(86_400_000);
    let of_day = at.rem_euclid(86_400_000);
    let (year, month, day) = civil_from_days(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        of_day / 3_600_000,
        of_day / 60_000 % 60,
        of_day / 1_000 % 60,
        of_day % 1_000
    )
}

/// Returns the proleptic Gregorian date of a day count since 1970-01-01, by 400-year eras that begin in
/// March.
#[must_use]
pub fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Returns the day count since 1970-01-01 of a proleptic Gregorian date: the inverse of [`civil_from_days`].
#[must_use]
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_across_leap_years_and_the_epoch() {
        assert_eq!(iso8601(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(iso8601(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(iso8601(1_795_228_920_123), "2026-11-21T02:42:00.123Z");
        assert_eq!(iso8601(i64::MAX), "9999-12-31T23:59:59.999Z");
        for days in (-800_000..800_000).step_by(17) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }

    #[test]
    fn a_manual_clock_advances_only_explicitly() {
        let clock = ManualClock::at(5);
        assert_eq!(clock.now(), 5);
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), 1_005);
    }
}
