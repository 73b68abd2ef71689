//! A server that answers each request as it was told, down to the bytes of the connection.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cachalot_simulator::{Format, check_request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// Nothing in these tests takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The reaction of a server to one request.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
enum Step {
    Send(Vec<u8>),
    /// Takes its time.
    Dawdle(Duration),
    /// Until the client has gone away.
    Hang,
    /// Closes the connection.
    Close,
    /// Closes it so that the client gets an error rather than an end.
    Reset,
}

impl Answer {
    /// A whole answer.
    pub(crate) fn of(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        Self::binary(status, headers, body.as_bytes())
    }

    pub(crate) fn binary(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let mut head = format!(
            "HTTP/1.1 {status} Whatever\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Self {
            steps: vec![Step::Send([head.as_bytes(), b"\r\n", body].concat())],
        }
    }

    pub(crate) fn json(status: u16, body: &str) -> Self {
        Self::of(status, &[("content-type", "application/json")], body)
    }

    /// The head of a chunked answer, nothing else.
    pub(crate) fn head(content_type: &str) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nx-request-id: req-7\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        Self {
            steps: vec![Step::Send(head.into_bytes())],
        }
    }

    /// A streamed answer, each text a piece of its own.
    pub(crate) fn stream<T: AsRef<str>>(pieces: &[T]) -> Self {
        Self::head("text/event-stream").chunks(pieces).end()
    }

    /// Further pieces.
    pub(crate) fn chunks<T: AsRef<str>>(mut self, pieces: &[T]) -> Self {
        for piece in pieces {
            let piece = piece.as_ref();
            let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
            self.steps.push(Step::Send(chunk.into_bytes()));
        }
        self
    }

    /// The end of a chunked answer.
    pub(crate) fn end(mut self) -> Self {
        self.steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
        self
    }

    pub(crate) fn bytes(bytes: &str) -> Self {
        Self {
            steps: vec![Step::Send(bytes.as_bytes().to_vec())],
        }
    }

    pub(crate) fn dawdle(milliseconds: u64) -> Self {
        Self {
            steps: vec![Step::Dawdle(Duration::from_millis(milliseconds))],
        }
    }

    /// One after the other.
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self
    }

    pub(crate) fn hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self
    }

    pub(crate) fn close(mut self) -> Self {
        self.steps.push(Step::Close);
        self
    }

    pub(crate) fn reset(mut self) -> Self {
        self.steps.push(Step::Reset);
        self
    }

    /// Nothing at all.
    pub(crate) fn nothing() -> Self {
        Self { steps: Vec::new() }
    }
}

/// A recorded request.
#[derive(Debug, Clone)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl RecordedRequest {
    /// The only value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} was sent twice");
        value
    }

    /// Checks the body as the simulator does, which shares no code with the client.
    fn check(&self) {
        let path = self.line.split(' ').nth(1).unwrap_or_default();
        let format = [
            ("/chat/completions", Format::Chat),
            ("/responses", Format::Responses),
            ("/messages", Format::Messages),
            ("/interactions", Format::Interactions),
        ];
        let Some((_, format)) = format.iter().find(|(end, _)| path.ends_with(end)) else {
            return;
        };
        let is_beta = self.header("anthropic-beta").is_some();
        let checked = check_request(*format, is_beta, &self.body);
        let body = String::from_utf8_lossy(&self.body);
        assert!(checked.is_ok(), "{path}: {checked:?}\n{body}");
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Default)]
struct Log {
    asked: Mutex<Vec<RecordedRequest>>,
    answers: Mutex<VecDeque<Answer>>,
    connections: Mutex<usize>,
    gone: Mutex<usize>,
    changed: Notify,
}

/// A server on a loopback port of its own, until it is dropped.
pub(crate) struct Server {
    url: String,
    log: Arc<Log>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Answers the requests in this order; the last answer is given to all that follow.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let log = Arc::new(Log {
            answers: Mutex::new(answers.into_iter().collect()),
            ..Log::default()
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&log)));
        Self { url, log, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far.
    pub(crate) fn asked(&self) -> Vec<RecordedRequest> {
        self.log.asked.lock().unwrap().clone()
    }

    /// The only request.
    pub(crate) fn only(&self) -> RecordedRequest {
        let asked = self.asked();
        assert_eq!(asked.len(), 1);
        asked[0].clone()
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        *self.log.connections.lock().unwrap()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn until_asked(&self, count: usize) {
        self.until(|log| log.asked.lock().unwrap().len() >= count)
            .await;
    }

    /// Waits until a client has gone away in the middle of an answer.
    pub(crate) async fn until_gone(&self) {
        self.until(|log| *log.gone.lock().unwrap() > 0).await;
    }

    async fn until(&self, is: impl Fn(&Log) -> bool) {
        let wait = async {
            loop {
                let changed = self.log.changed.notified();
                if is(&self.log) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(TIMEOUT, wait)
            .await
            .expect("it never happened");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            self.asked().iter().for_each(RecordedRequest::check);
        }
    }
}

async fn accept(listener: TcpListener, log: Arc<Log>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        *log.connections.lock().unwrap() += 1;
        tokio::spawn(serve(stream, Arc::clone(&log)));
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Log>) {
    let mut unread = Vec::new();
    while let Some(asked) = request(&mut stream, &mut unread).await {
        log.asked.lock().unwrap().push(asked);
        let answer = {
            let mut answers = log.answers.lock().unwrap();
            match answers.len() {
                0 => panic!("nobody said what to answer"),
                1 => answers[0].clone(),
                _ => answers.pop_front().unwrap(),
            }
        };
        log.changed.notify_waiters();
        for step in answer.steps {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        break;
                    }
                    stream.flush().await.unwrap();
                }
                Step::Dawdle(time) => tokio::time::sleep(time).await,
                Step::Hang => {
                    let mut byte = [0];
                    while matches!(stream.read(&mut byte).await, Ok(read) if read > 0) {}
                    *log.gone.lock().unwrap() += 1;
                    log.changed.notify_waiters();
                    return;
                }
                Step::Close => return,
                Step::Reset => {
                    let socket = to_be_reset(stream);
                    drop(socket);
                    return;
                }
            }
        }
    }
}

/// The stream, set to be reset when it is dropped.
fn to_be_reset(stream: TcpStream) -> TcpStream {
    #[allow(deprecated, reason = "zero never blocks")]
    stream.set_linger(Some(Duration::ZERO)).unwrap();
    stream
}

/// The next request on a connection.
async fn request(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<RecordedRequest> {
    let head_end = loop {
        if let Some(at) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break at;
        }
        more(stream, unread).await?;
    };
    let head = String::from_utf8(unread[..head_end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .map_or(0, |(_, value)| value.parse().unwrap());
    let body_at = head_end + 4;
    while unread.len() < body_at + length {
        more(stream, unread).await?;
    }
    let body = unread[body_at..body_at + length].to_vec();
    unread.drain(..body_at + length);
    Some(RecordedRequest {
        line,
        headers,
        body,
    })
}

async fn more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<()> {
    let mut bytes = [0; 8192];
    match stream.read(&mut bytes).await {
        Ok(read) if read > 0 => {
            unread.extend_from_slice(&bytes[..read]);
            Some(())
        }
        _ => None,
    }
}
