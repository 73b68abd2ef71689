//! `validate.extraction`: checks extracted entities and relationships against an extraction schema.

mod schema;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::tree::Node;
use serde_json::{Map, Value, json};

use super::arguments::{CheckedArguments, any, declared_by, kind_name, object};
use super::truthiness::is_true;
use crate::template::printed;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Registry, Runtime};

pub(crate) use schema::Schema;

/// The kind of the failure for an item whose fields cannot be read. `retry.loop` records it as a round that
/// is not valid.
pub(crate) const UNREADABLE: &str = "unreadable_extraction";

#[rustfmt::skip]
pub(crate) static EXTRACTION: OperationMetadata = OperationMetadata::declared(
    "validate.extraction",
    &["actions.validate_extraction"],
    "Checks extracted entities and relationships against an extraction schema. The result has `valid` and `errors`.",
    &[
        any("entities", "The entities, a list of mappings; `state.entities` if it is left out."),
        any("relationships", "The relationships, a list of mappings; `state.relationships` if it is left out."),
        object("schema", "The extraction schema; `extraction_schema` of the file if it is left out."),
        any("source_text", "Accepted, and without effect: only questions to a model would use it.").unkeyed(),
        any("agent_name", "Accepted, and without effect: only a log would contain it.").unkeyed(),
    ],
)
.read_only();

pub(super) struct Extraction;

#[async_trait]
impl Operation for Extraction {
    declared_by!(EXTRACTION);

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&EXTRACTION, &arguments);
        // The loader adds the schema of the file to every call that it can see.
        let schema = given.object("schema")?.ok_or_else(|| {
            given.wrong(
                "schema",
                "is required where the arguments or the name of the action come from a template or a model",
            )
        })?;
        let schema = Schema::from_value(schema).map_err(|problem| {
            let message = problem.message;
            given.wrong("schema", format_args!("is no extraction schema: {message}"))
        })?;
        let mut errors = Vec::new();
        for item in items(&given, "entities")? {
            check_entity(&schema, &item, &mut errors)?;
        }
        for item in items(&given, "relationships")? {
            check_relationship(&schema, &item, &mut errors)?;
        }
        Ok(json!({ "valid": errors.is_empty(), "errors": errors }))
    }
}

impl Action for Extraction {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(written) = with.and_then(|with| with.get("schema"))
            && schema::is_literal_node(written)
            && written.as_map().is_some()
        {
            let _ = Schema::read(written, &mut problems);
        }
        problems
    }
}

/// An entity or a relationship, with its position for messages and errors: `entities[0]`.
struct Item<'a> {
    given: &'a CheckedArguments<'a>,
    path: String,
    value: Value,
}

impl Item<'_> {
    fn path(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    /// Returns the failure for an item that is no mapping.
    fn unreadable(&self) -> Failure {
        unreadable(self.given, &self.path, &self.value, "a mapping")
    }
}

/// Returns the items of an argument. Like an iteration in Python, it yields the characters of a text and the
/// keys of a mapping, and nothing for a value that is false.
fn items<'g>(given: &'g CheckedArguments<'_>, list: &str) -> Result<Vec<Item<'g>>, Failure> {
    let Some(value) = given.value_of(list).filter(|value| is_true(value)) else {
        return Ok(Vec::new());
    };
    let values: Vec<Value> = match value {
        Value::Array(items) => items.clone(),
        Value::Object(fields) => fields.keys().map(|key| key.as_str().into()).collect(),
        Value::String(text) => text
            .chars()
            .map(|character| character.to_string().into())
            .collect(),
        other => return Err(unreadable(given, list, other, "a list")),
    };
    let items = values.into_iter().enumerate();
    let item = |(index, value)| Item {
        given,
        path: format!("{list}[{index}]"),
        value,
    };
    Ok(items.map(item).collect())
}

fn unreadable(given: &CheckedArguments<'_>, path: &str, found: &Value, expected: &str) -> Failure {
    given.failure(
        UNREADABLE,
        format_args!("`{path}` is {}: expected {expected}", kind_name(found)),
    )
}

/// True if an entity lacks a field or has null in it. A text or list lacks a field that it does not contain;
/// a field that it contains cannot be read.
fn lacks(item: &Item<'_>, field: &str) -> Result<bool, Failure> {
    match &item.value {
        Value::Object(fields) => Ok(is_missing(fields, field)),
        Value::String(text) if !text.contains(field) => Ok(true),
        Value::Array(items) if !items.iter().any(|item| item == field) => Ok(true),
        _ => Err(item.unreadable()),
    }
}

fn is_missing(fields: &Map<String, Value>, field: &str) -> bool {
    fields.get(field).is_none_or(Value::is_null)
}

fn check_entity(schema: &Schema, item: &Item<'_>, errors: &mut Vec<Value>) -> Result<(), Failure> {
    for field in &schema.entities.required_fields {
        if lacks(item, field)? {
            errors.push(json!({
                "type": "missing_required_field",
                "path": item.path(field),
                "entity": item.value,
                "expected": field,
                "actual": null,
                "message": format!("Entity missing required field '{field}'"),
            }));
        }
    }
    Ok(())
}

fn check_relationship(
    schema: &Schema,
    item: &Item<'_>,
    errors: &mut Vec<Value>,
) -> Result<(), Failure> {
    let Value::Object(fields) = &item.value else {
        return Err(item.unreadable());
    };
    let missing = |kind: &str, field: &str, message: String| {
        json!({
            "type": kind,
            "path": item.path(field),
            "relationship": fields,
            "expected": field,
            "actual": null,
            "message": message,
        })
    };
    for field in &schema.relationships.required_fields {
        if is_missing(fields, field) {
            let message = format!("Relationship missing required field '{field}'");
            errors.push(missing("missing_required_field", field, message));
        }
    }
    let written = fields.get("type").unwrap_or(&Value::Null);
    if (written.is_array() || written.is_object()) && is_true(written) {
        return Err(unreadable(item.given, &item.path("type"), written, "text"));
    }
    let is_known = schema.relationships.types.is_empty()
        || schema
            .relationships
            .types
            .iter()
            .any(|name| written == name);
    if !is_known {
        errors.push(json!({
            "type": "invalid_relationship_type",
            "path": item.path("type"),
            "relationship": fields,
            "expected": schema.relationships.types,
            "actual": written,
            "message": format!(
                "Invalid relationship type '{}', expected one of {}",
                printed(written),
                printed(&json!(schema.relationships.types)),
            ),
        }));
    }
    let name = written.as_str().filter(|name| !name.is_empty());
    for field in name
        .and_then(|name| schema.relationships.type_requirements.get(name))
        .into_iter()
        .flatten()
        .filter(|field| is_missing(fields, field))
    {
        let message = format!(
            "Relationship type '{}' requires field '{field}'",
            printed(written)
        );
        errors.push(missing("missing_type_specific_field", field, message));
    }
    Ok(())
}
