//! A server in this process that records what it is asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cachalot_cache::{Cache, CacheBounds, CacheMode, CacheOptions, Ledger};
use cachalot_core::{DigestKey, ManualClock, SecretSet};
use cachalot_mcp::caching::{CachingLayer, CachingOptions, CachingUpstream, ServerIdentity};
use cachalot_mcp::proxy_policy::ProxyPolicy;
use cachalot_mcp::relay::{Exchange, ExchangeSender, Frame, FrameKind, RequestContext, Upstream};
use cachalot_store::in_process::InProcessStore;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};

use crate::cache_fixture::START;

/// What the server does with a request.
pub(crate) type Behavior =
    dyn Fn(Frame, RequestContext, ExchangeSender) -> BoxFuture<'static, ()> + Send + Sync;

pub(crate) struct FakeServer {
    pub(crate) seen: Mutex<Vec<Frame>>,
    pub(crate) notified: Mutex<Vec<Frame>>,
    /// The number of requests whose exchange was dropped before the response.
    pub(crate) cancelled: Arc<AtomicUsize>,
    behavior: Box<Behavior>,
    tools: Mutex<String>,
    unattached: Mutex<Option<mpsc::Receiver<Frame>>>,
    pub(crate) announce: mpsc::Sender<Frame>,
    /// The number of times that the server was restarted.
    pub(crate) ends: AtomicU64,
    /// The number of times that announcements of the server may have been lost.
    pub(crate) losses: AtomicU64,
}

pub(crate) fn frame(text: &str) -> Frame {
    Frame::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// The value of a response.
pub(crate) fn value(response: &Frame) -> Value {
    serde_json::from_slice(response.bytes()).unwrap()
}

/// `hit` or `coalesced`; empty for an answer of the server.
pub(crate) fn status(response: &Frame) -> String {
    let value = value(response);
    let status = &value["result"]["_meta"]["dev.cachalot/cache"]["status"];
    status.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn is_served(response: &Frame) -> bool {
    ["hit", "coalesced"].contains(&status(response).as_str())
}

/// Definitions of tools with these annotations.
pub(crate) fn tools(of: &[(&str, Value)]) -> String {
    let tools = of.iter().map(|(name, annotations)| {
        json!({"name": name, "inputSchema": {"type": "object"}, "annotations": annotations})
    });
    json!(tools.collect::<Vec<_>>()).to_string()
}

pub(crate) fn read_only() -> Value {
    json!({"readOnlyHint": true})
}

impl FakeServer {
    /// A server with these tools. `behavior` answers everything but the handshake and `tools/list`.
    pub(crate) fn new(
        tools: String,
        behavior: impl Fn(Frame, RequestContext, ExchangeSender) -> BoxFuture<'static, ()>
        + Send
        + Sync
        + 'static,
    ) -> Arc<Self> {
        let (announce, unattached) = mpsc::channel(16);
        Arc::new(Self {
            seen: Mutex::default(),
            notified: Mutex::default(),
            cancelled: Arc::default(),
            behavior: Box::new(behavior),
            tools: Mutex::new(tools),
            unattached: Mutex::new(Some(unattached)),
            announce,
            ends: AtomicU64::new(0),
            losses: AtomicU64::new(0),
        })
    }

    /// A server whose calls are answered with their number.
    pub(crate) fn counting(tools: String) -> Arc<Self> {
        let count = Arc::new(AtomicUsize::new(0));
        Self::new(tools, move |request, _, sender| {
            let count = Arc::clone(&count);
            Box::pin(async move {
                let run = count.fetch_add(1, Ordering::SeqCst) + 1;
                let text = format!("run {run}");
                let result = json!({"content": [{"type": "text", "text": text}]}).to_string();
                sender.send(Frame::response(request.id().unwrap(), &result));
            })
        })
    }

    /// A server whose calls are answered with their number, each for a permit of the gate.
    pub(crate) fn gated(tools: String, gate: &Arc<Semaphore>) -> Arc<Self> {
        let (gate, count) = (Arc::clone(gate), Arc::new(AtomicUsize::new(0)));
        Self::new(tools, move |request, _, sender| {
            let (gate, count) = (Arc::clone(&gate), Arc::clone(&count));
            Box::pin(async move {
                let run = count.fetch_add(1, Ordering::SeqCst) + 1;
                gate.acquire().await.unwrap().forget();
                let text = format!("run {run}");
                let result = json!({"content": [{"type": "text", "text": text}]}).to_string();
                sender.send(Frame::response(request.id().unwrap(), &result));
            })
        })
    }

    /// A server that answers with a text.
    pub(crate) fn answering(tools: String, result: &str) -> Arc<Self> {
        let result = result.to_owned();
        Self::new(tools, move |request, _, sender| {
            let response = Frame::response(request.id().unwrap(), &result);
            Box::pin(async move {
                sender.send(response);
            })
        })
    }

    pub(crate) fn set_tools(&self, tools: String) {
        *self.tools.lock().unwrap() = tools;
    }

    /// The number of requests of a method that the server got.
    pub(crate) fn count(&self, method: &str) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|frame| frame.method() == method).count()
    }
}

#[async_trait]
impl Upstream for FakeServer {
    fn ends(&self) -> u64 {
        self.ends.load(Ordering::SeqCst)
    }

    fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    async fn request(&self, request: Frame, context: RequestContext) -> Exchange {
        self.seen.lock().unwrap().push(request.clone());
        let id = request.id().unwrap();
        match request.method() {
            "initialize" => {
                let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}"#;
                return Exchange::answered(Frame::response(id, result));
            }
            "tools/list" if context.headers.get("behave").is_none() => {
                let tools = self.tools.lock().unwrap();
                let result = format!("{{\"tools\":{tools}}}");
                return Exchange::answered(Frame::response(id, &result));
            }
            _ => {}
        }
        let (sender, exchange) = Exchange::new();
        let work = (self.behavior)(request, context, sender.clone());
        let cancelled = Arc::clone(&self.cancelled);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = work => {}
                () = sender.cancelled() => {
                    cancelled.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        exchange
    }

