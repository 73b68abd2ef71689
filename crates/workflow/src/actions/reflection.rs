//! `reflection.loop` and `retry.loop`, which the run loop itself executes because they run other work,
//! and `reflection.evaluate`.

use async_trait::async_trait;
use cachalot_core::duration::Range;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, any, declared_by, integer, object, required, text};
use super::json_object;
use super::truthiness::is_true;
use crate::{
    Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Parameter, ParameterKind,
    Runtime,
};

#[rustfmt::skip]
pub(crate) static LOOP: OperationMetadata = OperationMetadata::declared(
    "reflection.loop",
    &["actions.reflection_loop"],
    "Generates something, evaluates it, and lets it be corrected until it is valid. Works as what a node or step uses, not inside `cache.wrap`.",
    &[
        required(object("generator", "Makes the output: `action` with its arguments (beside it, or in `with`), or `run` with inline code and its `language`.")),
        required(object("evaluator", "Judges the output: `type: schema` with a JSON Schema, `type: llm` with a `prompt`, or `type: custom` with `run`.")),
        object("corrector", "Runs between two rounds, as `generator`; a mapping that it gives is seen by the next round."),
        integer("max_iterations", "The most rounds, up to 1000; 3 by default."),
        text("on_failure", "The result when no round was valid: `return_best` (default), `return_last` or `raise`."),
    ],
)
.with_cache_class(CacheClass::EffectOnly);

/// The values of `retry_delay`.
pub(crate) const RETRY_DELAY: Range = Range::ANY;

#[rustfmt::skip]
pub(crate) static RETRY: OperationMetadata = OperationMetadata::declared(
    "retry.loop",
    &["actions.retry_loop"],
    "Calls an action that validates something, and runs a node that corrects it until it is valid. Works as what a node or step uses, not inside `cache.wrap`.",
    &[
        required(text("validate", "The action; its result has `valid`, and `errors` if that is false.")),
        object("validate_args", "Its arguments, rendered anew in each round."),
        required(text("correct", "The node that runs after a round that was not valid. It sees `state._retry_errors` and `state._retry_count`.")),
        integer("max_retries", "How often it is corrected, up to 1000; 1 by default."),
        Parameter::optional("retry_delay", ParameterKind::Duration(RETRY_DELAY), "The pause between a correction and the next round, such as `2s`; none by default."),
    ],
)
.with_cache_class(CacheClass::EffectOnly);

static EVALUATE: OperationMetadata = OperationMetadata::declared(
    "reflection.evaluate",
    &["actions.reflection_evaluate"],
    "Evaluates a value by a JSON Schema. The result has `valid`, `score`, `errors` and `success`.",
    &[
        required(any("data", "The value.")),
        required(object("schema", "The JSON Schema (draft 7).")),
        text("evaluator_type", "`schema`, which is the only one here."),
    ],
);

/// The system prompt of a model that judges an output.
pub(crate) const EVALUATOR_PROMPT: &str = "You judge an output. Answer with one JSON object and nothing else: \
     {\"valid\": true or false, \"score\": a number from 0.0 to 1.0, \"reason\": \"why\", \"suggestions\": [\"what to improve\"]}";

/// A judgement of an output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) valid: bool,
    pub(crate) score: f64,
    pub(crate) errors: Vec<Value>,
}

impl Judgement {
    fn new(valid: bool, errors: Vec<Value>) -> Self {
        let score = if valid { 1.0 } else { 0.0 };
        Self {
            valid,
            score,
            errors,
        }
    }

    /// Returns a judgement with a message, unless the output is valid.
    fn with_message(valid: bool, message: impl serde::Serialize) -> Self {
        let error = (!valid).then(|| json!({ "message": message }));
        Self::new(valid, error.into_iter().collect())
    }

    /// Returns a judgement for an evaluation that failed.
    pub(crate) fn failed(message: &str) -> Self {
        Self::with_message(false, message)
    }

    /// Reads the judgement that inline code returned.
    pub(crate) fn from_code(returned: &Value) -> Self {
        match returned {
            Value::Object(fields) => {
                let valid = fields.get("valid").is_some_and(is_true);
                let errors = fields.get("errors").and_then(Value::as_array);
                let judgement = Self::new(valid, errors.cloned().unwrap_or_default());
                let score = fields.get("score").and_then(Value::as_f64);
                Self {
                    score: score.unwrap_or(judgement.score),
                    ..judgement
                }
            }
            Value::Number(number) => {
                let score = number.as_f64().unwrap_or_default();
                let message = format!("Score {score} below threshold");
                Self {
                    score,
                    ..Self::with_message(score >= 0.5, message)
                }
            }
            other => Self::with_message(is_true(other), "Validation failed"),
        }
    }

