//! Durations as users write them: `90`, `2.5`, `30s`, `10m`, `1h30m`, `250ms`.
//!
//! The crates for such texts read other languages: `humantime` refuses fractions and takes a month for 30.44
//! days, `jiff` accepts a sign, `ago` and commas.

use std::time::Duration;

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

/// Parses a value of a configuration: a number of seconds, or a text as [`parse`] reads it.
#[must_use]
pub fn from_node(node: &Node) -> Option<Duration> {
    match node.as_f64() {
        Some(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        None => parse(node.as_text()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
