//! Which clients share answers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cachalot_core::ManualClock;
use cachalot_mcp::relay::{Frame, RequestContext, Upstream as _};

use super::fake::{
    FakeServer, Proxy, engine, is_served, modern_call, read_only, tools, with_headers,
};
use crate::cache_fixture::START;

const CALL: &str = r#"{"name":"read","arguments":{}}"#;

fn server() -> Arc<FakeServer> {
    FakeServer::counting(tools(&[("read", read_only())]))
}

#[tokio::test]
async fn answers_of_tools_never_cross_credentials() {
    let server = server();
    let proxy = Proxy::new(&server, "{stateless: true, tools: {read: {ttl: 1h}}}");
    for (headers, served) in [
        (&[("authorization", "Bearer a")][..], false),
        (&[("authorization", "Bearer a")], true),
        (&[("authorization", "Bearer b")], false),
        (&[("cookie", "a=b")], false),
        (&[("x-api-key", "k")], false),
        (&[("x-api-key", "k"), ("user-agent", "other")], true),
        (&[], false),
    ] {
        let context = with_headers(headers);
        let answer = proxy
            .ask("tools/call", &modern_call("read", "{}"), &context)
            .await;
        assert_eq!(is_served(&answer), served, "{headers:?}");
    }
}

#[tokio::test]
async fn answers_are_for_one_session_and_process_unless_the_server_is_stateless() {
    for (policy, shared) in [
        ("{tools: {read: {ttl: 1h}}}", false),
        ("{stateless: true, tools: {read: {ttl: 1h}}}", true),
    ] {
        let server = server();
        let proxy = Proxy::new(&server, policy);
        let (one, two) = (proxy.initialize("one").await, proxy.initialize("two").await);
        proxy.ask("tools/call", CALL, &one).await;
        assert!(is_served(&proxy.ask("tools/call", CALL, &one).await));
        let other = proxy.ask("tools/call", CALL, &two).await;
        assert_eq!(is_served(&other), shared);
        let params = modern_call("read", "{}");
        let (no_session, mut modern) = (RequestContext::default(), false);
        for _ in 0..2 {
            let answer = proxy.ask("tools/call", &params, &no_session).await;
            modern = is_served(&answer);
        }
        assert!(modern);
        // Another process with the same store, and a session of the same name.
        proxy.cache.close().await;
        let next = Proxy::over(&server, policy, &proxy.cache, &proxy.clock, Path::new("/"));
        let one = next.initialize("one").await;
        assert_eq!(is_served(&next.ask("tools/call", CALL, &one).await), shared);
        let answer = next.ask("tools/call", &params, &no_session).await;
        assert_eq!(is_served(&answer), shared);
    }
}

/// The identity of the program was found out before its first process.
#[tokio::test]
async fn another_process_of_a_stateless_server_does_not_serve_answers_of_the_old_one() {
    let server = server();
    let proxy = Proxy::new(&server, "{stateless: true, tools: {read: {ttl: 1h}}}");
    proxy.call("read", "{}").await;
    assert!(is_served(&proxy.call("read", "{}").await));
    server.ends.fetch_add(1, Ordering::SeqCst);
    assert!(!is_served(&proxy.call("read", "{}").await));
    assert!(is_served(&proxy.call("read", "{}").await));
}

#[tokio::test]
async fn answers_of_a_policy_are_not_served_after_it_was_corrected() {
    let clock = Arc::new(ManualClock::at(START));
    let cache = engine(&clock);
    let call = modern_call("read", r#"{"path":"/nowhere"}"#);
    let context = RequestContext::default();
    let first = "{stateless: true, tools: {read: {ttl: 1h}}}";
    for (policy, served) in [
        (first, false),
        ("{stateless: true, tools: {'r*': {ttl: 60m}}}", true),
        ("{stateless: true, tools: {read: {ttl: 1s}}}", false),
        (
            "{stateless: true, tools: {read: {ttl: 1h, paths: {path: file}}}}",
            false,
        ),
        (
            "{stateless: true, relative_to: x, tools: {read: {ttl: 1h}}}",
            false,
        ),
        (first, true),
    ] {
        let server = server();
        let proxy = Proxy::over(&server, policy, &cache, &clock, Path::new("/"));
        let answer = proxy.ask("tools/call", &call, &context).await;
        assert_eq!(is_served(&answer), served, "{policy}");
        cache.close().await;
    }
}

/// A server offers the files below the roots of its client.
#[tokio::test]
async fn clients_with_other_roots_do_not_share_answers() {
    let policy = "{stateless: true, tools: {read: {ttl: 1h}}}";
    let clock = Arc::new(ManualClock::at(START));
    let cache = engine(&clock);
    for (root, served) in [("a", false), ("b", false), ("a", true)] {
        let server = server();
        let proxy = Proxy::over(&server, policy, &cache, &clock, Path::new("/"));
        let mut unattached = proxy.upstream.take_unattached().unwrap();
        let context = proxy.initialize("one").await;
        let asked = Frame::request("7", "roots/list", "{}");
        server.announce.send(asked).await.unwrap();
        let asked = unattached.recv().await.unwrap();
        let roots = format!(r#"{{"roots":[{{"uri":"file:///{root}"}}]}}"#);
        let answer = Frame::response(asked.id().unwrap(), &roots);
        proxy.upstream.notify(answer, context.clone()).await;
        let answer = proxy.ask("tools/call", CALL, &context).await;
        assert_eq!(is_served(&answer), served, "{root}");
        while !is_served(&proxy.ask("tools/call", CALL, &context).await) {}
        cache.close().await;
    }
}

#[tokio::test]
async fn a_session_whose_handshake_was_not_seen_is_passed_on() {
    let server = server();
    let proxy = Proxy::new(&server, "{tools: {read: {ttl: 1h}}}");
    let unknown = RequestContext {
        session: Some("unknown".into()),
        ..RequestContext::default()
    };
    for _ in 0..2 {
        assert!(!is_served(&proxy.ask("tools/call", CALL, &unknown).await));
    }
}

#[tokio::test]
async fn servers_of_one_store_do_not_share_answers() {
    let clock = Arc::new(ManualClock::at(START));
    let cache = engine(&clock);
    let (one, two) = (server(), server());
    let policy = "{tools: {read: {ttl: 1h}}}";
    let first = Proxy::over(&one, policy, &cache, &clock, Path::new("/"));
    let second = Proxy::over(&two, policy, &cache, &clock, Path::new("/tmp"));
    first.call("read", "{}").await;
    assert!(is_served(&first.call("read", "{}").await));
    assert!(!is_served(&second.call("read", "{}").await));
}
