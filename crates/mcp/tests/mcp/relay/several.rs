//! Several servers in this process, behind one connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_mcp::relay::{
    Close, Connection, Connector, Exchange, Frame, FrameKind, RequestContext, SeveralConnector,
    Upstream,
};
use tokio::sync::{Notify, mpsc};

use crate::ReportRecorder;

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

struct Server {
    name: &'static str,
    /// True if `tools/list` waits for the client's roots.
    asks_for_roots: bool,
    seen: Mutex<Vec<Frame>>,
    told: Mutex<Vec<Frame>>,
    /// The methods of all messages in their order, with their ids.
    log: Mutex<Vec<String>>,
    /// Held by a test for a server that accepts no message.
    accepting: tokio::sync::Mutex<()>,
    answered: Notify,
}

struct ServerConnector(Arc<Server>);

impl Server {
    fn new(name: &'static str, asks_for_roots: bool) -> Arc<Self> {
        Arc::new(Self {
            name,
            asks_for_roots,
            seen: Mutex::default(),
            told: Mutex::default(),
            log: Mutex::default(),
            accepting: tokio::sync::Mutex::default(),
            answered: Notify::new(),
        })
    }

    fn count(&self, method: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|frame| frame.method() == method).count()
    }

    async fn accept(&self, message: &Frame) {
        drop(self.accepting.lock().await);
        let id = message.id().or(message.request_id()).unwrap_or_default();
        let line = format!("{} {id}", message.method());
        self.log.lock().unwrap().push(line);
    }

    fn result(&self, request: &Frame) -> String {
        let name = self.name;
        match (request.method(), request.text_param("name").as_deref()) {
            ("tools/list", _) => r#"{"tools":[{"name":"t"}]}"#.to_owned(),
            ("prompts/list", _) => r#"{"prompts":[{"name":"p"}]}"#.to_owned(),
            ("resources/list", _) => format!(r#"{{"resources":[{{"uri":"{name}://r"}}]}}"#),
            ("resources/templates/list", _) => r#"{"resourceTemplates":[]}"#.to_owned(),
            ("tasks/list", _) => r#"{"tasks":[{"taskId":"listed"}]}"#.to_owned(),
            ("tools/call", Some("start")) => r#"{"task":{"taskId":"1"}}"#.to_owned(),
            ("tools/call", Some("own")) => format!(r#"{{"taskId":"{name}"}}"#),
            ("tools/call", Some("link")) => format!(
                r#"{{"content":[{{"type":"resource_link","name":"l","uri":"{name}://linked"}}]}}"#
            ),
            _ => format!(r#"{{"server":"{name}"}}"#),
        }
    }
}

#[async_trait]
impl Connector for ServerConnector {
    async fn connect(&self, _: Option<Arc<str>>) -> Result<Connection, String> {
        Ok(Connection {
            upstream: Arc::new(Self(Arc::clone(&self.0))),
            closer: Arc::new(Self(Arc::clone(&self.0))),
        })
    }
}

#[async_trait]
impl Close for ServerConnector {
    async fn close(&self) {}
}

#[async_trait]
impl Upstream for ServerConnector {
    async fn request(&self, request: Frame, _: RequestContext) -> Exchange {
        let server = Arc::clone(&self.0);
        server.accept(&request).await;
        server.seen.lock().unwrap().push(request.clone());
        let response = Frame::response(request.id().unwrap(), &server.result(&request));
        if !(server.asks_for_roots && request.method() == "tools/list") {
            return Exchange::answered(response);
        }
        let (sender, exchange) = Exchange::new();
        tokio::spawn(async move {
            sender.send(Frame::request("\"r\"", "roots/list", "{}"));
            server.answered.notified().await;
            sender.send(response);
        });
        exchange
    }

    async fn notify(&self, message: Frame, _: RequestContext) {
        self.0.accept(&message).await;
        if message.kind() == FrameKind::Response {
            self.0.answered.notify_one();
        }
        self.0.told.lock().unwrap().push(message);
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        None
    }
}

/// Opens a connection to these servers.
async fn open(servers: &[&Arc<Server>]) -> Arc<dyn Upstream> {
    let servers = servers.iter();
    let connector = SeveralConnector {
        servers: servers
            .map(|server| {
                let connector: Arc<dyn Connector> = Arc::new(ServerConnector(Arc::clone(server)));
                (server.name.to_owned(), connector)
            })
            .collect(),
        reporter: Arc::new(ReportRecorder::default()),
    };
    connector.connect(None).await.unwrap().upstream
}

async fn ask(upstream: &Arc<dyn Upstream>, method: &str, params: &str) -> Frame {
    let request = Frame::request("7", method, params);
    let asking = async {
        let mut exchange = upstream.request(request, RequestContext::default()).await;
        loop {
            let message = exchange.next().await.unwrap();
            if message.kind() == FrameKind::Response {
                return message;
            }
        }
    };
    tokio::time::timeout(LONG, asking).await.unwrap()
}

#[tokio::test]
async fn what_no_server_has_is_refused_and_reaches_none() {
    let (one, two) = (Server::new("one", false), Server::new("two", false));
    let upstream = open(&[&one, &two]).await;
    let modern =
        r#"{"uri":"x://none","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
    for (method, params, code, why) in [
        (
            "tools/call",
            r#"{"name":"write_file"}"#,
            -32_602,
            "unknown tool: write_file",
        ),
        (
            "tools/call",
            r#"{"name":"one_t","name":"t"}"#,
            -32_602,
            "names no tool",
        ),
        ("tools/call", "{}", -32_602, "names no tool"),
        (
            "prompts/get",
            r#"{"name":"p"}"#,
            -32_602,
            "unknown prompt: p",
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"}}"#,
            -32_602,
            "unknown prompt: p",
        ),
        (
            "resources/read",
            r#"{"uri":"x://none"}"#,
            -32_002,
            "unknown resource: x://none",
        ),
        (
            "resources/read",
            modern,
            -32_602,
            "unknown resource: x://none",
        ),
        (
            "tasks/get",
            r#"{"taskId":"none"}"#,
            -32_602,
            "unknown task: none",
        ),
    ] {
        let answer = ask(&upstream, method, params).await;
        assert_eq!(answer.error_code(), Some(code), "{method} {params}");
        assert!(answer.error().unwrap().contains(why), "{answer:?}");
        assert_eq!(
            one.count(method) + two.count(method),
            0,
            "{method} {params}"
        );
    }
    // With a prefix, or named by the server.
    for (method, params, expected) in [
        ("tools/call", r#"{"name":"two_unlisted"}"#, "two"),
        ("prompts/get", r#"{"name":"two_p"}"#, "two"),
        ("resources/read", r#"{"uri":"two://r"}"#, "two"),
    ] {
        let answer = ask(&upstream, method, params).await;
        let expected = format!(r#"{{"server":"{expected}"}}"#);
        assert_eq!(
            answer.result(),
            Some(expected.as_str()),
            "{method} {params}"
        );
    }
    ask(&upstream, "tools/call", r#"{"name":"two_link"}"#).await;
    let answer = ask(&upstream, "resources/read", r#"{"uri":"two://linked"}"#).await;
    assert_eq!(answer.result(), Some(r#"{"server":"two"}"#));
}

#[tokio::test]
async fn requests_reach_a_server_in_their_order() {
    let (one, two) = (Server::new("one", false), Server::new("two", false));
    let upstream = open(&[&one, &two]).await;
    ask(&upstream, "tools/list", "{}").await;
    let mut exchanges = Vec::new();
    for number in 1..=3 {
        let id = number.to_string();
        let request = Frame::request(&id, "tools/call", r#"{"name":"two_t"}"#);
        exchanges.push(upstream.request(request, RequestContext::default()).await);
        // No task runs in between, so that no later message can overtake it.
        assert_eq!(two.count("tools/call"), number);
        assert_eq!(two.seen.lock().unwrap().last().unwrap().id(), Some(&*id));
    }
    for mut exchange in exchanges {
        let response = exchange.next().await.unwrap();
        assert_eq!(response.result(), Some(r#"{"server":"two"}"#));
    }
    assert_eq!(one.count("tools/call"), 0);
}

#[tokio::test]
async fn a_server_may_ask_the_client_before_it_lists() {
    let (one, two) = (Server::new("one", false), Server::new("two", true));
    let upstream = open(&[&one, &two]).await;
    let mut unattached = upstream.take_unattached().unwrap();
    let answering = async {
        let asked = unattached.recv().await.unwrap();
        assert_eq!(asked.method(), "roots/list");
        let roots = Frame::response(asked.id().unwrap(), r#"{"roots":[]}"#);
        upstream.notify(roots, RequestContext::default()).await;
    };
    let (list, ()) = tokio::join!(ask(&upstream, "tools/list", "{}"), answering);
    assert_eq!(
        list.result(),
        Some(r#"{"tools":[{"name":"one_t"},{"name":"two_t"}]}"#)
    );
    let told = two.told.lock().unwrap().clone();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].id(), Some("\"r\""));
    assert!(one.told.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_progress_token_of_a_list_is_all_that_servers_do_not_get() {
    let one = Server::new("one", false);
    let upstream = open(&[&one]).await;
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let params = format!(r#"{{"_meta":{{"progressToken":7,{version},"n":1.10}}}}"#);
    ask(&upstream, "tools/list", &params).await;
    let seen = one.seen.lock().unwrap().clone();
    let expected = format!(r#"{{"_meta":{{{version},"n":1.10}}}}"#);
    assert_eq!(seen[0].params(), Some(expected.as_str()));
}

#[tokio::test]
async fn a_task_that_two_servers_have_is_refused() {
    let (one, two) = (Server::new("one", false), Server::new("two", false));
    let upstream = open(&[&one, &two]).await;
    for tool in ["one_start", "two_start", "one_own", "two_own"] {
        ask(&upstream, "tools/call", &format!(r#"{{"name":"{tool}"}}"#)).await;
    }
    let answer = ask(&upstream, "tasks/cancel", r#"{"taskId":"1"}"#).await;
    assert_eq!(answer.error_code(), Some(-32_602));
    let why = answer.error().unwrap();
    assert!(why.contains("`one`") && why.contains("`two`"), "{why}");
    assert_eq!(one.count("tasks/cancel") + two.count("tasks/cancel"), 0);
    for name in ["one", "two"] {
        let answer = ask(&upstream, "tasks/get", &format!(r#"{{"taskId":"{name}"}}"#)).await;
        let expected = format!(r#"{{"server":"{name}"}}"#);
        assert_eq!(answer.result(), Some(expected.as_str()));
    }
    let list = ask(&upstream, "tasks/list", "{}").await;
    assert_eq!(
        list.result(),
        Some(r#"{"tasks":[{"taskId":"listed"},{"taskId":"listed"}]}"#)
    );
    let answer = ask(&upstream, "tasks/get", r#"{"taskId":"listed"}"#).await;
    assert_eq!(answer.error_code(), Some(-32_602));
}

/// Starts a call, which must not wait for the server.
async fn begin(upstream: &Arc<dyn Upstream>, id: usize, tool: &str) -> Exchange {
    let params = format!(r#"{{"name":"{tool}"}}"#);
    let request = Frame::request(&id.to_string(), "tools/call", &params);
    let beginning = upstream.request(request, RequestContext::default());
    tokio::time::timeout(LONG, beginning).await.unwrap()
}

async fn tell(upstream: &Arc<dyn Upstream>, method: &str, params: &str) {
    let message = Frame::notification(method, params);
    let telling = upstream.notify(message, RequestContext::default());
    tokio::time::timeout(LONG, telling).await.unwrap();
}

async fn next(exchange: &mut Exchange) -> Option<Frame> {
    tokio::time::timeout(LONG, exchange.next()).await.unwrap()
}

#[tokio::test]
async fn a_server_that_accepts_nothing_keeps_only_its_own_messages_waiting() {
    let (one, two) = (Server::new("one", false), Server::new("two", false));
    let upstream = open(&[&one, &two]).await;
    ask(&upstream, "tools/list", "{}").await;
    for server in [&one, &two] {
        server.log.lock().unwrap().clear();
    }
    let stuck = one.accepting.lock().await;
    let mut exchanges = Vec::new();
    for id in 0..50 {
        exchanges.push(begin(&upstream, id, "one_t").await);
    }
    tell(&upstream, "notifications/x", "{}").await;
    for id in 50..100 {
        exchanges.push(begin(&upstream, id, "one_t").await);
    }
    let answer = ask(&upstream, "tools/call", r#"{"name":"two_t"}"#).await;
    assert_eq!(answer.result(), Some(r#"{"server":"two"}"#));
    let of_two = two.log.lock().unwrap().clone();
    assert_eq!(of_two, ["notifications/x ", "tools/call 7"]);
    assert!(one.log.lock().unwrap().is_empty());
    drop(stuck);
    for exchange in &mut exchanges {
        let response = next(exchange).await.unwrap();
        assert_eq!(response.result(), Some(r#"{"server":"one"}"#));
    }
    let mut expected: Vec<String> = (0..100).map(|id| format!("tools/call {id}")).collect();
    expected.insert(50, "notifications/x ".to_owned());
    assert_eq!(*one.log.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_cancelled_request_that_waits_is_not_sent() {
    let one = Server::new("one", false);
    let upstream = open(&[&one]).await;
    ask(&upstream, "tools/list", "{}").await;
    one.log.lock().unwrap().clear();
    let stuck = one.accepting.lock().await;
    let _sent = begin(&upstream, 1, "one_t").await;
    drop(begin(&upstream, 2, "one_t").await);
    let mut cancelled = begin(&upstream, 3, "one_t").await;
    let mut last = begin(&upstream, 4, "one_t").await;
    for id in [3, 1] {
        let params = format!(r#"{{"requestId":{id}}}"#);
        tell(&upstream, "notifications/cancelled", &params).await;
    }
    assert!(next(&mut cancelled).await.is_none());
    drop(stuck);
    next(&mut last).await.unwrap();
    // In its order, so that it does not reach the server before its request.
    ask(&upstream, "tools/call", r#"{"name":"one_t"}"#).await;
    let expected = [
        "tools/call 1",
        "tools/call 4",
        "notifications/cancelled 1",
        "tools/call 7",
    ];
    assert_eq!(*one.log.lock().unwrap(), expected);
}

#[tokio::test]
async fn requests_are_refused_when_too_many_wait() {
    let one = Server::new("one", false);
    let upstream = open(&[&one]).await;
    ask(&upstream, "tools/list", "{}").await;
    let stuck = one.accepting.lock().await;
    let mut exchanges = Vec::new();
    for id in 0..4_097 {
        exchanges.push(begin(&upstream, id, "one_t").await);
    }
    let refused = next(&mut begin(&upstream, 5_000, "one_t").await).await;
    let refused = refused.unwrap();
    assert_eq!(refused.id(), Some("5000"));
    assert!(refused.error().unwrap().contains("`one`"), "{refused:?}");
    drop(stuck);
    for exchange in &mut exchanges {
        assert!(next(exchange).await.unwrap().error().is_none());
    }
}
