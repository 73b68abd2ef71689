//! Answers that are stored because the server says for how long they are fresh.

use std::sync::Arc;
use std::time::Duration;

use cachalot_mcp::relay::{Frame, RequestContext, Upstream as _};

use super::fake::{FakeServer, Proxy, is_served, meta, value, with_headers};

/// A server that answers every request, also for lists, with these members of the result.
fn server(members: &'static str) -> Arc<FakeServer> {
    FakeServer::new("[]".to_owned(), move |request, _, sender| {
        let result = format!("{{\"resultType\":\"complete\"{members}}}");
        let response = Frame::response(request.id().unwrap(), &result);
        Box::pin(async move {
            sender.send(response);
        })
    })
}

fn params(more: &str) -> String {
    format!("{{{more}\"_meta\":{}}}", meta(""))
}

/// A header makes the server answer lists by its behavior.
fn client() -> RequestContext {
    with_headers(&[("behave", "1")])
}

const METHODS: [&str; 6] = [
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
];

#[tokio::test]
async fn answers_are_fresh_for_the_time_that_the_server_states() {
    for (members, seconds) in [
        (r#","ttlMs":1000,"cacheScope":"private""#, 1),
        (r#","ttlMs":1000"#, 1),
        (r#","ttlMs":604800000,"cacheScope":"private""#, 86_400),
        (r#","ttlMs":0,"cacheScope":"private""#, 0),
        (r#","ttlMs":-5,"cacheScope":"private""#, 0),
        (r#","cacheScope":"public""#, 0),
        ("", 0),
    ] {
        for method in METHODS {
            let server = server(members);
            let proxy = Proxy::new(&server, "{}");
            let ask = || async { proxy.ask(method, &params(""), &client()).await };
            let first = ask().await;
            assert!(!is_served(&first));
            assert_eq!(is_served(&ask().await), seconds > 0, "{method} {members}");
            if seconds == 0 {
                assert_eq!(server.count(method), 2, "{method} {members}");
                continue;
            }
            proxy
                .clock
                .advance(Duration::from_millis(seconds * 1_000 - 1));
            let last = ask().await;
            assert!(is_served(&last), "{method} {members}");
            // The remaining time.
            assert_eq!(value(&last)["result"]["ttlMs"], 1);
            proxy.clock.advance(Duration::from_millis(1));
            assert!(!is_served(&ask().await), "{method} {members}");
            assert_eq!(server.count(method), 2, "{method} {members}");
        }
    }
}

#[tokio::test]
async fn private_answers_are_for_one_credential_and_public_ones_for_all() {
    for (members, shared) in [
        (r#","ttlMs":60000,"cacheScope":"private""#, false),
        (r#","ttlMs":60000,"cacheScope":"public""#, true),
        (r#","ttlMs":60000"#, false),
    ] {
        let server = server(members);
        let proxy = Proxy::new(&server, "{}");
        let ask = |token: &str| {
            let context = with_headers(&[("behave", "1"), ("authorization", token)]);
            let proxy = &proxy;
            async move { proxy.ask("tools/list", &params(""), &context).await }
        };
        ask("Bearer a").await;
        assert!(is_served(&ask("Bearer a").await));
        // It is stored for all clients after the first one has its answer.
        let mut is_shared = false;
        for number in 0..20 {
            let token = format!("Bearer {number}");
            is_shared |= is_served(&ask(&token).await);
            assert!(is_served(&ask(&token).await));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(is_shared, shared, "{members}");
    }
}

#[tokio::test]
async fn pages_and_other_parameters_are_entries_of_their_own() {
    let server = server(r#","ttlMs":60000,"cacheScope":"private""#);
    let proxy = Proxy::new(&server, "{}");
    let (client, ask) = (client(), |more: &'static str| params(more));
    for more in ["", r#""cursor":"","#, r#""cursor":"2","#] {
        assert!(!is_served(
            &proxy.ask("tools/list", &ask(more), &client).await
        ));
        assert!(is_served(
            &proxy.ask("tools/list", &ask(more), &client).await
        ));
    }
    for more in [r#""inputResponses":{},"#, r#""requestState":"s","#] {
        for _ in 0..2 {
            assert!(!is_served(
                &proxy.ask("resources/read", &ask(more), &client).await
            ));
        }
    }
    let pending = FakeServer::answering(
        "[]".to_owned(),
        r#"{"resultType":"input_required","ttlMs":60000,"cacheScope":"private"}"#,
    );
    let proxy = Proxy::new(&pending, "{}");
    for _ in 0..2 {
        assert!(!is_served(
            &proxy.ask("resources/read", &ask(""), &client).await
        ));
    }
}

#[tokio::test]
async fn announcements_expire_at_once_and_reach_the_client() {
    let uri = r#""uri":"x://a","#;
    for (method, more, announcement, announced) in [
        ("tools/list", "", "notifications/tools/list_changed", "{}"),
        (
            "prompts/list",
            "",
            "notifications/prompts/list_changed",
            "{}",
        ),
        (
            "resources/list",
            "",
            "notifications/resources/list_changed",
            "{}",
        ),
        (
            "resources/read",
            uri,
            "notifications/resources/updated",
            r#"{"uri":"x://a"}"#,
        ),
        (
            "resources/read",
            uri,
            "notifications/resources/updated",
            r#"{"uri":"x://a/b"}"#,
        ),
    ] {
        let server = server(r#","ttlMs":60000,"cacheScope":"public""#);
        let proxy = Proxy::new(&server, "{}");
        let mut unattached = proxy.upstream.take_unattached().unwrap();
        let ask = || async { proxy.ask(method, &params(more), &client()).await };
        ask().await;
        assert!(is_served(&ask().await));
        let frame = Frame::notification(announcement, announced);
        server.announce.send(frame).await.unwrap();
        assert_eq!(unattached.recv().await.unwrap().method(), announcement);
        assert!(!is_served(&ask().await), "{method} {announced}");
        let other = Frame::notification("notifications/resources/updated", r#"{"uri":"x://c"}"#);
        proxy.cache.close().await;
        ask().await;
        server.announce.send(other).await.unwrap();
        unattached.recv().await.unwrap();
        assert!(is_served(&ask().await), "{method}");
    }
}

#[tokio::test]
async fn an_announcement_in_a_subscription_expires_answers() {
    let server = FakeServer::new("[]".to_owned(), |request, _, sender| {
        Box::pin(async move {
            let id = request.id().unwrap();
            if request.method() == "subscriptions/listen" {
                sender.send(Frame::notification(
                    "notifications/tools/list_changed",
                    "{}",
                ));
                sender.cancelled().await;
            }
            let result = r#"{"ttlMs":60000,"cacheScope":"public"}"#;
            sender.send(Frame::response(id, result));
        })
    });
    let proxy = Proxy::new(&server, "{}");
    proxy.ask("tools/list", &params(""), &client()).await;
    assert!(is_served(
        &proxy.ask("tools/list", &params(""), &client()).await
    ));
    let listen = Frame::request("\"l\"", "subscriptions/listen", &params(""));
    let mut exchange = proxy.begin(listen, &client()).await;
    let announced = exchange.next().await.unwrap();
    assert_eq!(announced.method(), "notifications/tools/list_changed");
    assert!(!is_served(
        &proxy.ask("tools/list", &params(""), &client()).await
    ));
}

#[tokio::test]
async fn without_hints_only_reads_that_the_policy_names_are_stored() {
    let server = server("");
    let proxy = Proxy::new(&server, "{resources: {ttl: 1m}}");
    let context = proxy.initialize("one").await;
    for method in METHODS {
        let params = r#"{"uri":"x://a"}"#;
        proxy.ask(method, params, &context).await;
        let again = proxy.ask(method, params, &context).await;
        assert_eq!(is_served(&again), method == "resources/read", "{method}");
    }
    let off = Proxy::new(
        &super::hints::server(r#","ttlMs":60000,"cacheScope":"public""#),
        "{hints: false}",
    );
    for _ in 0..2 {
        assert!(!is_served(
            &off.ask("tools/list", &params(""), &client()).await
        ));
    }
}
