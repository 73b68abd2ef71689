//! The order of values: that of Python, in which most values of two types have none.

use std::cmp::Ordering;

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::error::{defined, invalid};
use super::printing;

/// Compares two values.
///
/// # Errors
/// Returned for values that have no order: of two types, mappings, none, undefined ones.
pub(super) fn compare(left: &Value, right: &Value) -> Result<Ordering, Error> {
    defined(left)?;
    defined(right)?;
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return Ok(left.cmp(&right));
    }
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return Ok(left.cmp(right));
    }
    if is_list(left) && is_list(right) && left.is_tuple() == right.is_tuple() {
        return compare_items(left, right);
    }
    Err(invalid(format!(
        "{} and {} have no order: convert them with `int`, `float` or `string`, or replace them with `default(…, true)`",
        described(left),
        described(right)
    )))
}

fn compare_items(left: &Value, right: &Value) -> Result<Ordering, Error> {
    let (mut left, mut right) = (left.try_iter()?, right.try_iter()?);
    loop {
        match (left.next(), right.next()) {
            (Some(left), Some(right)) if left == right => {}
            (Some(left), Some(right)) => return compare(&left, &right),
            (left, right) => return Ok(left.is_some().cmp(&right.is_some())),
        }
    }
}

/// Returns a number, or 0 or 1 for a boolean.
fn number(value: &Value) -> Option<Value> {
    match value.kind() {
        ValueKind::Bool => Some(Value::from(i64::from(value.is_true()))),
        ValueKind::Number => Some(value.clone()),
        _ => None,
    }
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// Describes a value in a message. It does not print texts, lists and mappings, which may be long or secret.
fn described(value: &Value) -> String {
    match value.kind() {
        ValueKind::String => "a text".to_owned(),
        ValueKind::Seq | ValueKind::Iterable => "a list".to_owned(),
        ValueKind::Map => "a mapping".to_owned(),
        ValueKind::Number => "a number".to_owned(),
        _ => printing::text(value),
    }
}

/// Sorts items by their keys; equal ones keep their order, also in reverse. The sort of the standard library takes no
/// comparison that fails.
///
/// # Errors
/// Returned for keys without an order.
pub(super) fn sort(
    mut items: Vec<(Value, Value)>,
    is_reverse: bool,
) -> Result<Vec<(Value, Value)>, Error> {
    if items.len() < 2 {
        return Ok(items);
    }
    let right = items.split_off(items.len() / 2);
    let mut merged = Vec::with_capacity(items.len() + right.len());
    let mut left = sort(items, is_reverse)?.into_iter().peekable();
    let mut right = sort(right, is_reverse)?.into_iter().peekable();
    let is_first: fn(Ordering) -> bool = if is_reverse {
        Ordering::is_gt
    } else {
        Ordering::is_lt
    };
    while let (Some((left_key, _)), Some((right_key, _))) = (left.peek(), right.peek()) {
        let takes_right = is_first(compare(right_key, left_key)?);
        merged.extend(if takes_right {
            right.next()
        } else {
            left.next()
        });
    }
    merged.extend(left);
    merged.extend(right);
    Ok(merged)
}
