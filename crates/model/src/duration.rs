//! Durations and ages in sections of files.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::duration::{from_node, parse_units};
use cachalot_core::spec::Custom;
use cachalot_core::tree::Node;
use serde_json::json;

/// Minimum of a duration and of an age.
const MIN: Duration = Duration::from_millis(1);

/// Maximum duration of a timeout: a year. Adding it to a time does not overflow.
const MAX: Duration = Duration::from_secs(366 * 86_400);

/// Maximum age: a hundred years.
const MAX_AGE: Duration = Duration::from_secs(100 * 366 * 86_400);

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
    from_node(node).filter(|read| (MIN..=MAX).contains(read))
}

/// Parses an age: numbers that are each followed by a unit, such as `90d` or `12h`. A number alone is
/// refused, because it could be meant as days.
#[must_use]
pub fn parse_age(text: &str) -> Option<Duration> {
    parse_units(text).filter(|age| (MIN..=MAX_AGE).contains(age))
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_limits() {
        let read = |text: &str| {
            let node = cachalot_core::tree::parse("a.yaml", text).unwrap();
            duration(&node)
        };
        for (text, milliseconds) in [
            ("90", 90_000),
            ("2.5", 2_500),
            ("1h30m", 5_400_000),
            ("1ms", 1),
        ] {
            let expected = Some(Duration::from_millis(milliseconds));
            assert_eq!(read(text), expected, "{text}");
        }
        for wrong in [
            "0", "0s", "0.1ms", "-1", "367d", "soon", ".nan", ".inf", "[1]",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ages_require_a_unit_and_may_be_long() {
        let day = Duration::from_secs(86_400);
        for (text, age) in [("90d", day * 90), ("3650d", day * 3_650), ("12h", day / 2)] {
            assert_eq!(parse_age(text), Some(age), "{text}");
        }
        for wrong in ["90", " 90 ", "1.5", "0", "", "d", "-3d", "inf", "1000000d"] {
            assert_eq!(parse_age(wrong), None, "{wrong}");
        }
    }
}
