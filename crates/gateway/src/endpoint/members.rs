//! Searches for members of a body, at any depth.

use serde_json::Value;

use super::Endpoint;

/// Members with data of the client's own tools and with schemas, whose names mean nothing to the provider.
const OF_CLIENT: [&str; 12] = [
    "args",
    "arguments",
    "guidedjson",
    "inputexamples",
    "inputschema",
    "metadata",
    "outputschema",
    "parameters",
    "parametersjsonschema",
    "responsejsonschema",
    "responseschema",
    "schema",
];

/// Returns true for a member with data of the client: arguments and results of its tools, labels, a schema.
pub(super) fn is_client_data(endpoint: Endpoint, name: &str) -> bool {
    let of_endpoint = match endpoint {
        Endpoint::Messages | Endpoint::CountTokens => name == "input",
        Endpoint::Gemini => matches!(name, "labels" | "response"),
        _ => false,
    };
    of_endpoint || OF_CLIENT.contains(&normalized(name).as_str())
}

/// Returns a name in small letters without `_` and `-`: servers accept several spellings.
pub(super) fn normalized(name: &str) -> String {
    let signs = name.chars().filter(|sign| !matches!(sign, '_' | '-'));
    signs.map(|sign| sign.to_ascii_lowercase()).collect()
}

/// Returns what `find` finds first among the members of all objects in the tree. Members for which `is_skipped` is true
/// are not searched.
pub(super) fn find_member<T>(
    value: &Value,
    is_skipped: &impl Fn(&str) -> bool,
    find: &impl Fn(&str, &Value) -> Option<T>,
) -> Option<T> {
    match value {
        Value::Array(items) => items
            .iter()
            .find_map(|item| find_member(item, is_skipped, find)),
        Value::Object(members) => find_in(members.iter(), is_skipped, find),
        _ => None,
    }
}

/// Does the same for some of the members of an object.
pub(super) fn find_in<'a, T>(
    mut members: impl Iterator<Item = (&'a String, &'a Value)>,
    is_skipped: &impl Fn(&str) -> bool,
    find: &impl Fn(&str, &Value) -> Option<T>,
) -> Option<T> {
    members.find_map(|(name, value)| match is_skipped(name) {
        true => None,
        false => find(name, value).or_else(|| find_member(value, is_skipped, find)),
    })
}

/// Returns true if any member of an object in the tree, at any depth, satisfies the condition. Members named in
/// `skipped` are not searched: they contain data of the client's tools.
pub(crate) fn any_member(
    value: &Value,
    skipped: &[&str],
    is_found: &impl Fn(&str, &Value) -> bool,
) -> bool {
    let find = |name: &str, value: &Value| is_found(name, value).then_some(());
    find_member(value, &|name| skipped.contains(&name), &find).is_some()
}
