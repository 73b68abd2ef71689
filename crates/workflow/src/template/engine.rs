//! The template engine, set up as agent files need it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};
use serde_json::Value as Json;

use super::convert;
use super::scope::{HASHES, Hashes};

/// How many steps a template may take.
pub(super) const FUEL: u64 = 10_000_000;

/// The filters that there are, for the schema, the reference and "did you mean".
pub const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "fromjson",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "json",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "sha256",
    "slice",
    "sort",
    "split",
    "storage_hash",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "urlencode",
    "zip",
];

/// The tests that there are (`is …`).
pub const TESTS: &[&str] = &[
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

/// An engine. In a strict one, what is undefined is false where a truth value is asked for, and an
/// error wherever else something is made of it; in a lenient one it is also equal to nothing, empty
/// to filters, and no error to compare.
pub(super) fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(undefined);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    // Errors name the expression that is undefined, and where they arose.
    environment.set_debug(true);
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    // It would show everything that a template can see, secrets too.
    environment.remove_global("debug");
    environment.add_filter("sha256", sha256);
    environment.add_filter("storage_hash", storage_hash);
    environment.add_filter("fromjson", fromjson);
    environment.add_filter("tojson", tojson);
    environment.add_filter("json", tojson);
    environment
}

/// An error if `value` is undefined, one that names what is.
fn defined(value: &Value) -> Result<(), Error> {
    match value.is_undefined() {
        true => value.get_attr("").map(drop),
        false => Ok(()),
    }
}

fn invalid(what: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// Strings and bytes as they are, anything else in canonical form.
fn sha256(value: &Value) -> Result<String, Error> {
    defined(value)?;
    if let (ValueKind::String | ValueKind::Bytes, Some(bytes)) = (value.kind(), value.as_bytes()) {
        return Ok(cachalot_core::Digest::of(bytes).to_hex());
    }
    let json = convert::settled(value).map_err(invalid)?;
    Ok(cachalot_core::Canonical::value(&json).digest().to_hex())
}

/// The hash of the content behind a path or URI.
fn storage_hash(
    state: &State<'_, '_>,
    uri: &Value,
    algorithm: Option<&str>,
) -> Result<String, Error> {
    defined(uri)?;
    let Some(uri) = uri.as_str().filter(|_| uri.kind() == ValueKind::String) else {
        return Err(invalid(format!(
            "storage_hash takes the text of a path or URI, not a {}",
            uri.kind()
        )));
    };
    let hashes = state.lookup(HASHES);
    let Some(hashes) = hashes
        .as_ref()
        .and_then(Value::downcast_object_ref::<Hashes>)
    else {
        return Err(invalid(
            "storage_hash must be written out where it is used, not named by a value",
        ));
    };
    hashes.hash(uri, algorithm).map_err(invalid)
}

/// The value that a JSON text stands for.
fn fromjson(text: &Value) -> Result<Value, Error> {
    defined(text)?;
    let Some(text) = text.as_str() else {
        return Err(invalid(format!(
            "fromjson takes text, not a {}",
            text.kind()
        )));
    };
    let json: Json = serde_json::from_str(text)
        .map_err(|error| invalid(format!("fromjson: the text is no JSON: {error}")))?;
    match inexact_integer(text) {
        Some(lexeme) => Err(invalid(format!(
            "fromjson: {lexeme} is a whole number beyond 64 bits: quote it"
        ))),
        None => Ok(convert::copied(&json)),
    }
}

/// The first whole number of a JSON text that 64 bits do not hold.
fn inexact_integer(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        rest = &rest[at..];
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut is_escaped = false;
            let end = quoted.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            rest = end.map_or("", |end| &quoted[end + 1..]);
            continue;
        }
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c))
            .unwrap_or(rest.len());
        let lexeme = &rest[..end];
        let is_whole = !lexeme.contains(['.', 'e', 'E']);
        if is_whole && lexeme.parse::<i64>().is_err() && lexeme.parse::<u64>().is_err() {
            return Some(lexeme);
        }
        rest = &rest[end..];
    }
    None
}

/// JSON text, nothing escaped for HTML, keys in their order; `indent` spreads it over lines.
fn tojson(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    defined(value)?;
    let named: Option<usize> = options.get("indent")?;
    options.assert_all_used()?;
    let json = convert::settled(value).map_err(invalid)?;
    let written = match indent.or(named) {
        None => serde_json::to_string(&json),
        Some(width) => {
            let spaces = " ".repeat(width.min(16));
            let mut out = Vec::new();
            let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
            serde::Serialize::serialize(&json, &mut serializer)
                .map(|()| String::from_utf8_lossy(&out).into_owned())
        }
    };
    written.map_err(|error| invalid(error.to_string()))
}
