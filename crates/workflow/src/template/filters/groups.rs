//! The filter `groupby`.

use minijinja::{Environment, Error, State, Value};

use super::arguments::{self, Given};
use super::attribute::Attribute;
use crate::template::error::invalid;
use crate::template::group::Group;
use crate::template::order;

pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter("groupby", groupby);
}

fn groupby(state: &State, value: Value, given: Given) -> Result<Value, Error> {
    let names = ["attribute", "default", "case_sensitive"];
    let [attribute, default, case_sensitive] = arguments::read(given, names)?;
    let attribute = attribute.ok_or_else(|| invalid("groupby: the attribute is missing"))?;
    let attribute = Attribute::new(Some(attribute), default);
    let is_case_sensitive = arguments::is_set(case_sensitive);
    let keyed = attribute.keyed(super::items(state, value)?, is_case_sensitive)?;
    let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
    for (key, item) in order::sort(keyed, false)? {
        match groups.last_mut() {
            Some((last, items)) if *last == key => items.push(item),
            _ => groups.push((key, vec![item])),
        }
    }
    // The key in its own case is that of the first item.
    let group = |(_, items): (Value, Vec<Value>)| {
        let grouper = attribute.of(&items[0])?;
        let list = Value::from(items);
        Ok(Value::from_object(Group { grouper, list }))
    };
    let groups: Result<Vec<Value>, Error> = groups.into_iter().map(group).collect();
    groups.map(Value::from)
}
