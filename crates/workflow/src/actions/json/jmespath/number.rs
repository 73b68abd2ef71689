//! JSON numbers: 64-bit whole numbers and floats, compared and added without rounding whole numbers.

use std::cmp::Ordering;

use serde_json::Number;

/// Returns the number if it is a whole number of 64 bits.
fn whole(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

fn from_whole(whole: i128) -> Option<Number> {
    i64::try_from(whole)
        .map(Number::from)
        .or_else(|_| u64::try_from(whole).map(Number::from))
        .ok()
}

/// Orders two numbers by their values; `1` and `1.0` are equal.
pub(super) fn order(one: &Number, other: &Number) -> Ordering {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(one), None) => order_mixed(one, float(other)),
        (None, Some(other)) => order_mixed(other, float(one)).reverse(),
        (None, None) => float(one)
            .partial_cmp(&float(other))
            .unwrap_or(Ordering::Equal),
    }
}

fn order_mixed(whole: i128, float: f64) -> Ordering {
    // The cast saturates far beyond 64 bits, and is exact below.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates beyond every whole number of 64 bits"
    )]
    let below = float.floor() as i128;
    whole.cmp(&below).then(if float.fract() == 0.0 {
        Ordering::Equal
    } else {
        Ordering::Less
    })
}

/// Returns the absolute value.
pub(super) fn abs(number: &Number) -> Option<Number> {
    match whole(number) {
        Some(whole) => from_whole(whole.abs()),
        None => Number::from_f64(float(number).abs()),
    }
}

/// Rounds to a whole number; the result is a whole number if it fits into 64 bits, else a float.
pub(super) fn rounded(number: &Number, round: fn(f64) -> f64) -> Option<Number> {
    if whole(number).is_some() {
        return Some(number.clone());
    }
    let rounded = round(float(number));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "saturates, and is then beyond 64 bits"
    )]
    from_whole(rounded as i128).or_else(|| Number::from_f64(rounded))
}

/// Returns the sum: exact for whole numbers (`None` beyond 64 bits), a float if any number is one.
pub(super) fn sum(numbers: &[&Number]) -> Option<Number> {
    match numbers
        .iter()
        .map(|number| whole(number))
        .collect::<Option<Vec<i128>>>()
    {
        Some(wholes) => from_whole(wholes.iter().sum()),
        None => Number::from_f64(numbers.iter().map(|number| float(number)).sum()),
    }
}
