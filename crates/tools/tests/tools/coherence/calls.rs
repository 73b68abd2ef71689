//! The calls that are made.

use serde_json::{Value, json};

use super::random::Random;
use super::tree::{DIRECTORIES, FILES, LIBRARY, Tree, text};

/// A call: a tool and its arguments.
pub(super) type ToolRequest = (&'static str, Value);

/// Returns whether a call only reads, so that both toolboxes run it.
pub(super) fn is_reader(tool: &str) -> bool {
    ["read_file", "list_dir", "glob", "grep"].contains(&tool)
}

/// Possible requests, frequent ones first.
pub(super) fn readers() -> Vec<ToolRequest> {
    let mut all = Vec::new();
    for (index, file) in FILES.iter().enumerate() {
        all.push(("read_file", json!({ "path": file })));
        if index < 6 {
            all.push(("read_file", json!({"path": file, "offset": 2, "limit": 2})));
            all.push(("grep", json!({"pattern": "alpha", "path": file})));
        }
        if index % 2 == 0 {
            let file = LIBRARY[index / 2 % LIBRARY.len()];
            all.push(("read_file", json!({ "path": file })));
        }
    }
    all.extend([
        ("list_dir", json!({})),
        ("list_dir", json!({"path": "lib", "depth": 2})),
        ("grep", json!({"pattern": "(?i)BE.A", "path": "lib"})),
        ("glob", json!({"pattern": "**/*.rs", "path": "src"})),
        ("grep", json!({"pattern": "gamma", "path": "src"})),
        ("glob", json!({"pattern": "**/*"})),
        ("grep", json!({"pattern": "delta", "output": "files"})),
        (
            "grep",
            json!({"pattern": "[0-4]{3}", "path": "doc", "context": 1}),
        ),
        ("list_dir", json!({"depth": 3})),
        ("glob", json!({"pattern": "*.{txt,md}"})),
        ("glob", json!({"pattern": "**", "hidden": true})),
        (
            "grep",
            json!({"pattern": "omega", "glob": "*.rs", "output": "count"}),
        ),
        ("read_file", json!({"path": "src/../a.txt"})),
        ("read_file", json!({"path": "linked/y.txt"})),
        ("read_file", json!({"path": "doc"})),
        ("list_dir", json!({"path": "linked/../doc"})),
    ]);
    all.extend(
        DIRECTORIES
            .iter()
            .map(|directory| ("list_dir", json!({ "path": directory }))),
    );
    all
}

/// Something that writes, or may.
pub(super) fn writer(random: &mut Random, tree: &Tree) -> ToolRequest {
    let file = *random.favour(&FILES);
    match random.below(20) {
        0..=5 => ("write_file", json!({"path": file, "content": text(random)})),
        6..=11 => edit(random, tree, file),
        12..=18 => ("apply_patch", json!({ "patch": patch(random, tree) })),
        _ => ("shell", json!({ "command": command(random) })),
    }
}

fn edit(random: &mut Random, tree: &Tree, file: &str) -> ToolRequest {
    let old = tree.text_of(file).unwrap_or_default();
    let line = old.lines().next().unwrap_or("nothing").to_owned();
    let new = text(random);
    let arguments = json!({
        "path": file, "old_text": line, "new_text": new.trim_end(), "replace_all": true,
    });
    ("edit_file", arguments)
}

fn patch(random: &mut Random, tree: &Tree) -> String {
    let mut patch = "*** Begin Patch\n".to_owned();
    for _ in 0..=random.below(2) {
        let file = *random.favour(&FILES);
        let first = tree
            .text_of(file)
            .and_then(|text| text.lines().next().map(str::to_owned));
        match (random.below(5), first) {
            (0, _) => patch.push_str(&format!("*** Delete File: {file}\n")),
            (1, _) | (_, None) => {
                patch.push_str(&format!("*** Add File: {file}\n"));
                for line in text(random).lines() {
                    patch.push_str(&format!("+{line}\n"));
                }
            }
            (2, Some(line)) => {
                let to = random.pick(&FILES);
                patch.push_str(&format!(
                    "*** Update File: {file}\n*** Move to: {to}\n@@\n-{line}\n+moved {line}\n"
                ));
            }
            (_, Some(line)) => {
                let new = random.below(1_000);
                patch.push_str(&format!(
                    "*** Update File: {file}\n@@\n-{line}\n+patched{new:03}\n"
                ));
            }
        }
    }
    patch + "*** End Patch\n"
}

fn command(random: &mut Random) -> String {
    let (file, other) = (random.favour(&FILES), random.favour(&FILES));
    let directory = random.pick(&DIRECTORIES);
    match random.below(7) {
        0 => format!("printf 'beta from a shell\\n' > {file}"),
        1 => format!("mv -f {file} {other}"),
        2 => format!("rm -f {file}"),
        3 => format!("mkdir -p {directory} && cp {file} {directory}/"),
        4 => format!("rm -rf {directory}"),
        5 => format!("cat {file}"),
        _ => "mkdir -p src/deep doc && printf 'alpha\\n' > src/deep/x.rs".to_owned(),
    }
}
