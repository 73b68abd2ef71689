//! Durations as users write them: `90`, `2.5`, `30s`, `10m`, `1h30m`, `250ms`.
//!
//! The crates for such texts read other languages: `humantime` refuses fractions and takes a month for 30.44
//! days, `jiff` accepts a sign, `ago` and commas.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Problem;
use crate::text::truncate;
use crate::tree::Node;

/// Parses a duration: a number of seconds, or numbers that are each followed by `ms`, `s`, `m` (or `min`), `h`
/// or `d`. `None` if it is anything else, negative, or longer than a [`Duration`].
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    parse_units(text)
}

/// Parses a duration in which every number has a unit, for places where a number alone would be ambiguous.
#[must_use]
pub fn parse_units(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
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
    Duration::try_from_secs_f64(seconds).ok()
}

/// A year, the maximum of timeouts: added to a time, it does not overflow.
pub const YEAR: Duration = Duration::from_secs(366 * 86_400);

/// A hundred years.
pub const CENTURY: Duration = Duration::from_secs(100 * 366 * 86_400);

/// The durations that a key accepts. A number without a unit is in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The minimum.
    pub minimum: Duration,
    /// The maximum.
    pub maximum: Duration,
    /// Refuses a number without a unit.
    pub needs_unit: bool,
    /// The remedy for zero, if zero has an obvious meaning that is written differently.
    pub instead_of_zero: &'static str,
}

/// A value that is no duration within a [`Range`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code of the problem: `wrong-type`, `bad-value` or `out-of-range`.
    pub code: &'static str,
    /// The cause: a phrase that follows the name of the key.
    pub cause: String,
    /// The remedy.
    pub remedy: String,
}

impl Range {
    /// Any duration.
    pub const ANY: Self = Self {
        minimum: Duration::ZERO,
        maximum: Duration::MAX,
        needs_unit: false,
        instead_of_zero: "",
    };

    /// Durations above zero.
    pub const POSITIVE: Self = Self::ANY.at_least(Duration::from_nanos(1));

    /// Sets the minimum.
    #[must_use]
    pub const fn at_least(self, minimum: Duration) -> Self {
        Self { minimum, ..self }
    }

    /// Sets the maximum.
    #[must_use]
    pub const fn at_most(self, maximum: Duration) -> Self {
        Self { maximum, ..self }
    }

    /// Refuses a number without a unit, for keys where it could be meant in another one.
    #[must_use]
    pub const fn with_unit(self) -> Self {
        Self {
            needs_unit: true,
            ..self
        }
    }

    /// Sets the remedy for zero.
    #[must_use]
    pub const fn instead_of_zero(self, instead_of_zero: &'static str) -> Self {
        Self {
            instead_of_zero,
            ..self
        }
    }

    /// Reads a value of a configuration.
    ///
    /// # Errors
    /// If it is no duration within the range.
    pub fn read(&self, node: &Node) -> Result<Duration, Refusal> {
        match (node.as_f64(), node.as_text()) {
            (Some(number), _) => self.read_number(number),
            (None, Some(text)) => self.read_text(text),
            (None, None) => Err(self.wrong_type(node.kind_name())),
        }
    }

    /// Reads a JSON value.
    ///
    /// # Errors
    /// If it is no duration within the range.
    pub fn read_json(&self, value: &Value) -> Result<Duration, Refusal> {
        match value {
            Value::Number(number) => self.read_number(number.as_f64().unwrap_or(f64::NAN)),
            Value::String(text) => self.read_text(text),
            Value::Null => Err(self.wrong_type("nothing")),
            Value::Bool(_) => Err(self.wrong_type("true or false")),
            Value::Array(_) => Err(self.wrong_type("a list")),
            Value::Object(_) => Err(self.wrong_type("a mapping")),
        }
    }

    /// Returns the problem of a value of a configuration, if it is no duration within the range. `name` is the
    /// key, in backticks.
    #[must_use]
    pub fn problem(&self, name: &str, node: &Node) -> Option<Problem> {
        let refusal = self.read(node).err()?;
        let message = format!("{name} {}", refusal.cause);
        let problem = Problem::new(refusal.code, message).at(&node.head());
        Some(problem.help(refusal.remedy))
    }

    /// Reads a text: a duration with units, or a number.
    ///
    /// # Errors
    /// If it is no duration within the range.
    pub fn read_text(&self, text: &str) -> Result<Duration, Refusal> {
        if let Ok(number) = text.trim().parse::<f64>() {
            return self.read_number(number);
        }
        match parse_units(text) {
            Some(duration) => self.within(duration, text.trim()),
            None => Err(Refusal {
                code: "bad-value",
                cause: format!(
                    "is `{}`, which is no duration",
                    truncate(text.trim(), MAX_SHOWN)
                ),
                remedy: match spelled_out(text) {
                    Some(meant) => format!("write `{meant}`"),
                    None => self.form(),
                },
            }),
        }
    }