    async fn notify(&self, message: Frame, _: RequestContext) {
        self.notified.lock().unwrap().push(message);
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        self.unattached.lock().unwrap().take()
    }
}

/// A proxy in front of a server.
pub(crate) struct Proxy {
    pub(crate) upstream: Arc<CachingUpstream>,
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) warnings: Arc<Mutex<Vec<String>>>,
    next: AtomicUsize,
}

/// An engine over a store in this process.
pub(crate) fn engine(clock: &Arc<ManualClock>) -> Cache {
    engine_with(clock, Ledger::disabled(), &Arc::new(SecretSet::empty()))
}

/// An engine with a ledger and known secrets.
pub(crate) fn engine_with(
    clock: &Arc<ManualClock>,
    ledger: Ledger,
    secret_set: &Arc<SecretSet>,
) -> Cache {
    Cache::new(CacheOptions {
        local: None,
        store: Some(Arc::new(InProcessStore::new(clock.clone()))),
        ledger,
        clock: clock.clone(),
        secret_set: Arc::clone(secret_set),
        bounds: CacheBounds::default(),
        warn: Arc::new(|line| panic!("{line}")),
    })
}

impl Proxy {
    /// A proxy with a policy for the server, as YAML of the keys of the server.
    pub(crate) fn new(server: &Arc<FakeServer>, policy: &str) -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let cache = engine(&clock);
        Self::over(server, policy, &cache, &clock, Path::new("/"))
    }

    pub(crate) fn over(
        server: &Arc<FakeServer>,
        policy: &str,
        cache: &Cache,
        clock: &Arc<ManualClock>,
        directory: &Path,
    ) -> Self {
        let secret_set = Arc::new(SecretSet::empty());
        Self::with_secrets(server, policy, cache, clock, directory, secret_set)
    }

    pub(crate) fn with_secrets(
        server: &Arc<FakeServer>,
        policy: &str,
        cache: &Cache,
        clock: &Arc<ManualClock>,
        directory: &Path,
        secret_set: Arc<SecretSet>,
    ) -> Self {
        Self::around(server.clone(), policy, cache, clock, directory, secret_set)
    }

    /// A proxy in front of any server.
    pub(crate) fn around(
        server: Arc<dyn Upstream>,
        policy: &str,
        cache: &Cache,
        clock: &Arc<ManualClock>,
        directory: &Path,
        secret_set: Arc<SecretSet>,
    ) -> Self {
        let policy = ProxyPolicy::parse("policy.yaml", &format!("servers: {{fake: {policy}}}"));
        let key = DigestKey::new([9; 32]);
        let command = ["fake-server".to_owned()];
        let identity = ServerIdentity::program(
            "fake",
            &command,
            directory,
            &BTreeMap::new(),
            "machine",
            &key,
        );
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let warned = Arc::clone(&warnings);
        let options = CachingOptions {
            cache: cache.clone(),
            mode: CacheMode::On,
            policy: policy.unwrap().server("fake", true).unwrap().clone(),
            server: identity,
            digest_key: key,
            secret_set,
            clock: clock.clone(),
            warn: Arc::new(move |line| warned.lock().unwrap().push(line.to_owned())),
        };
        Self {
            upstream: CachingLayer::new(options).wrap(server),
            cache: cache.clone(),
            clock: Arc::clone(clock),
            warnings,
            next: AtomicUsize::new(1),
        }
    }

    pub(crate) fn id(&self) -> usize {
        self.next.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) async fn begin(&self, request: Frame, context: &RequestContext) -> Exchange {
        self.upstream.request(request, context.clone()).await
    }

    /// Sends a request, and returns its response.
    pub(crate) async fn send(&self, request: Frame, context: &RequestContext) -> Frame {
        let id = request.id().unwrap().to_owned();
        let response = response(&mut self.begin(request, context).await).await;
        assert_eq!(response.id(), Some(id.as_str()));
        response
    }

    pub(crate) async fn ask(&self, method: &str, params: &str, context: &RequestContext) -> Frame {
        let id = self.id().to_string();
        self.send(Frame::request(&id, method, params), context)
            .await
    }

    /// Calls a tool in the modern era.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Frame {
        self.ask(
            "tools/call",
            &modern_call(tool, arguments),
            &RequestContext::default(),
        )
        .await
    }

    /// Performs the handshake of a session.
    pub(crate) async fn initialize(&self, session: &str) -> RequestContext {
        let context = RequestContext {
            session: Some(session.into()),
            ..RequestContext::default()
        };
        let params = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
        self.ask("initialize", params, &context).await;
        context
    }
}

pub(crate) fn modern_call(tool: &str, arguments: &str) -> String {
    format!(
        "{{\"name\":\"{tool}\",\"arguments\":{arguments},\"_meta\":{}}}",
        meta("")
    )
}

/// `_meta` of the modern era, with these members in addition.
pub(crate) fn meta(more: &str) -> String {
    format!(
        r#"{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}{more}}}"#
    )
}

/// The context of a client with these headers.
pub(crate) fn with_headers(headers: &[(&str, &str)]) -> RequestContext {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    RequestContext {
        session: None,
        headers: Arc::new(headers.collect()),
    }
}

/// Returns the response of an exchange.
pub(crate) async fn response(exchange: &mut Exchange) -> Frame {
    loop {
        let frame = exchange.next().await.expect("a response");
        if frame.kind() == FrameKind::Response {
            return frame;
        }
    }
}

/// Waits until something is true.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}
