//! The output to a client: written at once where that cannot block, and by a thread otherwise.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// A stream that the operating system knows.
#[cfg(unix)]
pub(super) use std::os::fd::AsFd as SystemStream;
#[cfg(windows)]
pub(super) use std::os::windows::io::AsHandle as SystemStream;

/// Lines that wait to be written.
const WAITING: usize = 64;

/// The way in which a stream is written without blocking.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(windows, expect(dead_code, reason = "the thread writes everything"))]
enum DirectWrites {
    Pipe,
    Socket,
    /// There is none.
    Never,
}

/// The output to a client. Clones share it; it ends with the last one.
#[derive(Clone)]
pub(super) struct ClientOutput {
    /// Lines for the thread.
    lines: mpsc::Sender<Vec<u8>>,
    stream: Arc<File>,
    direct: DirectWrites,
    /// Number of lines that the thread has not written yet, which come first. Held while a line is written at once.
    queued: Arc<Mutex<usize>>,
}

impl ClientOutput {
    /// Starts the thread.
    ///
    /// # Errors
    /// The stream cannot be used, or there can be no thread.
    pub(super) fn start(output: &impl SystemStream) -> io::Result<(Self, JoinHandle<()>)> {
        let (lines, waiting) = mpsc::channel(WAITING);
        let stream = file(output)?;
        let this = Self {
            lines,
            direct: DirectWrites::of(&stream),
            stream: Arc::new(stream),
            queued: Arc::default(),
        };
        let (stream, queued) = (Arc::clone(&this.stream), Arc::clone(&this.queued));
        let writer = thread::Builder::new().name("client-output".to_owned());
        let writer = writer.spawn(move || write(&stream, waiting, &queued))?;
        Ok((this, writer))
    }

    /// Writes a message on a line, behind those that were sent before. Returns false if the client reads nothing more.
    pub(super) async fn send(&self, message: Bytes) -> bool {
        let mut line = Vec::with_capacity(message.len() + 1);
        line.extend_from_slice(&message);
        line.push(b'\n');
        {
            let mut queued = self.queued.lock();
            if *queued == 0 {
                let written = self.direct.write(&self.stream, &line);
                if written == line.len() {
                    return true;
                }
                line.drain(..written);
                // Nothing waits, so that there is room: the rest of a line must be the next that is written.
                match self.lines.try_send(line) {
                    Ok(()) => *queued += 1,
                    Err(_) => return false,
                }
                return true;
            }
        }
        let Ok(place) = self.lines.reserve().await else {
            return false;
        };
        *self.queued.lock() += 1;
        place.send(line);
        true
    }

    /// Waits until the client reads nothing more.
    pub(super) async fn closed(&self) {
        self.lines.closed().await;
    }
}

#[cfg(unix)]
impl DirectWrites {
    fn of(stream: &File) -> Self {
        use rustix::fs::{FileType, fstat};

        match fstat(stream).map(|status| FileType::from_raw_mode(status.st_mode)) {
            Ok(FileType::Fifo) => Self::Pipe,
            Ok(FileType::Socket) => Self::Socket,
            _ => Self::Never,
        }
    }

    /// Writes what the stream takes without blocking, and returns the number of bytes. A client that is gone is noticed by
    /// the thread.
    fn write(self, stream: &File, line: &[u8]) -> usize {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::net::{SendFlags, send};

        let is_ready = || {
            let mut ready = [PollFd::new(stream, PollFlags::OUT)];
            let count = poll(&mut ready, Some(&Timespec::default()));
            count == Ok(1) && ready[0].revents() == PollFlags::OUT
        };
        let written = match self {
            Self::Socket => send(stream, line, SendFlags::DONTWAIT),
            // A pipe that is ready takes this many bytes in one piece (POSIX, `write`).
            Self::Pipe if line.len() <= rustix::pipe::PIPE_BUF && is_ready() => {
                rustix::io::write(stream, line)
            }
            Self::Pipe | Self::Never => Ok(0),
        };
        written.unwrap_or(0)
    }
}

#[cfg(windows)]
impl DirectWrites {
    fn of(_: &File) -> Self {
        Self::Never
    }

    fn write(self, _: &File, _: &[u8]) -> usize {
        0
    }
}

/// Returns the stream as a file that reads and writes without a buffer.
///
/// # Errors
/// The process has too many open files.
pub(super) fn file(stream: &impl SystemStream) -> io::Result<File> {
    #[cfg(unix)]
    let stream = stream.as_fd().try_clone_to_owned()?;
    #[cfg(windows)]
    let stream = stream.as_handle().try_clone_to_owned()?;
    Ok(stream.into())
}

/// Writes lines until there are no more senders or the reader is gone.
fn write(stream: &File, mut lines: mpsc::Receiver<Vec<u8>>, queued: &Mutex<usize>) {
    while let Some(line) = lines.blocking_recv() {
        if write_all(stream, &line).is_err() {
            return;
        }
        *queued.lock() -= 1;
    }
}

fn write_all(mut stream: &File, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => rest = &rest[count..],
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                // The client has set the stream to be non-blocking.
                #[cfg(unix)]
                io::ErrorKind::WouldBlock => {
                    use rustix::event::{PollFd, PollFlags, poll};
                    // An interrupted wait is one that is repeated.
                    let _ = poll(&mut [PollFd::new(&stream, PollFlags::OUT)], None);
                }
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read};
    use std::os::unix::net::UnixStream;

    use futures_util::FutureExt as _;
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

    use super::*;

    fn message(number: usize) -> String {
        let sizes = [10, 300, 4_095, 4_096, 9, 100_000, 8, 511, 3_000];
        format!("{number} {}", "x".repeat(sizes[number % sizes.len()]))
    }

    /// Sends messages that nothing reads until one has to wait, and returns their number and the end of the output.
    fn fill(output: &impl SystemStream) -> (usize, JoinHandle<()>) {
        let (output, thread) = ClientOutput::start(output).unwrap();
        let sent = (0..).take_while(|number| {
            let sent = output.send(message(*number).into()).now_or_never();
            sent.is_some_and(|is_sent| is_sent)
        });
        (sent.count(), thread)
    }

    fn check(sent: usize, reader: impl Read) {
        // More than there is room for in the queue.
        assert!(sent > WAITING, "{sent}");
        let lines = BufReader::new(reader).lines().map(Result::unwrap);
        assert!(lines.eq((0..sent).map(message)));
    }

    #[test]
    fn messages_of_all_sizes_arrive_whole_and_in_order() {
        for is_blocking in [true, false] {
            let (reader, writer) = io::pipe().unwrap();
            let (near, far) = UnixStream::pair().unwrap();
            if !is_blocking {
                let flags = fcntl_getfl(&writer).unwrap();
                fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
                near.set_nonblocking(true).unwrap();
            }
            let (of_pipe, pipe) = fill(&writer);
            let (of_socket, socket) = fill(&near);
            drop((writer, near));
            check(of_pipe, reader);
            check(of_socket, far);
            pipe.join().unwrap();
            socket.join().unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_noticed() {
        let (reader, writer) = io::pipe().unwrap();
        let (output, thread) = ClientOutput::start(&writer).unwrap();
        assert!(output.send("a".into()).await);
        drop(reader);
        while output.send("b".into()).await {}
        output.closed().await;
        thread.join().unwrap();
    }
}
