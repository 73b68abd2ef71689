//! Searches pass over files that permission rules deny.

use std::sync::Arc;

use cachalot_core::tree;
use cachalot_operation::Permissions;
use serde_json::json;

use crate::tool_fixture::ToolFixture;

pub(crate) fn rules(yaml: &str) -> Arc<Permissions> {
    let mut problems = Vec::new();
    let node = tree::parse("rules.yaml", yaml).unwrap();
    let rules = Permissions::read(&node, &mut problems);
    assert_eq!(problems, []);
    Arc::new(rules)
}

fn tool_fixture(yaml: &str) -> ToolFixture {
    let mut tool_fixture = ToolFixture::holding(&[
        ("a.txt", "KEY=public\n"),
        (".env", "KEY=secret\n"),
        ("sub/.ENV.local", "KEY=secret\n"),
        ("secrets/key", "KEY=secret\n"),
    ]);
    tool_fixture.context.rules = rules(yaml);
    tool_fixture
}

#[tokio::test]
async fn searches_skip_denied_files_and_report_their_number() {
    let tool_fixture = tool_fixture("deny: ['*:path=**/.env*', '*:path=secrets/**']");
    let found = tool_fixture
        .done("grep", json!({"pattern": "KEY", "hidden": true}))
        .await;
    assert!(
        found.contains("a.txt") && !found.contains("secret\n"),
        "{found}"
    );
    assert!(
        found.contains("3 entries are left out: permission rules"),
        "{found}"
    );
    let found = tool_fixture
        .done("glob", json!({"pattern": "**/*", "hidden": true}))
        .await;
    assert_eq!(
        found.lines().filter(|line| !line.starts_with('[')).count(),
        1,
        "{found}"
    );
    assert!(found.contains("3 entries are left out"), "{found}");
    let found = tool_fixture.done("list_dir", json!({"depth": 3})).await;
    assert!(
        found.contains("a.txt\n") && found.contains("secrets/\n"),
        "{found}"
    );
    assert!(
        !found.to_lowercase().contains(".env") && !found.contains("secrets/key"),
        "{found}"
    );
    assert!(found.contains("3 entries are left out"), "{found}");
    let found = tool_fixture
        .done("list_dir", json!({"path": "secrets"}))
        .await;
    assert_eq!(
        found,
        "[1 entry is left out: permission rules deny reading them, or want it asked about]\n"
    );
}

#[tokio::test]
async fn rules_of_other_tools_hide_nothing() {
    let tool_fixture =
        tool_fixture("deny: ['write_file:path=**', 'grep:path=**/.env*:pattern=x*']");
    let found = tool_fixture
        .done("grep", json!({"pattern": "KEY", "hidden": true}))
        .await;
    assert_eq!(found.matches("secret").count(), 4, "{found}");
    assert!(!found.contains("left out"), "{found}");
}

#[tokio::test]
async fn link_does_not_bypass_a_rule() {
    let tool_fixture = tool_fixture("deny: ['*:path=secrets/**']");
    std::os::unix::fs::symlink("secrets", tool_fixture.path("open")).unwrap();
    let found = tool_fixture
        .done("grep", json!({"pattern": "KEY", "path": "open"}))
        .await;
    assert!(!found.contains("KEY=secret"), "{found}");
    let found = tool_fixture.done("list_dir", json!({"path": "open"})).await;
    assert!(!found.contains("key"), "{found}");
}
