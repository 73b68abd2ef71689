//! Validation of request bodies against the providers' official schemas: `data/schemas`, made by
//! `scripts/simulator-schemas` and `scripts/converse_schema.py`. Each is compiled when the first request of its kind arrives.
//!
//! It comes after the checks by hand, whose messages are the providers' own, and finds what they miss.

use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::LocationSegment;
use jsonschema::{ValidationError, Validator};
use serde_json::Value;

use super::openai;
use super::{Format, Refusal};
use crate::facts;

/// `None` if the schema cannot be compiled, which a test rules out.
type Compiled = LazyLock<Option<Validator>>;

static CHAT: Compiled = LazyLock::new(|| compiled(include_str!("../../data/schemas/chat.json")));
static RESPONSES: Compiled =
    LazyLock::new(|| compiled(include_str!("../../data/schemas/responses.json")));
static MESSAGES: Compiled =
    LazyLock::new(|| compiled(include_str!("../../data/schemas/messages.json")));
static BETA_MESSAGES: Compiled =
    LazyLock::new(|| compiled(include_str!("../../data/schemas/beta_messages.json")));

static CONVERSE: Compiled =
    LazyLock::new(|| compiled(include_str!("../../data/schemas/converse.json")));

fn compiled(schema: &str) -> Option<Validator> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    jsonschema::options().offline().build(&schema).ok()
}

/// Fields of a chat request that servers other than OpenAI's take in messages, parts and tools.
///
/// - `reasoning_content`: <https://api-docs.deepseek.com/guides/thinking_mode>. Scripts can let any model
///   answer with it, and what an answer has is taken back.
/// - `cache_control`: <https://openrouter.ai/docs/guides/best-practices/prompt-caching>.
/// - `reasoning`, `reasoning_details`: <https://openrouter.ai/docs/guides/best-practices/reasoning-tokens>.
const COMPATIBLE: [&str; 4] = [
    "reasoning_content",
    "cache_control",
    "reasoning",
    "reasoning_details",
];

/// Refuses a body that does not fit the schema of its endpoint.
pub(super) fn check(format: Format, body: &Value, is_beta: bool) -> Result<(), Refusal> {
    match format {
        Format::Chat => {
            let model = body.get("model").and_then(Value::as_str);
            let allowed = match model.and_then(facts::openai) {
                Some(_) => &COMPATIBLE[..1],
                None => &COMPATIBLE[..],
            };
            valid(&CHAT, format, &without(body, allowed))
        }
        Format::Responses => valid(&RESPONSES, format, body),
        Format::Messages if is_beta => valid(&BETA_MESSAGES, format, body),
        Format::Messages => valid(&MESSAGES, format, body),
        // There is no official schema; the reader refuses what it does not know.
        Format::Gemini => Ok(()),
        Format::Converse => {
            let mut body = body.clone();
            // What the path says.
            if let Some(fields) = body.as_object_mut() {
                fields.retain(|name, _| name != "model" && name != "stream");
            }
            valid(&CONVERSE, format, &body)
        }
    }
}

fn valid(schema: &Compiled, format: Format, body: &Value) -> Result<(), Refusal> {
    let Some(validator) = schema.as_ref() else {
        return Ok(());
    };
    match validator.iter_errors(body).next() {
        None => Ok(()),
        Some(error) => Err(refusal(format, decisive(&error))),
    }
}

/// The body of a chat request without these fields of messages, parts and tools.
fn without(body: &Value, fields: &[&str]) -> Value {
    fn strip(values: Option<&mut Value>, fields: &[&str]) {
        for value in values.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(object) = value.as_object_mut() {
                object.retain(|key, _| !fields.contains(&key.as_str()));
                strip(object.get_mut("content"), fields);
            }
        }
    }
    let mut body = body.clone();
    strip(body.get_mut("messages"), fields);
    strip(body.get_mut("tools"), fields);
    body
}

/// The error that says most: of alternatives, the first in that which is meant.
fn decisive<'a>(error: &'a ValidationError<'a>) -> &'a ValidationError<'a> {
    match error.kind() {
        Kind::AnyOf { context } => {
            let at = error.instance_path().as_str();
            let meant = context.iter().min_by_key(|errors| distance(errors, at));
            meant
                .and_then(|errors| errors.first())
                .map_or(error, decisive)
        }
        _ => error,
    }
}

