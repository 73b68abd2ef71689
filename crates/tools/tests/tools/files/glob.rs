use serde_json::json;

use crate::tool_fixture::ToolFixture;

fn tree() -> ToolFixture {
    ToolFixture::holding(&[
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
async fn glob_lists_matching_files_in_order() {
    let tool_fixture = tree();
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
        let found = tool_fixture.done("glob", json!({"pattern": pattern})).await;
        assert_eq!(found, expected, "{pattern}");
    }
    let all = tool_fixture
        .done("glob", json!({"pattern": "**", "hidden": true}))
        .await;
    assert!(
        all.contains(".env\n.github/workflows/ci.yml\nmain.rs\n"),
        "{all}"
    );
    assert!(!all.contains(".git/config"), "{all}");
    let below = tool_fixture
        .done("glob", json!({"pattern": "*.rs", "path": "src/deep"}))
        .await;
    assert_eq!(below, "src/deep/mod.rs\n");
}

#[tokio::test]
async fn empty_results_and_invalid_patterns_are_reported() {
    let tool_fixture = tree();
    let none = tool_fixture.done("glob", json!({"pattern": "*.md"})).await;
    assert_eq!(
        none,
        "[no file matches; `**/*.md` looks in all directories]\n"
    );
    let none = tool_fixture
        .done("glob", json!({"pattern": "src/*.md"}))
        .await;
    assert_eq!(none, "[no file matches]\n");
    for (pattern, expected) in [
        ("src/[a", "unclosed character class"),
        ("../*", "relative and without `..`"),
        ("/etc/*", "relative and without `..`"),
    ] {
        let said = tool_fixture
            .fails("glob", json!({"pattern": pattern}))
            .await;
        assert!(said.contains(expected), "{said}");
    }
    let said = tool_fixture
        .fails("glob", json!({"pattern": "*", "path": "main.rs"}))
        .await;
    assert!(said.contains("`main.rs` is a file"), "{said}");
}

#[tokio::test]
async fn ignored_files_are_excluded() {
    let tool_fixture = tree();
    tool_fixture.write(".gitignore", "*.log\n/build/\n!keep.log\n[oops\n");
    tool_fixture.write("src/.gitignore", "deep/*.md\n!nothing");
    tool_fixture.write(".ignore", "web/\n!important.log\n");
    for path in [
        "a.log",
        "keep.log",
        "important.log",
        "src/b.log",
        "build/x",
        "src/build/y",
    ] {
        tool_fixture.write(path, "");
    }
    let found = tool_fixture.done("glob", json!({"pattern": "**"})).await;
    assert_eq!(
        found,
        "important.log\nkeep.log\nmain.rs\nsrc/build/y\nsrc/deep/mod.rs\nsrc/lib.rs\n"
    );
    // The rules around a directory hold in it, but whoever names it is shown it.
    let found = tool_fixture
        .done("glob", json!({"pattern": "*", "path": "src"}))
        .await;
    assert_eq!(found, "src/lib.rs\n");
    let found = tool_fixture
        .done("glob", json!({"pattern": "*", "path": "web"}))
        .await;
    assert_eq!(found, "web/app.ts\nweb/app.tsx\n");
    // A file of rules that leads outside has no say.
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "*.rs\n").unwrap();
    std::os::unix::fs::symlink(outside.path(), tool_fixture.path("src/deep/.gitignore")).unwrap();
    let found = tool_fixture
        .done("glob", json!({"pattern": "*", "path": "src/deep"}))
        .await;
    assert_eq!(found, "src/deep/mod.rs\n");
}

#[tokio::test]
async fn glob_result_is_truncated_with_the_number_of_files() {
    let tool_fixture = ToolFixture::new();
    for number in 0..1_200 {
        tool_fixture.write(&format!("many/{number:04}"), "");
    }
    let found = tool_fixture
        .done("glob", json!({"pattern": "many/*"}))
        .await;
    assert_eq!(found.lines().count(), 1_001);
    assert!(
        found.ends_with(
            "many/0999\n[only the first 1,000 files of 1,200 are shown; narrow the pattern]\n"
        ),
        "{found}"
    );
}
