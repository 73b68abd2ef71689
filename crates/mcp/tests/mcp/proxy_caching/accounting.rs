//! The ledger, and what it never holds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{CallStatus, Ledger};
use cachalot_core::{DigestKey, ManualClock, SecretSet};
use serde_json::json;

use super::fake::{FakeServer, Proxy, engine_with, is_served, read_only, tools};
use crate::cache_fixture::START;

#[tokio::test]
async fn calls_are_in_the_ledger_with_savings_and_reasons() {
    let home = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(
        &home.path().join("ledger.db"),
        "run",
        Arc::new(|line| panic!("{line}")),
    );
    let clock = Arc::new(ManualClock::at(START));
    let cache = engine_with(&clock, ledger.clone(), &Arc::new(SecretSet::empty()));
    let listed = tools(&[("read", read_only()), ("write", json!({}))]);
    let server = FakeServer::counting(listed);
    let policy = "{tools: {read: {ttl: 1h}}}";
    let proxy = Proxy::over(&server, policy, &cache, &clock, Path::new("/"));
    proxy.call("read", r#"{"a":1}"#).await;
    assert!(is_served(&proxy.call("read", r#"{"a":1}"#).await));
    proxy.call("write", r#"{"b":2}"#).await;
    cache.close().await;
    let rows = ledger.recent(10).unwrap();
    let of = |name: &str| {
        let rows = rows.iter().filter(|row| row.name == name);
        rows.collect::<Vec<_>>()
    };
    let reads = of("mcp:fake/read");
    assert_eq!(reads.len(), 2, "{rows:?}");
    let miss = reads.iter().find(|row| row.answered == CallStatus::Miss);
    let miss = miss.unwrap();
    assert_eq!((miss.paid.calls, miss.kind.as_str()), (1, "request"));
    assert!(miss.handle.as_deref().unwrap().starts_with("fake/read/"));
    let served = reads.iter().find(|row| row.answered != CallStatus::Miss);
    assert_eq!(served.unwrap().saved.calls, 1);
    let write = of("mcp:fake/write")[0];
    assert_eq!(write.answered, CallStatus::Bypass);
    let reason = write.reason.as_deref().unwrap();
    assert!(reason.contains("no entry of the policy"), "{reason}");
}

#[tokio::test]
async fn secrets_are_in_no_key_and_in_no_entry() {
    let secret_set = Arc::new(SecretSet::with_key(DigestKey::new([4; 32])));
    secret_set.learn("s3cr3t-value");
    let clock = Arc::new(ManualClock::at(START));
    let cache = engine_with(&clock, Ledger::disabled(), &secret_set);
    let result = r#"{"content":[{"type":"text","text":"it is s3cr3t-value"}]}"#;
    for (result, arguments) in [
        (result, "{}"),
        (r#"{"content":[]}"#, r#"{"token":"s3cr3t-value"}"#),
    ] {
        let server = FakeServer::answering(tools(&[("read", read_only())]), result);
        let (policy, root) = ("{tools: {read: {ttl: 1h}}}", Path::new("/"));
        let secrets = Arc::clone(&secret_set);
        let proxy = Proxy::with_secrets(&server, policy, &cache, &clock, root, secrets);
        for _ in 0..2 {
            assert!(!is_served(&proxy.call("read", arguments).await));
        }
        assert_eq!(server.count("tools/call"), 2, "{arguments}");
    }
}

#[tokio::test]
async fn responses_of_the_server_have_the_account_of_the_cache() {
    let listed = tools(&[("read", read_only()), ("write", json!({}))]);
    let result = r#"{"content":[{"type":"text","text":"Error: no library"}]}"#;
    let server = FakeServer::answering(listed, result);
    let proxy = Proxy::new(&server, "{tools: {read: {ttl: 1h}}}");
    for (tool, status, reason, refusal) in [
        (
            "read",
            "miss",
            "not in the cache",
            Some("begins like an error"),
        ),
        ("write", "bypass", "no entry of the policy", None),
    ] {
        let response = proxy.call(tool, "{}").await;
        let account = response.cache_account().unwrap();
        assert_eq!(account.status(), status);
        assert!(account.reason().contains(reason), "{account:?}");
        let refused = account.refusal(Duration::from_secs(60)).await;
        let is_expected = match refusal {
            Some(refusal) => refused.is_some_and(|refused| refused.contains(refusal)),
            None => refused.is_none(),
        };
        assert!(is_expected, "{account:?}");
    }
    let server = FakeServer::counting(tools(&[("read", read_only())]));
    let proxy = Proxy::new(&server, "{tools: {read: {ttl: 1h}}}");
    let first = proxy.call("read", "{}").await;
    let account = first.cache_account().unwrap();
    assert_eq!(account.refusal(Duration::from_secs(60)).await, None);
    assert!(account.is_complete());
    let again = proxy.call("read", "{}").await;
    assert!(is_served(&again) && again.cache_account().is_none());
}
