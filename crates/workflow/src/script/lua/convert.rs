//! Conversion between JSON and the values of Lua.

use mlua::{Lua, Table};
use serde_json::{Map, Value};

use super::super::convert::Unrepresentable;
use super::super::wire::MAX_DEPTH;

/// The maximum number of missing items of a table that becomes a list.
const MAX_MISSING: usize = 10_000;

/// Returns a JSON value as a value of Lua; null becomes nil, so a key with null is missing.
///
/// # Errors
/// A message about an integer beyond 63 bits; an error of Lua if it runs out of memory.
pub(super) fn into_lua(lua: &Lua, value: &Value) -> mlua::Result<mlua::Value> {
    Ok(match value {
        Value::Null => mlua::Value::Nil,
        Value::Bool(it) => mlua::Value::Boolean(*it),
        Value::Number(it) => match (it.as_i64(), it.as_u64()) {
            (Some(integer), _) => mlua::Value::Integer(integer),
            (None, Some(integer)) => {
                return Err(mlua::Error::runtime(format!(
                    "the state holds {integer}, and integers of Lua end at {}: make it text before",
                    i64::MAX
                )));
            }
            (None, None) => mlua::Value::Number(it.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(it) => mlua::Value::String(lua.create_string(it)?),
        Value::Array(items) => {
            let table = lua.create_table()?;
            for (position, item) in (1_i64..).zip(items) {
                table.raw_set(position, into_lua(lua, item)?)?;
            }
            mlua::Value::Table(table)
        }
        Value::Object(map) => mlua::Value::Table(table(lua, map)?),
    })
}

/// Returns a JSON object as a table.
///
/// # Errors
/// Those of [`into_lua`].
pub(super) fn table(lua: &Lua, map: &Map<String, Value>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (key, value) in map {
        table.raw_set(key.as_str(), into_lua(lua, value)?)?;
    }
    Ok(table)
}

/// Converts values of Lua to JSON, up to a maximum number of them.
///
/// A table can contain another one many times, so a small value of Lua may be a huge one of JSON.
pub(super) struct JsonConverter {
    /// The remaining number of values.
    left: u64,
}

impl JsonConverter {
    /// Creates a reader of at most `maximum` values.
    pub(super) fn new(maximum: u64) -> Self {
        Self { left: maximum }
    }

    /// Combines the values that a block returned into one.
    ///
    /// # Errors
    /// The first part that JSON cannot represent.
    pub(super) fn returned(&mut self, values: Vec<mlua::Value>) -> Result<Value, Unrepresentable> {
        let mut values = values;
        match values.len() {
            0 | 1 => self.value(values.pop().unwrap_or_default(), MAX_DEPTH),
            _ => values
                .into_iter()
                .map(|value| self.value(value, MAX_DEPTH - 1))
                .collect::<Result<Vec<_>, _>>()
                .map(Value::Array),
        }
    }

    fn value(&mut self, value: mlua::Value, depth: usize) -> Result<Value, Unrepresentable> {
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| Unrepresentable::new("a part of too many values; return less"))?;
        match value {
            mlua::Value::Nil => Ok(Value::Null),
            mlua::Value::Boolean(it) => Ok(Value::Bool(it)),
            mlua::Value::Integer(it) => Ok(Value::from(it)),
            mlua::Value::Number(it) => number(it),
            mlua::Value::String(it) => text(&it).map(Value::String),
            mlua::Value::Table(it) => self.table(&it, depth),
            other => Err(Unrepresentable::new(format!(
                "a {}; return text, numbers, booleans and tables",
                other.type_name()
            ))),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<Value, Unrepresentable> {
        let depth = depth.checked_sub(1).ok_or_else(|| {
            Unrepresentable::new(format!("nested more than {MAX_DEPTH} levels deep"))
        })?;
        let pairs: Vec<(mlua::Value, mlua::Value)> =
            table.pairs().collect::<Result<_, _>>().map_err(|error| {
                Unrepresentable::new(format!("a table that cannot be read: {error}"))
            })?;
        match positions(&pairs) {
            Some(last) if !pairs.is_empty() => self.list(pairs, last, depth),
            _ => self.object(pairs, depth),
        }
    }

    fn list(
        &mut self,
        pairs: Vec<(mlua::Value, mlua::Value)>,
        last: usize,
        depth: usize,
    ) -> Result<Value, Unrepresentable> {
        // A single large index must not make a list of that length.
        if last - pairs.len() > MAX_MISSING {
            return Err(Unrepresentable::new(format!(
                "a list of {} items with {last} as the last index; use text as keys: tostring(index)",
                pairs.len()
            )));
        }
        let mut list = vec![Value::Null; last];
        for (key, value) in pairs {
            let Some(position) = position(&key) else {
                continue;
            };
            let value = self.value(value, depth);
            list[position - 1] =
                value.map_err(|unrepresentable| unrepresentable.within(format!("[{position}]")))?;
        }
        Ok(Value::Array(list))
    }

    /// Returns an object with its keys sorted as text, because the order of a table differs from run to
    /// run.
    fn object(
        &mut self,
        pairs: Vec<(mlua::Value, mlua::Value)>,
        depth: usize,
    ) -> Result<Value, Unrepresentable> {
        let mut fields = Vec::with_capacity(pairs.len());
        for (key, value) in pairs {
            let key = key_text(&key)?;
            let value = self.value(value, depth);
            let value =
                value.map_err(|unrepresentable| unrepresentable.within(format!("[{key:?}]")))?;
            fields.push((key, value));
        }
        // Tables have no order of keys. Sorted, equal tables are equal JSON.
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(duplicate) = fields.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let key = &duplicate[0].0;
            return Err(Unrepresentable::new(format!(
                "a table with the keys {key} and {key:?}, which are the same key in JSON"
            )));
        }
        Ok(Value::Object(fields.into_iter().collect()))
    }
}

/// Returns the highest index, if all keys are indices.
fn positions(pairs: &[(mlua::Value, mlua::Value)]) -> Option<usize> {
    pairs
        .iter()
        .map(|(key, _)| position(key))
        .try_fold(0, |last, position| Some(last.max(position?)))
}

fn position(key: &mlua::Value) -> Option<usize> {
    key.as_integer()
        .and_then(|index| usize::try_from(index).ok())
        .filter(|index| *index > 0)
}

/// Converts a number; a whole float becomes an integer, just as Lua treats the key `3.0` as 3.
fn number(number: f64) -> Result<Value, Unrepresentable> {
    // The largest float below 2^63 fits into an i64, and 2^63 does not.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-BOUND..BOUND).contains(&number) {
        return Ok(Value::from(number as i64));
    }
    serde_json::Number::from_f64(number)
        .map(Value::Number)
        .ok_or_else(|| {
            Unrepresentable::new(format!(
                "the number {number}, which JSON does not have; return nil or text instead"
            ))
        })
}

fn text(text: &mlua::LuaString) -> Result<String, Unrepresentable> {
    text.to_str().map(|text| text.to_owned()).map_err(|_| {
        Unrepresentable::new("text that is not UTF-8; return it in another form, such as hex")
    })
}

fn key_text(key: &mlua::Value) -> Result<String, Unrepresentable> {
    match key {
        mlua::Value::String(it) => {
            text(it).map_err(|_| Unrepresentable::new("a table with a key that is not UTF-8"))
        }
        mlua::Value::Integer(it) => Ok(it.to_string()),
        other => Err(Unrepresentable::new(format!(
            "a table with a key that is a {}; keys must be text: tostring(key)",
            other.type_name()
        ))),
    }
}
