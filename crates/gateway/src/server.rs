//! The listener: accepts connections, limits them, and ends them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::Cache;
use cachalot_core::{Clock, DigestKey, SecretSet};
use cachalot_model::Catalog;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::client::UpstreamClient;
use crate::delivery::Lengths;
use crate::guard::Guard;
use crate::handler::Handler;
use crate::limits::Limits;
use crate::ordinals::Ordinals;
use crate::report::RequestReport;
use crate::request_body::BodyRoom;
use crate::retries::Retries;
use crate::upstream::Upstream;

/// Options of a gateway.
pub struct GatewayOptions {
    /// Address to listen on; port 0 takes any free port.
    pub address: SocketAddr,
    /// Names other than `localhost` and addresses by which clients may address the gateway.
    pub allowed_hosts: Vec<String>,
    /// The upstreams, each with a name of its own.
    pub upstreams: Vec<Upstream>,
    /// The engine.
    pub cache: Cache,
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
    /// Limits.
    pub limits: Limits,
    /// Receives a report about each request.
    pub observe: Arc<dyn Fn(&RequestReport) + Send + Sync>,
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
        let limits = options.limits;
        let handler = Arc::new(Handler {
            guard: Guard::new(address, &options.allowed_hosts),
            upstreams: options.upstreams,
            client: UpstreamClient::new(options.tls, limits.answer_timeout),
            cache: options.cache,
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
            metrics: Arc::default(),
            observe: options.observe,
        });
        let (stop, stopping) = watch::channel(false);
        let (open, ended) = watch::channel(());
        tokio::spawn(accept(listener, handler, limits, stopping, open));
        Ok(RunningGateway {
            address,
            stop,
            ended,
            shutdown: limits.shutdown,
        })
    }
}

/// A running gateway. Dropping it ends its connections after their current responses.
#[derive(Debug)]
pub struct RunningGateway {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    /// Closed when the listener and all connections have ended.
    ended: watch::Receiver<()>,
    shutdown: Duration,
}

impl RunningGateway {
    /// Returns the address that the gateway listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://ADDRESS:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Accepts no more connections, and waits until the current responses are finished, for a limited time. Returns
    /// false if some were cut off.
    pub async fn stop(mut self) -> bool {
        self.stop.send_replace(true);
        // An error means that the last sender is gone.
        let all_ended = async { while self.ended.changed().await.is_ok() {} };
        tokio::time::timeout(self.shutdown, all_ended).await.is_ok()
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Accepts connections until the gateway stops. Each connection holds a copy of `open`.
async fn accept(
    listener: TcpListener,
    handler: Arc<Handler>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
    open: watch::Sender<()>,
) {
    let open = Arc::new(open);
    let room = Arc::new(Semaphore::new(limits.connections));
    loop {
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
        tokio::spawn(async move {
            serve(stream, handler, limits, stopping).await;
            drop((permit, open));
        });
    }
}

/// Serves the requests of one connection.
async fn serve(
    stream: TcpStream,
    handler: Arc<Handler>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    // Events are small and must not be delayed; a failure only delays them.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, std::convert::Infallible>(handler.handle(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
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