    fn read_number(&self, number: f64) -> Result<Duration, Refusal> {
        if self.needs_unit {
            return Err(Refusal {
                code: "bad-value",
                cause: format!("is {number}, without a unit"),
                remedy: self.form(),
            });
        }
        match Duration::try_from_secs_f64(number) {
            Ok(duration) => self.within(duration, &number.to_string()),
            Err(_) => Err(self.out_of_range(&number.to_string())),
        }
    }

    /// Returns the duration if it is within the bounds.
    fn within(&self, duration: Duration, written: &str) -> Result<Duration, Refusal> {
        if (self.minimum..=self.maximum).contains(&duration) {
            Ok(duration)
        } else {
            Err(self.out_of_range(written))
        }
    }

    fn out_of_range(&self, written: &str) -> Refusal {
        let is_small = self.minimum <= Duration::from_millis(1);
        let minimum = match self.minimum.is_zero() {
            true => String::new(),
            false if is_small => "above 0".to_owned(),
            false => format!("at least {}", shown(self.minimum)),
        };
        let maximum = if self.maximum < CENTURY {
            format!("at most {}", shown(self.maximum))
        } else {
            String::new()
        };
        let bounds = match (minimum.is_empty(), maximum.is_empty()) {
            (false, false) => format!("{minimum} and {maximum}"),
            (true, true) => "0 or more".to_owned(),
            _ => format!("{minimum}{maximum}"),
        };
        let is_zero = parse(written) == Some(Duration::ZERO);
        Refusal {
            code: "out-of-range",
            cause: format!("is {written}, but it must be {bounds}"),
            remedy: if is_zero && !self.instead_of_zero.is_empty() {
                self.instead_of_zero.to_owned()
            } else {
                format!(
                    "write a duration that is {bounds}, such as {}",
                    self.example()
                )
            },
        }
    }

    fn wrong_type(&self, found: &str) -> Refusal {
        Refusal {
            code: "wrong-type",
            cause: format!("must be a duration, but this is {found}"),
            remedy: self.form(),
        }
    }

    /// Returns the remedy of a value that is no duration.
    fn form(&self) -> String {
        if self.needs_unit { "write a number with a unit, such as `90d`, `12h` or `30m`" } else {
            "write a duration such as `500ms`, `30s`, `10m`, `1h30m` or `7d`, or a number of seconds"
        }
        .to_owned()
    }

    /// Returns a duration within the bounds, in backticks.
    fn example(&self) -> String {
        let usual = [1, 30, 600, 3_600].map(Duration::from_secs);
        let fits = |duration: &Duration| (self.minimum..=self.maximum).contains(duration);
        let example = usual.into_iter().rev().find(fits);
        format!("`{}`", shown(example.unwrap_or(self.maximum)))
    }

    /// Returns the JSON Schema.
    #[must_use]
    pub fn schema(&self) -> Value {
        let units = r"([0-9]*\.?[0-9]+(ms|s|min|m|h|d)\s*)+";
        let pattern = if self.needs_unit {
            format!(r"^\s*{units}$")
        } else {
            format!(r"^\s*({units}|[0-9]*\.?[0-9]+\s*)$")
        };
        let text = json!({ "type": "string", "pattern": pattern });
        let bound = if self.minimum.is_zero() {
            "minimum"
        } else {
            "exclusiveMinimum"
        };
        if self.needs_unit {
            text
        } else {
            json!({ "anyOf": [{ "type": "number", bound: 0 }, text] })
        }
    }
}

/// The maximum number of characters of a value that a message shows.
const MAX_SHOWN: usize = 60;

