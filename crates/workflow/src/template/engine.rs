//! Configuration of the template engine for agent files.

use cachalot_core::json::{is_beyond_64_bits, numbers};
use cachalot_core::text::word_list;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{AutoEscape, Environment, Error, State, UndefinedBehavior, Value};
use serde_json::Value as Json;

use super::error::{defined, invalid};
use super::scope::{STORAGE_HASHER, StorageHasher};
use super::{bounds, convert, filters, operators, predicates};
use crate::exact_json;

/// The maximum number of steps of a template.
pub(super) const FUEL: u64 = 10_000_000;

/// The available filters, for the schema, the reference documentation and suggestions.
pub const FILTERS: &[&str] = &word_list::<57>(
    "abs attr batch bool capitalize chain count d default dictsort e escape filesizeformat first float format \
     fromjson groupby indent int items join json last length lines list lower map max min pprint \
     reject rejectattr replace reverse round safe select selectattr sha256 slice sort split \
     storage_hash string striptags sum title tojson trim truncate unique upper urlencode wordcount zip",
);

/// The available tests (`is …`).
pub const TESTS: &[&str] = &word_list::<36>(
    "boolean defined divisibleby endingwith eq equalto escaped even false filter float ge \
     greaterthan gt in int integer iterable le lessthan lower lt mapping ne none number odd safe \
     sameas sequence startingwith string test true undefined upper",
);

/// Creates an engine. In a strict engine, an undefined value is false where a truth value is needed and an
/// error in any other use. In a lenient engine, it also compares unequal to every value, is empty to
/// filters, and can be compared without an error.
pub(super) fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(undefined);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    // Debug mode makes errors name the undefined expression and its position.
    environment.set_debug(true);
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        environment.set_syntax(syntax);
    }
    // `debug` would print everything that a template can read, secrets included.
    environment.remove_global("debug");
    environment.add_filter("sha256", sha256);
    environment.add_filter("storage_hash", storage_hash);
    environment.add_filter("fromjson", fromjson);
    environment.add_filter("tojson", tojson);
    environment.add_filter("json", tojson);
    bounds::install(&mut environment);
    operators::install(&mut environment);
    filters::install(&mut environment);
    predicates::install(&mut environment);
    environment
}

/// Hashes strings and bytes as they are, and any other value in canonical form.
fn sha256(value: &Value) -> Result<String, Error> {
    defined(value)?;
    if let (ValueKind::String | ValueKind::Bytes, Some(bytes)) = (value.kind(), value.as_bytes()) {
        return Ok(cachalot_core::Digest::sha256(bytes).to_hex());
    }
    let json = convert::to_json(value)?;
    Ok(cachalot_core::Canonical::value(&json).digest().to_hex())
}

/// Returns the hash of the content behind a path or URI.
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
    let hashes = state.lookup(STORAGE_HASHER);
    let Some(hashes) = hashes
        .as_ref()
        .and_then(Value::downcast_object_ref::<StorageHasher>)
    else {
        return Err(invalid(
            "storage_hash must be written out where it is used, not named by a value",
        ));
    };
    hashes
        .hash(uri, algorithm)
        .map_err(|error| invalid(format!("storage_hash: {error}")))
}

/// Parses JSON text.
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
    let mut numbers = numbers(text).map(|range| &text[range]);
    match numbers.find(|number| is_beyond_64_bits(number)) {
        Some(lexeme) => Err(invalid(format!(
            "fromjson: {lexeme} is a whole number beyond 64 bits: quote it"
        ))),
        None => Ok(convert::copied(&json)),
    }
}

/// Serializes a value to JSON without HTML escapes, with keys in their order. `indent` spreads the text
/// over lines.
fn tojson(value: &Value, indent: Option<usize>, options: Kwargs) -> Result<String, Error> {
    defined(value)?;
    let named: Option<usize> = options.get("indent")?;
    options.assert_all_used()?;
    let json = convert::to_json(value)?;
    let written = match indent.or(named) {
        None => serde_json::to_string(&json),
        Some(width) => exact_json::indented(&json, width.min(16)),
    };
    written.map_err(|error| invalid(error.to_string()))
}
