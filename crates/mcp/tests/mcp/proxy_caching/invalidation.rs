//! What expires stored answers of tools.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cachalot_mcp::relay::{Frame, RequestContext, Upstream as _};
use serde_json::json;
use tokio::sync::Semaphore;

use super::fake::{
    FakeServer, Proxy, is_served, modern_call, read_only, response, tools, until, with_headers,
};

fn listed() -> String {
    tools(&[
        ("read", read_only()),
        ("look", read_only()),
        ("write", json!({"readOnlyHint": false})),
        ("other", json!({})),
    ])
}

const POLICY: &str = "{tools: {read: {ttl: 1h}, look: {}}}";

#[tokio::test]
async fn any_other_call_expires_the_answers_of_the_server() {
    let server = FakeServer::counting(listed());
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext::default();
    proxy.call("read", "{}").await;
    for (method, params, expires) in [
        ("tools/call", modern_call("look", "{}"), false),
        ("tools/call", modern_call("write", "{}"), true),
        ("tools/call", modern_call("other", "{}"), true),
        ("tools/call", modern_call("unlisted", "{}"), true),
        ("tools/call", "{}".to_owned(), true),
        ("com.example/method", "{}".to_owned(), true),
        ("prompts/get", "{}".to_owned(), false),
        ("completion/complete", "{}".to_owned(), false),
        ("ping", "{}".to_owned(), false),
    ] {
        until_served(&proxy).await;
        proxy.ask(method, &params, &context).await;
        let again = proxy.call("read", "{}").await;
        assert_eq!(!is_served(&again), expires, "{method} {params}");
    }
}

async fn until_served(proxy: &Proxy) {
    for _ in 0..100 {
        if is_served(&proxy.call("read", "{}").await) {
            return;
        }
    }
    panic!("it is never stored");
}

