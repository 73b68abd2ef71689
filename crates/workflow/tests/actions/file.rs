//! `file.read` and `file.write`.

use serde_json::json;

use crate::fixture::Fixture;

#[tokio::test]
async fn text_is_read_from_paths_and_uris() {
    let fixture = Fixture::new();
    let path = fixture.file("a/ä.txt", "héllo\n");
    let content = json!({"content": "héllo\n", "success": true});
    assert_eq!(
        fixture.ok("file.read", json!({"path": "a/ä.txt"})).await,
        content
    );
    assert_eq!(
        fixture
            .ok("actions.file_read", json!({"path": path.to_str().unwrap()}))
            .await,
        content
    );
    let uri = format!("file://{}", path.to_str().unwrap().replace('ä', "%C3%A4"));
    assert_eq!(fixture.ok("file.read", json!({"path": uri})).await, content);
}

#[tokio::test]
async fn invalid_utf8_is_reported_with_a_remedy() {
    let fixture = Fixture::new();
    fixture.file("latin", b"caf\xe9");
    let failure = fixture.fails("file.read", json!({"path": "latin"})).await;
    assert_eq!(failure.kind, "validation_error");
    assert!(
        failure.message.contains("byte 3") && failure.message.contains("encoding: latin-1"),
        "{failure}"
    );
    assert_eq!(
        fixture
            .ok("file.read", json!({"path": "latin", "encoding": "Latin-1"}))
            .await["content"],
        "café"
    );
    assert_eq!(
        fixture
            .ok("file.read", json!({"path": "latin", "encoding": "base64"}))
            .await["content"],
        "Y2Fm6Q=="
    );
    let failure = fixture
        .fails("file.read", json!({"path": "absent", "encoding": "utf-9"}))
        .await;
    assert_eq!(failure.kind, "validation_error", "{failure}");
}

#[tokio::test]
async fn unreadable_files_are_reported_with_the_reason() {
    let fixture = Fixture::new();
    fixture.file("d/f", "12345");
    assert_eq!(
        fixture
            .fails("file.read", json!({"path": "absent"}))
            .await
            .kind,
        "not_found"
    );
    assert_eq!(
        fixture.fails("file.read", json!({"path": "d"})).await.kind,
        "file_error"
    );
    assert_eq!(
        fixture.fails("file.read", json!({"path": ""})).await.kind,
        "validation_error"
    );
    assert_eq!(
        fixture
            .fails("file.read", json!({"path": "ftp9://x/y"}))
            .await
            .kind,
        "validation_error"
    );
    assert_eq!(
        fixture
            .fails("file.read", json!({"path": "d/f", "max_bytes": 4}))
            .await
            .kind,
        "too_large"
    );
    assert_eq!(
        fixture
            .ok("file.read", json!({"path": "d/f", "max_bytes": "5"}))
            .await["content"],
        "12345"
    );
    assert_eq!(
        fixture
            .fails("file.read", json!({"path": "d/f", "max_bytes": -1}))
            .await
            .kind,
        "validation_error"
    );
}

#[tokio::test]
async fn directory_is_keyed_for_relative_paths() {
    let fixture = Fixture::new();
    let relative = fixture.implicit("file.read", json!({"path": "x"}));
    assert_eq!(
        relative["path"]["relative_to"],
        fixture.path("").to_str().unwrap().trim_end_matches('/')
    );
    assert!(
        fixture
            .implicit("file.read", json!({"path": "/x"}))
            .is_null()
    );
    assert!(
        fixture
            .implicit("file.read", json!({"path": "s3://b/x"}))
            .is_null()
    );
}

#[tokio::test]
async fn write_replaces_the_file_without_temporary_files() {
    let fixture = Fixture::new();
    let result = fixture
        .ok("file.write", json!({"path": "out.txt", "content": "one"}))
        .await;
    assert_eq!(result, json!({"path": "out.txt", "success": true}));
    fixture
        .ok("file.write", json!({"path": "out.txt", "content": 2}))
        .await;
    assert_eq!(
        std::fs::read_to_string(fixture.path("out.txt")).unwrap(),
        "2"
    );
    fixture
        .ok("file.write", json!({"path": "out.txt", "content": ""}))
        .await;
    assert_eq!(
        std::fs::read_to_string(fixture.path("out.txt")).unwrap(),
        ""
    );
    assert_eq!(std::fs::read_dir(fixture.path("")).unwrap().count(), 1);
}

