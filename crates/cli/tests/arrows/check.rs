//! The allowed dependencies between crates, and their violations.

use std::path::Path;

use serde_json::Value;

/// A crate: its folder under `crates/`, and the crates that it may use.
pub(super) struct CrateRule {
    pub(super) folder: &'static str,
    pub(super) may_use: &'static [&'static str],
}

const fn crate_rule(folder: &'static str, may_use: &'static [&'static str]) -> CrateRule {
    CrateRule { folder, may_use }
}

/// All crates, including planned ones.
pub(super) const TABLE: &[CrateRule] = &[
    crate_rule("core", &[]),
    crate_rule("sandbox", &[]),
    crate_rule("process", &["core"]),
    crate_rule("storage", &["core"]),
    crate_rule("accounting", &["core"]),
    crate_rule("store", &["core"]),
    crate_rule("backends", &["core", "storage", "store"]),
    crate_rule("cache", &["core", "storage", "store"]),
    crate_rule("wire", &["core", "accounting"]),
    crate_rule("model", &["core", "storage", "accounting", "wire"]),
    crate_rule("simulator", &["core", "accounting"]),
    crate_rule("prompt", &["core", "store", "model"]),
    crate_rule("prefix", &["core", "model", "accounting", "prompt"]),
    crate_rule(
        "operation",
        &["core", "sandbox", "storage", "store", "cache", "model"],
    ),
    crate_rule(
        "tools",
        &[
            "core",
            "sandbox",
            "process",
            "storage",
            "store",
            "cache",
            "model",
            "operation",
        ],
    ),
    crate_rule(
        "mcp",
        &["core", "process", "storage", "model", "operation", "tools"],
    ),
    crate_rule(
        "hooks",
        &[
            "core",
            "process",
            "storage",
            "cache",
            "model",
            "operation",
            "tools",
        ],
    ),
    crate_rule(
        "agent",
        &[
            "core",
            "model",
            "prompt",
            "prefix",
            "operation",
            "tools",
            "hooks",
        ],
    ),
    crate_rule(
        "workflow",
        &[
            "core",
            "process",
            "storage",
            "store",
            "cache",
            "model",
            "operation",
            "tools",
            "mcp",
            "agent",
        ],
    ),
    crate_rule(
        "gateway",
        &["core", "accounting", "store", "cache", "model", "prefix"],
    ),
    crate_rule(
        "cli",
        &[
            "core",
            "sandbox",
            "process",
            "storage",
            "accounting",
            "store",
            "backends",
            "cache",
            "model",
            "simulator",
            "prompt",
            "prefix",
            "operation",
            "tools",
            "mcp",
            "hooks",
            "agent",
            "workflow",
            "gateway",
        ],
    ),
];

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
fn crate_rule_of(package: &str) -> Option<&'static CrateRule> {
    TABLE
        .iter()
        .find(|crate_rule| package_name(crate_rule.folder) == package)
}

/// Everything that `metadata` (of `cargo metadata --no-deps`) and the folders under `crates/` do
/// that the table does not allow, a sentence each.
pub(super) fn violations(metadata: &Value, folders: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for folder in folders {
        if !TABLE.iter().any(|crate_rule| crate_rule.folder == folder) {
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
            || crate_rule_of(name).is_some()
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
        let Some(crate_rule) = TABLE.iter().find(|crate_rule| crate_rule.folder == folder) else {
            continue;
        };
        if package_name(crate_rule.folder) != name {
            let expected = package_name(crate_rule.folder);
            found.push(format!(
                "the package in crates/{folder} is called `{name}`: it must be `{expected}`"
            ));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(dependency, "name");
            if dependency["kind"] != "dev" && is_ours(used) && !allows(crate_rule, used) {
                found.push(forbidden(
                    &package_name(crate_rule.folder),
                    crate_rule,
                    used,
                ));
            }
        }
    }
    found
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
