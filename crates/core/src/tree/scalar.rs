//! Resolution of scalars by the YAML 1.2 core schema.

use super::NodeKind;

/// The reason why a number has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TooLarge {
    /// An integer beyond 64 bits.
    Integer,
    /// Any other number beyond the largest finite float.
    Float,
}

/// Resolves an unquoted scalar without a tag.
pub(super) fn resolve(text: &str) -> Result<NodeKind, TooLarge> {
    if let Some(kind) = resolve_word(text) {
        return Ok(kind);
    }
    if let Some(integer) = integer(text) {
        return integer;
    }
    if let Some(float) = float(text) {
        return float;
    }
    Ok(NodeKind::Text(text.to_owned()))
}

/// Resolves null, booleans, and the numbers that are words.
fn resolve_word(text: &str) -> Option<NodeKind> {
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Boolean(true),
        "false" | "False" | "FALSE" => NodeKind::Boolean(false),
        ".nan" | ".NaN" | ".NAN" => NodeKind::Float(f64::NAN),
        _ => {
            let (sign, unsigned) = split_sign(text);
            let infinite = matches!(unsigned, ".inf" | ".Inf" | ".INF");
            return infinite.then_some(NodeKind::Float(if sign == "-" {
                f64::NEG_INFINITY
            } else {
                f64::INFINITY
            }));
        }
    })
}

/// Parses an integer; `None` if `text` is not written like one.
pub(super) fn integer(text: &str) -> Option<Result<NodeKind, TooLarge>> {
    let (digits, radix) = match text.get(..2) {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        _ => (text, 10),
    };
    let unsigned = if radix == 10 {
        split_sign(digits).1
    } else {
        digits
    };
    if unsigned.is_empty() || !unsigned.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    if radix == 10 && has_leading_zero(unsigned) {
        return None;
    }
    let signed = i64::from_str_radix(digits, radix).map(NodeKind::Integer);
    let found = signed.or_else(|_| u64::from_str_radix(digits, radix).map(NodeKind::Unsigned));
    Some(found.map_err(|_| TooLarge::Integer))
}

/// Parses a number with an optional fraction and exponent; `None` if `text` is not written like one.
pub(super) fn float(text: &str) -> Option<Result<NodeKind, TooLarge>> {
    let (_, unsigned) = split_sign(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !fraction.is_empty();
    let well_formed = has_digits
        && all_digits(whole)
        && all_digits(fraction)
        && !has_leading_zero(whole)
        && exponent.is_none_or(|exponent| {
            let (_, digits) = split_sign(exponent);
            !digits.is_empty() && all_digits(digits)
        });
    if !well_formed {
        return None;
    }
    let parsed = text.parse::<f64>().ok()?;
    Some(if parsed.is_finite() {
        Ok(NodeKind::Float(parsed))
    } else {
        Err(TooLarge::Float)
    })
}

/// The YAML spelling of a number that is not finite.
pub(super) fn not_finite(float: f64) -> &'static str {
    if float.is_nan() {
        ".nan"
    } else if float > 0.0 {
        ".inf"
    } else {
        "-.inf"
    }
}

fn split_sign(text: &str) -> (&str, &str) {
    if text.starts_with(['-', '+']) {
        text.split_at(1)
    } else {
        ("", text)
    }
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_leading_zero(digits: &str) -> bool {
    digits.len() > 1 && digits.starts_with('0')
}
