use serde_json::json;

use crate::tool_fixture::ToolFixture;

#[tokio::test]
async fn entries_are_sorted_and_marked() {
    let tool_fixture =
        ToolFixture::holding(&[("b/c/d", ""), ("B", ""), (".hidden", ""), ("a.txt", "")]);
    tool_fixture.write(".git/config", "");
    std::os::unix::fs::symlink("a.txt", tool_fixture.path("link")).unwrap();
    assert_eq!(
        tool_fixture.done("list_dir", json!({})).await,
        ".git/\n.hidden\nB\na.txt\nb/\nlink@\n"
    );
    assert_eq!(
        tool_fixture.done("list_dir", json!({"depth": 3})).await,
        ".git/\n.hidden\nB\na.txt\nb/\nb/c/\nb/c/d\nlink@\n"
    );
    assert_eq!(
        tool_fixture
            .done("list_dir", json!({"path": "b", "depth": 2}))
            .await,
        "c/\nc/d\n"
    );
    assert_eq!(
        tool_fixture.done("list_dir", json!({"path": ".git"})).await,
        "config\n"
    );
}

#[tokio::test]
async fn empty_and_truncated_listings_are_reported() {
    let tool_fixture = ToolFixture::new();
    assert_eq!(
        tool_fixture.done("list_dir", json!({})).await,
        "[the directory is empty]\n"
    );
    for number in 0..1_001 {
        tool_fixture.write(&format!("many/{number:04}"), "");
    }
    let listed = tool_fixture.done("list_dir", json!({"path": "many"})).await;
    assert!(
        listed.contains("0999\n[only the first 1,000 names are shown;"),
        "{listed}"
    );
    std::fs::remove_file(tool_fixture.path("many/0000")).unwrap();
    let listed = tool_fixture.done("list_dir", json!({"path": "many"})).await;
    assert_eq!(listed.lines().count(), 1_000);
}

#[tokio::test]
async fn list_dir_of_a_file_is_refused() {
    let tool_fixture = ToolFixture::holding(&[("file", "")]);
    let said = tool_fixture
        .fails("list_dir", json!({"path": "file"}))
        .await;
    assert_eq!(
        said,
        "`file` is a file, not a directory; read it with read_file"
    );
    let said = tool_fixture
        .fails("list_dir", json!({"path": "fiel"}))
        .await;
    assert_eq!(said, "there is no `fiel`; did you mean `file`?");
}