#[tokio::test]
async fn notifications_of_the_client_that_may_change_the_server_expire_answers() {
    let server = FakeServer::counting(listed());
    let proxy = Proxy::new(&server, POLICY);
    for (method, expires) in [
        ("notifications/initialized", false),
        ("notifications/cancelled", false),
        ("notifications/roots/list_changed", true),
        ("com.example/do", true),
    ] {
        until_served(&proxy).await;
        let message = Frame::notification(method, "{}");
        proxy
            .upstream
            .notify(message, RequestContext::default())
            .await;
        assert_eq!(
            !is_served(&proxy.call("read", "{}").await),
            expires,
            "{method}"
        );
    }
    assert_eq!(server.notified.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn an_answer_that_overlaps_a_write_is_not_stored() {
    let gate = Arc::new(Semaphore::new(0));
    let server = FakeServer::gated(listed(), &gate);
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext::default();
    let write = Frame::request("1", "tools/call", &modern_call("write", "{}"));
    let mut write = proxy.begin(write, &context).await;
    until("the write runs", || server.count("tools/call") == 1).await;
    let read = Frame::request("2", "tools/call", &modern_call("read", "{}"));
    let mut read = proxy.begin(read, &context).await;
    until("the read runs", || server.count("tools/call") == 2).await;
    gate.add_permits(10);
    response(&mut read).await;
    response(&mut write).await;
    assert!(!is_served(&proxy.call("read", "{}").await));
    until_served(&proxy).await;
}

#[tokio::test]
async fn a_task_that_may_write_blocks_answers_until_it_ends() {
    let server = FakeServer::new(listed(), |request, _, sender| {
        let result = match request.method() {
            "tools/call" if request.params().unwrap().contains("write") => {
                r#"{"resultType":"task","taskId":"t","status":"working"}"#
            }
            "tasks/get" if request.params().unwrap().contains("over") => {
                r#"{"taskId":"t","status":"completed"}"#
            }
            "tasks/get" => r#"{"taskId":"t","status":"working"}"#,
            _ => r#"{"content":[]}"#,
        };
        let response = Frame::response(request.id().unwrap(), result);
        Box::pin(async move {
            sender.send(response);
        })
    });
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext::default();
    until_served(&proxy).await;
    proxy.call("write", "{}").await;
    for _ in 0..2 {
        assert!(!is_served(&proxy.call("read", "{}").await));
    }
    proxy.ask("tasks/get", r#"{"taskId":"t"}"#, &context).await;
    for _ in 0..2 {
        assert!(!is_served(&proxy.call("read", "{}").await));
    }
    proxy
        .ask("tasks/get", r#"{"taskId":"t","over":1}"#, &context)
        .await;
    until_served(&proxy).await;
}

#[tokio::test]
async fn an_update_of_a_resource_expires_the_tools_that_depend_on_it() {
    let server = FakeServer::counting(listed());
    let policy =
        "{tools: {read: {ttl: 1h, resources: ['x://a']}, look: {ttl: 1h, resources: ['*']}}}";
    let proxy = Proxy::new(&server, policy);
    let mut unattached = proxy.upstream.take_unattached().unwrap();
    for (uri, expires_read) in [("x://a", true), ("x://a/part", true), ("x://b", false)] {
        for tool in ["read", "look"] {
            while !is_served(&proxy.call(tool, "{}").await) {}
        }
        let params = json!({ "uri": uri }).to_string();
        let update = Frame::notification("notifications/resources/updated", &params);
        server.announce.send(update).await.unwrap();
        unattached.recv().await.unwrap();
        assert_eq!(
            !is_served(&proxy.call("read", "{}").await),
            expires_read,
            "{uri}"
        );
        assert!(!is_served(&proxy.call("look", "{}").await), "{uri}");
    }
}

#[tokio::test]
async fn a_changed_definition_is_listed_again_and_its_old_answers_are_not_served() {
    let server = FakeServer::counting(listed());
    let proxy = Proxy::new(&server, POLICY);
    let mut unattached = proxy.upstream.take_unattached().unwrap();
    until_served(&proxy).await;
    assert_eq!(server.count("tools/list"), 1);
    let changed = || Frame::notification("notifications/tools/list_changed", "{}");
    server.announce.send(changed()).await.unwrap();
    unattached.recv().await.unwrap();
    // The same definition has the same key.
    assert!(is_served(&proxy.call("read", "{}").await));
    assert_eq!(server.count("tools/list"), 2);
    let other = r#"[{"name":"read","description":"new","annotations":{"readOnlyHint":true}}]"#;
    server.set_tools(other.to_owned());
    server.announce.send(changed()).await.unwrap();
    unattached.recv().await.unwrap();
    assert!(!is_served(&proxy.call("read", "{}").await));
    until_served(&proxy).await;
    server.set_tools(tools(&[("read", json!({"readOnlyHint": false}))]));
    server.announce.send(changed()).await.unwrap();
    unattached.recv().await.unwrap();
    for _ in 0..2 {
        assert!(!is_served(&proxy.call("read", "{}").await));
    }
}

#[tokio::test]
async fn a_server_that_ends_in_the_middle_of_a_call_expires_its_answers() {
    let gate = Arc::new(Semaphore::new(0));
    let crashes = Arc::clone(&gate);
    let server = FakeServer::new(listed(), move |request, _, sender| {
        let gate = Arc::clone(&crashes);
        Box::pin(async move {
            if request.params().unwrap().contains("crash") {
                gate.acquire().await.unwrap().forget();
            } else {
                let response = Frame::response(request.id().unwrap(), r#"{"content":[]}"#);
                sender.send(response);
            }
        })
    });
    let proxy = Proxy::new(&server, POLICY);
    for tool in ["read", "write"] {
        until_served(&proxy).await;
        let before = server.count("tools/call");
        let params = modern_call(tool, r#"{"crash":true}"#);
        let request = Frame::request("\"c\"", "tools/call", &params);
        let mut exchange = proxy.begin(request, &RequestContext::default()).await;
        until("it runs", || server.count("tools/call") == before + 1).await;
        server.ends.fetch_add(1, Ordering::SeqCst);
        gate.add_permits(1);
        assert!(exchange.next().await.is_none());
        assert!(!is_served(&proxy.call("read", "{}").await), "{tool}");
        // Nothing was sent a second time.
        assert_eq!(server.count("tools/call"), before + 2);
    }
    // Between two calls.
    until_served(&proxy).await;
    let listed = server.count("tools/list");
    server.ends.fetch_add(1, Ordering::SeqCst);
    assert!(!is_served(&proxy.call("read", "{}").await));
    // Another version may have other tools.
    assert_eq!(server.count("tools/list"), listed + 1);
    until_served(&proxy).await;
}

/// Any server may use the code, and the relay uses it for other failures, too.
#[tokio::test]
async fn an_error_with_the_code_of_a_closed_connection_is_no_end_of_the_server() {
    let server = FakeServer::new(listed(), |request, _, sender| {
        let id = request.id().unwrap();
        let response = if request.params().unwrap().contains("fail") {
            Frame::error_response(id, -32_000, "no such file")
        } else {
            Frame::response(id, r#"{"content":[]}"#)
        };
        Box::pin(async move {
            sender.send(response);
        })
    });
    let proxy = Proxy::new(&server, POLICY);
    for tool in ["read", "look"] {
        until_served(&proxy).await;
        let answer = proxy.call(tool, r#"{"fail":true}"#).await;
        assert_eq!(answer.error_code(), Some(-32_000));
        assert!(is_served(&proxy.call("read", "{}").await), "{tool}");
    }
    assert_eq!(server.count("tools/list"), 1);
}

/// A server whose calls of `write` wait for a permit of the gate.
fn slow_writes(gate: &Arc<Semaphore>) -> Arc<FakeServer> {
    let gate = Arc::clone(gate);
    FakeServer::new(listed(), move |request, _, sender| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            if request.params().unwrap().contains("write") {
                gate.acquire().await.unwrap().forget();
            }
            let response = Frame::response(request.id().unwrap(), r#"{"content":[]}"#);
            sender.send(response);
        })
    })
}

#[tokio::test]
async fn a_cancelled_write_lasts_until_the_server_has_ended_it() {
    for session in [Some("one"), None] {
        let gate = Arc::new(Semaphore::new(0));
        let server = slow_writes(&gate);
        let proxy = Proxy::new(&server, POLICY);
        let context = RequestContext {
            session: session.map(Into::into),
            ..RequestContext::default()
        };
        let request = Frame::request("\"w\"", "tools/call", &modern_call("write", "{}"));
        let mut write = proxy.begin(request, &context).await;
        until("the write runs", || server.count("tools/call") == 1).await;
        if session.is_some() {
            let params = r#"{"requestId":"w","reason":"x"}"#;
            let cancel = Frame::notification("notifications/cancelled", params);
            proxy.upstream.notify(cancel, context).await;
            assert!(write.next().await.is_none());
        } else {
            drop(write);
        }
        until("the server is told", || {
            server.notified.lock().unwrap().len() == 1
        })
        .await;
        let told = server.notified.lock().unwrap()[0].clone();
        assert_eq!(told.request_id(), Some("\"w\""));
        assert_eq!(told.params().unwrap().contains("reason"), session.is_some());
        for _ in 0..3 {
            assert!(!is_served(&proxy.call("read", "{}").await));
        }
        assert_eq!(server.cancelled.load(Ordering::SeqCst), 0);
        gate.add_permits(1);
        until_served_later(&proxy).await;
    }
}

#[tokio::test]
async fn a_write_whose_connection_broke_may_still_run() {
    for is_lost in [true, false] {
        let server = FakeServer::new(listed(), move |request, _, sender| {
            let id = request.id().unwrap();
            let response = if request.params().unwrap().contains("write") {
                let error = Frame::error_response(id, -32_000, "broken");
                if is_lost {
                    error.with_unknown_effect()
                } else {
                    error
                }
            } else {
                Frame::response(id, r#"{"content":[]}"#)
            };
            Box::pin(async move {
                sender.send(response);
            })
        });
        let proxy = Proxy::new(&server, POLICY);
        until_served(&proxy).await;
        assert!(proxy.call("write", "{}").await.error().is_some());
        if is_lost {
            for _ in 0..5 {
                assert!(!is_served(&proxy.call("read", "{}").await));
            }
        } else {
            until_served_later(&proxy).await;
        }
    }
}

async fn until_served_later(proxy: &Proxy) {
    for _ in 0..2_000 {
        if is_served(&proxy.call("read", "{}").await) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it is never stored");
}

/// A server whose calls of `write` are answered with a task. `members` are further ones of the task.
fn with_tasks(members: &'static str) -> Arc<FakeServer> {
    FakeServer::new(listed(), move |request, _, sender| {
        let params = request.params().unwrap().to_owned();
        let id = params.split("task-").nth(1).map(|rest| {
            let end = rest.find('"').unwrap();
            rest[..end].to_owned()
        });
        let result = match (request.method(), id) {
            ("tools/call", Some(id)) => {
                format!(r#"{{"task":{{"taskId":"task-{id}","status":"working"{members}}}}}"#)
            }
            ("tasks/get", Some(id)) => format!(r#"{{"taskId":"task-{id}","status":"completed"}}"#),
            _ => r#"{"content":[]}"#.to_owned(),
        };
        Box::pin(async move {
            let response = Frame::response(request.id().unwrap(), &result);
            sender.send(response);
        })
    })
}

#[tokio::test]
async fn a_task_ends_by_its_status_notification() {
    let server = with_tasks("");
    let proxy = Proxy::new(&server, POLICY);
    let mut unattached = proxy.upstream.take_unattached().unwrap();
    proxy.call("write", r#"{"id":"task-1"}"#).await;
    for (status, ends) in [("working", false), ("failed", true)] {
        let params = format!(r#"{{"taskId":"task-1","status":"{status}","ttl":null}}"#);
        let status = Frame::notification("notifications/tasks/status", &params);
        server.announce.send(status).await.unwrap();
        unattached.recv().await.unwrap();
        if ends {
            until_served_later(&proxy).await;
        } else {
            for _ in 0..3 {
                assert!(!is_served(&proxy.call("read", "{}").await));
            }
        }
    }
}

#[tokio::test]
async fn a_task_ends_when_the_server_may_forget_it() {
    let server = with_tasks(r#","ttl":300"#);
    let proxy = Proxy::new(&server, POLICY);
    proxy.call("write", r#"{"id":"task-1"}"#).await;
    until_served_later(&proxy).await;
}

#[tokio::test]
async fn nothing_is_stored_with_too_many_open_tasks() {
    let server = with_tasks("");
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext::default();
    let tasks = 1_026;
    for task in 0..tasks {
        let id = format!(r#"{{"id":"task-{task}"}}"#);
        proxy.call("write", &id).await;
    }
    for task in 0..tasks {
        let id = format!(r#"{{"taskId":"task-{task}"}}"#);
        proxy.ask("tasks/get", &id, &context).await;
    }
    for _ in 0..3 {
        assert!(!is_served(&proxy.call("read", "{}").await));
    }
}

/// A session for which the server lists tools for a permit of the gate.
async fn slow_lists(gate: &Arc<Semaphore>) -> (Arc<FakeServer>, Proxy, RequestContext) {
    let list = Arc::clone(gate);
    let server = FakeServer::new(listed(), move |request, _, sender| {
        let gate = Arc::clone(&list);
        Box::pin(async move {
            let mut result = r#"{"content":[]}"#.to_owned();
            if request.method() == "tools/list" {
                gate.acquire().await.unwrap().forget();
                result = format!("{{\"tools\":{}}}", listed());
            }
            let response = Frame::response(request.id().unwrap(), &result);
            sender.send(response);
        })
    });
    let proxy = Proxy::new(&server, POLICY);
    let context = RequestContext {
        headers: with_headers(&[("behave", "slowly")]).headers,
        ..proxy.initialize("one").await
    };
    (server, proxy, context)
}

const READ: &str = r#"{"name":"read","arguments":{}}"#;

#[tokio::test]
async fn a_write_does_not_overtake_a_read_that_is_being_prepared() {
    let gate = Arc::new(Semaphore::new(0));
    let (server, proxy, context) = slow_lists(&gate).await;
    let mut exchanges = Vec::new();
    for (id, method, params) in [
        ("\"1\"", "tools/call", READ),
        ("\"2\"", "com.example/write", "{}"),
        ("\"3\"", "tools/call", READ),
        ("\"4\"", "com.example/write", "{}"),
        ("\"5\"", "ping", "{}"),
    ] {
        let request = Frame::request(id, method, params);
        exchanges.push(proxy.begin(request, &context).await);
    }
    // It is not kept waiting.
    let mut ping = exchanges.pop().unwrap();
    response(&mut ping).await;
    gate.add_permits(10);
    for exchange in &mut exchanges {
        response(exchange).await;
    }
    let seen = server.seen.lock().unwrap().clone();
    let ids: Vec<&str> = seen
        .iter()
        .filter(|it| ["tools/call", "com.example/write"].contains(&it.method()))
        .map(|it| it.id().unwrap())
        .collect();
    assert_eq!(ids, ["\"1\"", "\"2\"", "\"3\"", "\"4\""]);
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_is_prepared_never_reaches_the_server() {
    let gate = Arc::new(Semaphore::new(0));
    let (server, proxy, context) = slow_lists(&gate).await;
    let read = Frame::request("\"r\"", "tools/call", READ);
    let mut read = proxy.begin(read, &context).await;
    let write = Frame::request("\"w\"", "com.example/write", "{}");
    let mut write = proxy.begin(write, &context).await;
    for id in ["r", "w"] {
        let params = json!({ "requestId": id }).to_string();
        let cancel = Frame::notification("notifications/cancelled", &params);
        proxy.upstream.notify(cancel, context.clone()).await;
    }
    assert!(read.next().await.is_none());
    assert!(write.next().await.is_none());
    gate.add_permits(10);
    let last = Frame::request("9", "com.example/last", "{}");
    proxy.send(last, &context).await;
    assert_eq!(server.count("tools/call"), 0);
    assert_eq!(server.count("com.example/write"), 0);
    assert!(server.notified.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_list_that_fails_is_not_requested_for_each_call() {
    let server = FakeServer::new(listed(), |request, _, sender| {
        let id = request.id().unwrap();
        let response = match request.method() {
            "tools/list" => Frame::error_response(id, -32_603, "not now"),
            _ => Frame::response(id, r#"{"content":[]}"#),
        };
        Box::pin(async move {
            sender.send(response);
        })
    });
    let proxy = Proxy::new(&server, POLICY);
    let context = with_headers(&[("behave", "badly")]);
    for _ in 0..5 {
        let params = modern_call("read", "{}");
        let answer = proxy.ask("tools/call", &params, &context).await;
        assert!(answer.result().is_some() && !is_served(&answer));
    }
    assert_eq!(server.count("tools/call"), 5);
    assert_eq!(server.count("tools/list"), 1);
}

#[tokio::test]
async fn announcements_that_may_have_been_lost_expire_the_answers_of_the_server() {
    let server = FakeServer::counting(listed());
    let proxy = Proxy::new(&server, POLICY);
    for _ in 0..2 {
        until_served(&proxy).await;
        let listed = server.count("tools/list");
        server.losses.fetch_add(1, Ordering::SeqCst);
        assert!(!is_served(&proxy.call("read", "{}").await));
        // The list may have changed, too.
        assert_eq!(server.count("tools/list"), listed + 1);
    }
    until_served(&proxy).await;
    assert!(is_served(&proxy.call("read", "{}").await));
}

#[tokio::test]
async fn messages_reach_the_server_in_their_order() {
    let server = FakeServer::counting(listed());
    let proxy = Proxy::new(&server, POLICY);
    let context = proxy.initialize("one").await;
    let mut exchanges = Vec::new();
    for id in 0..20 {
        let method = if id % 2 == 0 {
            "tools/call"
        } else {
            "com.example/odd"
        };
        let params = format!("{{\"name\":\"unnamed\",\"n\":{id}}}");
        let request = Frame::request(&id.to_string(), method, &params);
        exchanges.push(proxy.begin(request, &context).await);
    }
    let seen = server.seen.lock().unwrap().clone();
    let ids: Vec<&str> = seen.iter().skip(1).map(|it| it.id().unwrap()).collect();
    let expected: Vec<String> = (0..20).map(|id: u32| id.to_string()).collect();
    assert_eq!(ids, expected);
}
