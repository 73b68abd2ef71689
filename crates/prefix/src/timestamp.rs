//! Parsing of timestamps in logs.

use cachalot_accounting::date;
use cachalot_core::Millis;

/// Numbers below this limit are seconds, others milliseconds: the year 5138 in seconds, March 1973 in
/// milliseconds.
const MAX_SECONDS: f64 = 100_000_000_000.0;

/// Parses seconds or milliseconds since 1970.
pub(crate) fn from_number(number: f64) -> Option<Millis> {
    let millis = if number.abs() < MAX_SECONDS {
        number * 1_000.0
    } else {
        number
    };
    let sensible = number > 0.0 && millis.is_finite() && millis < MAX_SECONDS * 1_000.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is checked to be in range"
    )]
    sensible.then_some(millis.round() as Millis)
}

/// Parses a number, or ISO 8601: `2026-11-21T02:42:00.123Z`, with an offset (`+02:00`), with a blank instead
/// of the `T`, without a zone (UTC), or a date alone.
pub(crate) fn parse(text: &str) -> Option<Millis> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return from_number(number);
    }
    let (day, time) = text.split_once(['T', 't', ' ']).unwrap_or((text, "00:00"));
    let (time, offset) = zone(time)?;
    Some(date::parse(day)? + of_day(time)? - offset)
}

/// Splits a time into the part without its zone, and the zone's offset from UTC.
fn zone(time: &str) -> Option<(&str, Millis)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = time.find(['+', '-']) else {
        return Some((time, 0));
    };
    let (time, offset) = time.split_at(at);
    let digits: String = offset.chars().filter(char::is_ascii_digit).collect();
    if !(2..=4).contains(&digits.len()) {
        return None;
    }
    let number: i64 = format!("{digits:0<4}").parse().ok()?;
    let ahead = (number / 100 * 60 + number % 100) * 60_000;
    Some((
        time,
        if offset.starts_with('-') {
            -ahead
        } else {
            ahead
        },
    ))
}

fn of_day(time: &str) -> Option<Millis> {
    let mut parts = time.trim().splitn(3, ':');
    let hours: f64 = parts.next()?.parse().ok()?;
    let minutes: f64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next().unwrap_or("0").replace(',', ".").parse().ok()?;
    let within = (0.0..25.0).contains(&hours)
        && (0.0..60.0).contains(&minutes)
        && (0.0..61.0).contains(&seconds);
    let millis = ((hours * 60.0 + minutes) * 60.0 + seconds) * 1_000.0;
    #[expect(clippy::cast_possible_truncation, reason = "a day at most")]
    within.then_some(millis.round() as Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_parsed_in_every_format() {
        let at = 1_795_228_920_123;
        for text in [
            "2026-11-21T02:42:00.123Z",
            "2026-11-21 02:42:00.123",
            "2026-11-21T04:42:00,123+02:00",
            "2026-11-20T21:12:00.123-0530",
            "1795228920.123",
            "1795228920123",
        ] {
            assert_eq!(parse(text), Some(at), "{text}");
        }
        assert_eq!(from_number(1_795_228_920.0), Some(1_795_228_920_000));
        for text in [
            "",
            "yesterday",
            "2026-13-01",
            "2026-02-30T01:00",
            "2026-11-21T99:00",
            "-5",
            "nan",
            "1e300",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
