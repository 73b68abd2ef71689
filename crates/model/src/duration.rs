//! Durations as users write them: `90`, `2.5`, `30s`, `10m`, `1h30m`, `250ms`.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::spec::Custom;
use cachalot_core::tree::Node;
use serde_json::json;

/// Maximum duration of a timeout, in seconds: a year. Adding it to a time does not overflow.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Maximum age, in seconds: a hundred years.
const MAX_AGE_SECONDS: f64 = 100.0 * MAX_SECONDS;

/// Parses a duration of at least a millisecond: a number of seconds, or numbers that are each followed by
/// `ms`, `s`, `m`, `h` or `d`.
fn parse(text: &str, longest: f64) -> Option<Duration> {
    let text = text.trim();
    let mut seconds = 0.0;
    let mut rest = text;
    if let Ok(number) = text.parse::<f64>() {
        seconds = number;
        rest = "";
    } else if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|digits| *digits > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        seconds += number
            * match &rest[..letters] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = rest[letters..].trim_start();
    }
    ((0.001..=longest).contains(&seconds)).then(|| Duration::from_secs_f64(seconds))
}

/// A duration: a number of seconds, or a text with units.
pub static DURATION: Custom = Custom {
    schema: Some(
        || json!({ "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string" }] }),
    ),
    check: |entry, problems| {
        if duration(&entry.value).is_none() {
            let message = format!("`{}` is no length of time", entry.key);
            problems.push(Problem::new("bad-value", message).at(&entry.value.head()).help(
                "write a number of seconds, or a text such as `250ms`, `30s`, `10m`, `1h30m`",
            ));
        }
    },
};

/// Returns the duration of a value of the kind [`DURATION`].
#[must_use]
pub fn duration(node: &Node) -> Option<Duration> {
    match node.as_text() {
        Some(text) => parse(text, MAX_SECONDS),
        None => parse(&node.as_f64()?.to_string(), MAX_SECONDS),
    }
}

/// Parses an age: numbers that are each followed by a unit, such as `90d` or `12h`. A number alone is
/// refused, because it could be meant as days.
#[must_use]
pub fn parse_age(text: &str) -> Option<Duration> {
    match text.trim().parse::<f64>() {
        Ok(_) => None,
        Err(_) => parse(text, MAX_AGE_SECONDS),
    }
}

/// An age, as [`parse_age`] reads it.
pub static AGE: Custom = Custom {
    schema: Some(|| json!({ "type": "string" })),
    check: |entry, problems| {
        if age(&entry.value).is_none() {
            let problem = Problem::new("bad-value", format!("`{}` is no age", entry.key));
            problems.push(
                problem
                    .at(&entry.value.head())
                    .help("write a number with a unit, such as `90d`, `12h`, `30m`"),
            );
        }
    },
};

/// Returns the age of a value of the kind [`AGE`].
#[must_use]
pub fn age(node: &Node) -> Option<Duration> {
    parse_age(node.as_text()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        for (text, milliseconds) in [
            ("90", 90_000),
            ("2.5", 2_500),
            ("30s", 30_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("250ms", 250),
            ("0.5m", 30_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(
                parse(text, MAX_SECONDS),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for wrong in [
            "",
            " ",
            "0",
            "-1",
            "soon",
            "10 parsecs",
            "m",
            "1m2",
            "NaN",
            "inf",
            "1e300",
            "10m-5m",
            "..s",
        ] {
            assert_eq!(parse(wrong, MAX_SECONDS), None, "{wrong}");
        }
    }

    #[test]
    fn ages_have_a_unit_and_may_be_long() {
        let day = Duration::from_secs(86_400);
        for (text, age) in [("90d", day * 90), ("3650d", day * 3_650), ("12h", day / 2)] {
            assert_eq!(parse_age(text), Some(age), "{text}");
        }
        for wrong in ["90", " 90 ", "1.5", "0", "", "d", "-3d", "inf", "1000000d"] {
            assert_eq!(parse_age(wrong), None, "{wrong}");
        }
    }
}
