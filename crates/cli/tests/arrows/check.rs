//! The table of rooms, and what breaks it.

use std::path::Path;

use serde_json::Value;

/// A room: a folder under `crates/`, and the rooms that it may use.
pub(super) struct Room {
    pub(super) folder: &'static str,
    pub(super) may_use: &'static [&'static str],
}

const fn room(folder: &'static str, may_use: &'static [&'static str]) -> Room {
    Room { folder, may_use }
}

/// All rooms of the house, also those that are still to be built.
pub(super) const TABLE: &[Room] = &[
    room("core", &[]),
    room("storage", &["core"]),
    room("accounting", &["core"]),
    room("store", &["core"]),
    room("backends", &["core", "storage", "store"]),
    room("cache", &["core", "storage", "store"]),
    room("model", &["core", "storage"]),
    room("simulator", &["core", "accounting"]),
    room("prompt", &["core", "store", "model"]),
    room("prefix", &["core", "model", "accounting", "prompt"]),
    room("operation", &["core", "storage", "store", "cache", "model"]),
    room(
        "tools",
        &["core", "storage", "store", "cache", "model", "operation"],
    ),
    room("mcp", &["core", "storage", "model", "operation", "tools"]),
    room("hooks", &["core", "storage", "cache", "model", "operation"]),
    room(
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
    room(
        "workflow",
        &[
            "core",
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
    room(
        "gateway",
        &["core", "store", "cache", "model", "prompt", "tools"],
    ),
    room(
        "cli",
        &[
            "core",
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

/// The name of a room's package.
fn package_name(folder: &str) -> String {
    match folder {
        "cli" => "cachalot".to_owned(),
        folder => format!("cachalot-{folder}"),
    }
}

/// The room whose package has this name.
fn room_of(package: &str) -> Option<&'static Room> {
    TABLE
        .iter()
        .find(|room| package_name(room.folder) == package)
}

/// Everything that `metadata` (of `cargo metadata --no-deps`) and the folders under `crates/` do
/// that the table does not allow, a sentence each.
pub(super) fn violations(metadata: &Value, folders: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for folder in folders {
        if !TABLE.iter().any(|room| room.folder == folder) {
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
        packages.iter().any(|package| text(package, "name") == name) || room_of(name).is_some()
    };
    for package in packages {
        let name = text(package, "name");
        let manifest = Path::new(text(package, "manifest_path"));
        let Some(folder) = folder_of(manifest, &crates) else {
            found.push(format!(
                "the package `{name}` ({}) is not a folder of `crates/`",
                manifest.display()
            ));
            continue;
        };
        let Some(room) = TABLE.iter().find(|room| room.folder == folder) else {
            continue;
        };
        if package_name(room.folder) != name {
            let expected = package_name(room.folder);
            found.push(format!(
                "the package in crates/{folder} is called `{name}`: it must be `{expected}`"
            ));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = text(dependency, "name");
            if dependency["kind"] != "dev" && is_ours(used) && !allows(room, used) {
                found.push(forbidden(&package_name(room.folder), room, used));
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

fn allows(room: &Room, used: &str) -> bool {
    room.may_use
        .iter()
        .any(|folder| package_name(folder) == used)
}

fn forbidden(package: &str, room: &Room, used: &str) -> String {
    let allowed: Vec<String> = room
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
