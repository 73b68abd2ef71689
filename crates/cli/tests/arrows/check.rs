//! The allowed dependencies between crates, and their violations.

use std::path::Path;

use serde_json::Value;

use crate::coverage::section;

/// The document with the table of crates.
pub(super) const DOCUMENT: &str = "ARCHITECTURE.md";

/// A row of the table: a folder under `crates/`, and the crates that it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CrateRule {
    pub(super) folder: String,
    pub(super) may_use: Vec<String>,
}

/// Reads the table of crates: the first column is the folder, the last one the crates that it may use. These are
/// separated by commas; `–` is none, `all` is every row above, and `all except` every row above but those that follow.
pub(super) fn table(document: &str) -> Vec<CrateRule> {
    let mut table: Vec<CrateRule> = Vec::new();
    for line in section(document, "## Crates").lines() {
        let Some(row) = line.strip_prefix("| `") else {
            continue;
        };
        let (folder, row) = row.split_once("` |").expect("the folder is one name");
        let (_, cell) = row
            .trim_end_matches([' ', '|'])
            .rsplit_once('|')
            .expect("a row has three cells");
        let may_use = match cell.trim() {
            "–" => Vec::new(),
            "all" => above(&table, &[]),
            cell => match cell.strip_prefix("all except ") {
                Some(others) => above(&table, &names(others)),
                None => names(cell),
            },
        };
        table.push(CrateRule {
            folder: folder.to_owned(),
            may_use,
        });
    }
    table
}

/// The crates of a table that are not among `others`.
fn above(table: &[CrateRule], others: &[String]) -> Vec<String> {
    for other in others {
        let is_above = table.iter().any(|crate_rule| crate_rule.folder == *other);
        assert!(is_above, "`all except {other}`: no row above has this name");
    }
    let folders = table.iter().map(|crate_rule| crate_rule.folder.clone());
    folders.filter(|folder| !others.contains(folder)).collect()
}

fn names(cell: &str) -> Vec<String> {
    cell.split(',').map(|name| name.trim().to_owned()).collect()
}

/// Packages outside `crates/`, for tests only: no crate may use them.
pub(super) const OUTSIDE: [&str; 2] = ["cachalot-fuzz", "third-party"];

/// The name of a crate's package.
fn package_name(folder: &str) -> String {
    match folder {
        "cli" => "cachalot".to_owned(),
        folder => format!("cachalot-{folder}"),
    }
}

/// The rule of the crate with this package name.
fn crate_rule_of<'a>(table: &'a [CrateRule], package: &str) -> Option<&'a CrateRule> {
    table
        .iter()
        .find(|crate_rule| package_name(&crate_rule.folder) == package)
}

/// Everything that `metadata` (of `cargo metadata --no-deps`) and the folders under `crates/` do
/// that the table does not allow, and every row that has nothing to allow, a sentence each.
pub(super) fn violations(table: &[CrateRule], metadata: &Value, folders: &[String]) -> Vec<String> {
    let mut found = misplaced_rows(table, folders);
    for folder in folders {
        if !table.iter().any(|crate_rule| crate_rule.folder == *folder) {
            found.push(format!(
                "crates/{folder} is not in the table: say there what it may use"
            ));
        }
    }
    let crates = Path::new(text(metadata, "workspace_root")).join("crates");
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_ours = |name: &str| {
        packages.iter().any(|package| text(package, "name") == name)
            || crate_rule_of(table, name).is_some()
    };
    for package in packages {
        let name = text(package, "name");
        if OUTSIDE.contains(&name) {
            continue;
        }
        let manifest = Path::new(text(package, "manifest_path"));
        let Some(folder) = folder_of(manifest, &crates) else {
            found.push(format!(
                "the package `{name}` ({}) is not a folder of `crates/`",
                manifest.display()
            ));
            continue;
        };
        let Some(crate_rule) = table.iter().find(|crate_rule| crate_rule.folder == folder) else {
            continue;
        };
        if package_name(&crate_rule.folder) != name {
            let expected = package_name(&crate_rule.folder);
            found.push(format!(
                "the package in crates/{folder} is called `{name}`: it must be `{expected}`"
            ));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(dependency, "name");
            if dependency["kind"] != "dev" && is_ours(used) && !allows(crate_rule, used) {
                found.push(forbidden(
                    &package_name(&crate_rule.folder),
                    crate_rule,
                    used,
                ));
            }
        }
        found.extend(unused(crate_rule, package));
    }
    found
}

/// Rows that occur twice, that have no folder, or that allow a crate which is not further up.
fn misplaced_rows(table: &[CrateRule], folders: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (row, crate_rule) in table.iter().enumerate() {
        let folder = &crate_rule.folder;
        let is_above = |name: &str| table[..row].iter().any(|other| other.folder == name);
        if is_above(folder) {
            found.push(format!("`{folder}` has two rows"));
        }
        if !folders.contains(folder) {
            found.push(format!(
                "`{folder}` has a row, but there is no crates/{folder}"
            ));
        }
        for used in crate_rule.may_use.iter().filter(|used| !is_above(used)) {
            found.push(format!(
                "`{folder}` may use `{used}`, which is not further up"
            ));
        }
    }
    found
}

/// The crates that a package may use and does not.
fn unused(crate_rule: &CrateRule, package: &Value) -> Vec<String> {
    let dependencies = package["dependencies"].as_array();
    let dependencies = dependencies.map_or(&[][..], Vec::as_slice);
    let is_used = |folder: &str| {
        let name = package_name(folder);
        dependencies
            .iter()
            .any(|used| used["kind"] != "dev" && text(used, "name") == name)
    };
    let unused = crate_rule.may_use.iter().filter(|folder| !is_used(folder));
    unused
        .map(|folder| {
            let user = &crate_rule.folder;
            format!("`{user}` may use `{folder}`, but does not: remove it from the row")
        })
        .collect()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// The folder directly under `crates` that a manifest lies in.
fn folder_of<'a>(manifest: &'a Path, crates: &Path) -> Option<&'a str> {
    let folder = manifest.parent()?;
    if folder.parent()? == crates {
        folder.file_name()?.to_str()
    } else {
        None
    }
}

fn allows(crate_rule: &CrateRule, used: &str) -> bool {
    crate_rule
        .may_use
        .iter()
        .any(|folder| package_name(folder) == used)
}

fn forbidden(package: &str, crate_rule: &CrateRule, used: &str) -> String {
    let allowed: Vec<String> = crate_rule
        .may_use
        .iter()
        .map(|folder| package_name(folder))
        .collect();
    let allowed = if allowed.is_empty() {
        "no crate of the workspace".to_owned()
    } else {
        allowed.join(", ")
    };
    format!("`{package}` depends on `{used}`, but may use only: {allowed}")
}
