//! The listener: accepts connections, limits them, and ends them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::Cache;
use cachalot_core::{Clock, DigestKey, SecretSet};
use cachalot_model::Catalog;
use cachalot_storage::PageGuard;
use cachalot_store::Store;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::RwLock;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use crate::admin;
use crate::body_index::BodyIndex;
use crate::body_threads::BodyThreads;
use crate::budget::Budgets;
use crate::client::UpstreamClient;
use crate::command::CommandRun;
use crate::delivery::Lengths;
use crate::exporter::{Exporter, Exporting};
use crate::handler::Handler;
use crate::keep_alive::{self, IdleConversations, KeepAlive};
use crate::kept_answers::KeptAnswers;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::ordinals::Ordinals;
use crate::payments::Payments;
use crate::pieces::PieceIndex;
use crate::prefix_watch::{PrefixWatch, WatchParts};
use crate::readiness::{DigestKeyCheck, Readiness};
use crate::report::RequestReport;
use crate::request_body::BodyRoom;
use crate::retries::Retries;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::store_metrics::StoreMetrics;
use crate::telemetry::queue::SpanQueue;

/// Time in which the prefixes of the last requests are analyzed when the gateway stops.
const ANALYZE_WITHIN: Duration = Duration::from_secs(1);

/// Options of a gateway.
pub struct GatewayOptions {
    /// Address to listen on; port 0 takes any free port.
    pub address: SocketAddr,
    /// Address of the listener for the operator, if there is one. Its requests have to present the token of
    /// [`Settings`].
    pub admin_address: Option<SocketAddr>,
    /// Names other than `localhost` and addresses by which clients may address the gateway.
    pub allowed_hosts: Vec<String>,
    /// Upstreams and keys.
    pub settings: Settings,
    /// The engine.
    pub cache: Cache,
    /// The store that counts the budgets of keys; without it, keys with a budget are refused.
    pub store: Option<Arc<dyn Store>>,
    /// Statistics of the store, which the engine's store is measured by.
    pub store_metrics: StoreMetrics,
    /// Tells whether the store is ready. It is called at most once a second.
    pub check_digest_key: DigestKeyCheck,
    /// Set if requests are answered from the cache only.
    pub frozen: bool,
    /// The command that the gateway is for, if it is for one only.
    pub command: Option<CommandRun>,
    /// The key under which credentials are digested. Gateways with the same key and store share entries.
    pub tenant_key: DigestKey,
    /// Secrets that keys must not contain.
    pub secret_set: Arc<SecretSet>,
    /// A name that no other process with the same store has.
    pub process: String,
    /// Prices.
    pub catalog: Arc<Catalog>,
    /// Clock of the ages of entries.
    pub clock: Arc<dyn Clock>,
    /// TLS configuration of connections to upstreams.
    pub tls: rustls::ClientConfig,
    /// Proxies through which upstreams are reached.
    pub proxies: Matcher,
    /// Limits.
    pub limits: Limits,
    /// Receives a report about each request.
    pub observe: Arc<dyn Fn(&RequestReport) + Send + Sync>,
    /// Shows a warning to the operator.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
}

/// The gateway.
#[derive(Debug)]
pub struct Gateway;

