//! Files of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use cachalot_storage::{Algorithm, ErrorKind, hash_file};
use futures_util::TryStreamExt as _;

use crate::{ALGORITHMS, OF_ABC, OF_NOTHING, OF_ZEROS, storage_in};

fn algorithm(name: &str) -> Algorithm {
    name.parse().unwrap()
}

#[tokio::test]
async fn digests_equal_known_values() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("abc"), "abc").unwrap();
    fs::write(home.path().join("nothing"), "").unwrap();
    let storage = storage_in(home.path());
    for (file, size, digests) in [("abc", 3, OF_ABC), ("nothing", 0, OF_NOTHING)] {
        for (name, digest) in ALGORITHMS.into_iter().zip(digests) {
            let hashed = storage.hash(file, algorithm(name)).await.unwrap();
            assert_eq!((hashed.hash.as_str(), hashed.size_bytes), (digest, size));
            assert_eq!(hashed.algorithm, algorithm(name));
            assert_eq!(
                hash_file(&home.path().join(file), algorithm(name)).unwrap(),
                hashed
            );
        }
    }
    assert_eq!(storage.read("nothing", 0).await.unwrap().len(), 0);
    assert_eq!(storage.stat("nothing").await.unwrap().size, 0);
    let chunks: Vec<_> = storage
        .open("nothing")
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(chunks.is_empty());
}

#[tokio::test]
async fn every_form_of_a_path_reads_the_same_file() {
    let home = tempfile::tempdir().unwrap();
    let name = "été [a*b?] 100%25 {x}.txt";
    fs::create_dir(home.path().join("sub")).unwrap();
    fs::write(home.path().join("sub").join(name), "abc").unwrap();
    let storage = storage_in(home.path());
    let encoded = "%C3%A9t%C3%A9%20%5Ba*b%3F%5D%20100%2525%20%7Bx%7D.txt";
    let base = home.path().to_str().unwrap();
    for uri in [
        format!("sub/{name}"),
        format!("./sub/../sub/{name}"),
        format!("{base}/sub/{name}"),
        format!("file://{base}/sub/{encoded}"),
        format!("file:{base}/sub/{encoded}"),
        format!("FILE://localhost{base}/sub/{encoded}"),
    ] {
        assert_eq!(storage.read(&uri, 3).await.unwrap(), "abc", "{uri}");
        let hashed = storage.hash(&uri, Algorithm::Sha256).await.unwrap();
        assert_eq!(hashed.hash, OF_ABC[0], "{uri}");
        assert!(storage.local_path(&uri).unwrap().is_absolute());
    }
}

#[test]
fn local_path_is_set_for_local_uris_only() {
    let storage = storage_in(Path::new("/base"));
    assert_eq!(storage.local_path("a b"), Some(PathBuf::from("/base/a b")));
    assert_eq!(
        storage.local_path("file:///a%20b"),
        Some(PathBuf::from("/a b"))
    );
    for uri in [
        "",
        "http://h/a",
        "s3://b/k",
        "gs://b/k",
        "az://b/k",
        "ftp://h/a",
        "file://h/a",
    ] {
        assert_eq!(storage.local_path(uri), None, "{uri}");
    }
}

#[tokio::test]
async fn wildcards_in_a_file_name_are_literal() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.txt"), "abc").unwrap();
    let error = storage_in(home.path())
        .hash("*.txt", Algorithm::Md5)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
}

#[tokio::test]
async fn unreadable_files_are_errors_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("folder")).unwrap();
    fs::write(home.path().join("file"), "abc").unwrap();
    let storage = storage_in(home.path());
    let long = "x".repeat(300);
    for (uri, kind, hint) in [
        ("missing", ErrorKind::NotFound, "check the path"),
        ("~/missing", ErrorKind::NotFound, "`~` is not expanded"),
        ("file/below", ErrorKind::NotFound, "no such file"),
        ("folder", ErrorKind::IsDirectory, "name a file in it"),
        ("folder/", ErrorKind::IsDirectory, "name a file in it"),
        (".", ErrorKind::IsDirectory, "directory"),
        ("", ErrorKind::Invalid, "empty path"),
        ("nul\0", ErrorKind::Invalid, "NUL"),
        (&long, ErrorKind::Invalid, "name of a file"),
    ] {
        for error in [
            storage.stat(uri).await.unwrap_err(),
            storage.read(uri, 10).await.unwrap_err(),
            storage.open(uri).await.err().unwrap(),
            storage.hash(uri, Algorithm::Sha256).await.unwrap_err(),
        ] {
            assert_eq!(error.kind, kind, "{uri:?}: {error}");
            assert!(error.message.contains(hint), "{error}");
            assert!(!error.is_retryable());
        }
    }
    let error = hash_file(&home.path().join("folder"), Algorithm::Md5).unwrap_err();
    assert_eq!(error.kind, ErrorKind::IsDirectory);
}

#[tokio::test]
#[cfg(unix)]
async fn missing_permission_is_denied() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("mine");
    fs::write(&path, "abc").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&path).is_ok() {
        // This user may read everything.
        return;
    }
    let error = storage_in(home.path())
        .hash("mine", Algorithm::Sha256)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.message.contains("`mine`"), "{error}");
}