/// Returns a duration in the form that users write, in its largest units.
#[must_use]
pub fn shown(duration: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1_000, "s"),
        (1, "ms"),
    ];
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (size, unit) in UNITS {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

/// Returns a duration for a sentence, in days, hours or minutes: `47 min`, `3 h 5 min`, `12 days`.
#[must_use]
pub fn rounded(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours @ 48.., _) => format!("{} days", hours / 24),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Returns the form of a duration whose units are written out, as in `5 minutes` or `1 hour 30 min`.
fn spelled_out(text: &str) -> Option<String> {
    let mut short = String::new();
    let text = text.trim().to_ascii_lowercase();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        let unit = match unit {
            "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => "ms",
            "s" | "sec" | "secs" | "second" | "seconds" => "s",
            "m" | "min" | "mins" | "minute" | "minutes" => "m",
            "h" | "hr" | "hrs" | "hour" | "hours" => "h",
            "d" | "day" | "days" => "d",
            _ => return None,
        };
        short.push_str(number);
        short.push_str(unit);
        rest = after.trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest).trim_start();
    }
    parse_units(&short).map(|_| short)
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn durations_in_sentences_have_at_most_two_units() {
        for (minutes, text) in [
            (47, "47 min"),
            (120, "2 h"),
            (185, "3 h 5 min"),
            (47 * 60, "47 h"),
            (50 * 60, "2 days"),
        ] {
            assert_eq!(rounded(Duration::from_secs(minutes * 60 + 30)), text);
        }
    }

    #[test]
    fn durations_are_parsed_with_units() {
        for (text, milliseconds) in [
            ("0", 0),
            ("0s", 0),
            ("90", 90_000),
            ("2.5", 2_500),
            ("30s", 30_000),
            (" 10m ", 600_000),
            ("1h30m", 5_400_000),
            ("1h 30min", 5_400_000),
            ("250ms", 250),
            ("0.5m", 30_000),
            (".5s", 500),
            ("2d", 172_800_000),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(parse(text), Some(duration), "{text}");
            let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic() || c == ' ');
            assert_eq!(parse_units(text), has_unit.then_some(duration), "{text}");
        }
        for wrong in [
            "",
            " ",
            "-1",
            "-1s",
            "soon",
            "10 parsecs",
            "10 s",
            "m",
            "1m2",
            "1M",
            "NaN",
            "inf",
            "1e300",
            "1e300s",
            "10m-5m",
            "..s",
            "99999999999999999999d",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
            assert_eq!(parse_units(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn refused_values_have_a_cause_and_a_remedy() {
        const FORM: &str = "write a duration such as `500ms`, `30s`, `10m`, `1h30m` or `7d`, or a number of seconds";
        const WITH_UNIT: &str = "write a number with a unit, such as `90d`, `12h` or `30m`";
        let week = Duration::from_secs(7 * 86_400);
        let limited = Range::POSITIVE.at_most(week);
        let age = Range::POSITIVE.with_unit();
        for (range, text, expected) in [
            (
                limited,
                "5 minutes",
                "bad-value: is `5 minutes`, which is no duration; write `5m`",
            ),
            (
                limited,
                "1 hour and 30 Min",
                "bad-value: is `1 hour and 30 Min`, which is no duration; write `1h30m`",
            ),
            (
                limited,
                "soon",
                &format!("bad-value: is `soon`, which is no duration; {FORM}"),
            ),
            (
                limited,
                "8d",
                "out-of-range: is 8d, but it must be above 0 and at most 7d; write a duration that is above 0 and at most 7d, such as `1h`",
            ),
            (
                limited,
                "-1",
                "out-of-range: is -1, but it must be above 0 and at most 7d; write a duration that is above 0 and at most 7d, such as `1h`",
            ),
            (
                Range::ANY,
                ".inf",
                "out-of-range: is inf, but it must be 0 or more; write a duration that is 0 or more, such as `1h`",
            ),
            (
                limited.instead_of_zero("leave it out"),
                "0",
                "out-of-range: is 0, but it must be above 0 and at most 7d; leave it out",
            ),
            (
                limited,
                "[1]",
                &format!("wrong-type: must be a duration, but this is a list; {FORM}"),
            ),
            (
                age,
                "90",
                &format!("bad-value: is 90, without a unit; {WITH_UNIT}"),
            ),
            (
                age,
                "true",
                &format!("wrong-type: must be a duration, but this is true or false; {WITH_UNIT}"),
            ),
        ] {
            let node = crate::tree::parse("a.yaml", text).expect("YAML");
            let refusal = range.read(&node).expect_err(text);
            let Refusal {
                code,
                cause,
                remedy,
            } = refusal;
            assert_eq!(format!("{code}: {cause}; {remedy}"), expected, "{text}");
        }
        let quarter = Ok(Duration::from_millis(250));
        assert_eq!(limited.read_json(&json!("250ms")), quarter);
        assert_eq!(limited.read_json(&json!(0.25)), quarter);
    }

    #[test]
    fn shown_durations_are_read_again() {
        for (milliseconds, text) in [
            (0, "0s"),
            (250, "250ms"),
            (90_000, "1m30s"),
            (604_800_000, "7d"),
            (90_061_001, "1d1h1m1s1ms"),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(shown(duration), text);
            assert_eq!(parse(text), Some(duration));
        }
    }
}
