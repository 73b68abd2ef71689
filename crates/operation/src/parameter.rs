//! The declared parameters of an operation.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// The type of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text. Numbers and booleans are converted to text.
    Text,
    /// An integer. Text that holds an integer is accepted too, because templates render to text.
    Integer,
    /// A number. Text that holds a number is accepted too.
    Number,
    /// `true` or `false`, also as text.
    Boolean,
    /// A mapping.
    Object,
    /// A list.
    List,
    /// Any value.
    Any,
}

/// One parameter of an action.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The parameter's name.
    pub name: &'static str,
    /// The accepted type. Null means "not given" unless the kind is [`ParameterKind::Any`].
    pub kind: ParameterKind,
    /// Set when leaving the parameter out is a load-time error.
    pub required: bool,
    /// One sentence, for the JSON Schema and the reference documentation.
    pub doc: &'static str,
    /// The names of the parameter in other runtimes. The argument check renames them to `name`, so
    /// actions and cache keys never see an alias.
    pub aliases: &'static [&'static str],
    /// Set when the argument can change the result. An argument that cannot is not part of any cache
    /// key.
    pub keyed: bool,
    /// Names that templates in the argument may use besides those of every template. If there are any,
    /// the action itself renders a text with templates, as often as it likes, and its argument is a
    /// mapping of the template's source and the values that it reads.
    pub late_names: &'static [&'static str],
}

impl Parameter {
    /// Creates an optional parameter that is part of every cache key and has no aliases.
    #[must_use]
    pub const fn optional(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            name,
            kind,
            required: false,
            doc,
            aliases: &[],
            keyed: true,
            late_names: &[],
        }
    }

    /// Creates a required parameter.
    #[must_use]
    pub const fn required(name: &'static str, kind: ParameterKind, doc: &'static str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, kind, doc)
        }
    }

    /// Adds aliases.
    #[must_use]
    pub const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Lets the action render templates in the argument, with these names.
    #[must_use]
    pub const fn rendered_with(self, late_names: &'static [&'static str]) -> Self {
        Self { late_names, ..self }
    }

    /// Leaves the parameter out of cache keys.
    #[must_use]
    pub const fn unkeyed(self) -> Self {
        Self {
            keyed: false,
            ..self
        }
    }

    /// True if `name` is the parameter's name or one of its aliases.
    #[must_use]
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }
}

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
    /// Returns the JSON Schema of the arguments: an object. Aliases are not part of it.
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
    let properties: Map<String, Value> = table
        .iter()
        .map(|parameter| {
            let mut property = parameter.kind.schema();
            property["description"] = parameter.doc.into();
            (parameter.name.to_owned(), property)
        })
        .collect();
    let required: Vec<&str> = table
        .iter()
        .filter(|parameter| parameter.required)
        .map(|parameter| parameter.name)
        .collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

impl ParameterKind {
    /// Returns the JSON Schema of a value of this kind.
    fn schema(self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Integer => json!({ "type": "integer" }),
            Self::Number => json!({ "type": "number" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::Object => json!({ "type": "object" }),
            Self::List => json!({ "type": "array" }),
            Self::Any => json!({}),
        }
    }
}
