//! Lengths of time as people write them: `90`, `2.5`, `30s`, `10m`, `1h30m`, `250ms`.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::tree::Section;

/// The longest time that can be written: a year. Nobody waits longer, and no clock overflows.
const LONGEST: f64 = 366.0 * 86_400.0;

/// A time of at least a millisecond: a number of seconds, or numbers with `ms`, `s`, `m`, `h` or `d`
/// behind each.
fn parse(text: &str) -> Option<Duration> {
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
    ((0.001..=LONGEST).contains(&seconds)).then(|| Duration::from_secs_f64(seconds))
}

/// Claims `key`: a length of time.
pub fn duration(
    section: &mut Section<'_>,
    key: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<Duration> {
    let node = section.present(key)?;
    let text = match node.as_text() {
        Some(text) => Some(text.to_owned()),
        None => node.as_f64().map(|number| number.to_string()),
    };
    let read = text.as_deref().and_then(parse);
    if read.is_none() {
        problems.push(
            Problem::new("bad-value", format!("`{key}` is no length of time"))
                .at(&node.head())
                .help(
                    "write a number of seconds, or a text such as `250ms`, `30s`, `10m`, `1h30m`",
                ),
        );
    }
    read
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
                parse(text),
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
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
