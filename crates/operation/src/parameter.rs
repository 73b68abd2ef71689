//! The declared parameters of an operation.

use std::borrow::Cow;

pub use cachalot_core::config::{Parameter, ParameterKind};
use serde_json::{Map, Value, json};

/// The parameters of an operation: a table, or the JSON Schema of somebody else.
#[derive(Debug, Clone)]
pub enum Parameters {
    /// A declared table.
    Table(&'static [Parameter]),
    /// A JSON Schema of an object.
    Schema(Value),
}

impl From<Value> for Parameters {
    fn from(schema: Value) -> Self {
        Self::Schema(schema)
    }
}

impl Parameters {
    /// Returns the JSON Schema of the arguments: an object. Aliases, words and the
    /// bounds of numbers are not part of it.
    #[must_use]
    pub fn schema(&self) -> Cow<'_, Value> {
        match self {
            Self::Schema(schema) => Cow::Borrowed(schema),
            Self::Table(table) => Cow::Owned(schema(table)),
        }
    }

    /// Returns the declared table; empty for a schema.
    #[must_use]
    pub fn table(&self) -> &'static [Parameter] {
        match self {
            Self::Table(table) => table,
            Self::Schema(_) => &[],
        }
    }
}

/// Returns the JSON Schema of an object with the parameters of a table.
fn schema(table: &[Parameter]) -> Value {
    object_schema(table.iter().map(|parameter| {
        let mut property = parameter.kind.schema(false);
        property["description"] = parameter.doc.into();
        (parameter.name.to_owned(), property, parameter.required)
    }))
}

/// Returns the JSON Schema of an object without further properties. Each property has a name, a schema, and may
/// be required.
pub fn object_schema(properties: impl IntoIterator<Item = (String, Value, bool)>) -> Value {
    let mut schemas = Map::new();
    let mut required = Vec::new();
    for (name, schema, is_required) in properties {
        if is_required {
            required.push(name.clone());
        }
        schemas.insert(name, schema);
    }
    json!({
        "type": "object",
        "properties": schemas,
        "required": required,
        "additionalProperties": false,
    })
}
