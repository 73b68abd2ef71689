//! Objects of servers that are not ours.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use bytes::Bytes;
use cachalot_backends::testing::{Fault, FaultProxy, ObjectServer};
use cachalot_storage::{Algorithm, ErrorKind, HttpClient, HttpOptions, Storage, StorageOptions};

use crate::bucket::servers;
use crate::runtime;

fn storage(environment: BTreeMap<String, String>) -> Storage {
    Storage::new(StorageOptions {
        directory: std::path::PathBuf::new(),
        environment,
        http: HttpClient::new(HttpOptions::default()).unwrap(),
    })
}

/// The environment of a client that reaches the server through a proxy.
pub(crate) fn through(proxy: &FaultProxy, server: &ObjectServer) -> BTreeMap<String, String> {
    let mut environment = server.environment();
    for value in environment.values_mut() {
        *value = value.replace(
            &format!(":{}", server.port()),
            &format!(":{}", proxy.port()),
        );
    }
    environment
}

/// Returns the output of `sha256sum`, `md5sum` or `b2sum` for a content.
fn sum(program: &str, content: &[u8]) -> String {
    let mut process = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(content).unwrap();
    let output = process.wait_with_output().unwrap().stdout;
    let output = String::from_utf8(output).unwrap();
    output.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn hashes_are_those_of_other_programs() {
    for server in servers() {
        let storage = storage(server.environment());
        let bucket = server.fresh_url();
        let bucket = bucket.strip_suffix("folder/store.db").unwrap();
        runtime().block_on(async {
            for (name, size) in [("empty", 0), ("a b/ü+c%41", 70_000), ("large", 40 << 20)] {
                let content: Vec<u8> = (0..size).map(|byte: u32| (byte % 251) as u8).collect();
                let uri = format!("{bucket}{name}");
                let written = storage.write_version(&uri, Bytes::from(content.clone()), None);
                assert!(written.await.unwrap().is_some(), "{uri}");
                for (algorithm, program) in [
                    (Algorithm::Sha256, "sha256sum"),
                    (Algorithm::Md5, "md5sum"),
                    (Algorithm::Blake2b, "b2sum"),
                ] {
                    let hash = storage.hash(&uri, algorithm).await.unwrap();
                    assert_eq!(hash.hash, sum(program, &content), "{uri}");
                    assert_eq!(hash.size_bytes, content.len() as u64);
                }
                assert_eq!(storage.read(&uri, 64 << 20).await.unwrap(), content);
                if size > 0 {
                    let refused = storage.read(&uri, 100).await;
                    assert_eq!(refused.unwrap_err().kind, ErrorKind::TooLarge);
                }
            }
            let absent = format!("{bucket}absent");
            let absent = storage.hash(&absent, Algorithm::Md5).await;
            assert_eq!(absent.unwrap_err().kind, ErrorKind::NotFound);
            let absent = format!("{}no-such-bucket/x", &bucket[..5]);
            let absent = storage.hash(&absent, Algorithm::Md5).await.unwrap_err();
            assert_eq!(absent.kind, ErrorKind::NotFound, "{absent}");
        });
    }
}

#[test]
fn objects_are_replaced_and_deleted() {
    for server in servers() {
        let storage = storage(server.environment());
        let uri = server.fresh_url();
        runtime().block_on(async {
            for content in [&b"first"[..], b"second"] {
                let content = Bytes::from_static(content);
                storage.write(&uri, content.clone()).await.unwrap();
                assert_eq!(storage.read(&uri, 100).await.unwrap(), content);
            }
            for _ in 0..2 {
                storage.delete(&uri).await.unwrap();
                let absent = storage.read(&uri, 100).await.unwrap_err();
                assert_eq!(absent.kind, ErrorKind::NotFound, "{absent}");
            }
        });
    }
}

/// A transfer that is cut is an error or continues; its part is never taken for the whole.
#[test]
fn cut_transfers_are_never_taken_for_the_whole() {
    for server in servers() {
        let direct = storage(server.environment());
        let proxy = FaultProxy::start(server.port());
        let proxied = storage(through(&proxy, server));
        let uri = server.fresh_url();
        let content = Bytes::from(vec![7; 3 << 20]);
        let expected = sum("sha256sum", &content);
        runtime().block_on(async {
            direct.write_version(&uri, content, None).await.unwrap();
            for round in 0..6 {
                proxy.set(Fault::Cut(3000 * round));
                let hash = tokio::spawn({
                    let (proxied, uri) = (proxied.clone(), uri.clone());
                    async move { proxied.hash(&uri, Algorithm::Sha256).await }
                });
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                proxy.set(Fault::None);
                match hash.await.unwrap() {
                    Ok(hash) => assert_eq!(hash.hash, expected),
                    Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error}"),
                }
            }
            let hash = proxied.hash(&uri, Algorithm::Sha256).await.unwrap();
            assert_eq!(hash.hash, expected);
        });
    }
}

/// Starts a server of our own that gives every request one answer, as the documentation of S3 has it
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>): Moto has no sessions that expire and no regions.
fn server_that_answers(status: &'static str, code: &'static str) -> BTreeMap<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut request = [0; 8192];
            let _ = client.read(&mut request);
            let body =
                format!("<Error><Code>{code}</Code><Message>It is {code}.</Message></Error>");
            let answer = format!(
                "HTTP/1.1 {status}\r\nx-amz-bucket-region: eu-central-1\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = client.write_all(answer.as_bytes());
        }
    });
    [
        ("AWS_ACCESS_KEY_ID", "testing"),
        ("AWS_SECRET_ACCESS_KEY", "testing-secret"),
        ("AWS_SESSION_TOKEN", "testing-session"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL_S3", &endpoint),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

#[test]
fn expired_sessions_and_wrong_regions_are_explained() {
    for (status, code, kind, remedy) in [
        (
            "400 Bad Request",
            "ExpiredToken",
            ErrorKind::Denied,
            "AWS_SESSION_TOKEN",
        ),
        (
            "403 Forbidden",
            "InvalidAccessKeyId",
            ErrorKind::Denied,
            "AWS_ACCESS_KEY_ID",
        ),
        (
            "301 Moved Permanently",
            "PermanentRedirect",
            ErrorKind::Invalid,
            "AWS_REGION",
        ),
        (
            "307 Temporary Redirect",
            "TemporaryRedirect",
            ErrorKind::Invalid,
            "AWS_REGION",
        ),
    ] {
        let storage = storage(server_that_answers(status, code));
        runtime().block_on(async {
            for error in [
                storage.read("s3://bucket/x", 100).await.unwrap_err(),
                storage
                    .hash("s3://bucket/x", Algorithm::Md5)
                    .await
                    .unwrap_err(),
            ] {
                assert_eq!(error.kind, kind, "{code}: {error}");
                assert!(error.message.contains(remedy), "{code}: {error}");
                let shown = format!("{error:?}");
                for secret in ["testing-secret", "testing-session"] {
                    assert!(!shown.contains(secret), "{shown}");
                }
            }
        });
    }
}

/// Moto and the stand-in accept every signature.
#[test]
fn wrong_key_is_denied_and_not_shown() {
    let Some(server) = ObjectServer::azure() else {
        return;
    };
    let mut environment = server.environment();
    for value in environment.values_mut() {
        *value = value.replace("dGVzdGluZy1zZWNyZXQ=", "d3Jvbmctc2VjcmV0");
    }
    let storage = storage(environment);
    runtime().block_on(async {
        let error = storage.read(&server.fresh_url(), 100).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{error}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("d3Jvbmctc2VjcmV0"), "{shown}");
    });
}
