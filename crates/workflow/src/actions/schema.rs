//! `schema.merge`: merges several JSON Schemas into one.

use async_trait::async_trait;
use cachalot_core::{Effects, tree};
use serde_json::{Map, Value, json};

use super::arguments::{CheckedArguments, boolean, declared_by, list, required, text};
use super::location;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime};

/// The maximum size of a file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

#[rustfmt::skip]
static MERGE: OperationMetadata = OperationMetadata::declared(
    "schema.merge",
    &["actions.schema_merge"],
    "Merges JSON Schemas in their order: mappings are merged, anything else is replaced by the later.",
    &[
        required(list("schemas", "A list of `{path: FILE}` (a local file of JSON or YAML) and `{inline: SCHEMA}`.")),
        boolean("validate", "Fail if the result is not a JSON Schema (draft 2020-12); false by default."),
        text("output_key", "The field of the result that holds the schema; `merged_schema` by default."),
    ],
)
.read_only();

pub(super) struct Merge;

#[async_trait]
impl Operation for Merge {
    declared_by!(MERGE);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        let local = |path: &str| runtime.storage.local_path(path);
        Effects::reading_files(paths(arguments).filter_map(local))
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let is_relative = |path: &str| !std::path::Path::new(path).is_absolute();
        Ok(if paths(arguments).any(is_relative) {
            json!({ "relative_to": location::path_key(&runtime.directory) })
        } else {
            Value::Null
        })
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&MERGE, &arguments);
        let key = given.text("output_key")?.unwrap_or("merged_schema");
        let is_validated = given.flag("validate", false)?;
        let schemas = given.list("schemas")?.unwrap_or_default();
        if schemas.is_empty() {
            return Err(given.wrong("schemas", "names no schema"));
        }
        let mut merged = Value::Null;
        for (index, written) in schemas.iter().enumerate() {
            merge(&mut merged, schema(&given, runtime, index, written).await?);
        }
        if is_validated && let Err(error) = jsonschema::draft202012::meta::validate(&merged) {
            let place = error.instance_path();
            let what = format_args!("the merged schema is no JSON Schema: {error} (at `{place}`)");
            return Err(given.failure("validation_error", what));
        }
        let mut result = Map::from_iter([("success".to_owned(), true.into())]);
        result.insert(key.to_owned(), merged);
        Ok(result.into())
    }
}

impl Action for Merge {}

/// Returns the files that the arguments name.
fn paths(arguments: &Arguments) -> impl Iterator<Item = &str> {
    let schemas = arguments.get("schemas").and_then(Value::as_array);
    schemas
        .into_iter()
        .flatten()
        .filter_map(|schema| schema.get("path").and_then(Value::as_str))
}

/// Reads one of the schemas.
async fn schema(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    index: usize,
    written: &Value,
) -> Result<Value, Failure> {
    if let Some(inline) = written.get("inline") {
        return Ok(inline.clone());
    }
    let Some(path) = written.get("path").and_then(Value::as_str) else {
        let what = format_args!(
            "has an item {index} that is neither `{{path: FILE}}` nor `{{inline: SCHEMA}}`"
        );
        return Err(given.wrong("schemas", what));
    };
    location::local_path(given, runtime, "schemas", path)?;
    let bytes = location::read(given, runtime, path, MAX_BYTES).await?;
    let text = String::from_utf8_lossy(&bytes);
    // JSON is a subset of YAML.
    let tree = tree::parse(path, &text).map_err(|problems| {
        let first = problems.first().map(ToString::to_string);
        given.failure("parse_error", first.unwrap_or_default())
    })?;
    Ok(tree.to_value())
}

/// Merges mappings, and replaces anything else.
fn merge(into: &mut Value, later: Value) {
    match (into, later) {
        (Value::Object(fields), Value::Object(later)) => {
            for (name, value) in later {
                match fields.get_mut(&name) {
                    Some(field) => merge(field, value),
                    None => {
                        fields.insert(name, value);
                    }
                }
            }
        }
        (into, later) => *into = later,
    }
}
