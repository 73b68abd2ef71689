//! The relay, between clients and servers of each transport.

mod clients;
mod effects;
mod losses;
mod puppet;
mod samples;
mod servers;
mod several;

use std::sync::Arc;

use cachalot_mcp::relay::{Connector, SeveralConnector};
use serde_json::{Value, json};

use self::clients::{Client, HttpClient};
use self::samples::{IDS, OF_CLIENTS, OF_SERVERS};
use self::servers::HttpPuppet;
use crate::ReportRecorder;

/// Runs a test on all four pairs of transports.
async fn on_all_pairs(test: impl AsyncFn(&str, &mut Client)) {
    let reporter = Arc::new(ReportRecorder::default());
    let remote = HttpPuppet::open(&reporter).await;
    let connectors: [(&str, Arc<dyn Connector>); 2] = [
        ("program", servers::program(&reporter)),
        ("remote", Arc::clone(&remote.connector)),
    ];
    for (name, connector) in &connectors {
        let mut client = Client::stdio(connector).await;
        client
            .call("0", r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#)
            .await;
        test(&format!("stdio, {name}"), &mut client).await;
        client.end().await;
        let mut client = Client::http(connector).await;
        test(&format!("http, {name}"), &mut client).await;
        client.end().await;
    }
}

/// A request that makes the server say something.
fn say(id: &str, texts: &[&str]) -> String {
    let params = json!({"say": texts, "_meta": {"progressToken": "p/1"}});
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"test/say","params":{params}}}"#)
}

