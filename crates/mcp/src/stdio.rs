//! The stdio transport: servers that are programs, connected by their standard input and output.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Secret;
use cachalot_process::{ProcessGroup, StartError, describe_status};
use cachalot_tools::WorkspaceSandbox;
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncReadExt as _, Empty};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::McpDependencies;
use super::announcements::Announcements;
use super::error::McpError;
use super::line_reader::{LineRead, LineReader};
use super::message_parser::MessageParser;

/// Time for a server to end by itself after its input is closed.
const EXIT_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Maximum time to wait for the last lines on stderr after the end of a server.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(250);

/// Maximum length of a line that is reported; a longer one is split.
const MAX_LINE_BYTES: usize = 4 << 10;

/// Number of lines that are kept to explain the end of a server.
const MAX_KEPT_LINES: usize = 8;

/// Variables that are always passed on: those that programs need to find executables, their user, and their
/// language.
const PASSED_VARIABLES: [&str; 8] = [
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR",
];

/// A program to start.
pub(super) struct ServerProgram<'a> {
    pub(super) server: &'a str,
    pub(super) command: &'a str,
    pub(super) arguments: &'a [String],
    pub(super) environment: &'a BTreeMap<String, Secret<String>>,
    pub(super) directory: PathBuf,
    /// Maximum size of a message of the server, in bytes.
    pub(super) message_limit: usize,
}

/// The transport to a running server. Dropping it kills the program and the processes that it has started.
pub(super) struct StdioTransport {
    lines: LineReader<ChildStdout>,
    message_parser: MessageParser,
    /// The transport for writing. Its reader is not used, because it does not report dropped messages.
    outgoing: AsyncRwTransport<RoleClient, Empty, ChildStdin>,
    group: ProcessGroup,
    end: ServerExit,
    listening: Option<JoinHandle<()>>,
}

/// The exit status of a server, and its last lines on stderr.
#[derive(Clone, Default)]
pub(super) struct ServerExit(Arc<Mutex<ExitState>>);

#[derive(Default)]
struct ExitState {
    status: Option<String>,
    lines: VecDeque<String>,
}

impl ServerExit {
    fn with<T>(&self, look: impl FnOnce(&mut ExitState) -> T) -> T {
        look(&mut self.0.lock())
    }

    /// Formats the exit status and the last lines.
    pub(super) fn describe_exit(&self) -> String {
        self.with(|known| {
            let mut text = match &known.status {
                Some(status) => format!(" ({status})"),
                None => String::new(),
            };
            if !known.lines.is_empty() {
                let lines: Vec<&str> = known.lines.iter().map(String::as_str).collect();
                text.push_str(&format!("; the end of its stderr: {}", lines.join(" | ")));
            }
            text
        })
    }
}

impl ServerProgram<'_> {
    /// Starts the program, in the sandbox of servers if there is one.
    pub(super) async fn start(
        self,
        dependencies: &McpDependencies,
        announcements: Announcements,
    ) -> Result<(StdioTransport, ServerExit), McpError> {
        let mut group =
            ProcessGroup::start(self.prepared(dependencies).await?).map_err(|error| {
                self.fault(match error {
                    StartError::NoDirectory(directory) => {
                        format!(
                            "there is no directory `{}` to run it in",
                            directory.display()
                        )
                    }
                    StartError::NoProgram(_) => {
                        format!(
                            "there is no program `{}`; check `command` and PATH",
                            self.command
                        )
                    }
                    StartError::Refused(error) => format!("`{}`: {error}", self.command),
                })
            })?;
        let child = group.child();
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(self.fault("it has no pipes"));
        };
        let end = ServerExit::default();
        let listening = tokio::spawn(listen(
            stderr,
            self.server.to_owned(),
            dependencies.clone(),
            end.clone(),
        ));
        let transport = StdioTransport {
            lines: LineReader::new(stdout, self.message_limit),
            message_parser: MessageParser::new(
                self.server,
                self.message_limit,
                dependencies.clone(),
                announcements,
            ),
            outgoing: AsyncRwTransport::new_client(tokio::io::empty(), stdin),
            group,
            end: end.clone(),
            listening: Some(listening),
        };
        Ok((transport, end))
    }

    fn fault(&self, what: impl Display) -> McpError {
        McpError::transient(self.server, format!("cannot be started: {what}"))
    }

    async fn prepared(&self, dependencies: &McpDependencies) -> Result<Command, McpError> {
        let mut command = match &dependencies.sandbox {
            None => Command::new(self.command),
            Some(sandbox) => sandbox
                .prepare(self.command)
                .await
                .map_err(|why| self.fault(format_args!("its sandbox cannot be made: {why}")))?,
        };
        let passed = dependencies.environment.iter().filter(|(name, _)| {
            PASSED_VARIABLES.contains(&name.as_str()) || name.starts_with("LC_")
        });
        let own = self.environment.iter();
        let sandbox = dependencies.sandbox.as_ref();
        let temporary = sandbox.map(WorkspaceSandbox::temporary);
        command
            .args(self.arguments)
            .current_dir(&self.directory)
            .env_clear()
            .envs(passed)
            .envs(temporary.map(|directory| ("TMPDIR", directory)))
            // Last, so that the settings of the server replace the others.
            .envs(own.map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Ok(command)
    }
}

/// Reports the lines that a server writes to stderr, until it is closed.
async fn listen(
    mut stderr: impl AsyncRead + Unpin,
    server: String,
    dependencies: McpDependencies,
    end: ServerExit,
) {
    let mut line = Vec::new();
    let mut buffer = vec![0; MAX_LINE_BYTES];
    let tell = |line: &mut Vec<u8>| {
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        line.clear();
        if text.is_empty() {
            return;
        }
        let text = dependencies.secret_set.redact(&text).into_owned();
        dependencies.reporter.server_output(&server, &text);
        end.with(|known| {
            if known.lines.len() == MAX_KEPT_LINES {
                known.lines.pop_front();
            }
            known.lines.push_back(text);
        });
    };
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        for byte in &buffer[..read] {
            if *byte == b'\n' || line.len() == MAX_LINE_BYTES {
                tell(&mut line);
            }
            if *byte != b'\n' {
                line.push(*byte);
            }
        }
    }
    tell(&mut line);
}

impl StdioTransport {
    /// Waits for the end of the program and of its process group, and for its last lines on stderr.
    async fn wait(&mut self, grace: Duration) {
        if let (Some(status), _) = self.group.end_within(grace).await {
            self.end
                .with(|known| known.status = Some(describe_status(status)));
        }
        let Some(mut listening) = self.listening.take() else {
            return;
        };
        let heard = tokio::time::timeout(STDERR_DRAIN_TIMEOUT, &mut listening).await;
        if heard.is_err() {
            // A process that it started still has its stderr open.
            listening.abort();
        }
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let sending = self.outgoing.send(message);
        async move {
            match sending.await {
                // The program has ended. Reading reports that, too, with the exit status.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                sent => sent,
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while let Ok(Some(line)) = self.lines.next().await {
            let message = match line {
                LineRead::Whole => self.message_parser.read(self.lines.line()),
                LineRead::TooLong(id) => self.message_parser.too_large(id),
            };
            if message.is_some() {
                return message;
            }
        }
        // The output is closed: the program has ended or is about to.
        self.wait(STDERR_DRAIN_TIMEOUT).await;
        None
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        let closed = self.outgoing.close().await;
        self.wait(EXIT_GRACE_PERIOD).await;
        closed
    }
}

impl Drop for StdioTransport {
    fn drop(&mut self) {
        if let Some(listening) = &self.listening {
            listening.abort();
        }
    }
}
