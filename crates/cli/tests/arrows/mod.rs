//! The dependencies between crates are those of the table in `ARCHITECTURE.md`. An arrow points only to a row further
//! up; dev-dependencies are exempt.

mod check;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use check::{CrateRule, DOCUMENT, OUTSIDE};

/// The output of `cargo metadata` for this workspace.
fn metadata() -> Value {
    let root = crate::files::root();
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(&root)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON")
}

/// The table of crates.
fn table() -> Vec<CrateRule> {
    check::table(&crate::files::text(DOCUMENT))
}

/// The violations of the table by a workspace.
fn violations(metadata: &Value, folders: &[String]) -> Vec<String> {
    check::violations(&table(), metadata, folders)
}

/// True if a documentation comment of a file has an example in Rust.
fn has_example(file: &str) -> bool {
    let text = crate::files::text(file);
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!"))
    });
    let fences = comments.filter_map(|line| line.trim_start().strip_prefix("```"));
    let is_rust = |language: &str| !matches!(language.trim(), "text" | "yaml" | "json");
    fences.step_by(2).any(is_rust)
}

/// The README's `cargo run` names no program, and there are several.
#[test]
fn cargo_runs_one_program_by_default() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let programs = packages.filter_map(|package| package["default_run"].as_str());
    assert_eq!(programs.collect::<Vec<_>>(), ["cachalot"]);
}

/// A crate without examples in its documentation is not searched for them, which takes seconds each time.
#[test]
fn examples_in_documentation_are_run() {
    for package in metadata()["packages"].as_array().unwrap() {
        let targets = package["targets"].as_array().unwrap();
        let Some(library) = targets.iter().find(|target| target["kind"][0] == "lib") else {
            continue;
        };
        let root = Path::new(library["src_path"].as_str().unwrap());
        let folder = root.parent().unwrap().strip_prefix(crate::files::root());
        let sources = crate::files::in_folder(folder.unwrap().to_str().unwrap(), "rs", true);
        assert!(!sources.is_empty());
        let has_examples = sources.iter().any(|file| has_example(file));
        let name = &package["name"];
        assert_eq!(library["doctest"], has_examples, "`doctest` of {name}");
    }
}

/// The folders under `crates/`.
fn folders() -> Vec<String> {
    let mut folders: Vec<String> = std::fs::read_dir(crate::files::root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    folders
}

fn package<'a>(metadata: &'a mut Value, name: &str) -> &'a mut Value {
    let packages = metadata["packages"].as_array_mut().unwrap();
    packages
        .iter_mut()
        .find(|package| package["name"] == name)
        .unwrap()
}

/// The workspace with one more dependency.
fn with_dependency(from: &str, to: &str, kind: &Value) -> Value {
    let mut metadata = metadata();
    let dependency = json!({ "name": to, "kind": kind, "rename": null });
    package(&mut metadata, from)["dependencies"]
        .as_array_mut()
        .unwrap()
        .push(dependency);
    metadata
}

#[test]
fn every_dependency_points_to_a_row_above() {
    let found = violations(&metadata(), &folders());
    assert!(
        found.is_empty(),
        "the table of crates in {DOCUMENT} is broken:\n{}",
        found.join("\n")
    );
}

#[test]
fn rows_are_read_from_the_document() {
    let found = check::table(
        "# Title\n\n| `not` | this | table |\n\n## Crates\n\nText\n\n| crate | content | may use |\n|---|---|---|\n\
         | `core` | a \\| b | – |\n| `store` | `Store` | core |\n| `cache` | c | core, store |\n\
         | `cli` | d | all except core |\n| `docs` | e | all |\n\n### More\n\n## Other\n\n| `nor` | this | core |\n",
    );
    let rows = [
        ("core", &[][..]),
        ("store", &["core"]),
        ("cache", &["core", "store"]),
        ("cli", &["store", "cache"]),
        ("docs", &["core", "store", "cache", "cli"]),
    ];
    let expected = rows.map(|(folder, may_use)| CrateRule {
        folder: folder.to_owned(),
        may_use: may_use.iter().map(|&name| name.to_owned()).collect(),
    });
    assert_eq!(found, expected);
}

