//! A server of the test: it counts the requests that it receives, and answers with exactly the bytes that the test
//! gives, as fast as the test wants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A request that arrived completely.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Number of the request, from 0.
    pub(crate) number: usize,
    /// Method and target, as in `POST /v1/messages`.
    pub(crate) line: String,
    /// Headers with their names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| &**value)
    }
}

/// A step of an answer. The connection is closed after the last one.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Sends bytes: the head, too.
    Send(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Waits until the value is true.
    Until(watch::Receiver<bool>),
    /// Sends the bytes again and again, until the client has closed the connection.
    Forever(Vec<u8>),
}

/// The server.
pub(crate) struct FakeUpstream {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    open: Arc<AtomicUsize>,
    sent: Arc<AtomicUsize>,
}

impl FakeUpstream {
    /// Starts a server. `answer` returns the steps for each request.
    pub(crate) async fn start<F>(answer: F) -> Self
    where
        F: Fn(&Received) -> Vec<Step> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            received: Arc::default(),
            open: Arc::default(),
            sent: Arc::default(),
        };
        let answer = Arc::new(answer);
        let (received, open, sent) = (
            Arc::clone(&server.received),
            Arc::clone(&server.open),
            Arc::clone(&server.sent),
        );
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, received) = (Arc::clone(&answer), Arc::clone(&received));
                let (open, sent) = (Arc::clone(&open), Arc::clone(&sent));
                tokio::spawn(async move {
                    open.fetch_add(1, Ordering::SeqCst);
                    if let Some(mut request) = read_request(&mut stream).await {
                        {
                            let mut received = received.lock();
                            request.number = received.len();
                            received.push(request.clone());
                        }
                        let _ = play(&mut stream, answer(&request), &sent).await;
                        // What the client still sends must not reset the connection before it has read everything.
                        let _ = stream.shutdown().await;
                        let mut rest = [0; 1024];
                        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    /// The number of requests that arrived completely.
    pub(crate) fn count(&self) -> usize {
        self.received.lock().len()
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().clone()
    }

    /// The number of connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// The number of bytes of answers that were sent.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

async fn play(stream: &mut TcpStream, steps: Vec<Step>, sent: &AtomicUsize) -> std::io::Result<()> {
    let _ = stream.set_nodelay(true);
    for step in steps {
        match step {
            Step::Send(bytes) => {
                sent.fetch_add(bytes.len(), Ordering::SeqCst);
                stream.write_all(&bytes).await?;
            }
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Until(mut gate) => {
                let _ = gate.wait_for(|is_open| *is_open).await;
            }
            Step::Forever(bytes) => loop {
                stream.write_all(&bytes).await?;
                sent.fetch_add(bytes.len(), Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(1)).await;
            },
        }
    }
    Ok(())
}

/// Reads one request; `None` if the client leaves before its end.
async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        if let Some(request) = parse(&bytes) {
            return Some(request);
        }
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => bytes.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Received> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let value = |wanted: &str| headers.iter().find(|(name, _)| name == wanted);
    let rest = &bytes[end + 4..];
    let body = if value("transfer-encoding").is_some() {
        // Bodies that are passed on as they arrive; the tests need their end only.
        rest.ends_with(b"0\r\n\r\n").then(|| rest.to_vec())?
    } else {
        let length = value("content-length").map_or(0, |(_, length)| length.parse().unwrap());
        rest.get(..length)?.to_vec()
    };
    Some(Received {
        number: 0,
        line,
        headers,
        body,
    })
}

/// The media type of an answer.
pub(crate) fn media(is_streamed: bool) -> &'static str {
    if is_streamed {
        "text/event-stream"
    } else {
        "application/json"
    }
}

/// The head of an answer whose body ends with the connection, with further header lines.
pub(crate) fn head(status: &str, media: &str, lines: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: {media}\r\n{lines}Connection: close\r\n\r\n")
}

/// A complete answer with its length.
pub(crate) fn answer(status: &str, media: &str, body: &str) -> Vec<Step> {
    let head = head(
        status,
        media,
        &format!("Content-Length: {}\r\n", body.len()),
    );
    vec![Step::Send(format!("{head}{body}").into_bytes())]
}

/// The bytes of a body in chunks of HTTP/1.1, with the last one if the body is complete.
pub(crate) fn chunked(parts: &[&[u8]], is_complete: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        out.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
    if is_complete {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    out
}
