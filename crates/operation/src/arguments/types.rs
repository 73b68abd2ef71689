//! The set of types that a schema admits, as far as its keywords are supported here.

use serde_json::Value;

use super::lossless_value::LosslessValue;
use super::number;

/// Maximum number of references that are followed.
const MAX_REFERENCES: usize = 16;

/// A set of JSON types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
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

    pub(super) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn from_name(name: &str) -> Self {
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
    pub(super) fn admit(self, given: &LosslessValue) -> bool {
        match given {
            LosslessValue::Null => self.contains(Self::NULL),
            LosslessValue::Boolean(_) => self.contains(Self::BOOLEAN),
            LosslessValue::Text(_) => self.contains(Self::STRING),
            LosslessValue::List(_) => self.contains(Self::ARRAY),
            LosslessValue::Fields(_) => self.contains(Self::OBJECT),
            LosslessValue::Number(lexeme) if number::is_written_as_integer(lexeme) => {
                self.contains(Self::INTEGER) && number::integer(lexeme).is_some()
            }
            LosslessValue::Number(_) | LosslessValue::NonInteger(_) => self.contains(Self::NUMBER),
        }
    }

    /// Returns the types that `schema` admits; all types if it does not restrict them.
    pub(super) fn of_schema(schema: &Value, root: &Value) -> Self {
        Self::within(schema, root, MAX_REFERENCES)
    }

    fn within(schema: &Value, root: &Value, hops: usize) -> Self {
        let Some(fields) = schema.as_object() else {
            return Self::ANY;
        };
        let Some(hops) = hops.checked_sub(1) else {
            return Self::ANY;
        };
        let mut types = match fields.get("type") {
            Some(Value::String(name)) => Self::from_name(name),
            Some(Value::Array(names)) => names
                .iter()
                .filter_map(Value::as_str)
                .fold(Self::NONE, |all, name| all.union(Self::from_name(name))),
            _ => Self::ANY,
        };
        if fields.contains_key("type") && fields.get("nullable") == Some(&Value::Bool(true)) {
            types = types.union(Self::NULL);
        }
        if let Some(options) = fields.get("enum").and_then(Value::as_array) {
            types = types.intersection(
                options
                    .iter()
                    .fold(Self::NONE, |all, option| all.union(Self::of_value(option))),
            );
        }
        if let Some(value) = fields.get("const") {
            types = types.intersection(Self::of_value(value));
        }
        if let Some(reference_target) = reference_target(schema, root) {
            types = types.intersection(Self::within(reference_target, root, hops));
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(branches) = fields.get(word).and_then(Value::as_array) {
                types = types.intersection(branches.iter().fold(Self::NONE, |all, branch| {
                    all.union(Self::within(branch, root, hops))
                }));
            }
        }
        for part in fields
            .get("allOf")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            types = types.intersection(Self::within(part, root, hops));
        }
        types
    }
}

/// Returns the target of a schema's `$ref`, if it is in the same document.
pub(super) fn reference_target<'a>(schema: &Value, root: &'a Value) -> Option<&'a Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(pointer)
}

/// Follows the references of `schema`.
pub(super) fn resolve_reference<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFERENCES {
        match reference_target(schema, root) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}
