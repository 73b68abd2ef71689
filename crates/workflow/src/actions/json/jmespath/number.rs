//! Numbers of JSON: whole ones of 64 bits, and floats, compared and added without rounding a whole one.

use std::cmp::Ordering;

use serde_json::Number;

/// The whole number, if it is one.
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

/// The order of two numbers by their values; `1` and `1.0` are equal.
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
    // Saturates far beyond 64 bits, and is exact where it does not.
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

/// Without its sign.
pub(super) fn abs(number: &Number) -> Option<Number> {
    match whole(number) {
        Some(whole) => from_whole(whole.abs()),
        None => Number::from_f64(float(number).abs()),
    }
}

/// Rounded to a whole number, which it then is if 64 bits hold it.
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

/// The sum: exact for whole numbers (`None` beyond 64 bits), a float if one of them is.
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