#[test]
fn row_that_allows_a_row_below_is_a_violation() {
    let mut table = table();
    table
        .iter_mut()
        .find(|crate_rule| crate_rule.folder == "store")
        .unwrap()
        .may_use
        .push("cache".into());
    let found = check::violations(&table, &metadata(), &folders());
    let expected = "`store` may use `cache`, which is not further up";
    assert!(found.iter().any(|text| text == expected), "{found:?}");
}

#[test]
fn row_without_a_crate_is_a_violation() {
    let mut table = table();
    table.push(CrateRule {
        folder: "cellar".into(),
        may_use: Vec::new(),
    });
    let found = check::violations(&table, &metadata(), &folders());
    assert_eq!(found, ["`cellar` has a row, but there is no crates/cellar"]);
}

#[test]
fn second_row_of_a_crate_is_a_violation() {
    let mut table = table();
    table.push(table[0].clone());
    let found = check::violations(&table, &metadata(), &folders());
    assert_eq!(found, ["`settings-derive` has two rows"]);
}

#[test]
fn permitted_crate_that_is_not_used_is_a_violation() {
    let mut metadata = metadata();
    package(&mut metadata, "cachalot-backends")["dependencies"]
        .as_array_mut()
        .unwrap()
        .retain(|dependency| dependency["name"] != "cachalot-storage");
    let found = violations(&metadata, &folders());
    let expected = "`backends` may use `storage`, but does not: remove it from the row";
    assert_eq!(found, [expected]);
}

#[test]
fn check_covers_every_crate_of_the_workspace() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    assert_eq!(packages.len(), folders().len() + OUTSIDE.len());
    // The check would find nothing if dependencies were not listed.
    let cli = packages
        .iter()
        .find(|package| package["name"] == "cachalot")
        .unwrap();
    assert!(
        cli["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .any(|used| used["name"] == "cachalot-core")
    );
}

#[test]
fn downward_dependency_is_a_violation() {
    for (from, to, kind) in [
        ("cachalot-store", "cachalot-cache", Value::Null),
        ("cachalot-core", "cachalot-storage", Value::Null),
        ("cachalot-storage", "cachalot-store", Value::Null),
        ("cachalot-cache", "cachalot-workflow", json!("build")),
        ("cachalot-workflow", "cachalot", Value::Null),
    ] {
        let found = violations(&with_dependency(from, to, &kind), &folders());
        assert_eq!(found.len(), 1, "{from} -> {to}: {found:?}");
        assert!(
            found[0].contains(from) && found[0].contains(to),
            "{}",
            found[0]
        );
    }
}

#[test]
fn dev_dependencies_are_exempt() {
    let metadata = with_dependency("cachalot-store", "cachalot-cache", &json!("dev"));
    assert_eq!(violations(&metadata, &folders()), [""; 0]);
}

#[test]
fn crate_missing_in_the_table_is_a_violation() {
    let mut folders = folders();
    folders.push("cellar".into());
    let found = violations(&metadata(), &folders);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("cellar"), "{}", found[0]);
}

#[test]
fn crate_with_an_unexpected_package_name_is_a_violation() {
    let mut metadata = metadata();
    package(&mut metadata, "cachalot-store")["name"] = json!("store");
    let found = violations(&metadata, &folders());
    assert!(
        found
            .iter()
            .any(|text| text.contains("`cachalot-store`") && text.contains("`store`")),
        "{found:?}"
    );
}

#[test]
fn crate_outside_of_the_crates_folder_is_a_violation() {
    let mut metadata = metadata();
    let elsewhere =
        Path::new(metadata["workspace_root"].as_str().unwrap()).join("tools/extra/Cargo.toml");
    package(&mut metadata, "cachalot-store")["manifest_path"] = json!(elsewhere.to_string_lossy());
    let found = violations(&metadata, &folders());
    assert!(
        found
            .iter()
            .any(|text| text.contains("is not a folder of `crates/`")),
        "{found:?}"
    );
}