impl Gateway {
    /// Starts a gateway on the current Tokio runtime.
    ///
    /// # Errors
    /// The gateway cannot listen on the address.
    pub async fn start(options: GatewayOptions) -> io::Result<RunningGateway> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let admin = match options.admin_address {
            Some(address) => Some(TcpListener::bind(address).await?),
            None => None,
        };
        let limits = options.limits;
        let settings = match &options.command {
            Some(command) => options.settings.for_command(command),
            None => options.settings,
        };
        let metrics = Arc::new(Metrics::new(&options.store_metrics));
        let (stop, stopping) = watch::channel(false);
        let readiness = Readiness::new(
            options.store.clone(),
            options.check_digest_key,
            stopping.clone(),
        );
        let client = UpstreamClient::new(options.tls, options.proxies, limits.answer_timeout);
        let (spans, waiting) = SpanQueue::new(metrics.spans_dropped.clone());
        let exporter = Exporter {
            spans: waiting,
            client: client.clone(),
            instance: options.process.clone(),
            dropped: metrics.spans_dropped.clone(),
            warn: Arc::clone(&options.warn),
        };
        let kept_answers = KeptAnswers::new(options.store.clone(), options.tenant_key.clone());
        let budgets = Budgets::new(options.store, Arc::clone(&options.clock), options.warn);
        let mut keys = settings.keys.iter();
        if keys.any(|key| !key.config.budget.is_unlimited()) {
            tokio::spawn(budgets.clone().warn_about_losses());
        }
        let (notices, received) = keep_alive::channel();
        let prefixes = PrefixWatch::start(WatchParts {
            keep_alive: notices.clone(),
            catalog: Arc::clone(&options.catalog),
            secret_set: Arc::clone(&options.secret_set),
            ledger: options.cache.ledger().clone(),
            metrics: Arc::clone(&metrics),
            process: options.process.clone(),
        })?;
        let shared = Shared {
            guard: PageGuard::new(address, &options.allowed_hosts),
            settings: RwLock::new(Arc::new(settings)),
            budgets,
            kept_answers,
            readiness,
            client,
            cache: options.cache,
            frozen: options.frozen,
            command: options.command,
            tenant_key: options.tenant_key,
            secret_set: options.secret_set,
            catalog: options.catalog,
            clock: options.clock,
            limits,
            ordinals: Ordinals::new(limits.run_pause),
            retries: Retries::new(options.process),
            lengths: Lengths::default(),
            tunnels: Arc::new(Semaphore::new(limits.connections)),
            bodies: BodyRoom::new(limits),
            body_index: BodyIndex::new(),
            pieces: PieceIndex::default(),
            body_threads: BodyThreads::new(),
            metrics,
            spans,
            prefixes,
            observe: options.observe,
        };
        let handler = Arc::new(Handler { shared });
        let shared = &handler.shared;
        let (weak, prefixes) = (Arc::downgrade(&handler), Arc::downgrade(&shared.prefixes));
        let settings = move || weak.upgrade().map(|handler| handler.shared.settings());
        let note_read = move |number, at| {
            if let Some(prefixes) = prefixes.upgrade() {
                prefixes.renewed(number, at);
            }
        };
        let renewing = KeepAlive {
            sender: notices.downgrade(),
            settings: Box::new(settings),
            note_read: Box::new(note_read),
            ledger: shared.cache.ledger().clone(),
            metrics: Arc::clone(&shared.metrics),
            clock: Arc::clone(&shared.clock),
            secret_set: Arc::clone(&shared.secret_set),
            idle: IdleConversations::default(),
        };
        tokio::spawn(renewing.run(received));
        let (open, ended) = watch::channel(());
        let open = Arc::new(open);
        let mut admin_address = None;
        if let Some(admin) = admin {
            let address = admin.local_addr()?;
            let door = Door::Operator(Arc::new(PageGuard::new(address, &options.allowed_hosts)));
            let (stopping, open) = (stopping.clone(), Arc::clone(&open));
            tokio::spawn(accept(admin, door, Arc::clone(&handler), stopping, open));
            admin_address = Some(address);
        }
        tokio::spawn(accept(
            listener,
            Door::Clients,
            Arc::clone(&handler),
            stopping,
            open,
        ));
        Ok(RunningGateway {
            handler,
            address,
            admin_address,
            stop,
            ended,
            exporting: Some(exporter.start()),
            shutdown: limits.shutdown,
        })
    }
}

/// A running gateway. Dropping it ends its connections after their current responses.
pub struct RunningGateway {
    handler: Arc<Handler>,
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    /// Closed when the listener and all connections have ended.
    ended: watch::Receiver<()>,
    /// `None` once the spans were exported.
    exporting: Option<Exporting>,
    shutdown: Duration,
}

impl RunningGateway {
    /// Returns the address that the gateway listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the listener for the operator.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Returns `http://ADDRESS:PORT`, or with a certificate `https://ADDRESS:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = match self.handler.shared.settings().tls {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Returns a function that returns the payments to upstreams since the start, also after the gateway has stopped.
    pub fn payments(&self) -> impl Fn() -> Payments + use<> {
        let metrics = Arc::clone(&self.handler.shared.metrics);
        move || metrics.payments()
    }

