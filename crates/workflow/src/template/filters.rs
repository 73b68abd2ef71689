//! Filters with the semantics of Jinja2, where those of the engine differ.

mod arguments;
mod attribute;
mod groups;
mod lists;
mod numbers;
mod texts;

use minijinja::{Environment, Error, State, Value};

use super::bounds;
use super::operators::checked_undefined;

/// Adds the filters to an engine.
pub(super) fn install(environment: &mut Environment<'static>) {
    numbers::install(environment);
    lists::install(environment);
    groups::install(environment);
    texts::install(environment);
    environment.add_filter("filesizeformat", minijinja_contrib::filters::filesizeformat);
    environment.add_filter("default", default);
    environment.add_filter("d", default);
}

fn default(value: Value, given: arguments::Given) -> Result<Value, Error> {
    let [default, boolean] = arguments::read(given, ["default_value", "boolean"])?;
    if value.is_undefined() || (arguments::is_set(boolean) && !value.is_true()) {
        Ok(default.unwrap_or_else(|| Value::from("")))
    } else {
        Ok(value)
    }
}

/// Returns the items of a list, the keys of a mapping, or the characters of a text.
fn items(state: &State, value: Value) -> Result<Vec<Value>, Error> {
    checked_undefined(state, &value)?;
    bounds::check(&value)?;
    Ok(value.try_iter()?.collect())
}
