//! Object stores, against a stand-in that answers GET and HEAD as they all do. Real servers are
//! tested elsewhere.

use std::net::SocketAddr;
use std::path::Path;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use cachalot_storage::{Algorithm, ErrorKind, HttpOptions, Storage};

use crate::server::{serve, unreachable_server};
use crate::{OF_ABC, everything, storage};

const KEY_ID: &str = "AKIDSTANDIN";
const KEY: &str = "s3cr3t-key-of-the-stand-in";

/// Holds two objects in one bucket. `denied/…` is forbidden and repeats the key in its error,
/// `broken/…` fails.
async fn answer(uri: Uri, headers: HeaderMap) -> Response {
    let credentials = headers
        .get(header::AUTHORIZATION)
        .map_or("", |value| value.to_str().unwrap());
    let known = [
        format!("AWS4-HMAC-SHA256 Credential={KEY_ID}/"),
        "Bearer emulator".to_owned(),
        "SharedKey me:".to_owned(),
    ];
    if !known.iter().any(|known| credentials.starts_with(known)) {
        return (StatusCode::FORBIDDEN, format!("who is {credentials}?")).into_response();
    }
    // Google's keys come as one segment.
    match uri.path().replace("%2F", "/").as_str() {
        "/box/folder/abc" | "/box/%C3%A9%20%2520%20%3F" => {
            let headers = [
                (header::ETAG, "\"v1\""),
                (header::LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:37 GMT"),
            ];
            (headers, "abc").into_response()
        }
        path if path.starts_with("/box/denied") => {
            (StatusCode::FORBIDDEN, format!("<Error>{KEY}</Error>")).into_response()
        }
        path if path.starts_with("/box/broken") => StatusCode::BAD_REQUEST.into_response(),
        _ => (
            StatusCode::NOT_FOUND,
            "<Error><Code>NoSuchKey</Code></Error>",
        )
            .into_response(),
    }
}

async fn stand_in() -> SocketAddr {
    serve(Router::new().fallback(answer)).await
}

fn clouds(server: SocketAddr, key_id: &str) -> Storage {
    let endpoint = format!("http://{server}");
    storage(
        Path::new("/"),
        HttpOptions::default(),
        &[
            ("AWS_ACCESS_KEY_ID", key_id),
            ("AWS_SECRET_ACCESS_KEY", KEY),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ENDPOINT_URL", &endpoint),
            ("STORAGE_EMULATOR_HOST", &endpoint),
            ("AZURE_STORAGE_ACCOUNT", "me"),
            ("AZURE_STORAGE_KEY", "c2VjcmV0LWtleQ=="),
            ("AZURE_STORAGE_ENDPOINT", &endpoint),
        ],
    )
}

#[tokio::test]
async fn every_cloud_supports_read_stat_and_hash() {
    let storage = clouds(stand_in().await, KEY_ID);
    for scheme in ["s3", "gs", "az", "abfs"] {
        let uri = format!("{scheme}://box/folder/abc");
        let stat = storage.stat(&uri).await.unwrap();
        assert_eq!(
            (stat.size, stat.modified),
            (3, Some(784_111_777_000)),
            "{uri}"
        );
        assert_eq!(stat.etag.as_deref(), Some("\"v1\""));
        assert_eq!(storage.read(&uri, 3).await.unwrap(), "abc");
        assert_eq!(
            storage.read(&uri, 2).await.unwrap_err().kind,
            ErrorKind::TooLarge
        );
        let hashed = storage.hash(&uri, Algorithm::Blake2b).await.unwrap();
        assert_eq!((hashed.hash.as_str(), hashed.size_bytes), (OF_ABC[2], 3));
    }
}

#[tokio::test]
async fn object_keys_are_used_unchanged() {
    let storage = clouds(stand_in().await, KEY_ID);
    for scheme in ["s3", "gs", "az"] {
        let uri = format!("{scheme}://box/é %20 ?");
        assert_eq!(storage.read(&uri, 3).await.unwrap(), "abc", "{uri}");
    }
    let error = storage.read("s3://box/a//b", 3).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn errors_of_every_cloud_have_their_kind() {
    let storage = clouds(stand_in().await, KEY_ID);
    for scheme in ["s3", "gs", "az"] {
        for (path, kind) in [
            ("box/missing", ErrorKind::NotFound),
            ("other/abc", ErrorKind::NotFound),
            ("box/denied", ErrorKind::Denied),
            ("box/broken", ErrorKind::Invalid),
            ("box/folder/", ErrorKind::IsDirectory),
        ] {
            let uri = format!("{scheme}://{path}");
            for error in [
                storage.stat(&uri).await.unwrap_err(),
                storage.hash(&uri, Algorithm::Sha256).await.unwrap_err(),
            ] {
                assert_eq!(error.kind, kind, "{error}");
                assert!(error.message.contains(&uri), "{error}");
                assert!(!error.is_retryable());
                assert!(!everything(&error).contains(KEY), "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn wrong_credentials_are_denied_and_not_shown_in_errors() {
    let storage = clouds(stand_in().await, "AKIDSOMEBODYELSE");
    let error = storage.read("s3://box/folder/abc", 3).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("AWS_ACCESS_KEY_ID"), "{error}");
    assert!(
        !everything(&error).contains("AKIDSOMEBODYELSE"),
        "{error:?}"
    );
}

#[tokio::test]
async fn unreachable_cloud_error_is_retryable() {
    let storage = clouds(unreachable_server().await, KEY_ID);
    let error = storage.stat("s3://box/folder/abc").await.unwrap_err();
    assert_eq!(
        (error.kind, error.is_retryable()),
        (ErrorKind::Unavailable, true),
        "{error}"
    );
}

#[tokio::test]
async fn invalid_settings_error_names_the_variables() {
    let storage = storage(
        Path::new("/"),
        HttpOptions::default(),
        &[
            ("AWS_ACCESS_KEY_ID", "id-without-secret"),
            ("GOOGLE_SERVICE_ACCOUNT_KEY", "{ not json"),
        ],
    );
    for (uri, variable) in [
        ("s3://box/x", "AWS_SECRET_ACCESS_KEY"),
        ("gs://box/x", "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("az://box/x", "AZURE_STORAGE_ACCOUNT_NAME"),
    ] {
        let error = storage.stat(uri).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.message.contains(variable), "{error}");
    }
}
