//! The way of a program in a sandbox to a proxy outside: the socket on which it listens is in the network namespace of
//! the sandbox, and was passed to it over a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The port of the proxy on the loopback interface of the sandbox, where nothing else listens before the program starts.
const PORT: u16 = 3128;
/// Variables by which programs find a proxy.
const NAMES: [&str; 6] = [
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
];
/// Variables that name the hosts to which programs connect without a proxy: those within the sandbox.
const EXCEPTIONS: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Returns the environment variables of a program that uses the proxy.
pub(super) fn variables() -> impl Iterator<Item = (&'static str, String)> {
    let proxy = format!("http://127.0.0.1:{PORT}");
    let own = "localhost,127.0.0.1,::1".to_owned();
    let proxies = NAMES.into_iter().map(move |name| (name, proxy.clone()));
    proxies.chain(EXCEPTIONS.into_iter().map(move |name| (name, own.clone())))
}

/// Listens in the network namespace of this process, for the proxy behind a Unix socket. The proxy serves the sandbox
/// until the stream is closed.
///
/// # Errors
/// If there is no proxy.
pub(super) fn listen(proxy: &Path) -> io::Result<UnixStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT))?;
    let stream = UnixStream::connect(proxy)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let sockets = [listener.as_fd()];
    message.push(SendAncillaryMessage::ScmRights(&sockets));
    // One byte goes along: a stream socket passes no descriptors without data.
    sendmsg(
        &stream,
        &[IoSlice::new(&[0])],
        &mut message,
        SendFlags::empty(),
    )?;
    Ok(stream)
}

/// Receives the socket on which a sandbox expects its proxy.
///
/// # Errors
/// If `stream` is not from a sandbox.
pub(crate) fn receive_listener(stream: impl AsFd) -> io::Result<TcpListener> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut bytes = [IoSliceMut::new(&mut byte)];
    recvmsg(stream, &mut bytes, &mut message, RecvFlags::CMSG_CLOEXEC)?;
    let sockets = message.drain().filter_map(|part| match part {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    let socket = sockets.flatten().next();
    Ok(TcpListener::from(socket.ok_or(io::ErrorKind::InvalidData)?))
}
