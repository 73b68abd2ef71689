//! The outputs of a running program.

use std::io::{self, PipeReader};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::{Error, Stream, Streams};

/// After the end of the program: the pause in the output of other processes that ends the reading, and the
/// maximum time to wait for that pause.
const QUIET_PERIOD: Duration = Duration::from_millis(200);
const MAX_DRAIN_TIME: Duration = Duration::from_secs(1);

/// Maximum number of bytes per read.
const MAX_READ_BYTES: usize = 64 << 10;

/// Connects the outputs of a command. Returns the reading end of a pipe that both share.
pub(super) fn connect(command: &mut Command, streams: Streams) -> io::Result<Option<PipeReader>> {
    let stderr = match streams {
        Streams::Separate => Stdio::piped(),
        Streams::StdoutOnly => Stdio::null(),
        Streams::Merged => {
            let (reader, writer) = io::pipe()?;
            // The command owns the writing ends. It is dropped after the start, so that the reader sees the end of the
            // output.
            command.stdout(writer.try_clone()?).stderr(writer);
            return Ok(Some(reader));
        }
    };
    command.stdout(Stdio::piped()).stderr(stderr);
    Ok(None)
}

/// The outputs, as far as they are open.
pub(super) struct Outputs {
    stdout: Pipe,
    stderr: Pipe,
    limit: Option<usize>,
}

impl Outputs {
    /// Takes the outputs of a program; `merged` replaces its stdout.
    pub(super) fn new(
        child: &mut Child,
        merged: Option<PipeReader>,
        limit: Option<usize>,
    ) -> io::Result<Self> {
        let stdout = match merged {
            Some(reader) => Some(asynchronous(reader)?),
            None => child.stdout.take().map(boxed),
        };
        let stderr = child.stderr.take().map(boxed);
        Ok(Self {
            stdout: Pipe::new(Stream::Stdout, stdout),
            stderr: Pipe::new(Stream::Stderr, stderr),
            limit,
        })
    }

    /// Reads until all outputs are closed. Cancellation safe: every byte that was read is passed on.
    pub(super) async fn read_to_end(
        &mut self,
        sink: &mut impl FnMut(Stream, &[u8]),
    ) -> Result<(), Error> {
        while self.read(sink).await? {}
        Ok(())
    }

    /// Reads the remaining output after the end of the program; returns true if an output is still open then.
    pub(super) async fn drain(
        &mut self,
        sink: &mut impl FnMut(Stream, &[u8]),
    ) -> Result<bool, Error> {
        let reading = async {
            loop {
                match timeout(QUIET_PERIOD, self.read(sink)).await {
                    Err(_) => return Ok(true),
                    Ok(Ok(true)) => {}
                    Ok(read) => return read,
                }
            }
        };
        timeout(MAX_DRAIN_TIME, reading).await.unwrap_or(Ok(true))
    }

    /// Reads what is available; returns false if all outputs are closed.
    async fn read(&mut self, sink: &mut impl FnMut(Stream, &[u8])) -> Result<bool, Error> {
        let Self {
            stdout,
            stderr,
            limit,
        } = self;
        let pipe = tokio::select! {
            read = stdout.read(), if stdout.is_open() => { read?; stdout }
            read = stderr.read(), if stderr.is_open() => { read?; stderr }
            else => return Ok(false),
        };
        if !pipe.bytes.is_empty() {
            sink(pipe.stream, &pipe.bytes);
        }
        match *limit {
            Some(limit) if pipe.total > limit => Err(Error::TooMuchOutput {
                stream: pipe.stream,
                limit,
            }),
            _ => Ok(true),
        }
    }
}

type Reader = Box<dyn AsyncRead + Send + Unpin>;

fn boxed(reader: impl AsyncRead + Send + Unpin + 'static) -> Reader {
    Box::new(reader)
}

/// One output.
struct Pipe {
    stream: Stream,
    /// `None` after it was closed.
    reader: Option<Reader>,
    /// The bytes of the last read.
    bytes: Vec<u8>,
    /// The number of bytes that were read.
    total: usize,
}

impl Pipe {
    fn new(stream: Stream, reader: Option<Reader>) -> Self {
        Self {
            stream,
            reader,
            bytes: Vec::new(),
            total: 0,
        }
    }

    fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Reads the available bytes into `bytes`; none at the end. Cancellation safe.
    async fn read(&mut self) -> Result<(), Error> {
        self.bytes.clear();
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        self.bytes.reserve(MAX_READ_BYTES);
        let read = reader
            // Dropping this future loses no byte: `Outputs::read` waits for two pipes, and drops the other one.
            .read_buf(&mut self.bytes)
            .await
            .map_err(Error::Pipe)?;
        self.total = self.total.saturating_add(read);
        if read == 0 {
            self.reader = None;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn asynchronous(reader: PipeReader) -> io::Result<Reader> {
    let descriptor = std::os::fd::OwnedFd::from(reader);
    tokio::net::unix::pipe::Receiver::from_owned_fd(descriptor).map(boxed)
}

/// Such pipes cannot be polled on this platform: a thread reads them.
#[cfg(not(unix))]
fn asynchronous(reader: PipeReader) -> io::Result<Reader> {
    let handle = std::os::windows::io::OwnedHandle::from(reader);
    Ok(boxed(tokio::fs::File::from_std(std::fs::File::from(
        handle,
    ))))
}
