//! The documented properties of tools are the declared ones.

use std::collections::BTreeSet;

use cachalot_tools::CacheClass;
use cachalot_tools::builtin;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tools.md");

/// The rows of the tables that begin with a name in backticks, by that name.
fn row(document: &str, name: &str) -> Vec<String> {
    let row = document
        .lines()
        .find(|line| line.starts_with(&format!("| `{name}` |")))
        .unwrap_or_else(|| panic!("nothing is said of `{name}`"));
    let cells = row.trim_matches('|').split('|');
    cells.map(|cell| cell.trim().to_owned()).collect()
}

fn in_backticks(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_built_in_tool_is_documented_with_its_cache_class() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    for tool in builtin::all() {
        let metadata = tool.metadata();
        let row = row(&document, &metadata.name);
        let properties = metadata.parameters.schema();
        let properties = properties["properties"].as_object().unwrap();
        let arguments: BTreeSet<String> = properties.keys().cloned().collect();
        assert_eq!(in_backticks(&row[1]), arguments, "{}", metadata.name);
        let read_only = if metadata.read_only { "yes" } else { "no" };
        assert_eq!(row[2], read_only, "{}", metadata.name);
        let kept = match (metadata.cache_class, metadata.read_only) {
            (CacheClass::Validated, true) => "while what it read is the same",
            (CacheClass::Never, true) => "for a declared time",
            _ => "never",
        };
        assert_eq!(row[3], kept, "{}", metadata.name);
    }
}
