//! The input of a client: read by the runtime where the operating system announces bytes, so that no thread has to be
//! switched to, and in blocking reads otherwise (files).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::output::{SystemStream, file};

pub(super) enum ClientInput {
    /// A pipe, a socket or a terminal.
    #[cfg(unix)]
    Announced(tokio::io::unix::AsyncFd<std::fs::File>),
    Blocking(tokio::fs::File),
}

impl ClientInput {
    /// Reads a stream, of which there must be no other reader.
    ///
    /// # Errors
    /// The process has too many open files.
    #[cfg_attr(
        unix,
        expect(
            deprecated,
            reason = "its replacement is `unsafe`; the file stays open while it is registered"
        )
    )]
    pub(super) fn new(stream: &impl SystemStream) -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::io::Interest;
            use tokio::io::unix::AsyncFd;
            // Bytes of a file are not announced.
            if let Ok(announced) = AsyncFd::with_interest(file(stream)?, Interest::READABLE) {
                return Ok(Self::Announced(announced));
            }
        }
        Ok(Self::Blocking(file(stream)?.into()))
    }
}

impl AsyncRead for ClientInput {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            #[cfg(unix)]
            Self::Announced(stream) => loop {
                use rustix::event::{PollFd, PollFlags, Timespec, poll};
                use rustix::io::Errno;

                let mut guard = std::task::ready!(stream.poll_read_ready(context))?;
                // The stream is not set to be non-blocking, because other programs may have it, too. A read blocks if there
                // is nothing.
                let stream = stream.get_ref();
                let mut ready = [PollFd::new(stream, PollFlags::IN)];
                let read = match poll(&mut ready, Some(&Timespec::default())) {
                    Ok(0) => Err(Errno::AGAIN),
                    Ok(_) => rustix::io::read(stream, buffer.initialize_unfilled()),
                    Err(error) => Err(error),
                };
                match read {
                    Ok(count) => {
                        buffer.advance(count);
                        return Poll::Ready(Ok(()));
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => guard.clear_ready(),
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
            },
            Self::Blocking(file) => Pin::new(file).poll_read(context, buffer),
        }
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(input: impl SystemStream) -> String {
        let mut read = String::new();
        let mut input = ClientInput::new(&input).unwrap();
        input.read_to_string(&mut read).await.unwrap();
        read
    }

    #[tokio::test]
    async fn pipes_sockets_and_files_are_read_to_their_end() {
        let text = "line\n".repeat(100_000);
        let written = text.clone();
        let write = move |mut to: Box<dyn Write + Send>| {
            let text = written.clone();
            std::thread::spawn(move || to.write_all(text.as_bytes()).unwrap())
        };
        let (reader, writer) = io::pipe().unwrap();
        let writing = write(Box::new(writer));
        assert_eq!(read(reader).await, text);
        writing.join().unwrap();
        let (near, far) = UnixStream::pair().unwrap();
        let writing = write(Box::new(far));
        assert_eq!(read(near).await, text);
        writing.join().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("input");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read(File::open(path).unwrap()).await, text);
    }
}
