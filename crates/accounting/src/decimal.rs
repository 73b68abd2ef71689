//! Exact decimal amounts: prices from a file are summed without floating-point arithmetic.

use cachalot_core::Problem;
use cachalot_core::tree::{MapEntry, Node, NodeKind};
use serde_json::{Value, json};

/// Reasons why a text is not an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AmountError {
    /// Not a decimal number, or a negative one.
    NotANumber,
    /// More decimal places than are counted.
    TooManyDecimals,
    /// Out of the range of the result.
    TooLarge,
}

/// Returns `text`, a decimal number without a sign, times ten to the power of `places`. Never rounds.
pub fn parse_scaled(text: &str, places: usize) -> Result<u64, AmountError> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return Err(AmountError::NotANumber);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > places {
        return Err(AmountError::TooManyDecimals);
    }
    let mut sum: u64 = 0;
    let zeros = std::iter::repeat_n(b'0', places - fraction.len());
    for digit in whole.bytes().chain(fraction.bytes()).chain(zeros) {
        sum = sum
            .checked_mul(10)
            .and_then(|sum| sum.checked_add(u64::from(digit - b'0')))
            .ok_or(AmountError::TooLarge)?;
    }
    Ok(sum)
}

/// Returns an amount of money, which may begin with `$`, times ten to the power of `places`. Never rounds.
pub fn parse_amount(text: &str, places: usize) -> Result<u64, AmountError> {
    let text = text.trim();
    parse_scaled(text.strip_prefix('$').unwrap_or(text), places)
}

/// Returns the value of a node times ten to the power of `places`. A float is converted to its shortest
/// decimal representation, which is the text of the file unless that had more than 15 digits.
fn scaled_node(node: &Node, places: usize) -> Result<u64, AmountError> {
    match &node.kind {
        NodeKind::Integer(integer) => parse_scaled(&integer.to_string(), places),
        NodeKind::Unsigned(integer) => parse_scaled(&integer.to_string(), places),
        NodeKind::Float(float) => parse_scaled(&float.to_string(), places),
        NodeKind::Text(text) => parse_amount(text, places),
        _ => Err(AmountError::NotANumber),
    }
}

/// Returns the value times ten to the power of `places`, if it is a non-negative amount.
pub fn amount(node: &Node, places: usize) -> Option<u64> {
    scaled_node(node, places).ok()
}

/// Returns the JSON Schema of an amount.
pub fn amount_schema() -> Value {
    json!({ "anyOf": [{ "type": "number", "minimum": 0 }, { "type": "string" }] })
}

/// Reports a value that is no amount with at most `places` decimals.
pub fn check_amount(entry: &MapEntry, places: usize, problems: &mut Vec<Problem>) {
    let (key, node) = (&entry.key, &entry.value);
    let problem = match scaled_node(node, places) {
        Ok(_) => return,
        Err(AmountError::NotANumber) => {
            let code = match node.as_f64() {
                Some(_) => "out-of-range",
                None => "wrong-type",
            };
            Problem::new(
                code,
                format!("`{key}` must be a number that is not negative"),
            )
            .help("write a number, such as 2.50")
        }
        Err(AmountError::TooManyDecimals) => Problem::new(
            "out-of-range",
            format!("`{key}` has more than {places} decimals"),
        )
        .help(format!("round it to {places} decimals")),
        Err(AmountError::TooLarge) => Problem::new("out-of-range", format!("`{key}` is too large"))
            .help("write a smaller number"),
    };
    problems.push(problem.at(&node.place));
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_exact_or_refused() {
        for (text, expected) in [
            ("2.50", Ok(2_500_000)),
            ("0.075", Ok(75_000)),
            ("0.000001", Ok(1)),
            (".5", Ok(500_000)),
            ("3.", Ok(3_000_000)),
            ("0", Ok(0)),
            ("0.0000010", Ok(1)),
            ("0.0000001", Err(AmountError::TooManyDecimals)),
            ("18446744073709.551615", Ok(u64::MAX)),
            ("18446744073709.551616", Err(AmountError::TooLarge)),
            ("-1", Err(AmountError::NotANumber)),
            ("+1", Err(AmountError::NotANumber)),
            ("1e3", Err(AmountError::NotANumber)),
            ("", Err(AmountError::NotANumber)),
            (".", Err(AmountError::NotANumber)),
            ("1.2.3", Err(AmountError::NotANumber)),
            ("1,5", Err(AmountError::NotANumber)),
            ("NaN", Err(AmountError::NotANumber)),
        ] {
            assert_eq!(parse_scaled(text, 6), expected, "{text}");
        }
    }

    #[test]
    fn text_may_begin_with_a_dollar_sign() {
        for (text, expected) in [
            ("a: $0.50", Some(500_000)),
            ("a: '$1'", Some(1_000_000)),
            ("a: 0.50", Some(500_000)),
            ("a: $$1", None),
            ("a: €1", None),
        ] {
            let node = cachalot_core::tree::parse("a.yaml", text).unwrap();
            let entry = &node.as_map().unwrap()[0];
            assert_eq!(amount(&entry.value, 6), expected, "{text}");
            let mut problems = Vec::new();
            check_amount(entry, 6, &mut problems);
            assert_eq!(problems.is_empty(), expected.is_some(), "{text}");
        }
    }

    proptest! {
        /// A float that YAML parsed is formatted as it was written.
        #[test]
        fn float_is_formatted_as_written(whole in 0_u64..1_000_000, fraction in 0_u64..1_000_000) {
            let text = format!("{whole}.{fraction:06}");
            let float: f64 = text.parse().unwrap();
            prop_assert_eq!(parse_scaled(&float.to_string(), 6), Ok(whole * 1_000_000 + fraction));
            prop_assert_eq!(parse_scaled(&text, 6), Ok(whole * 1_000_000 + fraction));
        }
    }
}
