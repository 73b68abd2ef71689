//! The set of types that a schema admits, as far as its keywords are supported here.

use serde_json::Value;

use super::given::Given;
use super::number;

/// Maximum number of references that are followed.
const HOPS: usize = 16;

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    /// Integers are numbers.
    pub(super) const NUMBER: Self = Self(8 | 4);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);
    pub(super) const ANY: Self = Self(127);
    const NONE: Self = Self(0);

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::NONE,
        }
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// True if a value may stay as it is. `5.0` is a number. JSON Schema versions disagree whether it is an
    /// integer, so it is cast.
    pub(super) fn admit(self, given: &Given) -> bool {
        match given {
            Given::Null => self.has(Self::NULL),
            Given::Boolean(_) => self.has(Self::BOOLEAN),
            Given::Text(_) => self.has(Self::STRING),
            Given::List(_) => self.has(Self::ARRAY),
            Given::Fields(_) => self.has(Self::OBJECT),
            Given::Number(lexeme) if number::is_written_as_integer(lexeme) => {
                self.has(Self::INTEGER) && number::integer(lexeme).is_some()
            }
            Given::Number(_) | Given::NoInteger(_) => self.has(Self::NUMBER),
        }
    }

    /// Returns the types that `schema` admits; all types if it does not restrict them.
    pub(super) fn of(schema: &Value, root: &Value) -> Self {
        Self::within(schema, root, HOPS)
    }

    fn within(schema: &Value, root: &Value, hops: usize) -> Self {
        let Some(fields) = schema.as_object() else {
            return Self::ANY;
        };
        let Some(hops) = hops.checked_sub(1) else {
            return Self::ANY;
        };
        let mut types = match fields.get("type") {
            Some(Value::String(name)) => Self::named(name),
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(Self::NONE, |all, name| all.or(Self::named(name))),
            _ => Self::ANY,
        };
        if fields.contains_key("type") && fields.get("nullable") == Some(&Value::Bool(true)) {
            types = types.or(Self::NULL);
        }
        if let Some(options) = fields.get("enum").and_then(Value::as_array) {
            types = types.and(
                options
                    .iter()
                    .fold(Self::NONE, |all, option| all.or(Self::of_value(option))),
            );
        }
        if let Some(value) = fields.get("const") {
            types = types.and(Self::of_value(value));
        }
        if let Some(target) = target(schema, root) {
            types = types.and(Self::within(target, root, hops));
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(branches) = fields.get(word).and_then(Value::as_array) {
                types = types.and(branches.iter().fold(Self::NONE, |all, branch| {
                    all.or(Self::within(branch, root, hops))
                }));
            }
        }
        for part in fields
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            types = types.and(Self::within(part, root, hops));
        }
        types
    }
}

/// Returns the target of a schema's `$ref`, if it is in the same document.
pub(super) fn target<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

/// Follows the references of `schema`.
pub(super) fn behind<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..HOPS {
        match target(schema, root) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}
