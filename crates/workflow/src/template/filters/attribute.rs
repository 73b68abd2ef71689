//! The attribute of items that a filter works on.

use minijinja::{Error, Value};

use crate::template::error::invalid;

/// The attribute of items that a filter works on, or the items themselves.
pub(super) struct Attribute {
    /// A path with dots, or an index.
    path: Option<Value>,
    /// The value of items without it.
    default: Option<Value>,
}

impl Attribute {
    pub(super) fn new(path: Option<Value>, default: Option<Value>) -> Self {
        let path = path.filter(|path| !path.is_none());
        Self { path, default }
    }

    /// Returns the attribute of an item.
    ///
    /// # Errors
    /// Returned if the item has none, and there is no default.
    pub(super) fn of(&self, item: &Value) -> Result<Value, Error> {
        let Some(path) = &self.path else {
            return Ok(item.clone());
        };
        let found = match path.as_str() {
            None => item.get_item(path)?,
            Some(path) => path.split('.').try_fold(item.clone(), |value, part| {
                match part.parse::<usize>() {
                    Ok(index) => value.get_item(&Value::from(index)),
                    Err(_) => value.get_item(&Value::from(part)),
                }
            })?,
        };
        match (found.is_undefined(), &self.default) {
            (false, _) => Ok(found),
            (true, Some(default)) => Ok(default.clone()),
            (true, None) => Err(invalid(format!(
                "an item has no `{path}`: leave such items out with `selectattr('{path}', 'defined')`"
            ))),
        }
    }

    /// Returns the items with their attributes, which are in lower case unless the case counts.
    pub(super) fn keyed(
        &self,
        items: Vec<Value>,
        is_case_sensitive: bool,
    ) -> Result<Vec<(Value, Value)>, Error> {
        let keyed = |item: Value| Ok((folded(self.of(&item)?, is_case_sensitive), item));
        items.into_iter().map(keyed).collect()
    }
}

/// Returns a text in lower case unless the case counts, and any other value as it is.
pub(super) fn folded(value: Value, is_case_sensitive: bool) -> Value {
    match value.as_str() {
        Some(text) if !is_case_sensitive => Value::from(text.to_lowercase()),
        _ => value,
    }
}
