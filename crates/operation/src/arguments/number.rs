//! Number lexemes, kept exact until their target type is known.

use serde_json::Number;

/// Returns the exact integer that a JSON number represents, if it is one and fits into 64 bits: `5`, `5.0`,
/// `5e2`, `-0`, but neither `5.5` nor `18446744073709551616`.
pub(super) fn integer(lexeme: &str) -> Option<Number> {
    let (digits, exponent) = decimal(lexeme)?;
    let zeros = usize::try_from(exponent).ok()?;
    if digits.is_empty() {
        return Some(Number::from(0));
    }
    // Every 64-bit integer has at most twenty digits.
    if digits.len().checked_add(zeros)? > 20 {
        return None;
    }
    let text = format!("{digits}{}", "0".repeat(zeros));
    if lexeme.starts_with('-') {
        format!("-{text}").parse::<i64>().ok().map(Number::from)
    } else {
        text.parse::<u64>().ok().map(Number::from)
    }
}

/// Returns the significant digits of a JSON number, without zeros at either end, and their power of ten.
fn decimal(lexeme: &str) -> Option<(String, i64)> {
    let unsigned = lexeme.strip_prefix('-').unwrap_or(lexeme);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_end_matches('0');
    let dropped = i64::try_from(all.len() - digits.len()).ok()?;
    let resolve_reference = i64::try_from(fraction.len()).ok()?;
    let digits = digits.trim_start_matches('0').to_owned();
    if digits.is_empty() {
        return Some((digits, 0));
    }
    let exponent = exponent
        .checked_add(dropped)?
        .checked_sub(resolve_reference)?;
    Some((digits, exponent))
}

/// True if it is written as an integer: without fraction and exponent.
pub(super) fn is_written_as_integer(lexeme: &str) -> bool {
    !lexeme.contains(['.', 'e', 'E'])
}

/// Returns the in-memory number; `None` for an integer that would change its value, or a number beyond the
/// range of floats.
pub(super) fn number(lexeme: &str) -> Option<Number> {
    if is_written_as_integer(lexeme) {
        return integer(lexeme);
    }
    serde_json::from_str(lexeme).ok()
}

/// Returns the lexeme if `text` is a JSON number and nothing else.
pub(super) fn number_lexeme(text: &str) -> Option<&str> {
    let text = text.trim();
    // Excludes other JSON values.
    let starts = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    (starts && serde_json::from_str::<Number>(text).is_ok()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_formatted_exactly() {
        let whole = |lexeme| integer(lexeme).map(|number| number.to_string());
        for (lexeme, expected) in [
            ("5", "5"),
            ("5.0", "5"),
            ("5.000", "5"),
            ("500e-2", "5"),
            ("5e2", "500"),
            ("1.5e1", "15"),
            ("-0", "0"),
            ("0.0e10", "0"),
            ("-7.0", "-7"),
            ("9007199254740993.0", "9007199254740993"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
        ] {
            assert_eq!(whole(lexeme).as_deref(), Some(expected), "{lexeme}");
        }
        for lexeme in [
            "5.5",
            "9007199254740991.4",
            "18446744073709551616",
            "-9223372036854775809",
            "1e20",
            "1e999999999999999999999",
            "1e-1",
        ] {
            assert_eq!(whole(lexeme), None, "{lexeme}");
        }
    }

    #[test]
    fn number_lexeme_accepts_json_numbers_only() {
        assert_eq!(number_lexeme(" 12 "), Some("12"));
        assert_eq!(number_lexeme("-1.5e3"), Some("-1.5e3"));
        for text in [
            "",
            "007",
            "+5",
            "1_000",
            "0x10",
            "12 apples",
            "true",
            "NaN",
            "1e999",
        ] {
            assert_eq!(number_lexeme(text), None, "{text}");
        }
    }
}