fn member(text: &str, pointer: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap();
    value
        .pointer(pointer)
        .unwrap_or_else(|| panic!("{text}"))
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_servers_arrive_unchanged() {
    on_all_pairs(async |pair, client| {
        for (name, text) in OF_SERVERS {
            let what = format!("{pair}: {name}");
            let is_response = text.contains("\"id\":$ID");
            for id in IDS.iter().take(if is_response { IDS.len() } else { 1 }) {
                if is_response {
                    let response = client.call(id, &say(id, &[text])).await;
                    assert_eq!(response, text.replace("$ID", id), "{what}");
                    continue;
                }
                client.send(&say(id, &[text, r#"{"id":$ID,"result":{}}"#]));
                let mut expected = text.replace("$TOKEN", "\"p/1\"");
                let method = format!("\"method\":{}", member(&expected, "/method"));
                let arrived = client.wait(&what, |text| text.contains(&method)).await;
                if let Ok(Value::Object(message)) = serde_json::from_str(&expected)
                    && let Some(id) = message.get("id")
                {
                    // The client has to see an id of its own hop.
                    expected = expected.replace(
                        &format!("\"id\":{id}"),
                        &format!("\"id\":{}", member(&arrived, "/id")),
                    );
                }
                assert_eq!(arrived, expected, "{what}");
                client.response(id).await;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_clients_arrive_unchanged() {
    on_all_pairs(async |pair, client| {
        for (name, text) in OF_CLIENTS {
            for id in IDS {
                let sent = text.replace("$ID", id);
                let response = client.call(id, &sent).await;
                let got: Value = serde_json::from_str(&response).unwrap();
                let got = got["result"]["got"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{response}"));
                let new = member(got, "/id");
                let expected = text.replace("$ID", &new).replace(
                    "\"progressToken\":\"p\"",
                    &format!("\"progressToken\":{new}"),
                );
                assert_eq!(got, expected, "{pair}: {name}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_asks_the_client() {
    on_all_pairs(async |pair, client| {
        let asked =
            r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"n":1.10}}"#;
        let params = json!({"ask": asked});
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"test/ask","params":{params}}}"#
        ));
        let arrived = client
            .wait(pair, |text| text.contains("createMessage"))
            .await;
        let id = member(&arrived, "/id");
        assert_eq!(arrived, asked.replace("\"s\"", &id));
        client.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"n":12345678901234567890123}}}}"#
        ));
        let response = client.response("5").await;
        assert_eq!(
            member(&response, "/result/got"),
            json!(r#"{"jsonrpc":"2.0","id":"s","result":{"n":12345678901234567890123}}"#)
                .to_string(),
            "{pair}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_names_the_request_of_its_hop() {
    on_all_pairs(async |pair, client| {
        // Two pairs share a server, and its log.
        let before = client.log().await.len();
        let logged = async |client: &mut Client, part: &str| loop {
            let log = client.log().await;
            if let Some(text) = log[before..].iter().find(|text| text.contains(part)) {
                return text.clone();
            }
        };
        client.send(r#"{"jsonrpc":"2.0","id":"w","method":"test/wait"}"#);
        let waiting = member(&logged(client, "test/wait").await, "/id");
        client.send(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w","reason":"r"}}"#,
        );
        let expected = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{waiting},"reason":"r"}}}}"#
        );
        assert_eq!(logged(client, "cancelled").await, expected, "{pair}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_program_fails_its_calls_and_a_new_session_starts_it_again() {
    let reporter = Arc::new(ReportRecorder::default());
    let mut client = Client::stdio(&servers::program(&reporter)).await;
    client
        .call("0", r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#)
        .await;
    client.send(r#"{"jsonrpc":"2.0","id":1,"method":"test/wait"}"#);
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"test/exit"}"#);
    for id in ["1", "2"] {
        let error = member(&client.response(id).await, "/error/message");
        for part in [
            "exit status 7",
            "out of cheese",
            "the effect of the call is unknown",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
    let refused = client
        .call("3", r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#)
        .await;
    assert!(
        member(&refused, "/error/message").contains("`initialize`"),
        "{refused}"
    );
    client
        .call("4", r#"{"jsonrpc":"2.0","id":4,"method":"initialize"}"#)
        .await;
    // Nothing is sent twice.
    let log = client.log().await;
    assert_eq!(log.len(), 2, "{log:?}");
    client.end().await;
    assert_eq!(
        reporter
            .lines
            .lock()
            .unwrap()
            .iter()
            .filter(|line| *line == "puppet: out of cheese")
            .count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_stream_is_resumed() {
    let reporter = Arc::new(ReportRecorder::default());
    let remote = HttpPuppet::open(&reporter).await;
    let mut client = Client::stdio(&remote.connector).await;
    client
        .call("0", r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#)
        .await;
    let response = client
        .call("1", r#"{"jsonrpc":"2.0","id":1,"method":"test/cut"}"#)
        .await;
    assert_eq!(
        response,
        r#"{"jsonrpc":"2.0","id":1,"result":{"resumed":1.10}}"#
    );
    client.end().await;
    let requests = remote.requests();
    let headers = |what: &str| {
        let found = requests.iter().find(|(known, _)| known == what);
        found.map(|(_, headers)| headers.clone()).unwrap()
    };
    assert!(!headers("POST initialize").contains_key("mcp-session-id"));
    for what in ["POST test/cut", "GET", "DELETE"] {
        let headers = headers(what);
        assert_eq!(headers["mcp-session-id"], "a-session", "{what}");
        assert_eq!(headers["mcp-protocol-version"], "2025-11-25", "{what}");
    }
    assert_eq!(headers("GET")["last-event-id"], "e1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_session_is_an_error_that_the_client_understands() {
    let reporter = Arc::new(ReportRecorder::default());
    let remote = HttpPuppet::open(&reporter).await;
    let mut client = Client::stdio(&remote.connector).await;
    client
        .call("0", r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#)
        .await;
    let mut http = HttpClient::open(&remote.connector).await;
    http.initialize().await;
    remote.expire();
    let response = client
        .call("1", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    assert!(
        member(&response, "/error/message").contains("the session has expired"),
        "{response}"
    );
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    // The server's answer, and then that of the proxy, which has forgotten the session.
    assert_eq!(http.post(call).await.status(), 404);
    assert_eq!(http.post(call).await.status(), 404);
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_credentials_pass_between_http_and_http() {
    let reporter = Arc::new(ReportRecorder::default());
    let remote = HttpPuppet::open(&reporter).await;
    let client = HttpClient::open(&remote.connector).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"test/login","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let headers = [
        ("authorization", "Bearer swordfish"),
        ("cookie", "a=b"),
        ("x-own", "1"),
        ("mcp-param-region", "us"),
    ];
    let sent = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let response = client.post_with(call, sent.into_iter().collect()).await;
    assert_eq!(response.status(), 401);
    assert_eq!(response.headers()["www-authenticate"], "Bearer scope=\"a\"");
    assert_eq!(response.text().await.unwrap(), "who?");
    let (_, got) = remote.requests().pop().unwrap();
    for (name, value) in headers.into_iter().chain([
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "test/login"),
    ]) {
        assert_eq!(got[name], value, "{name}");
    }
    client.front.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_checks_what_the_protocol_asks_for() {
    let reporter = Arc::new(ReportRecorder::default());
    let mut client = HttpClient::open(&servers::program(&reporter)).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let status = |name: &'static str, value: &'static str| {
        let headers = [(name.parse().unwrap(), value.parse().unwrap())];
        let posting = client.post_with(list, headers.into_iter().collect());
        async move { posting.await.status().as_u16() }
    };
    assert_eq!(status("origin", "https://evil.example").await, 403);
    assert_eq!(status("host", "evil.example").await, 403);
    assert_eq!(status("sec-fetch-site", "cross-site").await, 403);
    assert_eq!(status("mcp-session-id", "none").await, 404);
    assert_eq!(status("x-none", "1").await, 400);
    // A revision without sessions: the body has to have what the header says.
    assert_eq!(status("mcp-protocol-version", "2026-07-28").await, 400);
    client.initialize().await;
    assert_eq!(client.post(list).await.status(), 200);
    let got = client
        .request(reqwest::Method::DELETE)
        .send()
        .await
        .unwrap();
    assert_eq!(got.status(), 200);
    assert_eq!(client.post(list).await.status(), 404);
    client.session = None;
    assert_eq!(
        client
            .request(reqwest::Method::GET)
            .send()
            .await
            .unwrap()
            .status(),
        405
    );
    client.front.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_are_one_with_prefixes() {
    let reporter = Arc::new(ReportRecorder::default());
    let remote = HttpPuppet::open(&reporter).await;
    let missing = servers::missing(&reporter);
    let connector: Arc<dyn Connector> = Arc::new(SeveralConnector {
        servers: vec![
            ("one".to_owned(), servers::program(&reporter)),
            ("none".to_owned(), missing),
            ("two".to_owned(), Arc::clone(&remote.connector)),
        ],
        reporter: reporter.clone(),
    });
    let mut client = Client::stdio(&connector).await;
    let opened = client
        .call("0", r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#)
        .await;
    assert_eq!(member(&opened, "/result/serverInfo/name"), "\"cachalot\"");
    let warnings = reporter.warnings.lock().unwrap().clone();
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("no program")),
        "{warnings:?}"
    );
    let list = client
        .call("1", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#)
        .await;
    assert_eq!(
        member(&list, "/result/tools"),
        json!([
            {"name": "one_t", "inputSchema": {"type": "object"}},
            {"name": "two_t", "inputSchema": {"type": "object"}},
        ])
        .to_string()
    );
    let call =
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"n":1.10,"name":"two_t"}}"#;
    let response = client.call("2", call).await;
    let got = member(&response, "/result/got");
    assert!(got.contains(r#"{\"n\":1.10,\"name\":\"t\"}"#), "{got}");
    let calls = |requests: Vec<(String, _)>| {
        requests
            .iter()
            .filter(|(what, _)| what == "POST tools/call")
            .count()
    };
    assert_eq!(calls(remote.requests()), 1);
    client
        .call(
            "3",
            &call
                .replace("two_t", "one_t")
                .replace("\"id\":2", "\"id\":3"),
        )
        .await;
    assert_eq!(calls(remote.requests()), 1);
    // A request of a server, and the client's response, which has to reach that server.
    let asked = r#"{"jsonrpc":"2.0","id":"s","method":"roots/list"}"#;
    let params = json!({"name": "one_t", "ask": asked});
    client.send(&format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"test/ask","params":{params}}}"#
    ));
    let arrived = client
        .wait("roots/list", |text| text.contains("roots/list"))
        .await;
    let id = member(&arrived, "/id");
    client.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"roots":[]}}}}"#
    ));
    let response = client.response("5").await;
    assert!(
        member(&response, "/result/got").contains(r#"\"id\":\"s\""#),
        "{response}"
    );
    client.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_pass() {
    let reporter = Arc::new(ReportRecorder::default());
    let mut client = Client::stdio(&servers::program(&reporter)).await;
    let large = "x".repeat(20 << 20);
    let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"{large}"}}"#);
    let response = client.call("1", &call).await;
    assert!(response.len() > large.len() && response.contains(&large));
    client.end().await;
}
