//! Tool definitions as a server lists them, as far as the policy reads them.

use std::collections::BTreeSet;

use cachalot_core::{Canonical, CanonicalError, Digest, json};
use serde_json::Value;

use crate::json_members::text_value;

/// The claims of a server about a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// `readOnlyHint`; `None` if it is absent or no boolean.
    pub read_only: Option<bool>,
    /// `destructiveHint`; `None` if it is absent or no boolean.
    pub destructive: Option<bool>,
}

/// The definition of a tool.
#[derive(Debug, Clone)]
pub struct ToolDefinition {
    /// The name.
    pub name: String,
    /// The annotations.
    pub annotations: ToolAnnotations,
    /// The digest of the whole definition.
    pub digest: Digest,
    /// The names of the arguments, if `properties` of the input schema names them all.
    pub properties: Option<BTreeSet<String>>,
}

impl ToolDefinition {
    /// Reads an element of the list of tools.
    ///
    /// # Errors
    /// If it has no name, or a member twice.
    pub fn parse(text: &str) -> Result<Self, CanonicalError> {
        // Refuses members that are there twice, of which readers could take different ones.
        let digest = Canonical::json(text.as_bytes())?.digest();
        let no_name = CanonicalError {
            reason: "a tool without a name",
            at: 0,
        };
        let name = json::member(text, "name")
            .and_then(text_value)
            .ok_or(no_name)?;
        let annotations = json::member(text, "annotations");
        let hint = |key| match annotations.and_then(|it| json::member(it, key)) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        Ok(Self {
            annotations: ToolAnnotations {
                read_only: hint("readOnlyHint"),
                destructive: hint("destructiveHint"),
            },
            name,
            digest,
            properties: json::member(text, "inputSchema").and_then(properties),
        })
    }
}

/// Returns the properties of an input schema; `None` if other members may add some.
fn properties(schema: &str) -> Option<BTreeSet<String>> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    let others = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
    if others.iter().any(|other| schema.get(other).is_some()) {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    Some(properties.keys().cloned().collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn annotations_and_digest_of_a_definition() {
        let one =
            ToolDefinition::parse(r#"{"name":"a\u0062","annotations":{"readOnlyHint":true}}"#)
                .unwrap();
        assert_eq!(one.name, "ab");
        assert_eq!(one.annotations.read_only, Some(true));
        assert_eq!(one.annotations.destructive, None);
        let same = ToolDefinition::parse(r#"{ "annotations":{"readOnlyHint":true}, "name":"ab"}"#)
            .unwrap();
        assert_eq!(one.digest, same.digest);
        let other = r#"{"name":"ab","annotations":{"readOnlyHint":true},"description":"x"}"#;
        assert_ne!(ToolDefinition::parse(other).unwrap().digest, one.digest);
        let twice = r#"{"name":"a","annotations":{"readOnlyHint":false,"readOnlyHint":true}}"#;
        for text in [twice, "{}", r#"{"name":1}"#, "[]"] {
            assert!(ToolDefinition::parse(text).is_err(), "{text}");
        }
        let text = r#"{"name":"a","annotations":{"readOnlyHint":"true","destructiveHint":1}}"#;
        let unread = ToolDefinition::parse(text).unwrap();
        assert_eq!(unread.annotations, ToolAnnotations::default());
    }
}
