//! `storage.hash`.

use serde_json::json;

use crate::fakes::Server;
use crate::fixture::Fixture;

#[tokio::test]
async fn hash_supports_each_algorithm() {
    let fixture = Fixture::new();
    fixture.file("f", "hello world\n");
    let hashed = fixture.ok("storage.hash", json!({"path": "f"})).await;
    assert_eq!(
        hashed,
        json!({
            "success": true,
            "hash": "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447",
            "algorithm": "sha256",
            "size_bytes": 12,
            "path": "f",
        })
    );
    let hash = async |algorithm: &str| {
        fixture
            .ok(
                "actions.storage_hash",
                json!({"path": "f", "algorithm": algorithm}),
            )
            .await["hash"]
            .clone()
    };
    assert_eq!(hash("md5").await, "6f5902ac237024bdd0c176cb93063dc4");
    assert_eq!(hash("blake2b").await.as_str().unwrap().len(), 128);
    fixture.file("empty", "");
    assert_eq!(
        fixture.ok("storage.hash", json!({"path": "empty"})).await["size_bytes"],
        0
    );
}

#[tokio::test]
async fn hash_failures_are_reported_with_the_reason() {
    let fixture = Fixture::new();
    fixture.file("d/f", "");
    assert_eq!(
        fixture
            .fails("storage.hash", json!({"path": "absent"}))
            .await
            .kind,
        "file_error"
    );
    assert_eq!(
        fixture
            .fails("storage.hash", json!({"path": "d"}))
            .await
            .kind,
        "file_error"
    );
    assert_eq!(
        fixture
            .fails("storage.hash", json!({"path": ""}))
            .await
            .kind,
        "validation_error"
    );
    assert_eq!(
        fixture.fails("storage.hash", json!({})).await.kind,
        "validation_error"
    );
    let failure = fixture
        .fails(
            "storage.hash",
            json!({"path": "d/f", "algorithm": "sha512"}),
        )
        .await;
    assert_eq!(failure.kind, "validation_error");
    assert!(
        failure.message.contains("sha256, md5, blake2b"),
        "{failure}"
    );
}

#[tokio::test]
async fn remote_content_is_hashed() {
    let server = Server::start(
        axum::Router::new().route("/f", axum::routing::get(|| async { "hello world\n" })),
    );
    let fixture = Fixture::new();
    let hashed = fixture
        .ok(
            "storage.hash",
            json!({"path": format!("{}/f", server.base_url())}),
        )
        .await;
    assert_eq!(
        hashed["hash"],
        "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447"
    );
    let failure = fixture
        .fails(
            "storage.hash",
            json!({"path": format!("{}/absent", server.base_url())}),
        )
        .await;
    assert_eq!(failure.kind, "file_error");
}

#[tokio::test]
async fn returned_path_is_keyed_also_with_file_content() {
    let fixture = Fixture::new();
    fixture.file("a", "same");
    fixture.file("b", "same");
    let hash = |path: &str| json!({"action": "storage.hash", "args": {"path": path}, "key_strategy": "file_content", "key_source": "path"});
    assert_eq!(fixture.wrapped(hash("a")).await.1["path"], "a");
    let (hit, result) = fixture.wrapped(hash("b")).await;
    assert!(!hit && result["path"] == "b", "{result}");
    assert!(fixture.wrapped(hash("a")).await.0);
}