    /// Replaces upstreams, keys, the certificate and the operator's token. Requests in progress keep theirs; counts of the last minute and pauses are taken
    /// over for keys and upstreams that are unchanged.
    pub fn reload(&self, settings: Settings) {
        // Read and replaced under one lock: of two reloads at the same time, the second takes over from the first.
        tracing::info!(
            upstreams = settings.upstreams.len(),
            keys = settings.keys.len(),
            "the settings are replaced"
        );
        let mut current = self.handler.shared.settings.write();
        *current = Arc::new(settings.succeed(&current));
    }

    /// Accepts no more connections, and waits until the current responses are finished and their spans are exported,
    /// for a limited time. Returns false if responses were cut off.
    pub async fn stop(mut self) -> bool {
        let deadline = Instant::now() + self.shutdown;
        self.stop.send_replace(true);
        // An error means that the last sender is gone.
        let all_ended = async { while self.ended.changed().await.is_ok() {} };
        let are_finished = timeout_at(deadline, all_ended).await.is_ok();
        self.handler.shared.prefixes.finish(ANALYZE_WITHIN).await;
        self.handler.shared.budgets.finish().await;
        if let Some(exporting) = self.exporting.take() {
            let _ = timeout_at(deadline, exporting.end()).await;
        }
        are_finished
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// The clients of a listener.
#[derive(Clone)]
enum Door {
    Clients,
    Operator(Arc<PageGuard>),
}

/// Accepts connections until the gateway stops. Each connection holds a copy of `open`.
async fn accept(
    listener: TcpListener,
    door: Door,
    handler: Arc<Handler>,
    mut stopping: watch::Receiver<bool>,
    open: Arc<watch::Sender<()>>,
) {
    let room = Arc::new(Semaphore::new(handler.shared.limits.connections));
    loop {
        // Before a connection is accepted: those beyond the limit wait in the queue of the operating system.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                // For example no free file descriptor: connections that end will make room.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (handler, stopping, open) = (Arc::clone(&handler), stopping.clone(), Arc::clone(&open));
        let door = door.clone();
        tokio::spawn(async move {
            connect(stream, door, handler, stopping).await;
            // `stop` waits until every copy of `open` is dropped.
            drop((permit, open));
        });
    }
}

/// Serves a connection, encrypted if the gateway has a certificate.
async fn connect(
    stream: TcpStream,
    door: Door,
    handler: Arc<Handler>,
    stopping: watch::Receiver<bool>,
) {
    // Events are small and must not be delayed; a failure only delays them.
    let _ = stream.set_nodelay(true);
    match handler.shared.settings().tls.clone() {
        None => serve(stream, door, handler, stopping).await,
        // Large, and not needed without a certificate.
        Some(tls) => Box::pin(connect_encrypted(tls, stream, door, handler, stopping)).await,
    }
}

async fn connect_encrypted(
    tls: Arc<rustls::ServerConfig>,
    stream: TcpStream,
    door: Door,
    handler: Arc<Handler>,
    stopping: watch::Receiver<bool>,
) {
    let accepted = tokio_rustls::TlsAcceptor::from(tls).accept(stream);
    // An error means that the client has left, is too slow, or does not accept the certificate.
    let accepted = tokio::time::timeout(handler.shared.limits.head_timeout, accepted).await;
    if let Ok(Ok(stream)) = accepted {
        serve(stream, door, handler, stopping).await;
    }
}

/// Serves the requests of one connection.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    door: Door,
    handler: Arc<Handler>,
    mut stopping: watch::Receiver<bool>,
) {
    let head_timeout = handler.shared.limits.head_timeout;
    let service = service_fn(move |request| {
        let (handler, door) = (Arc::clone(&handler), door.clone());
        async move {
            let response = match door {
                Door::Clients => handler.handle(request).await,
                Door::Operator(guard) => admin::handle(&handler.shared, &guard, request).await,
            };
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        // An error means that the client has left or sent no HTTP.
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
