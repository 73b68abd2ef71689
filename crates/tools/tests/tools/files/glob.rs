use serde_json::json;

use crate::workshop::Workshop;

fn tree() -> Workshop {
    Workshop::holding(&[
        ("main.rs", ""),
        ("src/lib.rs", ""),
        ("src/deep/mod.rs", ""),
        ("src/deep/notes.md", ""),
        ("web/app.ts", ""),
        ("web/app.tsx", ""),
        (".github/workflows/ci.yml", ""),
        (".env", ""),
        (".git/config", ""),
    ])
}

#[tokio::test]
async fn files_are_found_by_pattern_in_order() {
    let workshop = tree();
    for (pattern, expected) in [
        ("**/*.rs", "main.rs\nsrc/deep/mod.rs\nsrc/lib.rs\n"),
        ("*.rs", "main.rs\n"),
        ("./src/*.rs", "src/lib.rs\n"),
        ("src/**", "src/deep/mod.rs\nsrc/deep/notes.md\nsrc/lib.rs\n"),
        ("src/**/*.{md,txt}", "src/deep/notes.md\n"),
        (
            "{src/deep,web}/*.[mt]*",
            "src/deep/notes.md\nweb/app.ts\nweb/app.tsx\n",
        ),
        ("web/app.ts?", "web/app.tsx\n"),
        ("src/deep/mod.rs", "src/deep/mod.rs\n"),
        (".github/**", ".github/workflows/ci.yml\n"),
        ("**/.env", ".env\n"),
    ] {
        let found = workshop.done("glob", json!({"pattern": pattern})).await;
        assert_eq!(found, expected, "{pattern}");
    }
    let all = workshop
        .done("glob", json!({"pattern": "**", "hidden": true}))
        .await;
    assert!(
        all.contains(".env\n.github/workflows/ci.yml\nmain.rs\n"),
        "{all}"
    );
    assert!(!all.contains(".git/config"), "{all}");
    let below = workshop
        .done("glob", json!({"pattern": "*.rs", "path": "src/deep"}))
        .await;
    assert_eq!(below, "src/deep/mod.rs\n");
}

#[tokio::test]
async fn empty_results_and_invalid_patterns_are_reported() {
    let workshop = tree();
    let none = workshop.done("glob", json!({"pattern": "*.md"})).await;
    assert_eq!(
        none,
        "[no file matches; `**/*.md` looks in all directories]\n"
    );
    let none = workshop.done("glob", json!({"pattern": "src/*.md"})).await;
    assert_eq!(none, "[no file matches]\n");
    for (pattern, expected) in [
        ("src/[a", "unclosed character class"),
        ("../*", "relative and without `..`"),
        ("/etc/*", "relative and without `..`"),
    ] {
        let said = workshop.fails("glob", json!({"pattern": pattern})).await;
        assert!(said.contains(expected), "{said}");
    }
    let said = workshop
        .fails("glob", json!({"pattern": "*", "path": "main.rs"}))
        .await;
    assert!(said.contains("`main.rs` is a file"), "{said}");
}

#[tokio::test]
async fn ignored_files_are_left_out() {
    let workshop = tree();
    workshop.write(".gitignore", "*.log\n/build/\n!keep.log\n[oops\n");
    workshop.write("src/.gitignore", "deep/*.md\n!nothing");
    workshop.write(".ignore", "web/\n!important.log\n");
    for path in [
        "a.log",
        "keep.log",
        "important.log",
        "src/b.log",
        "build/x",
        "src/build/y",
    ] {
        workshop.write(path, "");
    }
    let found = workshop.done("glob", json!({"pattern": "**"})).await;
    assert_eq!(
        found,
        "important.log\nkeep.log\nmain.rs\nsrc/build/y\nsrc/deep/mod.rs\nsrc/lib.rs\n"
    );
    // The rules around a directory hold in it, but whoever names it is shown it.
    let found = workshop
        .done("glob", json!({"pattern": "*", "path": "src"}))
        .await;
    assert_eq!(found, "src/lib.rs\n");
    let found = workshop
        .done("glob", json!({"pattern": "*", "path": "web"}))
        .await;
    assert_eq!(found, "web/app.ts\nweb/app.tsx\n");
    // A file of rules that leads outside has no say.
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "*.rs\n").unwrap();
    std::os::unix::fs::symlink(outside.path(), workshop.path("src/deep/.gitignore")).unwrap();
    let found = workshop
        .done("glob", json!({"pattern": "*", "path": "src/deep"}))
        .await;
    assert_eq!(found, "src/deep/mod.rs\n");
}

#[tokio::test]
async fn too_many_are_cut_with_their_number() {
    let workshop = Workshop::new();
    for number in 0..1_200 {
        workshop.write(&format!("many/{number:04}"), "");
    }
    let found = workshop.done("glob", json!({"pattern": "many/*"})).await;
    assert_eq!(found.lines().count(), 1_001);
    assert!(
        found.ends_with(
            "many/0999\n[only the first 1,000 files of 1,200 are shown; narrow the pattern]\n"
        ),
        "{found}"
    );
}
