//! The reading end of a pipe, for async code.

use std::io;

#[cfg(unix)]
mod readable {
    use std::io;
    use std::os::fd::OwnedFd;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::unix::pipe::Receiver;

    /// The reading end.
    pub(in crate::builtin::shell) struct OutputReader(Receiver);

    impl OutputReader {
        pub(super) fn new(reader: io::PipeReader) -> io::Result<Self> {
            Ok(Self(Receiver::from_owned_fd(OwnedFd::from(reader))?))
        }

        /// Reads the available bytes; returns 0 at the end. Cancellation safe.
        pub(in crate::builtin::shell) async fn read(
            &mut self,
            buffer: &mut [u8],
        ) -> io::Result<usize> {
            self.0.read(buffer).await
        }
    }
}

#[cfg(not(unix))]
mod readable {
    use std::io::{self, Read as _};

    use tokio::sync::mpsc;

    /// The reading end, read by a thread of its own, because such pipes cannot be polled on this platform.
    pub(in crate::builtin::shell) struct OutputReader {
        chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
        rest: Vec<u8>,
    }

    impl OutputReader {
        pub(super) fn new(mut reader: io::PipeReader) -> io::Result<Self> {
            let (send, chunks) = mpsc::channel(4);
            std::thread::Builder::new().spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                loop {
                    let read = reader.read(&mut buffer).map(|read| buffer[..read].to_vec());
                    let last = !matches!(&read, Ok(bytes) if !bytes.is_empty());
                    if send.blocking_send(read).is_err() || last {
                        return;
                    }
                }
            })?;
            Ok(Self {
                chunks,
                rest: Vec::new(),
            })
        }

        /// Reads the available bytes; returns 0 at the end. Cancellation safe.
        pub(in crate::builtin::shell) async fn read(
            &mut self,
            buffer: &mut [u8],
        ) -> io::Result<usize> {
            if self.rest.is_empty() {
                match self.chunks.recv().await {
                    Some(chunk) => self.rest = chunk?,
                    None => return Ok(0),
                }
            }
            let read = self.rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&self.rest[..read]);
            self.rest.drain(..read);
            Ok(read)
        }
    }
}

pub(super) use readable::OutputReader;

/// Creates the pipe for stdout and stderr of a command.
pub(super) fn pipe() -> io::Result<(OutputReader, io::PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    Ok((OutputReader::new(reader)?, writer))
}
