//! Extraction schemas: the section `extraction_schema` of a file, or the argument `schema`.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::config::{Custom, Parameter, ParameterKind as Kind, Settings, key, no_effect};
use cachalot_core::tree::{self, MapEntry, Node, NodeKind};
use serde_json::{Map, Value, json};

use crate::codes;
use crate::template::is_literal;

// The requirements of an extraction schema.
#[derive(Debug, Default, Settings)]
#[settings(name = "an extraction schema", also = OF_OTHERS)]
pub(crate) struct Schema {
    /// Requirements of entities.
    #[setting(default)]
    pub(super) entities: Entities,
    /// Requirements of relationships.
    #[setting(default, then = GUIDE_EXTRACTION, then = CONFIDENCE_TRACKING)]
    pub(super) relationships: Relationships,
}

/// Requirements of entities.
#[derive(Debug, Default, Settings)]
#[settings(name = "`entities`")]
pub(super) struct Entities {
    /// Fields that every entity has.
    #[setting(then = OPTIONAL_FIELDS, then = TYPE_FIELD)]
    pub(super) required_fields: Vec<String>,
}

/// Requirements of relationships.
#[derive(Debug, Default, Settings)]
#[settings(name = "`relationships`")]
pub(super) struct Relationships {
    /// The valid types; any by default.
    pub(super) types: Vec<String>,
    /// Fields that every relationship has.
    #[setting(then = OPTIONAL_FIELDS)]
    pub(super) required_fields: Vec<String>,
    /// Further required fields, by type.
    #[setting(kind = BY_TYPE, with = by_type)]
    pub(super) type_requirements: BTreeMap<String, Vec<String>>,
}

const OPTIONAL_FIELDS: Parameter = key("optional_fields", Kind::Texts, "Further fields.");
#[rustfmt::skip]
const TYPE_FIELD: Parameter = key("type_field", Kind::Text, "The field with the type of an entity.");
const GUIDE_EXTRACTION: Parameter = key("guide_extraction", GUIDE, "");
const CONFIDENCE_TRACKING: Parameter = key("confidence_tracking", CONFIDENCE, "");

/// Keys without effect here, which the reference implementation ignores as well.
#[rustfmt::skip]
const OF_OTHERS: &[Parameter] = &[
    no_effect("required_fields", OF_ENTITIES),
    no_effect("entity_fields", OF_ENTITIES),
    no_effect("entity_types", "types of entities are not checked"),
    no_effect("relationship_types", "write `relationships: {types: […]}`; it checks nothing here"),
];

const OF_ENTITIES: &str = "write `entities: {required_fields: […]}`; it checks nothing here";

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
            problems.push(codes::no_effect_warning(entry, Schema::TABLE.name, help));
        }
    },
});

impl Schema {
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
                None
            }
        };
        match problems.into_iter().find(|problem| !problem.is_warning) {
            Some(problem) => Err(problem),
            None => Ok(schema.unwrap_or_default()),
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

fn by_type(node: &Node) -> Option<BTreeMap<String, Vec<String>>> {
    let fields = |entry: &MapEntry| {
        let items = entry.value.as_list().unwrap_or_default().iter();
        let fields = items.filter_map(Node::as_text).map(str::to_owned);
        (entry.key.clone(), fields.collect())
    };
    Some(node.as_map()?.iter().map(fields).collect())
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
