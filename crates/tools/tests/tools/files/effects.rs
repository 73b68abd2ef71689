//! Effects that calls declare before they run.

use cachalot_core::{EffectTarget, EffectTargets, Effects};
use cachalot_tools::CacheClass;
use serde_json::{Value, json};

use crate::tool_fixture::{ToolFixture, object};

fn effects(tool_fixture: &ToolFixture, tool: &str, mut arguments: Value) -> Effects {
    // Required arguments that have no influence here.
    for name in ["pattern", "content", "old_text", "new_text"] {
        if arguments.get(name).is_none() {
            arguments[name] = "x".into();
        }
    }
    let tool = tool_fixture.registry.tool(tool).unwrap();
    tool.effects(&object(arguments), &tool_fixture.context)
}

fn paths(tool_fixture: &ToolFixture, paths: &[&str]) -> Vec<EffectTarget> {
    let mut all: Vec<EffectTarget> = paths
        .iter()
        .map(|path| EffectTarget::Path(tool_fixture.path(path).components().collect()))
        .collect();
    all.sort();
    all
}

fn all(tool_fixture: &ToolFixture, directory: &str, pattern: &str) -> EffectTarget {
    EffectTarget::Glob {
        root: tool_fixture.path(directory).components().collect(),
        pattern: pattern.to_owned(),
    }
}

#[test]
fn reading_tools_are_cacheable_and_writing_tools_are_not() {
    let tool_fixture = ToolFixture::new();
    for tool in tool_fixture.registry.tools() {
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
fn reading_tools_declare_their_reads() {
    let tool_fixture = ToolFixture::holding(&[("src/deep/file", "")]);
    std::os::unix::fs::symlink("src", tool_fixture.path("link")).unwrap();
    let reads = |tool: &str, arguments: Value| {
        let declared = effects(&tool_fixture, tool, arguments);
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
        paths(&tool_fixture, &["src/deep/file", "src/deep/../deep/file"])
    );
    assert_eq!(
        reads("read_file", json!({"path": "link/new"})),
        paths(&tool_fixture, &["link/new", "src/new"])
    );
    let listing = reads("list_dir", json!({}));
    assert!(listing.contains(&all(&tool_fixture, "", "*")) && listing.len() == 2);
    let listing = reads("list_dir", json!({"depth": 2}));
    assert!(listing.contains(&all(&tool_fixture, "", "**")) && listing.len() == 2);
    for (tool, arguments) in [
        ("glob", json!({"pattern": "*", "path": "src/deep"})),
        ("grep", json!({"pattern": "x", "path": "src/deep"})),
    ] {
        let mut expected = paths(
            &tool_fixture,
            &[
                "src/deep",
                ".ignore",
                ".gitignore",
                "src/.ignore",
                "src/.gitignore",
            ],
        );
        expected.push(all(&tool_fixture, "src/deep", "**"));
        expected.sort();
        assert_eq!(reads(tool, arguments), expected);
    }
    assert_eq!(
        reads("grep", json!({"pattern": "x", "path": "src/deep/file"})),
        paths(&tool_fixture, &["src/deep/file"])
    );
    // What cannot be resolved now may be something else when it runs.
    for tool in ["read_file", "list_dir", "glob", "grep"] {
        let declared = effects(&tool_fixture, tool, json!({"path": "../outside"}));
        assert_eq!(
            (declared.reads, declared.writes),
            (EffectTargets::Unknown, EffectTargets::NOTHING)
        );
    }
}

#[test]
fn writing_tools_declare_files_and_created_directories() {
    let tool_fixture = ToolFixture::holding(&[("src/file", ""), ("old", "")]);
    std::os::unix::fs::symlink("src", tool_fixture.path("link")).unwrap();
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
        let declared = effects(&tool_fixture, tool, arguments.clone());
        assert_eq!(
            declared,
            Effects::writing(paths(&tool_fixture, &expected)),
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
            effects(&tool_fixture, tool, arguments),
            Effects::UNKNOWN,
            "{tool}"
        );
    }
}

/// Whatever a writer changes, it has declared.
#[tokio::test]
async fn every_changed_path_was_declared() {
    let tool_fixture = ToolFixture::holding(&[("src/file", "a\n"), ("old", "")]);
    std::os::unix::fs::symlink("src", tool_fixture.path("link")).unwrap();
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
        let declared = effects(&tool_fixture, tool, arguments.clone());
        let EffectTargets::Known(writes) = declared.writes else {
            panic!("{tool}");
        };
        let before = tool_fixture.tree();
        tool_fixture.done(tool, arguments).await;
        let after = tool_fixture.tree();
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
