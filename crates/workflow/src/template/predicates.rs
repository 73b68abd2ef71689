//! Tests (`is …`) with the semantics of Jinja2, where those of the engine differ.

use std::cmp::Ordering;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, Value, tests};

use super::error::invalid;
use super::{operators, order};

/// Adds the tests to an engine.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_test("sequence", is_sequence);
    // A field that is not set is none, as a lone expression makes it.
    environment.add_test("none", |value: Value| {
        value.is_none() || value.is_undefined()
    });
    environment.add_test("even", |value: Value| number(value).map(tests::is_even));
    environment.add_test("odd", |value: Value| number(value).map(tests::is_odd));
    environment.add_test("in", |value: Value, container: Value| {
        operators::contains(&container, &value)
    });
    type Holds = fn(Ordering) -> bool;
    let comparisons: [(&[&'static str], Holds); 4] = [
        (&["lt", "lessthan", "<"], Ordering::is_lt),
        (&["le", "<="], Ordering::is_le),
        (&["gt", "greaterthan", ">"], Ordering::is_gt),
        (&["ge", ">="], Ordering::is_ge),
    ];
    for (names, holds) in comparisons {
        for name in names {
            environment.add_test(*name, move |left: Value, right: Value| {
                order::compare(&left, &right).map(holds)
            });
        }
    }
}

/// True for what has a length and items: lists, texts, and mappings, too.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Iterable => value.len().is_some(),
        kind => matches!(kind, ValueKind::Seq | ValueKind::String | ValueKind::Map),
    }
}

fn number(value: Value) -> Result<Value, Error> {
    if value.is_number() || value.kind() == ValueKind::Bool {
        Ok(value)
    } else {
        Err(invalid(format!(
            "a {} is neither even nor odd: convert it with `int`",
            value.kind()
        )))
    }
}
