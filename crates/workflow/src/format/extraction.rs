//! Sections of a file that `validate.extraction` uses, and the arguments that it takes from the file and
//! the state where a node leaves them out.

use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::tree::{self, MapEntry, NodeKind, Section};

use super::calls::names_action;
use super::nodes::NodeReader;
use crate::actions::validate::{EXTRACTION, Schema};
use crate::codes;
use crate::codes::no_effect_warning;

/// Sections and arguments that would need another service, with the reason.
#[rustfmt::skip]
const REFUSED: [(&str, &str, &str); 2] = [
    ("validation_constraints", "constraints", "its rules are Prolog, which is not here: check the result in a block of code, and take it out"),
    ("semantic_probes", "probes", "it would ask a model about every item: ask with `llm.call`, and take it out"),
];

/// Help text for a log of failed validations.
const LOG: &str = "no file of failed validations is written: they are in `errors` of the result";

/// Claims the sections of a file that uses `validate.extraction`, and checks them. Returns the extraction
/// schema.
pub(super) fn read_sections<'a>(
    section: &mut Section<'a>,
    problems: &mut Vec<Problem>,
) -> Option<&'a tree::Node> {
    let is_extraction = |name: &str| EXTRACTION.has_name(name);
    let nodes = section.node("nodes");
    if !nodes.is_some_and(|nodes| names_action(nodes, &is_extraction)) {
        return None;
    }
    for (key, _, reason) in REFUSED {
        if let Some(entry) = section.entry(key).filter(|entry| !is_empty(&entry.value)) {
            problems.push(refused(entry, "an agent file", reason));
        }
    }
    if let Some(entry) = section.entry("validation_logging") {
        problems.push(no_effect_warning(entry, "an agent file", LOG));
    }
    let schema = section.node("extraction_schema");
    let schema = schema.filter(|schema| !is_empty(schema))?;
    let _ = Schema::read(schema, problems);
    schema.as_map().map(|_| schema)
}

fn refused(entry: &MapEntry, what: &str, reason: &str) -> Problem {
    let message = format!("`{}` in {what} is not supported", entry.key);
    Problem::new(codes::UNSUPPORTED_SECTION, message)
        .at(&entry.key_place)
        .help(reason)
}

/// True for null, and for lists, mappings and texts without content. The reference implementation takes
/// these as absent.
fn is_empty(node: &tree::Node) -> bool {
    match &node.kind {
        NodeKind::Null => true,
        NodeKind::Text(text) => text.is_empty(),
        NodeKind::List(items) => items.is_empty(),
        NodeKind::Map(entries) => entries.is_empty(),
        _ => false,
    }
}

impl NodeReader<'_> {
    /// Returns the arguments of `validate.extraction`, called directly or by `cache.wrap`, completed from the
    /// file and the state. Returns `None` for other actions, and for arguments that a template produces.
    pub(super) fn completed(
        &mut self,
        uses: &tree::Node,
        with: Option<&tree::Node>,
    ) -> Option<tree::Node> {
        let name = uses.as_text()?;
        if EXTRACTION.has_name(name) {
            return self.with_extraction(uses, with);
        }
        let is_wrap = ["cache.wrap", "actions.cache_wrap"].contains(&name);
        let with = with.filter(|_| is_wrap)?;
        let args = self.completed(with.get("action")?, with.get("args"))?;
        let mut wrapped = with.clone();
        if let NodeKind::Map(entries) = &mut wrapped.kind {
            entries.retain(|entry| entry.key != "args");
            entries.push(entry("args", args));
        }
        Some(wrapped)
    }

    fn with_extraction(
        &mut self,
        uses: &tree::Node,
        with: Option<&tree::Node>,
    ) -> Option<tree::Node> {
        let mut entries = match with.map(|with| &with.kind) {
            None | Some(NodeKind::Null) => Vec::new(),
            Some(NodeKind::Map(entries)) => entries.clone(),
            Some(_) => return None,
        };
        for (_, argument, reason) in REFUSED {
            for entry in entries.extract_if(.., |entry| entry.key == argument) {
                if !is_empty(&entry.value) {
                    let what = "the arguments of `validate.extraction`";
                    self.problems.push(refused(&entry, what, reason));
                }
            }
        }
        for entry in entries.extract_if(.., |entry| entry.key == "logging") {
            let what = "the arguments of `validate.extraction`";
            self.problems.push(no_effect_warning(&entry, what, LOG));
        }
        let at = |kind| tree::Node {
            place: uses.place.clone(),
            kind,
        };
        let schema = self.extraction_schema.cloned();
        let schema = schema.unwrap_or_else(|| at(NodeKind::Map(Vec::new())));
        complete(&mut entries, "schema", schema, is_empty);
        for key in ["entities", "relationships"] {
            for given in entries.iter_mut().filter(|given| given.key == key) {
                if let NodeKind::Text(text) = &mut given.value.kind
                    && let Some(completed) = or_state_field(text, key)
                {
                    *text = completed;
                }
            }
            let of_state = at(NodeKind::Text(format!("{{{{ state.{key} }}}}")));
            complete(&mut entries, key, of_state, tree::Node::is_null);
        }
        Some(tree::Node {
            place: with.map_or(&uses.place, |with| &with.place).clone(),
            kind: NodeKind::Map(entries),
        })
    }
}

/// Returns a template for the value of `text`, a single expression, or the field of the state if that is
/// null. Returns `None` for any other text, because it never gives null.
fn or_state_field(text: &str, field: &str) -> Option<String> {
    let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    if ["{{", "}}", "{%"].iter().any(|mark| inside.contains(mark)) {
        return None;
    }
    let inside = inside.trim_start_matches(['-', '+']);
    let inside = inside.trim_end_matches('-').trim();
    Some(format!(
        "{{{{ ({inside}) if ({inside}) is defined and ({inside}) is not none else state.{field} }}}}"
    ))
}

/// Sets an argument unless it is given. `is_left_out` is true for values that mean "not given".
fn complete(
    entries: &mut Vec<MapEntry>,
    key: &str,
    value: tree::Node,
    is_left_out: impl Fn(&tree::Node) -> bool,
) {
    if entries
        .iter()
        .any(|entry| entry.key == key && !is_left_out(&entry.value))
    {
        return;
    }
    entries.retain(|entry| entry.key != key);
    entries.push(entry(key, value));
}

fn entry(key: &str, value: tree::Node) -> MapEntry {
    MapEntry {
        key: key.to_owned(),
        key_place: value.place.clone(),
        value,
    }
}
