//! JSON Schema of declared tables.

use serde_json::{Map, Value, json};

use super::{Custom, Literal, Parameter, ParameterKind, Table};

impl Table {
    /// Returns the JSON Schema of the mapping. If `variables` is set, every value that is not text may also
    /// be a reference to an environment variable (`${NAME}`).
    #[must_use]
    pub fn schema(&self, variables: bool) -> Value {
        let mut properties = Map::new();
        for parameter in self
            .parameters()
            .filter(|parameter| parameter.is_documented())
        {
            properties.insert(parameter.name.to_owned(), parameter.schema(variables));
            for alias in parameter.aliases {
                let mut schema = parameter.kind.schema(variables);
                schema["description"] = format!("The same as `{}`.", parameter.name).into();
                properties.insert((*alias).to_owned(), schema);
            }
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        if !self.doc.is_empty() {
            schema["description"] = self.doc.into();
        }
        if !self.open {
            schema["additionalProperties"] = false.into();
        }
        require(&mut schema, self.parameters());
        schema
    }
}

/// Returns the JSON Schema of the arguments of an operation. `doc` describes the operation.
#[must_use]
pub fn arguments_schema(doc: &str, parameters: &[Parameter]) -> Value {
    let mut properties = Map::new();
    for parameter in parameters {
        for spelling in parameter.spellings() {
            let mut schema = parameter.argument_schema();
            if spelling != parameter.name {
                schema["description"] = format!("The same as `{}`.", parameter.name).into();
            }
            properties.insert(spelling.to_owned(), schema);
        }
    }
    let mut schema = json!({
        "description": doc,
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    require(&mut schema, parameters.iter());
    schema
}

/// Returns the JSON Schema of the arguments of a tool. Unlike those of [`arguments_schema`], they are not
/// rendered from templates, so each has to be of its kind.
#[must_use]
pub fn tool_schema(parameters: &[Parameter]) -> Value {
    let properties: Map<String, Value> = parameters
        .iter()
        .map(|parameter| (parameter.name.to_owned(), parameter.schema(false)))
        .collect();
    let mut schema = json!({ "type": "object", "properties": properties });
    require(&mut schema, parameters.iter());
    schema["additionalProperties"] = false.into();
    schema
}

/// Demands one spelling of each required parameter.
fn require<'a>(schema: &mut Value, parameters: impl Iterator<Item = &'a Parameter>) {
    let (mut names, mut choices) = (Vec::new(), Vec::new());
    for parameter in parameters.filter(|parameter| parameter.required) {
        if parameter.aliases.is_empty() {
            names.push(parameter.name)
        } else {
            let spellings = parameter.spellings();
            let any: Vec<Value> = spellings
                .map(|name| json!({ "required": [name] }))
                .collect();
            choices.push(json!({ "anyOf": any }));
        }
    }
    if !names.is_empty() {
        schema["required"] = names.into();
    }
    if !choices.is_empty() {
        schema["allOf"] = choices.into();
    }
}

impl Parameter {
    /// Returns the JSON Schema of the value, with its description and default.
    #[must_use]
    pub fn schema(&self, variables: bool) -> Value {
        let mut schema = self.kind.schema(variables);
        if !self.doc.is_empty() {
            schema["description"] = self.description().into();
        }
        if let Some(default) = self.default.map(Literal::to_value) {
            schema["default"] = default;
        }
        schema
    }

    /// Returns the JSON Schema of the parameter as an argument. Text is always accepted, because it can be
    /// a template or the text of a number.
    #[must_use]
    pub fn argument_schema(&self) -> Value {
        let kinds = match self.kind.basic() {
            ParameterKind::Text => json!(["string", "number", "boolean", "null"]),
            ParameterKind::Integer => json!(["integer", "string", "null"]),
            ParameterKind::Number | ParameterKind::Duration(_) => {
                json!(["number", "string", "null"])
            }
            ParameterKind::Boolean => json!(["boolean", "string", "null"]),
            ParameterKind::Object => json!(["object", "string", "null"]),
            ParameterKind::List => json!(["array", "string", "null"]),
            _ => return json!({ "description": self.description() }),
        };
        json!({ "description": self.description(), "type": kinds })
    }
}

impl ParameterKind {
    /// Returns the JSON Schema of the values, without a description.
    #[must_use]
    pub fn schema(self, variables: bool) -> Value {
        let schema = match self {
            Self::Text => json!({ "type": "string" }),
            Self::Integer => json!({ "type": "integer" }),
            Self::Number => json!({ "type": "number" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::Object => json!({ "type": "object" }),
            Self::List => json!({ "type": "array" }),
            Self::Any | Self::NoEffect(_) | Self::Unsupported(_) => json!({}),
            Self::Word(words) => json!({ "enum": words }),
            Self::IntegerIn(least, u64::MAX) => json!({ "type": "integer", "minimum": least }),
            Self::IntegerIn(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Self::NumberIn(least, most) => {
                let mut schema = json!({ "type": "number" });
                for (bound, number) in [("minimum", least), ("maximum", most)] {
                    if number.is_finite() {
                        schema[bound] = number.into();
                    }
                }
                schema
            }
            Self::Duration(range) => range.schema(),
            Self::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            Self::Scalars { null } => {
                let types: &[&str] = if null {
                    &["string", "number", "boolean", "null"]
                } else {
                    &["string", "number", "boolean"]
                };
                json!({ "type": "object", "additionalProperties": { "type": types } })
            }
            Self::Table(table) | Self::Deferred(table) => table.schema(variables),
            Self::Tables(table) => {
                json!({ "type": "object", "additionalProperties": table.schema(variables) })
            }
            Self::Definition(name, _) => json!({ "$ref": format!("#/$defs/{name}") }),
            Self::Custom(Custom { schema, .. }) => schema.map_or_else(|| json!({}), |of| of()),
        };
        let is_scalar = matches!(self.basic(), Self::Integer | Self::Number | Self::Boolean)
            || matches!(self, Self::Word(_) | Self::Duration(_));
        if variables && is_scalar {
            json!({ "anyOf": [schema, { "type": "string", "pattern": "^\\$\\{" }] })
        } else {
            schema
        }
    }
}
