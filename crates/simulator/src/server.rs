//! The listener of the simulator, and its shutdown.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use cachalot_core::{Clock, SystemClock};

use crate::accounting::Rules;
use crate::received::{ReceivedRequest, RequestLog};
use crate::script::Script;
use crate::server_state::ServerState;

/// Options of a simulator.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// Address to listen on. Port 0, the default, takes any free port on the loopback interface.
    pub address: SocketAddr,
    /// Behavior of the models.
    pub script: Script,
    /// Clock of the prompt caches. Pauses of a script take real time in any case.
    pub clock: Arc<dyn Clock>,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            script: Script::built_in(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// The provider simulator.
#[derive(Debug)]
pub struct Simulator;

impl Simulator {
    /// Starts a simulator on the current Tokio runtime.
    ///
    /// # Errors
    /// The simulator cannot listen on the address.
    pub async fn start(options: SimulatorOptions) -> io::Result<RunningSimulator> {
        let listener = TcpListener::bind(options.address).await?;
        let address = listener.local_addr()?;
        let record = Arc::new(RequestLog::default());
        let server_state = Arc::new(ServerState {
            script: options.script,
            rules: Rules::published(),
            clock: options.clock,
            record: Arc::clone(&record),
            state: parking_lot::Mutex::default(),
        });
        let (stop, mut stopping) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                () = accept(listener, server_state) => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
        });
        Ok(RunningSimulator {
            address,
            record,
            stop,
        })
    }
}

/// A running simulator. Dropping it closes its listener and its connections.
#[derive(Debug)]
pub struct RunningSimulator {
    address: SocketAddr,
    record: Arc<RequestLog>,
    /// Its receiver belongs to the task that accepts connections.
    stop: watch::Sender<bool>,
}

impl RunningSimulator {
    /// Returns the address that the simulator listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:PORT`, without a slash at the end: the base URL for an Anthropic client.
    /// The base URL for an OpenAI client is this with `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the received requests, in order of arrival; at most the newest 256 MiB of bodies.
    #[must_use]
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.record.received()
    }

    /// Returns the refused requests that the provider would have refused as well: method, path and error
    /// message.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.record.violations()
    }

    /// Stops the simulator, and waits until its address is free.
    pub async fn stop(self) {
        self.close();
        self.stopped().await;
    }

    /// Waits until the simulator has stopped.
    pub async fn stopped(&self) {
        self.stop.closed().await;
    }

    fn close(&self) {
        let _ = self.stop.send(true);
    }
}

impl Drop for RunningSimulator {
    fn drop(&mut self) {
        self.close();
    }
}

/// Accepts connections. They break when the future is dropped.
async fn accept(listener: TcpListener, server_state: Arc<ServerState>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // For example no free file descriptor: connections that end will make room.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Events are small and must not be delayed; a failure only delays them.
        let _ = stream.set_nodelay(true);
        let server_state = Arc::clone(&server_state);
        let service = service_fn(move |request: Request<Incoming>| {
            let answer = Arc::clone(&server_state).answer(request.map(Body::new));
            async move { Ok::<_, Infallible>(answer.await) }
        });
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
