//! Times in the zone of this machine.

use cachalot_core::Millis;
use chrono::{Local, NaiveDate, TimeZone as _};

/// A span of time.
pub(crate) struct TimeSpan {
    /// The first moment.
    pub(crate) begin: Millis,
    /// The first moment after it.
    pub(crate) end: Millis,
}

impl TimeSpan {
    /// Returns the whole day of a moment.
    pub(crate) fn of_day(at: Millis) -> Option<Self> {
        Self::of_date(Local.timestamp_millis_opt(at).single()?.date_naive())
    }

    fn of_date(date: NaiveDate) -> Option<Self> {
        Some(Self {
            begin: begin_of(date)?,
            end: begin_of(date.succ_opt()?)?,
        })
    }
}

/// Returns the first moment of a date. Where the clocks are set forward at midnight, it is a later one.
fn begin_of(date: NaiveDate) -> Option<Millis> {
    let mut moments = (0..=3).filter_map(|hour| {
        let time = date.and_hms_opt(hour, 0, 0)?;
        Local.from_local_datetime(&time).earliest()
    });
    Some(moments.next()?.timestamp_millis())
}

fn formatted(at: Millis, format: &str) -> String {
    let local = Local.timestamp_millis_opt(at).single();
    local.map_or_else(String::new, |local| local.format(format).to_string())
}

/// Returns the date: `2026-11-21`.
pub(crate) fn day_of(at: Millis) -> String {
    formatted(at, "%Y-%m-%d")
}

/// Returns the week of ISO 8601, which begins on Monday: `2026-W47`.
pub(crate) fn week_of(at: Millis) -> String {
    formatted(at, "%G-W%V")
}

/// Returns the month: `2026-11`.
pub(crate) fn month_of(at: Millis) -> String {
    formatted(at, "%Y-%m")
}

/// Returns the date and the time of day: `2026-11-21 14:03:07`.
pub(crate) fn to_second(at: Millis) -> String {
    formatted(at, "%Y-%m-%d %H:%M:%S")
}

/// Returns the time of day: `14:03:07`.
pub(crate) fn time_of_day(at: Millis) -> String {
    formatted(at, "%H:%M:%S")
}

/// Returns the number of calendar days from one time to another, both included.
pub(crate) fn days(first: Millis, last: Millis) -> u64 {
    let date = |at| Some(Local.timestamp_millis_opt(at).single()?.date_naive());
    let days = date(first).zip(date(last));
    days.map_or(1, |(first, last)| {
        (last - first).num_days().unsigned_abs() + 1
    })
}

/// Parses a date (`2026-11-21`).
pub(crate) fn day(text: &str) -> Option<TimeSpan> {
    TimeSpan::of_date(NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?)
}
