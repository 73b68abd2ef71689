//! Searches for members of a body, at any depth.

use cachalot_model::wire::SharedMembers;
use cachalot_model::wire::shared_members::{normalized, signs};
use serde_json::Value;

use super::Endpoint;

/// A member with the bytes of a file, or with the text of a source whose type is `text`.
const DATA: &str = "data";

/// Returns a function that is true for a member with data of the client, whose names mean nothing to the provider:
/// arguments and results of its tools, labels, a schema. A result that is a list of parts is none.
pub(super) fn client_data(endpoint: Endpoint) -> impl Fn(&str, &Value) -> bool {
    let shared = &SharedMembers::built_in().client_data;
    let lists = endpoint.members().map_or((&[][..], &[][..]), |members| {
        (
            members.client_data.as_slice(),
            members.part_lists.as_slice(),
        )
    });
    let (of_endpoint, part_lists): (&[String], &[String]) = lists;
    move |name: &str, value: &Value| {
        let is_in = |list: &[String]| list.iter().any(|known| known == name);
        let is_own = is_in(of_endpoint) && !(value.is_array() && is_in(part_lists));
        is_own || shared.iter().any(|known| signs(name).eq(known.chars()))
    }
}

/// Returns the URLs in a member of an input, with their schemes. URLs in texts are read only.
pub(super) fn urls<'a>(name: &str, value: &'a Value) -> impl Iterator<Item = (&'a str, &'a str)> {
    let name = normalized(name);
    let is_text = name == DATA || SharedMembers::built_in().texts.contains(&name);
    let data = value.get(DATA);
    let data = data.filter(|_| value.get("type").and_then(Value::as_str) != Some("text"));
    let values = (!is_text).then_some(value).into_iter().chain(data);
    let texts = values.flat_map(items_of).filter_map(Value::as_str);
    let is_of_url = name.ends_with("url") || name.ends_with("uri") || name == "image";
    texts.filter_map(move |text| {
        // Servers ignore control signs before a URL, and line breaks within it (WHATWG).
        let text = text
            .trim_start_matches(|character: char| character <= ' ' || character.is_whitespace());
        let (scheme, _) = text.split_once("://")?;
        let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.\t\r\n".contains(&byte);
        let is_scheme = is_of_url || scheme.bytes().all(is_of_scheme);
        (is_scheme && !scheme.is_empty() && !scheme.starts_with("data:")).then_some((scheme, text))
    })
}

/// Returns the items of a list; servers read one item in place of a list.
pub(super) fn items_of(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items.as_slice(),
        item => std::slice::from_ref(item),
    }
}

/// Returns what `find` finds first among the members of all objects in the tree. Members for which `is_skipped` is true
/// are not searched.
pub(crate) fn find_member<T>(
    value: &Value,
    is_skipped: &impl Fn(&str, &Value) -> bool,
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
    is_skipped: &impl Fn(&str, &Value) -> bool,
    find: &impl Fn(&str, &Value) -> Option<T>,
) -> Option<T> {
    members.find_map(|(name, value)| {
        if is_skipped(name, value) {
            None
        } else {
            find(name, value).or_else(|| find_member(value, is_skipped, find))
        }
    })
}