#[tokio::test]
#[cfg(unix)]
async fn socket_is_refused_without_blocking() {
    let home = tempfile::tempdir().unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(home.path().join("socket")).unwrap();
    let storage = storage_in(home.path());
    for uri in ["socket", "/dev/zero"] {
        let error = storage.hash(uri, Algorithm::Sha256).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
}

#[tokio::test]
#[cfg(unix)]
async fn links_are_followed() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("abc"), "abc").unwrap();
    std::os::unix::fs::symlink("abc", home.path().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", home.path().join("dangling")).unwrap();
    std::os::unix::fs::symlink("loop", home.path().join("loop")).unwrap();
    let storage = storage_in(home.path());
    assert_eq!(
        storage.hash("link", Algorithm::Sha256).await.unwrap().hash,
        OF_ABC[0]
    );
    assert_eq!(
        storage.stat("dangling").await.unwrap_err().kind,
        ErrorKind::NotFound
    );
    assert!(storage.stat("loop").await.is_err());
}

#[tokio::test]
async fn read_limit_is_inclusive() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("abc"), "abc").unwrap();
    let storage = storage_in(home.path());
    assert_eq!(storage.read("abc", 3).await.unwrap(), "abc");
    assert_eq!(storage.read("abc", u64::MAX).await.unwrap(), "abc");
    let error = storage.read("abc", 2).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    assert!(error.message.contains("3 bytes large"), "{error}");
}

/// Files below `/proc` claim to be empty; what is read counts.
#[tokio::test]
#[cfg(target_os = "linux")]
async fn file_of_unknown_size_is_read_to_its_end() {
    let storage = storage_in(Path::new("/"));
    let bytes = storage.read("/proc/self/cmdline", 1 << 20).await.unwrap();
    assert!(!bytes.is_empty());
    assert_eq!(
        storage
            .read("/proc/self/cmdline", 1)
            .await
            .unwrap_err()
            .kind,
        ErrorKind::TooLarge
    );
    let hashed = storage
        .hash("/proc/self/cmdline", Algorithm::Md5)
        .await
        .unwrap();
    assert_eq!(hashed.size_bytes, bytes.len() as u64);
}

#[tokio::test]
async fn a_stat_contains_size_and_time() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("abc");
    fs::write(&path, "abc").unwrap();
    let time = UNIX_EPOCH + Duration::from_millis(1_234_567_890_123);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let stat = storage_in(home.path()).stat("abc").await.unwrap();
    assert_eq!(
        (stat.size, stat.modified, stat.etag),
        (3, Some(1_234_567_890_123), None)
    );
}

#[tokio::test]
async fn stream_yields_the_file_in_order() {
    let home = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..1_000_003_u32).map(|n| (n % 253) as u8).collect();
    fs::write(home.path().join("large"), &bytes).unwrap();
    let storage = storage_in(home.path());
    let chunks: Vec<_> = storage
        .open("large")
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert!(chunks.len() > 1);
    assert_eq!(chunks.concat(), bytes);
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_large_file_is_hashed_in_constant_memory() {
    let home = tempfile::tempdir().unwrap();
    let file = fs::File::create(home.path().join("sparse")).unwrap();
    file.set_len(100 << 20).unwrap();
    let storage = storage_in(home.path());
    let before = crate::memory("VmRSS");
    let hashed = storage.hash("sparse", Algorithm::Sha256).await.unwrap();
    assert_eq!(
        (hashed.hash.as_str(), hashed.size_bytes),
        (OF_ZEROS, 100 << 20)
    );
    let mut seen = 0;
    let mut chunks = storage.open("sparse").await.unwrap();
    while let Some(chunk) = chunks.try_next().await.unwrap() {
        seen += chunk.len();
    }
    assert_eq!(seen, 100 << 20);
    let grown = crate::memory("VmHWM") - before;
    assert!(grown <= 16 << 20, "{grown} bytes");
}

#[tokio::test]
async fn dropping_a_hash_stops_it() {
    let home = tempfile::tempdir().unwrap();
    // Far more than can be hashed while this test runs.
    fs::File::create(home.path().join("endless"))
        .unwrap()
        .set_len(1 << 42)
        .unwrap();
    let storage = storage_in(home.path());
    let hashing = storage.hash("endless", Algorithm::Md5);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), hashing)
            .await
            .is_err()
    );
    // Leaving the runtime waits for its blocking tasks: without a stop this test would not end.
}

#[tokio::test]
async fn files_are_replaced_and_deleted() {
    let home = tempfile::tempdir().unwrap();
    let storage = storage_in(home.path());
    for content in ["first", "second"] {
        storage
            .write("new/folder/file", content.into())
            .await
            .unwrap();
        assert_eq!(storage.read("new/folder/file", 100).await.unwrap(), content);
    }
    for _ in 0..2 {
        storage.delete("new/folder/file").await.unwrap();
        assert!(!home.path().join("new/folder/file").exists());
    }
    let error = storage.write("new/folder", "x".into()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(
        error.message.contains("cannot write `new/folder`"),
        "{error}"
    );
    let error = storage
        .write("https://host/x", "x".into())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownScheme);
    let error = storage.delete("https://host/x").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownScheme);
}