    /// Reads the judgement in a model's answer.
    pub(crate) fn from_answer(text: &str) -> Self {
        let fields = json_object::find_object(text);
        let Some(fields) = fields else {
            // "This is not valid" must not pass.
            let message = format!("the judge did not answer with a JSON object: {text}");
            return Self::failed(&message);
        };
        let valid = fields
            .get("valid")
            .or_else(|| fields.get("pass"))
            .is_some_and(is_true);
        let reason = fields.get("reason").cloned().unwrap_or_default();
        Self {
            score: fields
                .get("score")
                .and_then(Value::as_f64)
                .unwrap_or_default(),
            ..Self::with_message(valid, reason)
        }
    }

    /// Validates the output against a JSON Schema. Texts are coerced to the numbers or booleans that the
    /// schema requires, and numbers and booleans to text.
    pub(crate) fn from_schema(output: &Value, schema: &Value) -> Self {
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft7)
            .offline()
            .build(schema);
        let validator = match validator {
            Ok(validator) => validator,
            Err(error) => return Self::failed(&format!("Invalid schema: {error}")),
        };
        let output = coerced(output, schema);
        let errors: Vec<Value> = validator
            .iter_errors(&output)
            .map(|error| {
                let message = match error.kind() {
                    ValidationErrorKind::Required { property } => {
                        format!(
                            "'{}' is a required property",
                            property.as_str().unwrap_or_default()
                        )
                    }
                    _ => error.to_string(),
                };
                json!({
                    "path": pointer_segments(error.instance_path().as_str()).join("."),
                    "message": message,
                    "schema_path": schema_path(error.schema_path().as_str()),
                })
            })
            .collect();
        Self::new(errors.is_empty(), errors)
    }
}

/// Returns the unescaped segments of a JSON pointer.
fn pointer_segments(pointer: &str) -> Vec<String> {
    pointer
        .split('/')
        .skip(1)
        .map(|step| step.replace("~1", "/").replace("~0", "~"))
        .collect()
}

fn schema_path(pointer: &str) -> Vec<Value> {
    pointer_segments(pointer)
        .into_iter()
        .map(|step| step.parse::<u64>().map_or(Value::from(step), Value::from))
        .collect()
}

fn coerced(value: &Value, schema: &Value) -> Value {
    let Some(kind) = schema.get("type").and_then(Value::as_str) else {
        return value.clone();
    };
    match (kind, value) {
        ("integer", Value::String(text)) => text
            .trim()
            .parse::<i64>()
            .map_or_else(|_| value.clone(), Value::from),
        ("number", Value::String(text)) => text
            .trim()
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map_or_else(|| value.clone(), Value::from),
        ("boolean", Value::String(text)) => {
            let text = text.to_lowercase();
            Value::from(["true", "1", "yes"].contains(&text.as_str()))
        }
        ("string", Value::Number(_) | Value::Bool(_)) => Value::from(value.to_string()),
        ("object", Value::Object(fields)) => {
            let properties = schema.get("properties");
            let coerce = |(key, field): (&String, &Value)| {
                let schema = properties.and_then(|properties| properties.get(key));
                let field = schema.map_or_else(|| field.clone(), |schema| coerced(field, schema));
                (key.clone(), field)
            };
            Value::Object(fields.iter().map(coerce).collect())
        }
        ("array", Value::Array(items)) => match schema.get("items") {
            Some(schema) => items.iter().map(|item| coerced(item, schema)).collect(),
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

/// An action that the run loop executes when a node or step uses it.
pub(super) struct LoopAction(pub(super) &'static OperationMetadata);

#[async_trait]
impl Operation for LoopAction {
    declared_by!(self.0);

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        Err(CheckedArguments::new(self.0, &arguments)
            .failure("unsupported", "works only as what a node or step uses"))
    }
}

impl Action for LoopAction {
    fn is_tool(&self) -> bool {
        false
    }
}

pub(super) struct Evaluate;

#[async_trait]
impl Operation for Evaluate {
    declared_by!(EVALUATE);

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&EVALUATE, &arguments);
        match given.text("evaluator_type")? {
            None | Some("schema") => {}
            Some(other) => {
                return Err(given.wrong(
                    "evaluator_type",
                    format_args!("is `{other}`: only `schema` is there; use `reflection.loop`"),
                ));
            }
        }
        let schema = given.object("schema")?.cloned().unwrap_or_default();
        let data = given.value_of("data").unwrap_or(&Value::Null);
        let Judgement {
            valid,
            score,
            errors,
        } = Judgement::from_schema(data, &Value::Object(schema));
        Ok(json!({ "valid": valid, "score": score, "errors": errors, "success": true }))
    }
}

impl Action for Evaluate {}
