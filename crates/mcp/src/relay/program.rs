//! A server that is a program, connected by its standard input and output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cachalot_process::{ProcessGroup, StartError, describe_status};
use parking_lot::Mutex;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::calls::{Calls, Destination};
use super::connection::{Close, Connection, Connector};
use super::{Exchange, Frame, FrameKind, MAX_MESSAGE_BYTES, RequestContext, Upstream};
use crate::Reporter;
use crate::line_reader::{LineRead, LineReader};

/// Time for a server to end by itself after its input is closed, and again after it was asked to end.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Maximum time to wait for the last lines after the end of a server, whose descendants may keep its pipes open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum length of a line of stderr; a longer one is split.
const MAX_STDERR_LINE: u64 = 16 << 10;

/// Messages that wait until the server reads them.
const WAITING: usize = 64;

/// Time that a cancelled request waits for a response, which the server does not have to send.
pub(super) const CANCELLED_GRACE_PERIOD: Duration = Duration::from_secs(3_600);

/// The JSON-RPC error code of a connection that has ended.
pub(super) const CONNECTION_CLOSED: i64 = -32_000;

/// The JSON-RPC error code of a message that cannot be passed on.
const INTERNAL_ERROR: i64 = -32_603;

/// A program to start as a server.
#[derive(Debug, Clone)]
pub struct ServerCommand {
    /// The name of the server in messages.
    pub name: String,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables in addition to those of this process.
    pub environment: BTreeMap<String, String>,
    /// The working directory; that of this process without one.
    pub directory: Option<PathBuf>,
    /// A program that runs the server, and its arguments up to those of the server; empty: the server is started as it is.
    pub launcher: Vec<OsString>,
}

impl ServerCommand {
    /// Returns the command that starts the program, by its launcher if the program exists: the system names one that does
    /// not.
    fn launch(&self) -> Command {
        match self.launcher.split_first() {
            Some((launcher, arguments)) if self.is_found() => {
                let mut command = Command::new(launcher);
                command.args(arguments).arg(&self.program);
                command
            }
            _ => Command::new(&self.program),
        }
    }

    fn is_found(&self) -> bool {
        let program = Path::new(&self.program);
        if program.components().count() > 1 {
            let directory = self.directory.as_deref().unwrap_or(Path::new(""));
            return directory.join(program).is_file();
        }
        let own = self.environment.get("PATH").map(OsString::from);
        let paths = own.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    }
}

/// A server that is a program. It is started again by a request that opens a session, or that belongs to none, after it
/// has ended. No request is ever sent twice.
pub struct ProgramServer {
    shared: Arc<Shared>,
    unattached: Mutex<Option<mpsc::Receiver<Frame>>>,
}

struct Shared {
    command: ServerCommand,
    reporter: Arc<dyn Reporter>,
    state: Mutex<State>,
    /// The last id of a message: those of all processes differ, so that no late response is taken for another one.
    numbers: Arc<AtomicU64>,
    /// The number of ended processes.
    ends: AtomicU64,
    /// The number of messages that could not be read.
    losses: AtomicU64,
    unattached: mpsc::Sender<Frame>,
}

enum State {
    /// Not started since the last end; the text explains that end.
    Ended(String),
    Running(Arc<Running>),
    /// Never started again.
    Closed,
}

/// A running server.
struct Running {
    calls: Calls,
    input: mpsc::Sender<Input>,
    /// Set to true when the server has to end: its input is closed, or about to be.
    close: Arc<watch::Sender<bool>>,
    /// Set to true when the server has ended.
    ended: watch::Receiver<bool>,
}

/// An instruction to the task that writes to the server.
enum Input {
    Line(Bytes),
    Close,
}

impl ProgramServer {
    /// Starts the program.
    ///
    /// # Errors
    /// If it cannot be started, as a sentence for the user.
    pub fn start(command: ServerCommand, reporter: Arc<dyn Reporter>) -> Result<Self, String> {
        let server = Self::idle(command, reporter);
        let running = server.shared.start()?;
        *server.shared.state.lock() = State::Running(running);
        Ok(server)
    }

    /// Creates a server that the first request starts.
    #[must_use]
    pub fn idle(command: ServerCommand, reporter: Arc<dyn Reporter>) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Self {
            shared: Arc::new(Shared {
                command,
                reporter,
                state: Mutex::new(State::Ended(String::new())),
                numbers: Arc::default(),
                ends: AtomicU64::new(0),
                losses: AtomicU64::new(0),
                unattached: sender,
            }),
            unattached: Mutex::new(Some(receiver)),
        }
    }
}

