//! Dates in data files: the days from which a price applies.

use cachalot_core::Millis;
use cachalot_core::clock::{days_from_civil, iso8601};

const DAY: Millis = 86_400_000;

/// Parses a date such as `2026-12-01`: the beginning of the day in UTC.
#[must_use]
pub fn parse(text: &str) -> Option<Millis> {
    let mut parts = text.trim().split('-');
    let mut next = |digits: usize, range: std::ops::RangeInclusive<i64>| {
        let part = parts.next().filter(|part| part.len() == digits)?;
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part.parse::<i64>().ok().filter(|_| is_number)?;
        range.contains(&number).then_some(number)
    };
    let (year, month, day) = (next(4, 1970..=9999)?, next(2, 1..=12)?, next(2, 1..=31)?);
    let date = days_from_civil(year, month, day) * DAY;
    // A day that the month does not have is another day.
    (parts.next().is_none() && format(date) == text.trim()).then_some(date)
}

/// Formats the day of a time in UTC.
#[must_use]
pub fn format(at: Millis) -> String {
    let mut date = iso8601(at);
    date.truncate("2026-12-01".len());
    date
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days_in_utc() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("2000-02-29", 11_016),
            ("2026-11-28", 20_785),
            ("2026-12-01", 20_788),
            ("2027-03-01", 20_878),
        ] {
            assert_eq!(parse(text), Some(days * DAY), "{text}");
            assert_eq!(format(days * DAY), text);
            assert_eq!(format(days * DAY + DAY - 1), text);
        }
        for text in [
            "",
            "2026-12",
            "2026-13-01",
            "2026-02-30",
            "2026-12-1",
            "2026-12-01Z",
            "+026-12-01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
