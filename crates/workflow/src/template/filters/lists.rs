//! Filters of lists and mappings.

use std::cmp::Ordering;
use std::collections::HashSet;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Environment, Error, State, Value, filters};

use super::arguments::{self, Given};
use super::attribute::{Attribute, folded};
use super::items;
use crate::template::error::invalid;
use crate::template::operators::checked_undefined;
use crate::template::{bounds, order, printing};

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter("min", min);
    environment.add_filter("max", max);
    environment.add_filter("sort", sort);
    environment.add_filter("unique", unique);
    environment.add_filter("sum", sum);
    environment.add_filter("dictsort", dictsort);
    environment.add_filter("join", join);
}

fn min(state: &State, value: Value, given: Given) -> Result<Value, Error> {
    extreme(state, value, given, Ordering::Less)
}

fn max(state: &State, value: Value, given: Given) -> Result<Value, Error> {
    extreme(state, value, given, Ordering::Greater)
}

/// Returns the first item that no other one is before in the order; an undefined value if there are none.
fn extreme(state: &State, value: Value, given: Given, first: Ordering) -> Result<Value, Error> {
    let [case_sensitive, attribute] = arguments::read(given, ["case_sensitive", "attribute"])?;
    let attribute = Attribute::new(attribute, None);
    let keyed = attribute.keyed(items(state, value)?, arguments::is_set(case_sensitive))?;
    let mut best: Option<(Value, Value)> = None;
    for (key, item) in keyed {
        let is_better = match &best {
            None => true,
            Some((best, _)) => order::compare(&key, best)? == first,
        };
        if is_better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

fn sort(state: &State, value: Value, given: Given) -> Result<Value, Error> {
    let names = ["reverse", "case_sensitive", "attribute"];
    let [reverse, case_sensitive, attribute] = arguments::read(given, names)?;
    let is_case_sensitive = arguments::is_set(case_sensitive);
    let items = items(state, value)?;
    let keyed = match attribute.as_ref().and_then(|names| names.as_str()) {
        Some(names) if names.contains(',') => {
            let attributes: Vec<Attribute> = names
                .split(',')
                .map(|name| Attribute::new(Some(Value::from(name.trim())), None))
                .collect();
            let key = |item: Value| {
                let parts = attributes.iter();
                let parts: Result<Vec<Value>, Error> = parts
                    .map(|attribute| Ok(folded(attribute.of(&item)?, is_case_sensitive)))
                    .collect();
                Ok((Value::from(parts?), item))
            };
            items.into_iter().map(key).collect::<Result<_, Error>>()?
        }
        _ => Attribute::new(attribute, None).keyed(items, is_case_sensitive)?,
    };
    let sorted = order::sort(keyed, arguments::is_set(reverse))?;
    Ok(sorted.into_iter().map(|(_, item)| item).collect())
}

fn unique(state: &State, value: Value, given: Given) -> Result<Value, Error> {
    let [case_sensitive, attribute] = arguments::read(given, ["case_sensitive", "attribute"])?;
    let attribute = Attribute::new(attribute, None);
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for (key, item) in attribute.keyed(items(state, value)?, arguments::is_set(case_sensitive))? {
        if seen.insert(identity(&key)?) {
            found.push(item);
        }
    }
    Ok(Value::from(found))
}

/// Returns a text that two values have in common if they are equal and Python can hash them.
fn identity(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::String => Ok(format!("'{value}")),
        // `1.0`, `1` and `true` are equal.
        ValueKind::Bool => Ok(u8::from(value.is_true()).to_string()),
        ValueKind::Number => match i128::try_from(value.clone()) {
            Ok(whole) => Ok(whole.to_string()),
            Err(_) => Ok(value.to_string()),
        },
        ValueKind::Seq if value.is_tuple() => {
            let parts: Result<Vec<String>, Error> =
                value.try_iter()?.map(|item| identity(&item)).collect();
            Ok(format!("({:?})", parts?))
        }
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => Err(invalid(
            "unique compares texts and numbers, not lists and mappings: name an attribute of them",
        )),
        _ => Ok(printing::text(value)),
    }
}

fn sum(state: &State, value: Value, given: Given) -> Result<Value, Error> {
    let [attribute, start] = arguments::read(given, ["attribute", "start"])?;
    let attribute = Attribute::new(attribute, None);
    let numbers = items(state, value)?;
    let numbers: Result<Vec<Value>, Error> =
        numbers.iter().map(|item| attribute.of(item)).collect();
    filters::sum(state, Value::from(numbers?), None, start, arguments::none())
}

fn dictsort(value: Value, given: Given) -> Result<Value, Error> {
    let [case_sensitive, by, reverse] =
        arguments::read(given, ["case_sensitive", "by", "reverse"])?;
    if value.kind() != ValueKind::Map {
        return Err(invalid(format!(
            "dictsort takes a mapping, not a {}",
            value.kind()
        )));
    }
    let by_value = match by.as_ref().map_or(Some("key"), |by| by.as_str()) {
        Some("key") => false,
        Some("value") => true,
        _ => return Err(invalid("dictsort: `by` is neither `key` nor `value`")),
    };
    let is_case_sensitive = arguments::is_set(case_sensitive);
    let keyed = value.try_iter()?.map(|key| {
        let field = value.get_item(&key)?;
        let sorted = if by_value { field.clone() } else { key.clone() };
        let pair = Value::from(Tuple::from([key, field]));
        Ok((folded(sorted, is_case_sensitive), pair))
    });
    let keyed = keyed.collect::<Result<Vec<_>, Error>>()?;
    let sorted = order::sort(keyed, arguments::is_set(reverse))?;
    Ok(sorted.into_iter().map(|(_, pair)| pair).collect())
}

fn join(state: &State, value: Value, given: Given) -> Result<String, Error> {
    let [joiner, attribute] = arguments::read(given, ["d", "attribute"])?;
    let joiner = joiner.as_ref().map(printing::text).unwrap_or_default();
    let attribute = Attribute::new(attribute, None);
    let items = items(state, value)?;
    // Before any text is made: a long separator could fill the memory.
    bounds::check_size(joiner.len().checked_mul(items.len()))?;
    let parts: Result<Vec<String>, Error> = items
        .iter()
        .map(|item| {
            let part = attribute.of(item)?;
            checked_undefined(state, &part)?;
            Ok(printing::text(&part))
        })
        .collect();
    Ok(parts?.join(&joiner))
}