/// Rates how far the value at `at` is from the alternative that has these errors: 2, another JSON type; 1,
/// another `type` or `role`; 0, meant to be it.
fn distance(errors: &[ValidationError<'_>], at: &str) -> u8 {
    let far = |error: &ValidationError<'_>| {
        let inner = error.instance_path().as_str().strip_prefix(at);
        match (error.kind(), inner) {
            (Kind::AnyOf { context }, Some("")) => context
                .iter()
                .map(|errors| distance(errors, at))
                .min()
                .unwrap_or(0),
            (Kind::Type { .. }, Some("")) => 2,
            (Kind::Constant { .. } | Kind::Enum { .. }, Some("" | "/type" | "/role")) => 1,
            _ => 0,
        }
    };
    errors.iter().map(far).max().unwrap_or(0)
}

/// The refusal of a provider for an error.
fn refusal(format: Format, error: &ValidationError<'_>) -> Refusal {
    let field = |name: Option<&str>| path(format, error, name);
    match (format, error.kind()) {
        (Format::Messages, Kind::AdditionalProperties { unexpected }) => {
            let at = field(unexpected.first().map(String::as_str));
            Refusal::invalid(format!("{at}: Extra inputs are not permitted"))
        }
        (Format::Messages, Kind::Required { property }) => {
            Refusal::invalid(format!("{}: Field required", field(property.as_str())))
        }
        (Format::Messages, kind) => {
            let at = field(None);
            Refusal::invalid(match kind {
                Kind::Type { kind } => format!("{at}: Input should be a valid {}", named(kind)),
                Kind::Enum { options } => {
                    format!("{at}: Input should be {}", alternatives(options))
                }
                Kind::Constant { expected_value } => {
                    format!("{at}: Input should be {}", quoted(expected_value))
                }
                _ => format!("{at}: {error}"),
            })
        }
        (Format::Converse, Kind::AdditionalProperties { unexpected }) => {
            let at = field(unexpected.first().map(String::as_str));
            Refusal::invalid(format!("Unknown parameter in input: \"{at}\""))
        }
        (Format::Converse, _) => {
            let at = field(None);
            Refusal::invalid(format!(
                "1 validation error detected: Value at '{at}' failed to satisfy constraint: {error}"
            ))
        }
        (_, Kind::AdditionalProperties { unexpected }) => {
            let param = field(unexpected.first().map(String::as_str));
            Refusal::invalid(format!("Unknown parameter: '{param}'."))
                .param(param)
                .code("unknown_parameter")
        }
        (_, Kind::Required { property }) => openai::missing(field(property.as_str())),
        (_, Kind::Type { kind }) => {
            openai::wrong_type(field(None), &format!("a {}", named(kind)), error.instance())
        }
        (_, Kind::Enum { options }) => {
            let found = text(error.instance());
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let options: Vec<String> = options.iter().map(text).collect();
            openai::wrong_value(field(None), &found, &openai::by_model::listed(&options))
        }
        (_, _) => {
            let param = field(None);
            Refusal::invalid(format!("Invalid '{param}': {error}"))
                .param(param)
                .code("invalid_value")
        }
    }
}

/// Writes the place of an error, or of a field in it, as the provider does: `a[0].b` (OpenAI), `a.0.b` (Anthropic).
fn path(format: Format, error: &ValidationError<'_>, field: Option<&str>) -> String {
    let mut path = String::new();
    let mut push = |step: &str| {
        if !path.is_empty() && !step.starts_with('[') {
            path.push('.');
        }
        path.push_str(step);
    };
    for segment in error.instance_path().segments() {
        match segment {
            LocationSegment::Property(name) => push(&name),
            LocationSegment::Index(at) if matches!(format, Format::Messages | Format::Converse) => {
                push(&at.to_string())
            }
            LocationSegment::Index(at) => push(&format!("[{at}]")),
        }
    }
    if let Some(field) = field {
        push(field);
    }
    path
}

fn named(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => kind.to_string(),
        TypeKind::Multiple(kinds) => {
            let names: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
            names.join(" or ")
        }
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), |text| format!("'{text}'"))
}

fn alternatives(options: &Value) -> String {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    let options: Vec<String> = options.iter().map(quoted).collect();
    match options.as_slice() {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        other => other.join(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_compiles() {
        for schema in [&CHAT, &RESPONSES, &MESSAGES, &BETA_MESSAGES, &CONVERSE] {
            assert!(schema.is_some());
        }
        assert!(compiled("{").is_none());
    }
}