#[tokio::test]
async fn directories_are_created_only_on_request() {
    let fixture = Fixture::new();
    let failure = fixture
        .fails("file.write", json!({"path": "a/b/c", "content": "x"}))
        .await;
    assert_eq!(failure.kind, "not_found");
    assert!(
        failure.message.contains("create_directories: true"),
        "{failure}"
    );
    fixture
        .ok(
            "file.write",
            json!({"path": "a/b/c", "content": "x", "create_directories": "true"}),
        )
        .await;
    assert_eq!(std::fs::read_to_string(fixture.path("a/b/c")).unwrap(), "x");
}

#[tokio::test]
async fn failed_write_changes_nothing() {
    let fixture = Fixture::new();
    fixture.file("d/inside", "x");
    assert_eq!(
        fixture
            .fails("file.write", json!({"path": "d", "content": "x"}))
            .await
            .kind,
        "file_error"
    );
    assert_eq!(
        fixture
            .fails("file.write", json!({"path": "https://h/x", "content": "x"}))
            .await
            .kind,
        "validation_error"
    );
    assert_eq!(
        fixture
            .fails("file.write", json!({"path": "x", "content": {"a": 1}}))
            .await
            .kind,
        "validation_error"
    );
    assert_eq!(std::fs::read_dir(fixture.path("")).unwrap().count(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn write_keeps_the_mode_and_follows_links() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let fixture = Fixture::new();
    let target = fixture.file("target.sh", "old");
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o750)).unwrap();
    symlink(&target, fixture.path("link")).unwrap();
    fixture
        .ok("file.write", json!({"path": "link", "content": "new"}))
        .await;
    assert!(fixture.path("link").is_symlink());
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
    assert_eq!(
        std::fs::metadata(&target).unwrap().permissions().mode() & 0o777,
        0o750
    );
}

#[tokio::test]
async fn reader_never_sees_a_partial_write() {
    let fixture = Fixture::new();
    let (one, other) = ("a".repeat(200_000), "b".repeat(200_000));
    let path = fixture.file("f", &one);
    let reader = tokio::task::spawn_blocking(move || {
        (0..300).all(|_| {
            let seen = std::fs::read(&path).unwrap();
            seen.len() == 200_000 && seen.iter().all(|byte| *byte == seen[0])
        })
    });
    for turn in 0..20 {
        let content = if turn % 2 == 0 { &other } else { &one };
        fixture
            .ok("file.write", json!({"path": "f", "content": content}))
            .await;
    }
    assert!(reader.await.unwrap());
}

#[tokio::test]
async fn concurrent_appends_lose_nothing() {
    let fixture = std::sync::Arc::new(Fixture::new());
    let writers: Vec<_> = (0..16)
        .map(|writer| {
            let fixture = std::sync::Arc::clone(&fixture);
            tokio::spawn(async move {
                for line in 0..5 {
                    fixture.ok("file.write", json!({"path": "log", "content": format!("{writer}:{line}\n"), "append": true})).await;
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let text = std::fs::read_to_string(fixture.path("log")).unwrap();
    let lines: std::collections::BTreeSet<_> = text.lines().collect();
    assert_eq!((text.lines().count(), lines.len()), (80, 80));
}

#[test]
fn bucket_location_is_keyed_and_credentials_are_not() {
    let implicit =
        |fixture: Fixture, uri: &str| fixture.implicit("file.read", json!({"path": uri}));
    let store = |fixture: Fixture, uri: &str| implicit(fixture, uri)["path"]["store"].clone();
    let amazon = || Fixture::new().with_variable("AWS_ENDPOINT_URL", "http://127.0.0.1:9000");
    assert_eq!(
        store(amazon(), "s3://b/k"),
        json!({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"})
    );
    let credentials = amazon()
        .with_variable("AWS_ACCESS_KEY_ID", "id")
        .with_variable("AWS_SECRET_ACCESS_KEY", "key")
        .with_variable("AWS_SESSION_TOKEN", "token");
    assert_eq!(store(credentials, "s3://b/k"), store(amazon(), "s3://b/k"));
    assert!(implicit(amazon(), "gs://b/k").is_null());
    let azure = |account: &str| {
        let connection = format!("AccountName={account};AccountKey=hunter2");
        Fixture::new().with_variable("AZURE_STORAGE_CONNECTION_STRING", &connection)
    };
    assert_ne!(
        store(azure("one"), "az://c/k"),
        store(azure("two"), "az://c/k")
    );
    assert!(
        !store(azure("one"), "az://c/k")
            .to_string()
            .contains("hunter2")
    );
}

#[test]
fn relative_path_with_a_colon_is_not_a_uri() {
    let fixture = Fixture::new();
    let implicit = |path: &str| fixture.implicit("file.read", json!({"path": path}));
    assert_eq!(implicit("notes: today.txt"), implicit("x"));
    assert!(implicit("file:///x").is_null() && implicit("/a:b").is_null());
}
