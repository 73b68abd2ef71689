//! Clients of the tests: at stdin and stdout of a relay, and by HTTP.

use std::io::{BufRead as _, BufReader, PipeWriter, Write as _};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cachalot_mcp::relay::{Connector, HttpFront, HttpFrontOptions, StdioFront};
use futures_util::StreamExt as _;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::task::JoinHandle;

/// Longer than anything takes.
const LONG: Duration = Duration::from_secs(60);

/// A client.
pub(crate) enum Client {
    Stdio(StdioClient),
    Http(HttpClient),
}

/// The messages that a client has got.
type Inbox = Arc<Mutex<Vec<String>>>;

pub(crate) struct StdioClient {
    input: Option<PipeWriter>,
    inbox: Inbox,
    running: JoinHandle<()>,
}

pub(crate) struct HttpClient {
    pub(crate) front: HttpFront,
    http: reqwest::Client,
    pub(crate) session: Option<String>,
    inbox: Inbox,
}

impl Client {
    pub(crate) async fn stdio(connector: &Arc<dyn Connector>) -> Self {
        let (their_input, input) = std::io::pipe().unwrap();
        let (output, their_output) = std::io::pipe().unwrap();
        let inbox = Inbox::default();
        let kept = Arc::clone(&inbox);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                kept.lock().unwrap().push(line.unwrap());
            }
        });
        let connection = connector
            .connect(Some(StdioFront::session()))
            .await
            .unwrap();
        let front = StdioFront {
            connection,
            observe: None,
        };
        let running = tokio::spawn(front.run(their_input, their_output, std::future::pending()));
        Self::Stdio(StdioClient {
            input: Some(input),
            inbox,
            running,
        })
    }

    /// A client with a session, which also reads the messages that belong to no request.
    pub(crate) async fn http(connector: &Arc<dyn Connector>) -> Self {
        let mut client = HttpClient::open(connector).await;
        client.initialize().await;
        client.listen();
        Self::Http(client)
    }

    fn inbox(&self) -> &Inbox {
        match self {
            Self::Stdio(client) => &client.inbox,
            Self::Http(client) => &client.inbox,
        }
    }

    /// Sends a message; does not wait for its response.
    pub(crate) fn send(&mut self, text: &str) {
        match self {
            Self::Stdio(client) => {
                let input = client.input.as_mut().unwrap();
                input.write_all(format!("{text}\n").as_bytes()).unwrap();
            }
            Self::Http(client) => {
                let (posting, inbox) = (client.post(text), Arc::clone(&client.inbox));
                tokio::spawn(async move { collect(posting.await, inbox).await });
            }
        }
    }

    /// Waits for a message that satisfies a condition, and takes it.
    pub(crate) async fn wait(&self, what: &str, is_sought: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LONG;
        loop {
            {
                let mut inbox = self.inbox().lock().unwrap();
                if let Some(at) = inbox.iter().position(|text| is_sought(text)) {
                    return inbox.remove(at);
                }
                assert!(
                    Instant::now() < deadline,
                    "{what} did not arrive: {inbox:#?}"
                );
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn call(&mut self, id: &str, text: &str) -> String {
        self.send(text);
        self.response(id).await
    }

    pub(crate) async fn response(&self, id: &str) -> String {
        let mark = format!("\"id\":{id},");
        self.wait(&format!("the response to {id}"), |text| {
            text.contains(&mark) && (text.contains("\"result\"") || text.contains("\"error\""))
        })
        .await
    }

    /// Returns the texts that the server has got.
    pub(crate) async fn log(&mut self) -> Vec<String> {
        let response = self
            .call(
                "\"log\"",
                r#"{"jsonrpc":"2.0","id":"log","method":"test/log"}"#,
            )
            .await;
        let response: Value = serde_json::from_str(&response).unwrap();
        let log = response["result"].as_array().unwrap().iter();
        log.map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// Ends the session.
    pub(crate) async fn end(self) {
        match self {
            Self::Stdio(mut client) => {
                client.input = None;
                client.running.await.unwrap();
            }
            Self::Http(client) => client.front.stop().await,
        }
    }
}

impl HttpClient {
    pub(crate) async fn open(connector: &Arc<dyn Connector>) -> Self {
        let front = HttpFront::start(HttpFrontOptions {
            address: ([127, 0, 0, 1], 0).into(),
            allowed_hosts: Vec::new(),
            connector: Arc::clone(connector),
            observe: None,
        });
        Self {
            front: front.await.unwrap(),
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            session: None,
            inbox: Inbox::default(),
        }
    }

    pub(crate) async fn initialize(&mut self) {
        let text = r#"{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        let response = self.post(text).await;
        assert_eq!(response.status(), 200);
        let session = response.headers()["mcp-session-id"].to_str().unwrap();
        self.session = Some(session.to_owned());
    }

    fn listen(&self) {
        let getting = self.request(reqwest::Method::GET).send();
        let inbox = Arc::clone(&self.inbox);
        tokio::spawn(async move { collect(getting.await.unwrap(), inbox).await });
    }

    pub(crate) fn request(&self, method: reqwest::Method) -> reqwest::RequestBuilder {
        let request = self.http.request(method, self.front.url());
        let request = request.header("accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    /// Posts a message, with the headers that its revision wants.
    pub(crate) fn post(
        &self,
        text: &str,
    ) -> impl Future<Output = reqwest::Response> + Send + use<> {
        self.post_with(text, HeaderMap::new())
    }

    pub(crate) fn post_with(
        &self,
        text: &str,
        headers: HeaderMap,
    ) -> impl Future<Output = reqwest::Response> + Send + use<> {
        let message: Value = serde_json::from_str(text).unwrap();
        let mut request = self.request(reqwest::Method::POST).headers(headers);
        let version =
            message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
        if let Some(version) = version {
            request = request.header("mcp-protocol-version", version);
            request = request.header("mcp-method", message["method"].as_str().unwrap());
            if let Some(name) = message["params"]["name"].as_str() {
                request = request.header("mcp-name", name);
            }
        }
        let request = request
            .header("content-type", "application/json")
            .body(text.to_owned());
        async move { request.send().await.unwrap() }
    }
}

/// Keeps the messages of a response.
async fn collect(response: reqwest::Response, inbox: Inbox) {
    let is_stream = response
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind == "text/event-stream");
    if !is_stream {
        let body = response.text().await.unwrap_or_default();
        if !body.is_empty() {
            inbox.lock().unwrap().push(body);
        }
        return;
    }
    let mut chunks = response.bytes_stream();
    let mut text = Vec::new();
    while let Some(Ok(chunk)) = chunks.next().await {
        text.extend_from_slice(&chunk);
        while let Some(end) = text.windows(2).position(|end| end == b"\n\n") {
            let event: Vec<u8> = text.drain(..end + 2).collect();
            let event = String::from_utf8(event).unwrap();
            let data = event.lines().find_map(|line| line.strip_prefix("data: "));
            if let Some(data) = data.filter(|data| !data.is_empty()) {
                inbox.lock().unwrap().push(data.to_owned());
            }
        }
    }
}
