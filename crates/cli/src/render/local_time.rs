//! Times in the zone of this machine.

use cachalot_core::Millis;
use chrono::{Local, NaiveDate, NaiveTime, TimeZone as _};

/// Returns the date: `2026-11-21`.
pub(crate) fn day_of(at: Millis) -> String {
    let local = Local.timestamp_millis_opt(at).single();
    local.map_or_else(String::new, |local| local.format("%Y-%m-%d").to_string())
}

/// Returns the date and the time of day: `2026-11-21 14:03:07`.
pub(crate) fn to_second(at: Millis) -> String {
    let local = Local.timestamp_millis_opt(at).single();
    local.map_or_else(String::new, |local| {
        local.format("%Y-%m-%d %H:%M:%S").to_string()
    })
}

/// Returns the number of calendar days from one time to another, both included.
pub(crate) fn days(first: Millis, last: Millis) -> u64 {
    let date = |at| Some(Local.timestamp_millis_opt(at).single()?.date_naive());
    let days = date(first).zip(date(last));
    days.map_or(1, |(first, last)| {
        (last - first).num_days().unsigned_abs() + 1
    })
}

/// Parses a date (`2026-11-21`); returns the time of its first moment.
pub(crate) fn date(text: &str) -> Option<Millis> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    let midnight = Local.from_local_datetime(&date.and_time(NaiveTime::MIN));
    Some(midnight.earliest()?.timestamp_millis())
}
