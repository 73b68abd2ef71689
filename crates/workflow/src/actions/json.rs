//! `json.parse`, `json.transform` and `json.stringify`.

mod jmespath;
mod relaxed;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, any, boolean, count, declared_by, required, text};
use super::order;
use crate::action::argument_checker::ArgumentChecker;
use crate::exact_json;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Registry, Runtime};

#[rustfmt::skip]
static PARSE: OperationMetadata = OperationMetadata::declared(
    "json.parse",
    &["actions.json_parse"],
    "Reads JSON text. Whole numbers beyond 64 bits become text of their digits.",
    &[
        required(text("text", "The text to parse.")),
        boolean("strict", "Fail if the text is not JSON; true by default. Otherwise `default` replaces invalid text; without `default`, comments and trailing commas are accepted."),
        any("default", "With `strict: false`, the data where the text is no JSON; null is as good as none."),
    ],
)
.read_only();

static TRANSFORM: OperationMetadata = OperationMetadata::declared(
    "json.transform",
    &["actions.json_transform"],
    "Evaluates a JMESPath expression; whole numbers stay exact.",
    &[
        required(any("data", "The data that the expression is evaluated on.")),
        required(text("expression", "The JMESPath expression.")),
    ],
)
.read_only();

#[rustfmt::skip]
static STRINGIFY: OperationMetadata = OperationMetadata::declared(
    "json.stringify",
    &["actions.json_stringify"],
    "Writes data as JSON text.",
    &[
        required(any("data", "The data to format.")),
        count("indent", (0, 16), "By how many spaces to indent, up to 16; on one line by default."),
        boolean("sort_keys", "Sort the keys of all mappings; false by default."),
    ],
)
.read_only();

pub(super) struct Parse;

#[async_trait]
impl Operation for Parse {
    declared_by!(PARSE);

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&PARSE, &arguments);
        let text = given
            .text("text")?
            .ok_or_else(|| given.wrong("text", "is required"))?;
        let data = exact_json::parse(text).or_else(|error| {
            let default = given.value_of("default").filter(|value| !value.is_null());
            let relaxed = match (given.flag("strict", true)?, default) {
                (true, _) => None,
                (false, Some(default)) => Some(default.clone()),
                (false, None) => exact_json::parse(&relaxed::strip(text)).ok(),
            };
            relaxed.ok_or_else(|| {
                given.failure("parse_error", format_args!("`text` is no JSON: {error}"))
            })
        })?;
        Ok(json!({ "data": data, "success": true }))
    }
}

impl Action for Parse {}

pub(super) struct Transform;

#[async_trait]
impl Operation for Transform {
    declared_by!(TRANSFORM);

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&TRANSFORM, &arguments);
        let expression = given.required_text("expression")?;
        let data = given.required("data")?;
        let result = jmespath::search(data, expression).map_err(|fault| match fault {
            jmespath::QueryError::Expression(what) => given.wrong(
                "expression",
                format_args!("is no JMESPath expression: {what}"),
            ),
            jmespath::QueryError::Evaluation(what) => {
                given.failure("transform_error", format_args!("`{expression}`: {what}"))
            }
        })?;
        Ok(json!({ "result": result, "expression": expression, "success": true }))
    }
}

impl Action for Transform {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        ArgumentChecker::new(&TRANSFORM, with)
            .read(
                "expression",
                "see jmespath.org for the syntax of expressions",
                |text| {
                    jmespath::check(text)
                        .map_err(|what| format!("is no JMESPath expression: {what}"))
                },
            )
            .problems()
    }
}

pub(super) struct Stringify;

#[async_trait]
impl Operation for Stringify {
    declared_by!(STRINGIFY);

    fn implicit_inputs(&self, arguments: &Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        if CheckedArguments::new(&STRINGIFY, arguments).flag("sort_keys", false)? {
            return Ok(Value::Null);
        }
        Ok(order::implicit_input(arguments, &["data"]))
    }

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&STRINGIFY, &arguments);
        let data = given.required("data")?;
        let indent = given.count("indent")?.unwrap_or(0);
        let text = if given.flag("sort_keys", false)? {
            formatted(&exact_json::sorted(data), indent)
        } else {
            formatted(data, indent)
        };
        let text = text.map_err(|error| given.failure("transform_error", error))?;
        Ok(json!({ "text": text, "success": true }))
    }
}

impl Action for Stringify {}

fn formatted(data: &Value, indent: u64) -> serde_json::Result<String> {
    match usize::try_from(indent) {
        Ok(0) | Err(_) => Ok(data.to_string()),
        Ok(width) => exact_json::indented(data, width),
    }
}
