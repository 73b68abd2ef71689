//! Extraction schemas: the section `extraction_schema` of a file, or the argument `schema`.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::config::{
    Custom, ParameterKind as Kind, Table, Values, key, no_effect, section,
};
use cachalot_core::tree::{self, MapEntry, Node, NodeKind};
use serde_json::{Map, Value, json};

use crate::codes;
use crate::template::is_literal;

/// The requirements of an extraction schema.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    /// `entities.required_fields`.
    pub(super) entity_fields: Vec<String>,
    /// `relationships.required_fields`.
    pub(super) relationship_fields: Vec<String>,
    /// `relationships.types`; empty if any type is valid.
    pub(super) types: Vec<String>,
    /// `relationships.type_requirements`: further required fields by type.
    pub(super) type_requirements: BTreeMap<String, Vec<String>>,
}

/// The keys of an extraction schema. Those without effect here are ignored by the reference implementation
/// as well.
#[rustfmt::skip]
pub(crate) static SCHEMA: Table = Table::new(
    "an extraction schema",
    "",
    &[&[
        section("entities", &ENTITIES),
        section("relationships", &RELATIONSHIPS),
        key("guide_extraction", GUIDE, ""),
        key("confidence_tracking", CONFIDENCE, ""),
        no_effect("required_fields", OF_ENTITIES),
        no_effect("entity_fields", OF_ENTITIES),
        no_effect("entity_types", "types of entities are not checked"),
        no_effect("relationship_types", "write `relationships: {types: […]}`; it checks nothing here"),
    ]],
);

const OF_ENTITIES: &str = "write `entities: {required_fields: […]}`; it checks nothing here";

#[rustfmt::skip]
static ENTITIES: Table = Table::new(
    "`entities`",
    "Requirements of entities.",
    &[&[
        key("required_fields", Kind::Texts, "Fields that every entity has."),
        key("optional_fields", Kind::Texts, "Further fields."),
        key("type_field", Kind::Text, "The field with the type of an entity."),
    ]],
);

#[rustfmt::skip]
static RELATIONSHIPS: Table = Table::new(
    "`relationships`",
    "Requirements of relationships.",
    &[&[
        key("types", Kind::Texts, "The valid types; any by default."),
        key("required_fields", Kind::Texts, "Fields that every relationship has."),
        key("optional_fields", Kind::Texts, "Further fields."),
        key("type_requirements", BY_TYPE, "Further required fields, by type."),
    ]],
);

const BY_TYPE: Kind = Kind::Custom(&Custom {
    schema: Some(|| {
        let texts = Kind::Texts.schema(false);
        json!({ "type": "object", "additionalProperties": texts })
    }),
    check: |section, problems| {
        Kind::Object.check(section, problems);
        for entry in section.value.as_map().unwrap_or_default() {
            check_fields(entry, problems);
        }
    },
});

const GUIDE: Kind = Kind::Custom(&Custom {
    schema: None,
    check: |entry, problems| {
        Kind::Boolean.check(entry, problems);
        if entry.value.as_boolean() == Some(true) {
            let message =
                "`guide_extraction` is not supported: no prompt is generated from the schema";
            let problem = Problem::new(codes::UNSUPPORTED, message).at(&entry.value.place);
            problems.push(problem.help("write the prompt out, and take `guide_extraction` out"));
        }
    },
});

const CONFIDENCE: Kind = Kind::Custom(&Custom {
    schema: None,
    check: |entry, problems| {
        Kind::Boolean.check(entry, problems);
        if entry.value.as_boolean() == Some(true) {
            let help = "only rules in Prolog and generated prompts use it";
            problems.push(codes::no_effect_warning(entry, SCHEMA.name, help));
        }
    },
});

impl Schema {
    /// Reads a schema. Reports unknown keys, wrong types and what cannot be done here.
    pub(crate) fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let Some(values) = SCHEMA.read(node, problems) else {
            return Self::default();
        };
        let texts = |section: Option<Values<'_>>, key| {
            let texts = section.and_then(|section| section.texts(key));
            texts.unwrap_or_default()
        };
        let relationships = values.table("relationships");
        let requirements = relationships.map(|values| values.map("type_requirements"));
        Self {
            entity_fields: texts(values.table("entities"), "required_fields"),
            types: texts(relationships, "types"),
            relationship_fields: texts(relationships, "required_fields"),
            type_requirements: requirements
                .unwrap_or_default()
                .iter()
                .map(|entry| (entry.key.clone(), fields(&entry.value)))
                .collect(),
        }
    }

    /// Reads a schema that is known when the action runs.
    ///
    /// # Errors
    /// The first problem.
    pub(super) fn from_value(value: &Map<String, Value>) -> Result<Self, Problem> {
        let json = Value::Object(value.clone()).to_string();
        let mut problems = Vec::new();
        let schema = match tree::parse("schema", &json) {
            Ok(node) => Self::read(&node, &mut problems),
            Err(found) => {
                problems = found;
                Self::default()
            }
        };
        match problems.into_iter().find(|problem| !problem.is_warning) {
            Some(problem) => Err(problem),
            None => Ok(schema),
        }
    }
}

/// True if a value contains no template.
pub(super) fn is_literal_node(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Text(text) => is_literal(text),
        NodeKind::List(items) => items.iter().all(is_literal_node),
        NodeKind::Map(entries) => entries.iter().all(|entry| is_literal_node(&entry.value)),
        _ => true,
    }
}

fn fields(node: &Node) -> Vec<String> {
    let items = node.as_list().unwrap_or_default().iter();
    items.filter_map(Node::as_text).map(str::to_owned).collect()
}

fn check_fields(entry: &MapEntry, problems: &mut Vec<Problem>) {
    let name = format!("`{}`", entry.key);
    let Some(items) = entry.value.as_list() else {
        problems.push(entry.value.wrong_type(&name, "a list of fields"));
        return;
    };
    let others = items.iter().filter(|item| item.as_text().is_none());
    problems.extend(others.map(|item| item.wrong_type(&format!("an item of {name}"), "text")));
}
