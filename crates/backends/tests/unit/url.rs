//! Unit tests of `src/url.rs`.

use super::*;
use crate::open;

#[test]
fn paths_are_no_urls() {
    for path in [
        "cachalot.db",
        "./a:b/c.db",
        "C:\\data\\x.db",
        "c:/x.db",
        "a:b",
        "/x/redis:/y",
        "",
    ] {
        assert_eq!(StoreUrl::recognize(path), None, "{path}");
    }
}

#[test]
fn identity_is_that_of_the_store() {
    let none = BTreeMap::new();
    let identity = |url: &str| StoreUrl::recognize(url).unwrap().identity(&none);
    for (one, other, is_same) in [
        ("redis://h", "valkey://h:6379/0", true),
        ("redis://h/", "redis://user:secret@h/0", false),
        ("redis://h/0", "redis://h/1", false),
        ("redis://h", "rediss://h", false),
        ("postgres://h/x", "postgresql://h:5432/x", true),
        ("postgres://h/x", "postgres://h/x?port=5432", true),
        ("postgres://h:1/x", "postgres://h/x?port=2", false),
        ("postgres://a,b:1/x", "postgresql://a:5432,b:1/x", true),
        ("postgres://a,b/x", "postgres:///x?host=a,b", true),
        ("postgres://a,b/x", "postgres://a,c/x", false),
        (
            "postgres://%2Frun%2Fp:1/x",
            "postgres:///x?host=/run/p&port=1",
            true,
        ),
        ("postgres://u:one@h/x", "postgres://u:two@h/x", true),
        (
            "postgres://h/x",
            "postgres://h/x?options=-csearch_path%3Dy",
            false,
        ),
        ("s3://bucket/x.db", "s3://bucket/y.db", false),
    ] {
        assert_eq!(identity(one) == identity(other), is_same, "{one} {other}");
    }
    let url = StoreUrl::recognize("s3://bucket/x.db").unwrap();
    let endpoint = [(
        "AWS_ENDPOINT_URL_S3".to_owned(),
        "http://localhost".to_owned(),
    )];
    assert_ne!(url.identity(&none), url.identity(&endpoint.into()));
}

#[test]
fn hosts_and_ports_are_those_of_the_parameters() {
    for (url, expected) in [
        ("postgres://h/x", "postgres://h/x"),
        ("postgres://u@h/x?port=5433", "postgres://u@h:5433/x"),
        (
            "postgres://u:p@h:1/x?port=2&sslmode=require",
            "postgres://u:p@h:2/x?sslmode=require",
        ),
        ("postgres://a:1,b:2/x", "postgres://a:1,b:2/x"),
        (
            "postgres://u@a,b/x?port=5433",
            "postgres://u@a:5433,b:5433/x",
        ),
        ("postgres://a,b/x?port=1,2", "postgres://a:1,b:2/x"),
        ("postgres://u@/x?host=c", "postgres://u@c/x"),
        ("postgres://a:1/x?host=c", "postgres://c:1/x"),
        (
            "postgres:///x?host=/run/p&port=3",
            "postgres://%2Frun%2Fp:3/x",
        ),
        ("postgres://[::1]/x?port=3", "postgres://[::1]:3/x"),
        ("postgres:///x?host=::1", "postgres://[::1]/x"),
        (
            "postgres:///x?hostaddr=127.0.0.1&port=3",
            "postgres:///x?hostaddr=127.0.0.1&port=3",
        ),
    ] {
        assert_eq!(StoreUrl::recognize(url).unwrap().text(), expected, "{url}");
    }
    let location = |url| StoreUrl::recognize(url).unwrap().location().to_owned();
    assert_eq!(
        location("postgres://u:p@a:1,b:2/x?sslmode=require"),
        "postgres://u@a:1,b:2/x"
    );
    assert_eq!(location("postgres://u:p@a/x?port=7"), "postgres://u@a:7/x");
    for url in [
        "postgres://a,b,c/x?port=1,2",
        "postgres://a/x?host=b,c,d&port=1,2",
    ] {
        assert!(StoreUrl::recognize(url).unwrap().fault().is_some(), "{url}");
    }
}

#[test]
fn urls_are_recognized_in_any_spelling() {
    for url in [
        "postgres://host/x",
        "PostgreSQL://host/x",
        "postgres:host",
        "redis:host",
        "valkeys://host/0",
        "duckdb:file.db",
        "unix:/run/redis.sock",
        "http://host/x",
        "mysql://host/x",
        "file:///x.db",
        "sqlite://x.db",
    ] {
        assert!(StoreUrl::recognize(url).is_some(), "{url}");
    }
}

#[test]
fn files_of_duckdb_are_told_apart() {
    let none = BTreeMap::new();
    let url = |text| StoreUrl::recognize(text).unwrap();
    let file = url("duckdb:a b@c.db?values=s3://bucket/x");
    assert_eq!(file.location(), "duckdb:a b@c.db");
    assert!(!file.has_password());
    assert_ne!(file.identity(&none), url("duckdb:a b@c.db").identity(&none));
    assert_ne!(
        url("duckdb:a.db").identity(&none),
        url("duckdb:b.db").identity(&none)
    );
}

#[test]
fn passwords_are_seen_and_not_shown() {
    for (url, has_password) in [
        ("postgres://me:hunter2@host/x", true),
        ("postgres://me:hunter2@[::1]:5432/x?sslmode=require", true),
        ("postgres://host/x?user=me&password=hunter2", true),
        ("postgres://me:hunter2@host:no/x", true),
        ("postgres://me@host:5432/x", false),
        ("postgres://host:5432/x?user=me%40corp", false),
        // Postgres's client takes all up to the first `@` for the user and the password.
        ("postgres://me:12/hunter2@host/x", true),
        ("postgres://me:/hunter2@host/x", true),
        ("postgres://me:12#hunter2@host/x", true),
        ("postgres://me:12?hunter2@host/x", true),
        ("postgres://me:hun@hunter2@host/x", true),
        ("postgres://me:12\\hunter2@host/x", true),
        ("postgres://me:hun\nhunter2@host/x", true),
        ("POSTGRES://me:hunter2@host/x?sslmode=require", true),
        (" postgres://me:hunter2@host/x", true),
        ("postgres:me:hunter2@host", true),
        ("postgres:/me:hunter2@host/x", true),
        ("redis::hunter2@host", true),
        ("redis://:hunter2@host", true),
        ("unix:/run/redis.sock?pass=hunter2", true),
        ("unix:///run/redis.sock?db=1", false),
        ("libsql://host?authToken=hunter2", true),
        ("postgres://host/x?passw%6Frd=hunter2", true),
        ("postgres://host/x?PASSWORD=hunter2", true),
        ("host=localhost password=hunter2", true),
        ("postgres://host/x?hunter2", false),
        ("postgres://host/x?hunter2=1", false),
    ] {
        let url = StoreUrl::recognize(url).unwrap();
        assert_eq!(url.has_password(), has_password, "{}", url.text);
        let identity = if url.text.contains("?hunter2") {
            String::new()
        } else {
            url.identity(&BTreeMap::new())
        };
        let shown = format!(
            "{url:?} {} {identity} {:?}",
            url.location(),
            open(&url, &crate::OpenOptions::default()).err()
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
