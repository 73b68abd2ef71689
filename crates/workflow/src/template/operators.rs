//! The operators of Python that the engine's own differ from, as filters: [`super::compile`] puts them in their places.

use std::cmp::Ordering;

use minijinja::value::{DynObject, Rest, Tuple, ValueKind};
use minijinja::{Environment, Error, State, UndefinedBehavior, Value};

use super::error::{defined, invalid};
use super::{bounds, order, printing};

/// The filter for `~`, with the right operand.
pub(super) const CONCAT: &str = "__concat";

/// The filter for a chain of comparisons, with pairs of an operator and its right operand. Outside of a strict engine,
/// no order comparison with an undefined value holds.
pub(super) const COMPARE: &str = "__compare";

/// As [`COMPARE`]; but each order comparison with an undefined value holds.
pub(super) const COMPARE_IN_LOOP: &str = "__compare_in_loop";

/// The filter for `value[start:stop:step]`; parts that are not given are none.
pub(super) const SLICE: &str = "__slice";

/// Adds the filters to an engine.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter(CONCAT, concat);
    environment.add_filter(COMPARE, compare);
    environment.add_filter(COMPARE_IN_LOOP, compare_in_loop);
    environment.add_filter(SLICE, slice);
}

fn concat(state: &State, left: &Value, right: &Value) -> Result<String, Error> {
    for operand in [left, right] {
        checked_undefined(state, operand)?;
        bounds::check(operand)?;
    }
    Ok(printing::text(left) + &printing::text(right))
}

fn compare(state: &State, first: Value, pairs: Rest<Value>) -> Result<bool, Error> {
    chain(state, &first, &pairs, false)
}

fn compare_in_loop(state: &State, first: Value, pairs: Rest<Value>) -> Result<bool, Error> {
    chain(state, &first, &pairs, true)
}

/// Returns the result of a chain of comparisons.
fn chain(
    state: &State,
    first: &Value,
    pairs: &[Value],
    undefined_holds: bool,
) -> Result<bool, Error> {
    let mut left = first;
    for pair in pairs.chunks_exact(2) {
        let [op, right] = pair else { break };
        let op = op.as_str().unwrap_or_default();
        if !holds(state, left, op, right)?.unwrap_or(undefined_holds) {
            return Ok(false);
        }
        left = right;
    }
    Ok(true)
}

/// Returns the result of one comparison; `None` for the order of an undefined value.
fn holds(state: &State, left: &Value, op: &str, right: &Value) -> Result<Option<bool>, Error> {
    checked_undefined(state, left)?;
    checked_undefined(state, right)?;
    match op {
        "==" => Ok(Some(are_equal(left, right))),
        "!=" => Ok(Some(!are_equal(left, right))),
        "in" => contains(right, left).map(Some),
        "not in" => contains(right, left).map(|is_in| Some(!is_in)),
        _ if left.is_undefined() || right.is_undefined() => Ok(None),
        op => {
            let order = order::compare(left, right)?;
            Ok(Some(match op {
                "<" => order == Ordering::Less,
                "<=" => order != Ordering::Greater,
                ">" => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }))
        }
    }
}

/// True if two values are equal. A field that is not set equals none, as a lone expression makes it.
fn are_equal(left: &Value, right: &Value) -> bool {
    let is_nothing = |value: &Value| value.is_none() || value.is_undefined();
    left == right || (is_nothing(left) && is_nothing(right))
}

/// True if an undefined value is an error outside of tests.
fn is_strict(state: &State) -> bool {
    state.undefined_behavior() == UndefinedBehavior::SemiStrict
}

/// Returns an error if a value is undefined, and that is one here.
pub(super) fn checked_undefined(state: &State, value: &Value) -> Result<(), Error> {
    if is_strict(state) {
        defined(value)
    } else {
        Ok(())
    }
}

/// True if a list has an item, a mapping a key, or a text a part. Nothing is in an undefined value.
pub(super) fn contains(container: &Value, value: &Value) -> Result<bool, Error> {
    match container.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::String => match (container.as_str(), value.as_str()) {
            (Some(text), Some(part)) => Ok(text.contains(part)),
            _ => Err(invalid(
                "only a text can be in a text: convert the value before `in` with `string`",
            )),
        },
        ValueKind::Map => {
            let found = |map: &DynObject| map.get_value(value).is_some();
            Ok(container.as_object().is_some_and(found))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            Ok(container.try_iter()?.any(|item| item == *value))
        }
        kind => Err(invalid(format!(
            "nothing can be in a {kind}: a list, a mapping or a text has to stand after `in`"
        ))),
    }
}

fn slice(
    state: &State,
    value: &Value,
    start: &Value,
    stop: &Value,
    step: &Value,
) -> Result<Value, Error> {
    checked_undefined(state, value)?;
    bounds::check(value)?;
    let (start, stop) = (bound(start)?, bound(stop)?);
    let step = bound(step)?.unwrap_or(1);
    if let (ValueKind::String, Some(text)) = (value.kind(), value.as_str()) {
        let characters: Vec<char> = text.chars().collect();
        let part = positions(characters.len(), start, stop, step)?;
        return Ok(Value::from(
            part.map(|at| characters[at]).collect::<String>(),
        ));
    }
    if !matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Undefined
    ) {
        let message = format!(
            "a {} has no parts: `[…:…]` takes a text or a list",
            value.kind()
        );
        return Err(invalid(message));
    }
    let items: Vec<Value> = value.try_iter()?.collect();
    let part = positions(items.len(), start, stop, step)?.map(|at| items[at].clone());
    Ok(if value.is_tuple() {
        Value::from(Tuple::from(part.collect::<Vec<Value>>()))
    } else {
        part.collect()
    })
}

/// Returns a part of a slice; `None` if it is not given.
fn bound(value: &Value) -> Result<Option<i64>, Error> {
    if value.is_none() {
        Ok(None)
    } else {
        Ok(Some(i64::try_from(value.clone())?))
    }
}

/// Returns the positions of a slice in a sequence of this length.
fn positions(
    length: usize,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> Result<impl Iterator<Item = usize>, Error> {
    if step == 0 {
        return Err(invalid(
            "the step of a slice is 0: leave it out, or give another number",
        ));
    }
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    // With a negative step, the position before the first one is -1.
    let (minimum, maximum) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let place = |given: Option<i64>, default: i64| match given {
        None => default,
        Some(at) if at < 0 => (at.saturating_add(length)).max(minimum),
        Some(at) => at.min(maximum),
    };
    let (first, last) = if step > 0 {
        (minimum, maximum)
    } else {
        (maximum, minimum)
    };
    let (start, stop) = (place(start, first), place(stop, last));
    let is_before_stop = move |at: &i64| if step > 0 { *at < stop } else { *at > stop };
    let places = std::iter::successors(Some(start), move |at| at.checked_add(step));
    Ok(places
        .take_while(is_before_stop)
        .filter_map(|at| usize::try_from(at).ok()))
}
