//! The listener of the simulator, and its shutdown.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

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
        let router =
            Router::new().fallback(move |request| Arc::clone(&server_state).answer(request));
        let (stop, stopping) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let door = StoppableListener {
            listener,
            stopping: stopping.clone(),
        };
        tokio::spawn(async move {
            let mut stopping = stopping;
            tokio::select! {
                _ = axum::serve(door, router) => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
            // There may be no receiver.
            let _ = end.send(true);
        });
        Ok(RunningSimulator {
            address,
            record,
            stop,
            ended,
        })
    }
}

/// A running simulator. Dropping it closes its listener and its connections.
#[derive(Debug)]
pub struct RunningSimulator {
    address: SocketAddr,
    record: Arc<RequestLog>,
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
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
        // An error means that the task is gone, which is equivalent.
        let _ = self.ended.clone().wait_for(|has_ended| *has_ended).await;
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

/// A listener whose connections end when the simulator stops.
struct StoppableListener {
    listener: TcpListener,
    stopping: watch::Receiver<bool>,
}

impl Listener for StoppableListener {
    type Io = StoppableConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (StoppableConnection, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.listener).await;
        // Events are small and must not be delayed; a failure only delays them.
        let _ = stream.set_nodelay(true);
        let mut stopping = self.stopping.clone();
        let stopped = async move {
            let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
        };
        let connection = StoppableConnection {
            stream,
            stopped: Some(Box::pin(stopped)),
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that breaks when the simulator stops.
struct StoppableConnection {
    stream: TcpStream,
    /// `None` once the simulator has stopped.
    stopped: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl StoppableConnection {
    /// Fails if the simulator has stopped; wakes the task when it does.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(stopped) = &mut self.stopped
            && stopped.as_mut().poll(context).is_pending()
        {
            return Ok(());
        }
        self.stopped = None;
        Err(io::ErrorKind::ConnectionAborted.into())
    }
}

impl AsyncRead for StoppableConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for StoppableConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
