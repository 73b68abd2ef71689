//! Filters that make numbers.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, State, Value, filters};

use super::arguments::{self, Given};
use crate::template::error::invalid;
use crate::template::operators::checked_undefined;

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("abs", abs);
    environment.add_filter("round", round);
}

fn int(state: &State, value: &Value, given: Given) -> Result<Value, Error> {
    let [default, base] = arguments::read(given, ["default", "base"])?;
    checked_undefined(state, value)?;
    let default = default.unwrap_or_else(|| Value::from(0));
    match value.kind() {
        ValueKind::Number if value.is_integer() => Ok(value.clone()),
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number => whole(f64::try_from(value.clone())?),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            if let Some(parsed) = parse_int(text, arguments::size(base, 10)?)? {
                return Ok(Value::from(parsed));
            }
            match parse_float(text) {
                Some(parsed) if parsed.is_finite() => whole(parsed),
                _ => Ok(default),
            }
        }
        _ => Ok(default),
    }
}

/// Returns a number without its fraction.
fn whole(number: f64) -> Result<Value, Error> {
    // Below 2^127, the conversion is exact.
    if number.abs() < 2.0_f64.powi(127) {
        Ok(Value::from(number as i128))
    } else {
        Err(invalid(format!(
            "{number} is no whole number of up to 127 bits"
        )))
    }
}

/// Parses a whole number as Python does: blanks around it, a sign, the prefix of its base, and `_` between digits.
///
/// # Errors
/// Returned for an unknown base, and for a number of more than 127 bits.
fn parse_int(text: &str, base: usize) -> Result<Option<i128>, Error> {
    let Some(base) = u32::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base))
    else {
        return Err(invalid(format!("int: the base {base} is not from 2 to 36")));
    };
    let text = text.trim();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let prefixes: &[&str] = match base {
        2 => &["0b", "0B"],
        8 => &["0o", "0O"],
        16 => &["0x", "0X"],
        _ => &[],
    };
    let prefixed = prefixes
        .iter()
        .find_map(|prefix| unsigned.strip_prefix(prefix));
    let digits = match prefixed {
        Some(digits) => digits.strip_prefix('_').unwrap_or(digits),
        None => unsigned,
    };
    let Some(digits) = without_separators(digits) else {
        return Ok(None);
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
        return Ok(None);
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let parsed = i128::from_str_radix(&format!("{sign}{digits}"), base);
    parsed.map(Some).map_err(|_| {
        invalid("int: the text is a whole number of more than 127 bits: keep it as text")
    })
}

fn float(state: &State, value: &Value, given: Given) -> Result<Value, Error> {
    let [default] = arguments::read(given, ["default"])?;
    checked_undefined(state, value)?;
    let number = match value.kind() {
        ValueKind::Number => Some(number(value)?),
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::String => parse_float(value.as_str().unwrap_or_default()),
        _ => None,
    };
    let default = || default.unwrap_or_else(|| Value::from(0.0));
    Ok(number.map_or_else(default, Value::from))
}

/// Converts a number to the nearest float.
fn number(value: &Value) -> Result<f64, Error> {
    if value.is_integer() {
        i128::try_from(value.clone()).map(|integer| integer as f64)
    } else {
        f64::try_from(value.clone())
    }
}

/// Parses a float as Python does.
fn parse_float(text: &str) -> Option<f64> {
    without_separators(text.trim())?.parse().ok()
}

/// Returns digits without the `_` between them; `None` if one is elsewhere.
fn without_separators(text: &str) -> Option<String> {
    let is_digit =
        |part: Option<char>| part.is_some_and(|character| character.is_ascii_alphanumeric());
    let mut parts = text.split('_').peekable();
    let mut digits = String::new();
    while let Some(part) = parts.next() {
        digits.push_str(part);
        let is_between =
            |next: &&str| is_digit(part.chars().next_back()) && is_digit(next.chars().next());
        if parts.peek().is_some_and(|next| !is_between(next)) {
            return None;
        }
    }
    Some(digits)
}

fn abs(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        _ => filters::abs(value),
    }
}

fn round(value: Value, given: Given) -> Result<Value, Error> {
    let [precision, method] = arguments::read(given, ["precision", "method"])?;
    let method = method.as_ref().map_or(Ok("common"), |method| {
        method
            .as_str()
            .ok_or_else(|| invalid("round: the method is no text"))
    })?;
    let precision: Option<i32> = precision.map(i32::try_from).transpose()?;
    // Only the common method keeps whole numbers.
    let value = match method {
        "common" => value,
        _ if value.is_integer() => Value::from(number(&value)?),
        _ => value,
    };
    filters::round(value, precision, Some(method), arguments::none())
}
