//! JSON with comments and trailing commas, edited in place: comments and everything else stay.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

/// The mark at the beginning of some files on Windows.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The reason why a text cannot be edited, and its place in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) what: String,
}

/// What editors accept in settings.
const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Parses a text. Returns its tree without a byte order mark, and the mark.
pub(super) fn tree(text: &str) -> Result<(CstRootNode, &str), Fault> {
    let without = text.trim_start_matches(BYTE_ORDER_MARK);
    let mark = &text[..text.len() - without.len()];
    let root = CstRootNode::parse(without, &OPTIONS).map_err(|error| Fault {
        at: mark.len() + error.range().start,
        what: error.kind().to_string(),
    })?;
    Ok((root, mark))
}

/// Parses a text.
pub(super) fn parse(text: &str) -> Result<Value, Fault> {
    let (root, _) = tree(text)?;
    Ok(root.to_serde_value().unwrap_or_default())
}

/// Returns the text with `value` as the member `name` of the object at `container`, a member of the root.
pub(super) fn with_member(
    text: &str,
    container: &str,
    name: &str,
    value: &Value,
) -> Result<String, Fault> {
    let refused = |what: &str| Fault {
        at: text.find(container).unwrap_or(0),
        what: what.to_owned(),
    };
    let (root, mark) = tree(text)?;
    let mut expected = root.to_serde_value().unwrap_or_default();
    let not_an_object = || refused(&format!("`{container}` is not an object"));
    let object = root
        .object_value()
        .ok_or_else(|| refused("this is not an object"))?;
    let servers = match object.get(container) {
        Some(member) => member.object_value().ok_or_else(not_an_object)?,
        None => object.object_value_or_set(container),
    };
    match servers.get(name) {
        Some(member) => member.set_value(input(value)),
        None => drop(servers.append(name, input(value))),
    }
    let edited = format!("{mark}{root}");
    // A member that is there twice would be another one for the client.
    expected[container][name] = value.clone();
    match parse(&edited) {
        Ok(after) if after == expected => Ok(edited),
        _ => Err(refused(
            "this cannot be edited here: is a member there twice?",
        )),
    }
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(members) => {
            let members = members.iter();
            CstInputValue::Object(
                members
                    .map(|(name, value)| (name.clone(), input(value)))
                    .collect(),
            )
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(text: &str) -> String {
        with_member(text, "servers", "new", &json!({ "command": "x" })).unwrap()
    }

    #[test]
    fn comments_and_other_members_stay() {
        assert_eq!(
            set("{}"),
            "{\n  \"servers\": {\n    \"new\": {\n      \"command\": \"x\"\n    }\n  }\n}"
        );
        assert_eq!(
            set(
                "{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {}, // one\n\t\t/* two */\n\t}, \"z\": 1.50,\n}\n"
            ),
            "{\n\t// mine\n\t\"servers\": {\n\t\t\"a\": {}, // one\n\t\t\"new\": {\n\t\t\t\"command\": \"x\",\n\t\t},\n\t\t/* two */\n\t}, \"z\": 1.50,\n}\n"
        );
        assert_eq!(
            set(
                "\u{feff}{\r\n    \"servers\": {\r\n        \"new\": [1], // one\r\n        \"b\": 2\r\n    }\r\n}"
            ),
            "\u{feff}{\r\n    \"servers\": {\r\n        \"new\": {\r\n            \"command\": \"x\"\r\n        }, // one\r\n        \"b\": 2\r\n    }\r\n}"
        );
    }

    #[test]
    fn what_cannot_be_edited_is_refused_with_its_place() {
        for (text, at) in [
            ("{\"a\": tru}", 6),
            ("\u{feff}{\"a\": tru}", 9),
            ("{'a': 1}", 1),
            ("{} x", 3),
            ("/* x", 0),
            ("[]", 0),
            ("{\"servers\": 1}", 2),
            ("{\"servers\": {}, \"servers\": {}}", 2),
            ("{\"servers\": {\"new\": 1, \"new\": 2}}", 2),
        ] {
            let edited = with_member(text, "servers", "new", &json!({}));
            assert_eq!(edited.unwrap_err().at, at, "{text}");
        }
    }
}