/// Starts a program for each session, and one for all requests that belong to none.
pub struct ProgramConnector {
    /// The program.
    pub command: ServerCommand,
    /// Receives its lines on stderr, and its end.
    pub reporter: Arc<dyn Reporter>,
}

#[async_trait]
impl Connector for ProgramConnector {
    async fn connect(&self, session: Option<Arc<str>>) -> Result<Connection, String> {
        let (command, reporter) = (self.command.clone(), Arc::clone(&self.reporter));
        let server = Arc::new(match session {
            Some(_) => ProgramServer::start(command, reporter)?,
            None => ProgramServer::idle(command, reporter),
        });
        Ok(Connection {
            upstream: server.clone(),
            closer: server,
        })
    }
}

#[async_trait]
impl Upstream for ProgramServer {
    async fn request(&self, request: Frame, context: RequestContext) -> Exchange {
        let id = request.id().unwrap_or("null").to_owned();
        let refused =
            |why: &str| Exchange::answered(Frame::error_response(&id, CONNECTION_CLOSED, why));
        let running = match self.shared.running(&request) {
            Ok(running) => running,
            Err(why) => return refused(&why),
        };
        let (sender, exchange) = Exchange::new();
        let Some(begun) = running
            .calls
            .begin(request, context.session, sender.clone())
        else {
            return refused(&self.shared.why("has ended"));
        };
        let number = begun.number;
        let line = begun.request.on_one_line();
        {
            let running = Arc::clone(&running);
            tokio::spawn(async move {
                tokio::select! {
                    () = sender.cancelled() => {}
                    _ = begun.end => return,
                }
                if running.calls.forget(number) {
                    let notification = Frame::notification(
                        "notifications/cancelled",
                        &format!(r#"{{"requestId":{number}}}"#),
                    );
                    let _ = running
                        .input
                        .send(Input::Line(notification.bytes().clone()))
                        .await;
                }
            });
        }
        if running.input.send(Input::Line(line)).await.is_err()
            && let Some((sender, id)) = running.calls.take(number)
        {
            // Nothing was written.
            let why = format!("the MCP server `{}` has ended", self.shared.command.name);
            let error = Frame::error_response(&id, CONNECTION_CLOSED, &why);
            sender.send(error);
        }
        exchange
    }

    async fn notify(&self, message: Frame, context: RequestContext) {
        let running = match &*self.shared.state.lock() {
            State::Running(running) => Arc::clone(running),
            _ => return,
        };
        let message = if message.kind() == FrameKind::Response {
            let Some(response) = running.calls.client_response(&message) else {
                return;
            };
            response
        } else if message.request_id().is_some() {
            let session = context.session.as_ref();
            let Some((number, renamed)) = running.calls.cancelled(&message, session) else {
                return;
            };
            let running = Arc::clone(&running);
            tokio::spawn(async move {
                tokio::time::sleep(CANCELLED_GRACE_PERIOD).await;
                running.calls.forget(number);
            });
            renamed
        } else {
            message
        };
        // An error means that the server has ended, which is reported by its requests.
        let _ = running.input.send(Input::Line(message.on_one_line())).await;
    }

    fn take_unattached(&self) -> Option<mpsc::Receiver<Frame>> {
        self.unattached.lock().take()
    }

    fn ends(&self) -> u64 {
        self.shared.ends.load(Ordering::SeqCst)
    }

    fn losses(&self) -> u64 {
        self.shared.losses.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Close for ProgramServer {
    async fn close(&self) {
        let state = std::mem::replace(&mut *self.shared.state.lock(), State::Closed);
        let State::Running(running) = state else {
            return;
        };
        // Set here, too: the task that writes may wait for a server that does not read.
        running.close.send_replace(true);
        let _ = tokio::time::timeout(EXIT_GRACE_PERIOD, running.input.send(Input::Close)).await;
        until_set(&mut running.ended.clone()).await;
    }
}

impl Shared {
    /// Returns the running server; starts it if the request may open a new connection.
    fn running(self: &Arc<Self>, request: &Frame) -> Result<Arc<Running>, String> {
        let mut state = self.state.lock();
        let why = match &*state {
            State::Running(running) => return Ok(Arc::clone(running)),
            State::Closed => return Err(self.why("is being stopped")),
            State::Ended(why) => why,
        };
        let opens = matches!(request.method(), "initialize" | "server/discover")
            || request.protocol_version().is_some();
        if !opens {
            return Err(match why.as_str() {
                "" => format!(
                    "the MCP server `{}` was not started: start a session with `initialize`",
                    self.command.name
                ),
                why => format!("{why}; start a new session with `initialize`"),
            });
        }
        let running = self.start()?;
        *state = State::Running(Arc::clone(&running));
        Ok(running)
    }

    fn why(&self, what: &str) -> String {
        format!("the MCP server `{}` {what}", self.command.name)
    }

    fn start(self: &Arc<Self>) -> Result<Arc<Running>, String> {
        let name = &self.command.name;
        let program = self.command.program.to_string_lossy();
        let mut command = self.command.launch();
        command
            .args(&self.command.arguments)
            .envs(&self.command.environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(directory) = &self.command.directory {
            command.current_dir(directory);
        }
        let mut group = ProcessGroup::start(command).map_err(|error| {
            let why = match error {
                StartError::NoDirectory(directory) => {
                    format!("there is no directory `{}`", directory.display())
                }
                StartError::NoProgram(_) => {
                    format!("there is no program `{program}`; check the command and PATH")
                }
                StartError::Refused(error) => format!("`{program}`: {error}"),
            };
            format!("the MCP server `{name}` cannot be started: {why}")
        })?;
        let child = group.child();
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(format!("the MCP server `{name}` has no pipes"));
        };
        let (input, inputs) = mpsc::channel(WAITING);
        let (end, ended) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let close = Arc::new(close);
        let running = Arc::new(Running {
            calls: Calls::new(Arc::clone(&self.numbers)),
            input,
            close: Arc::clone(&close),
            ended,
        });
        let last_line = Arc::new(Mutex::new(String::new()));
        let writing = tokio::spawn(write(stdin, inputs, close));
        let reporting = tokio::spawn(report(
            stderr,
            name.clone(),
            Arc::clone(&self.reporter),
            Arc::clone(&last_line),
        ));
        let supervisor = Supervisor {
            shared: Arc::clone(self),
            running: Arc::clone(&running),
            group,
            writing,
            reporting,
            last_line,
        };
        tokio::spawn(async move {
            supervisor.run(stdout, closing).await;
            end.send_replace(true);
        });
        Ok(running)
    }
}

/// Waits until a flag is set, or the task that sets it is gone.
async fn until_set(flag: &mut watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}

/// Writes messages to the server, each on a line, until it is told to close its input.
async fn write(
    mut stdin: ChildStdin,
    mut inputs: mpsc::Receiver<Input>,
    close: Arc<watch::Sender<bool>>,
) {
    while let Some(Input::Line(line)) = inputs.recv().await {
        // One call for most messages: a server that reads what there is gets the whole line.
        let written = if line.len() < 64 << 10 {
            let mut whole = Vec::with_capacity(line.len() + 1);
            whole.extend_from_slice(&line);
            whole.push(b'\n');
            stdin.write_all(&whole).await
        } else {
            match stdin.write_all(&line).await {
                Ok(()) => stdin.write_all(b"\n").await,
                failed => failed,
            }
        };
        if written.is_err() {
            // The server has closed its input or ended; the supervisor sees the end.
            break;
        }
    }
    drop(stdin);
    close.send_replace(true);
}

/// Reports the lines that a server writes to stderr, until it is closed.
async fn report(
    stderr: impl AsyncRead + Unpin,
    name: String,
    reporter: Arc<dyn Reporter>,
    last_line: Arc<Mutex<String>>,
) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut stderr).take(MAX_STDERR_LINE);
        match limited.read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return,
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end();
        reporter.server_output(&name, text);
        if !text.trim().is_empty() {
            text.clone_into(&mut last_line.lock());
        }
    }
}

