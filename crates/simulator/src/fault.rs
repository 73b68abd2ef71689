//! A proxy in front of any server that injects connection faults, for tests of clients.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// Behavior of the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyMode {
    /// Forwards everything.
    Pass,
    /// Does not listen: connecting fails.
    Refuse,
    /// Waits before it connects to the server.
    Delay(Duration),
    /// Closes a connection after this number of bytes from the server.
    CutAfter(u64),
    /// Answers this number of requests itself with this status, then forwards connections. The response has
    /// `retry-after` in seconds, if given, and an empty JSON object, and closes its connection.
    Answer {
        /// HTTP status: 429, 500, 503, …
        status: u16,
        /// Value of `retry-after`, in seconds.
        retry_after: Option<u64>,
        /// Number of requests, over all connections.
        times: u32,
    },
    /// Forwards the server's bytes in pieces of this size, with pauses.
    Drip {
        /// Size of a piece in bytes, at least 1.
        bytes: usize,
        /// Pause before each piece.
        every: Duration,
    },
}

/// A TCP proxy on the loopback interface. It closes its listener and its connections when dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    upstream: SocketAddr,
    open: Mutex<ProxyTasks>,
    connections: Arc<AtomicUsize>,
    /// Number of requests that the proxy still answers itself.
    answers: Arc<AtomicU32>,
}

/// Running tasks, which end when the behavior changes.
#[derive(Debug, Default)]
struct ProxyTasks {
    listening: Option<JoinHandle<()>>,
    stop: Option<watch::Sender<bool>>,
}

impl FaultProxy {
    /// Starts a proxy in front of `upstream` that forwards everything.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let proxy = Self {
            address: listener.local_addr()?,
            upstream,
            open: Mutex::default(),
            connections: Arc::default(),
            answers: Arc::default(),
        };
        proxy.listen(listener, ProxyMode::Pass);
        Ok(proxy)
    }

    /// Returns the address that the proxy listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:PORT`, without a slash at the end.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of accepted connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Changes the behavior. Closes open connections, so that no client continues to use one that was
    /// opened before.
    ///
    /// # Errors
    /// Another process has taken the port while the proxy did not listen.
    pub async fn set(&self, wire: ProxyMode) -> io::Result<()> {
        if let Some(listening) = self.close() {
            // The task was aborted; its end means that the port is free.
            let _ = listening.await;
        }
        if wire != ProxyMode::Refuse {
            let listener = TcpListener::bind(self.address).await?;
            self.listen(listener, wire);
        }
        Ok(())
    }

    fn close(&self) -> Option<JoinHandle<()>> {
        let mut open = self.open.lock();
        if let Some(stop) = open.stop.take() {
            let _ = stop.send(true);
        }
        let listening = open.listening.take()?;
        listening.abort();
        Some(listening)
    }

    fn listen(&self, listener: TcpListener, wire: ProxyMode) {
        if let ProxyMode::Answer { times, .. } = wire {
            self.answers.store(times, Ordering::SeqCst);
        }
        let (stop, stopping) = watch::channel(false);
        let (upstream, answers) = (self.upstream, Arc::clone(&self.answers));
        let connections = Arc::clone(&self.connections);
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (wire, answers) = (wire.clone(), Arc::clone(&answers));
                let mut stopping = stopping.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = connection(client, upstream, wire, &answers) => {}
                        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
                    }
                });
            }
        });
        let mut open = self.open.lock();
        open.listening = Some(listening);
        open.stop = Some(stop);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.close();
    }
}

/// Aborts the other direction of a connection when this one ends.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn connection(
    mut client: TcpStream,
    upstream: SocketAddr,
    wire: ProxyMode,
    answers: &AtomicU32,
) -> io::Result<()> {
    client.set_nodelay(true)?;
    if let ProxyMode::Answer {
        status,
        retry_after,
        ..
    } = wire
    {
        let take = |left: u32| left.checked_sub(1);
        let taken = answers.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        if taken.is_ok() {
            return answer_request(&mut client, status, retry_after).await;
        }
    }
    if let ProxyMode::Delay(delay) = wire {
        tokio::time::sleep(delay).await;
    }
    let server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let up = tokio::spawn(async move {
        // Half-closing is forwarded; an error ends the other direction soon.
        let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        let _ = to_server.shutdown().await;
    });
    let _up = AbortOnDrop(up.abort_handle());
    forward_response(&mut from_server, &mut to_client, &wire).await
}

/// Forwards the server's bytes, within the configured limits.
async fn forward_response(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    wire: &ProxyMode,
) -> io::Result<()> {
    let mut left = match wire {
        ProxyMode::CutAfter(bytes) => *bytes,
        _ => u64::MAX,
    };
    let (piece, pause) = match wire {
        ProxyMode::Drip { bytes, every } => ((*bytes).max(1), *every),
        _ => (usize::MAX, Duration::ZERO),
    };
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(read);
        for bytes in buffer[..most].chunks(piece) {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            to.write_all(bytes).await?;
        }
        left -= most as u64;
        if left == 0 {
            return to.shutdown().await;
        }
    }
}

/// Reads one request and answers it.
async fn answer_request(
    client: &mut TcpStream,
    status: u16,
    retry_after: Option<u64>,
) -> io::Result<()> {
    let mut request = Vec::new();
    while !is_complete(&request) {
        if client.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let retry_after =
        retry_after.map_or_else(String::new, |seconds| format!("retry-after: {seconds}\r\n"));
    let response = format!(
        "HTTP/1.1 {status} Simulated\r\ncontent-type: application/json\r\n{retry_after}\
         content-length: 2\r\nconnection: close\r\n\r\n{{}}"
    );
    client.write_all(response.as_bytes()).await?;
    client.shutdown().await
}

/// Returns true if the bytes are a whole HTTP/1 request: the head, and a body of the announced length or up
/// to its last chunk.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some(head) = text.find("\r\n\r\n") else {
        return false;
    };
    let header = |name: &str| {
        let lines = text[..head].lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(name));
        values.next().map(|value| value.trim().to_owned())
    };
    if header("transfer-encoding:").is_some_and(|value| value.contains("chunked")) {
        return request.ends_with(b"0\r\n\r\n");
    }
    let length = header("content-length:").and_then(|value| value.parse::<usize>().ok());
    let body = request
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map_or(0, |at| request.len() - at - 4);
    body >= length.unwrap_or(0)
}
