//! Extraction schemas: the section `extraction_schema` of a file, or the argument `schema`.

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::tree::{self, MapEntry, Node, NodeKind, Section};
use serde_json::{Map, Value};

use crate::format::{codes, no_effect};
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

const WHAT: &str = "an extraction schema";

/// Keys at the top of a schema that the reference implementation ignores, as if they were not there.
const IGNORED: &[(&str, &str)] = &[
    (
        "required_fields",
        "write `entities: {required_fields: […]}`; it checks nothing here",
    ),
    (
        "entity_fields",
        "write `entities: {required_fields: […]}`; it checks nothing here",
    ),
    ("entity_types", "types of entities are not checked"),
    (
        "relationship_types",
        "write `relationships: {types: […]}`; it checks nothing here",
    ),
];

impl Schema {
    /// Reads a schema. Reports unknown keys, wrong types and what cannot be done here.
    pub(crate) fn read(node: &Node, problems: &mut Vec<Problem>) -> Self {
        let mut schema = Self::default();
        let Some(mut section) = Section::from_node(node, WHAT, problems) else {
            return schema;
        };
        if let Some(mut entities) = section.section("entities", "`entities`", problems) {
            schema.entity_fields = texts(&mut entities, "required_fields", problems);
            entities.texts("optional_fields", problems);
            entities.text("type_field", problems);
            entities.finish(problems);
        }
        if let Some(mut relationships) =
            section.section("relationships", "`relationships`", problems)
        {
            schema.types = texts(&mut relationships, "types", problems);
            schema.relationship_fields = texts(&mut relationships, "required_fields", problems);
            relationships.texts("optional_fields", problems);
            let requirements = relationships.map("type_requirements", problems);
            for entry in requirements.unwrap_or_default() {
                let fields = required_of_type(entry, problems);
                schema.type_requirements.insert(entry.key.clone(), fields);
            }
            relationships.finish(problems);
        }
        if section.boolean("guide_extraction", problems) == Some(true) {
            let problem = Problem::new(
                codes::UNSUPPORTED,
                "`guide_extraction` is not supported: no prompt is generated from the schema",
            );
            let place = section.node("guide_extraction").map(|node| &node.place);
            problems.push(
                problem
                    .at(place.unwrap_or(&node.place))
                    .help("write the prompt out, and take `guide_extraction` out"),
            );
        }
        if section.boolean("confidence_tracking", problems) == Some(true)
            && let Some(entry) = section.entry("confidence_tracking")
        {
            let help = "only rules in Prolog and generated prompts use it";
            problems.push(no_effect(entry, WHAT, help));
        }
        for (key, help) in IGNORED {
            if let Some(entry) = section.entry_if_unclaimed(key) {
                problems.push(no_effect(entry, WHAT, help));
            }
        }
        section.finish(problems);
        schema
    }

    /// Reads a schema that is known when the action runs. The error says what is wrong with it.
    pub(super) fn from_value(value: &Map<String, Value>) -> Result<Self, String> {
        let json = Value::Object(value.clone()).to_string();
        let mut problems = Vec::new();
        let schema = match tree::parse("schema", &json) {
            Ok(node) => Self::read(&node, &mut problems),
            Err(found) => {
                problems = found;
                Self::default()
            }
        };
        match problems.iter().find(|problem| !problem.is_warning) {
            Some(problem) => Err(format!("is no extraction schema: {}", problem.message)),
            None => Ok(schema),
        }
    }
}

/// True if a value contains no template.
pub(super) fn is_written_out(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Text(text) => is_literal(text),
        NodeKind::List(items) => items.iter().all(is_written_out),
        NodeKind::Map(entries) => entries.iter().all(|entry| is_written_out(&entry.value)),
        _ => true,
    }
}

fn texts(section: &mut Section<'_>, key: &'static str, problems: &mut Vec<Problem>) -> Vec<String> {
    let texts = section.texts(key, problems).unwrap_or_default();
    texts.into_iter().map(str::to_owned).collect()
}

fn required_of_type(entry: &MapEntry, problems: &mut Vec<Problem>) -> Vec<String> {
    let name = format!("`{}`", entry.key);
    let Some(items) = entry.value.as_list() else {
        problems.push(entry.value.wrong_type(&name, "a list of fields"));
        return Vec::new();
    };
    let mut fields = Vec::new();
    for item in items {
        match item.as_text() {
            Some(field) => fields.push(field.to_owned()),
            None => problems.push(item.wrong_type(&format!("an item of {name}"), "text")),
        }
    }
    fields
}
