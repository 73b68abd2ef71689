//! What calls declare before they run.

use cachalot_core::{EffectTarget, EffectTargets, Effects};
use cachalot_tools::CacheClass;
use serde_json::{Value, json};

use crate::workshop::{Workshop, object};

fn effects(workshop: &Workshop, tool: &str, mut arguments: Value) -> Effects {
    // Required arguments that have no influence here.
    for name in ["pattern", "content", "old_text", "new_text"] {
        if arguments.get(name).is_none() {
            arguments[name] = "x".into();
        }
    }
    let tool = workshop.registry.tool(tool).unwrap();
    tool.effects(&object(arguments), &workshop.context)
}

fn paths(workshop: &Workshop, paths: &[&str]) -> Vec<EffectTarget> {
    let mut all: Vec<EffectTarget> = paths
        .iter()
        .map(|path| EffectTarget::Path(workshop.path(path).components().collect()))
        .collect();
    all.sort();
    all
}

fn all(workshop: &Workshop, directory: &str, pattern: &str) -> EffectTarget {
    EffectTarget::Glob {
        root: workshop.path(directory).components().collect(),
        pattern: pattern.to_owned(),
    }
}

#[test]
fn readers_may_be_kept_and_writers_never() {
    let workshop = Workshop::new();
    for tool in workshop.registry.tools() {
        let metadata = tool.metadata();
        let reads = ["glob", "grep", "list_dir", "read_file"].contains(&&*metadata.name);
        assert_eq!(metadata.read_only, reads, "{}", metadata.name);
        let cache_class = if reads {
            CacheClass::Validated
        } else {
            CacheClass::Never
        };
        assert_eq!(metadata.cache_class, cache_class, "{}", metadata.name);
        assert!(metadata.description.len() > 60, "{}", metadata.name);
    }
}

#[test]
fn readers_declare_what_they_read() {
    let workshop = Workshop::holding(&[("src/deep/file", "")]);
    std::os::unix::fs::symlink("src", workshop.path("link")).unwrap();
    let reads = |tool: &str, arguments: Value| {
        let declared = effects(&workshop, tool, arguments);
        assert_eq!(declared.writes, EffectTargets::NOTHING, "{tool}");
        match declared.reads {
            EffectTargets::Known(mut list) => {
                list.sort();
                list
            }
            EffectTargets::Unknown => panic!("{tool} reads who knows what"),
        }
    };
    assert_eq!(
        reads("read_file", json!({"path": "src/deep/../deep/file"})),
        paths(&workshop, &["src/deep/file", "src/deep/../deep/file"])
    );
    assert_eq!(
        reads("read_file", json!({"path": "link/new"})),
        paths(&workshop, &["link/new", "src/new"])
    );
    let listing = reads("list_dir", json!({}));
    assert!(listing.contains(&all(&workshop, "", "*")) && listing.len() == 2);
    let listing = reads("list_dir", json!({"depth": 2}));
    assert!(listing.contains(&all(&workshop, "", "**")) && listing.len() == 2);
    for (tool, arguments) in [
        ("glob", json!({"pattern": "*", "path": "src/deep"})),
        ("grep", json!({"pattern": "x", "path": "src/deep"})),
    ] {
        let mut expected = paths(
            &workshop,
            &[
                "src/deep",
                ".ignore",
                ".gitignore",
                "src/.ignore",
                "src/.gitignore",
            ],
        );
        expected.push(all(&workshop, "src/deep", "**"));
        expected.sort();
        assert_eq!(reads(tool, arguments), expected);
    }
    assert_eq!(
        reads("grep", json!({"pattern": "x", "path": "src/deep/file"})),
        paths(&workshop, &["src/deep/file"])
    );
    // What cannot be resolved now may be something else when it runs.
    for tool in ["read_file", "list_dir", "glob", "grep"] {
        let declared = effects(&workshop, tool, json!({"path": "../outside"}));
        assert_eq!(
            (declared.reads, declared.writes),
            (EffectTargets::Unknown, EffectTargets::NOTHING)
        );
    }
}

#[test]
fn writers_declare_what_they_write_and_the_directories_they_make() {
    let workshop = Workshop::holding(&[("src/file", ""), ("old", "")]);
    std::os::unix::fs::symlink("src", workshop.path("link")).unwrap();
    for (tool, arguments, expected) in [
        ("write_file", json!({"path": "src/file"}), vec!["src/file"]),
        ("write_file", json!({"path": "link/file"}), vec!["src/file"]),
        ("write_file", json!({"path": "src/new"}), vec!["src/new"]),
        (
            "write_file",
            json!({"path": "a/b/c"}),
            vec!["a", "a/b", "a/b/c"],
        ),
        ("edit_file", json!({"path": "link/file"}), vec!["src/file"]),
        (
            "apply_patch",
            json!({"patch": "*** Begin Patch\n*** Update File: src/file\n*** Move to: a/file\n*** Delete File: old\n*** Add File: a/b\n+x\n*** End Patch"}),
            vec!["src/file", "a", "a/file", "old", "a/b"],
        ),
        ("apply_patch", json!({"patch": "no patch"}), vec![]),
    ] {
        let declared = effects(&workshop, tool, arguments.clone());
        assert_eq!(
            declared,
            Effects::writing(paths(&workshop, &expected)),
            "{tool} {arguments}"
        );
    }
    for (tool, arguments) in [
        ("write_file", json!({"path": "../x"})),
        ("edit_file", json!({"path": "src/file/x"})),
        (
            "apply_patch",
            json!({"patch": "*** Begin Patch\n*** Delete File: ../x\n*** End Patch"}),
        ),
    ] {
        assert_eq!(
            effects(&workshop, tool, arguments),
            Effects::UNKNOWN,
            "{tool}"
        );
    }
}

/// Whatever a writer changes, it has declared.
#[tokio::test]
async fn what_changes_was_declared() {
    let workshop = Workshop::holding(&[("src/file", "a\n"), ("old", "")]);
    std::os::unix::fs::symlink("src", workshop.path("link")).unwrap();
    for (tool, arguments) in [
        ("write_file", json!({"path": "link/x/y", "content": "1"})),
        (
            "edit_file",
            json!({"path": "link/file", "old_text": "a", "new_text": "b"}),
        ),
        (
            "apply_patch",
            json!({"patch": "*** Begin Patch\n*** Update File: link/file\n*** Move to: m/n/file\n-b\n+c\n*** Delete File: old\n*** Add File: q\n+x\n*** End Patch"}),
        ),
    ] {
        let declared = effects(&workshop, tool, arguments.clone());
        let EffectTargets::Known(writes) = declared.writes else {
            panic!("{tool}");
        };
        let before = workshop.tree();
        workshop.done(tool, arguments).await;
        let after = workshop.tree();
        let changed = before
            .keys()
            .chain(after.keys())
            .filter(|path| before.get(*path) != after.get(*path));
        let mut count = 0;
        for path in changed {
            count += 1;
            assert!(
                writes.contains(&EffectTarget::Path(path.clone())),
                "{tool}: {}",
                path.display()
            );
        }
        assert!(count > 0);
    }
}