/// Reads what a server writes, and reports its end.
struct Supervisor {
    shared: Arc<Shared>,
    running: Arc<Running>,
    group: ProcessGroup,
    writing: JoinHandle<()>,
    reporting: JoinHandle<()>,
    last_line: Arc<Mutex<String>>,
}

impl Supervisor {
    async fn run(mut self, stdout: ChildStdout, mut closing: watch::Receiver<bool>) {
        let mut lines = LineReader::new(stdout, MAX_MESSAGE_BYTES);
        let killer = self.group.killer();
        let mut is_closing = false;
        let mut is_terminated = false;
        let deadline = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(deadline);
        {
            let reading = read(&mut lines, &self.running.calls, &self.shared);
            tokio::pin!(reading);
            let ended = self.group.ended();
            tokio::pin!(ended);
            loop {
                tokio::select! {
                    () = &mut reading => break,
                    () = &mut ended => {
                        // What it has written is still in the pipe; its descendants may keep the pipe open.
                        let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut reading).await;
                        break;
                    }
                    () = until_set(&mut closing), if !is_closing => {
                        is_closing = true;
                        deadline.as_mut().reset(tokio::time::Instant::now() + EXIT_GRACE_PERIOD);
                    }
                    () = &mut deadline, if is_closing => {
                        if is_terminated {
                            break;
                        }
                        is_terminated = true;
                        killer.terminate();
                        deadline.as_mut().reset(tokio::time::Instant::now() + EXIT_GRACE_PERIOD);
                    }
                }
            }
        }
        // A server that has closed its output may have more to do, in the time that is left.
        let rest = deadline
            .deadline()
            .saturating_duration_since(tokio::time::Instant::now());
        if is_closing && !is_terminated {
            let ended = tokio::time::timeout(rest, self.group.ended()).await;
            if ended.is_err() {
                killer.terminate();
            }
        }
        let grace = match (is_closing, is_terminated) {
            (false, _) => DRAIN_TIMEOUT,
            (true, false) => EXIT_GRACE_PERIOD,
            (true, true) => rest,
        };
        let (status, _) = self.group.end_within(grace).await;
        if tokio::time::timeout(DRAIN_TIMEOUT, &mut self.reporting)
            .await
            .is_err()
        {
            self.reporting.abort();
        }
        self.writing.abort();
        let status = status.map_or_else(|| "no exit status".to_owned(), describe_status);
        let last_line = std::mem::take(&mut *self.last_line.lock());
        let mut why = format!(
            "the MCP server `{}` ended ({status}",
            self.shared.command.name
        );
        if !last_line.is_empty() {
            why.push_str(&format!("; its last line on stderr: {last_line}"));
        }
        why.push(')');
        // Before the requests fail: their callers may start a new session at once.
        self.shared.ends.fetch_add(1, Ordering::SeqCst);
        {
            let mut state = self.shared.state.lock();
            if matches!(&*state, State::Running(running) if Arc::ptr_eq(running, &self.running)) {
                *state = State::Ended(why.clone());
                self.shared.reporter.warning(&why);
            }
        }
        for (sender, id) in self.running.calls.close() {
            let error = Frame::error_response(
                &id,
                CONNECTION_CLOSED,
                &format!("{why} before it answered; the effect of the call is unknown"),
            );
            sender.send(error);
        }
    }
}

