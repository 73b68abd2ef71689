//! `json.parse`, `json.transform` and `json.stringify`.

mod jmespath;
mod relaxed;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::tree::Node;
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Value, json};

use super::Registry;
use super::arguments::{Given, optional, required};
use super::exact_json;
use super::order;
use super::written::Written;
use crate::{About, Action, Arguments, Failure, Memoizable, ParameterKind, Runtime};

pub(super) fn register(registry: &mut Registry) {
    registry.register(Parse);
    registry.register(Transform);
    registry.register(Stringify);
}

static PARSE: About = About {
    names: &["json.parse", "actions.json_parse"],
    version: 1,
    doc: "Reads JSON text. Whole numbers beyond 64 bits become text of their digits.",
    parameters: &[
        required("text", ParameterKind::Text, "What to read."),
        optional(
            "strict",
            ParameterKind::Boolean,
            "Whether the text must be JSON; true by default. Otherwise `default` takes the place of what is none; without `default`, comments and trailing commas are taken.",
        ),
        optional(
            "default",
            ParameterKind::Any,
            "With `strict: false`, the data where the text is no JSON; null is as good as none.",
        ),
    ],
    memoizable: Memoizable::Yes,
};

static TRANSFORM: About = About {
    names: &["json.transform", "actions.json_transform"],
    version: 1,
    doc: "Evaluates a JMESPath expression; whole numbers stay exact.",
    parameters: &[
        required("data", ParameterKind::Any, "What to evaluate it on."),
        required(
            "expression",
            ParameterKind::Text,
            "The JMESPath expression.",
        ),
    ],
    memoizable: Memoizable::Yes,
};

static STRINGIFY: About = About {
    names: &["json.stringify", "actions.json_stringify"],
    version: 1,
    doc: "Writes data as JSON text.",
    parameters: &[
        required("data", ParameterKind::Any, "What to write."),
        optional(
            "indent",
            ParameterKind::Integer,
            "By how many spaces to indent, up to 16; on one line by default.",
        ),
        optional(
            "sort_keys",
            ParameterKind::Boolean,
            "Whether to sort the keys of all mappings; false by default.",
        ),
    ],
    memoizable: Memoizable::Yes,
};

struct Parse;

#[async_trait]
impl Action for Parse {
    fn about(&self) -> &About {
        &PARSE
    }

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = Given::to(&PARSE, arguments);
        let text = given
            .text("text")?
            .ok_or_else(|| given.wrong("text", "is required"))?;
        let data = exact_json::parse(text).or_else(|error| {
            let default = given.any("default").filter(|value| !value.is_null());
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

struct Transform;

#[async_trait]
impl Action for Transform {
    fn about(&self) -> &About {
        &TRANSFORM
    }

    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        Written::new(with)
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

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = Given::to(&TRANSFORM, arguments);
        let expression = given.required_text("expression")?;
        let data = given
            .any("data")
            .ok_or_else(|| given.wrong("data", "is required"))?;
        let result = jmespath::search(data, expression).map_err(|fault| match fault {
            jmespath::Fault::Expression(what) => given.wrong(
                "expression",
                format_args!("is no JMESPath expression: {what}"),
            ),
            jmespath::Fault::Evaluation(what) => {
                given.failure("transform_error", format_args!("`{expression}`: {what}"))
            }
        })?;
        Ok(json!({ "result": result, "expression": expression, "success": true }))
    }
}

struct Stringify;

#[async_trait]
impl Action for Stringify {
    fn about(&self) -> &About {
        &STRINGIFY
    }

    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        Written::new(with).count("indent", 0..=16).problems()
    }

    fn implicit_inputs(&self, arguments: &Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        if Given::seen(&STRINGIFY, arguments).flag("sort_keys", false)? {
            return Ok(Value::Null);
        }
        Ok(order::implied(arguments, &["data"]))
    }

    async fn run(&self, arguments: Arguments, _runtime: &Runtime) -> Result<Value, Failure> {
        let given = Given::to(&STRINGIFY, arguments);
        let data = given
            .any("data")
            .ok_or_else(|| given.wrong("data", "is required"))?;
        let indent = given.count("indent", 0, 0..=16)?;
        let text = if given.flag("sort_keys", false)? {
            text(&sorted(data), indent)
        } else {
            text(data, indent)
        };
        let text = text.map_err(|error| given.failure("transform_error", error))?;
        Ok(json!({ "text": text, "success": true }))
    }
}

fn text(data: &Value, indent: u64) -> Result<String, String> {
    if indent == 0 {
        return Ok(data.to_string());
    }
    let indent = " ".repeat(usize::try_from(indent).unwrap_or_default());
    let mut bytes = Vec::new();
    let mut serializer =
        Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(indent.as_bytes()));
    data.serialize(&mut serializer)
        .map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn sorted(data: &Value) -> Value {
    match data {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields
                .iter()
                .map(|(name, field)| (name.clone(), sorted(field)))
                .collect();
            fields.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(fields.into_iter().collect())
        }
        scalar => scalar.clone(),
    }
}