/// Passes on what a server writes, until its output is closed.
async fn read(lines: &mut LineReader<ChildStdout>, calls: &Calls, shared: &Shared) {
    let name = &shared.command.name;
    while let Ok(Some(line)) = lines.next().await {
        let message = match line {
            LineRead::Whole => {
                let line = lines.take_line();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                let line = Bytes::from(line);
                match Frame::parse(line.clone()) {
                    Ok(message) => message,
                    Err(error) => {
                        shared.losses.fetch_add(1, Ordering::SeqCst);
                        let why = format!(
                            "the MCP server `{name}` wrote a line that is no message: {error}"
                        );
                        shared.reporter.warning(&why);
                        // The request that it was to answer must not wait for another one.
                        let answered = serde_json::from_slice::<serde_json::Value>(&line)
                            .ok()
                            .and_then(|line| line["id"].as_u64());
                        let Some(id) = answered else { continue };
                        Frame::error_response(&id.to_string(), INTERNAL_ERROR, &why)
                    }
                }
            }
            LineRead::TooLong(id) => {
                shared.losses.fetch_add(1, Ordering::SeqCst);
                let size = MAX_MESSAGE_BYTES >> 20;
                let why = format!(
                    "the MCP server `{name}` wrote a message of more than {size} MiB, which was dropped"
                );
                shared.reporter.warning(&why);
                let Some(id) = id else { continue };
                Frame::error_response(&id.to_string(), INTERNAL_ERROR, &why)
            }
        };
        match calls.received(message, None) {
            Destination::Call(sender, message) => {
                sender.send(message);
            }
            Destination::Client(message) => {
                // An error means that the client is gone.
                let _ = shared.unattached.send(message).await;
            }
            Destination::None => {}
        }
    }
}
