//! A proxy between a client and a server, which injects faults.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a proxy does with data from the server.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Forwards it.
    None,
    /// Accepts no connection, and ends those that exist.
    Refuse,
    /// Forwards nothing on any connection that exists then or is made, as long as this lasts.
    Hang,
    /// Forwards nothing on the connections that are made as long as this lasts; those that exist work.
    HangNew,
    /// Never forwards anything again on the connections that exist; new ones work.
    Abandon,
    /// Forwards it after a delay.
    Delay(Duration),
    /// Forwards it when all requests of the client have reached the server, and this returns true: the client sends
    /// nothing until it has a reply.
    WhenIdle(fn() -> bool),
    /// Ends the connection after so many bytes of a reply.
    Cut(usize),
    /// Ends the connection in place of the next reply, and becomes [`Fault::None`].
    LoseNextReply,
    /// Ends the connection in place of the reply to the next HTTP request with this method, and becomes
    /// [`Fault::None`].
    LoseReply(&'static str),
}

/// A running proxy, for the rest of the process.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
}

/// State that the connections of a proxy share.
#[derive(Debug)]
struct Shared {
    /// The port of the server for new connections.
    server: AtomicU16,
    fault: Mutex<Fault>,
    clients: Mutex<Vec<TcpStream>>,
    /// Bytes of replies that were forwarded.
    replied: AtomicUsize,
    /// Connections that were not accepted.
    refused: AtomicUsize,
    /// Requests that were not sent before the reply to an earlier one.
    round_trips: AtomicUsize,
}

/// State of one connection.
#[derive(Debug, Default)]
struct Connection {
    /// True if the reply to the last request is to be lost.
    is_lost: AtomicBool,
    /// True if the client has got nothing since its last request.
    is_asked: AtomicBool,
    /// True while a request that was read is not yet forwarded.
    is_forwarding: AtomicBool,
    /// True if the connection was made under [`Fault::HangNew`].
    is_new: bool,
}

impl Shared {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }

    /// Returns true if the next reply is to be lost.
    fn loses_next_reply(&self) -> bool {
        let mut fault = self.fault.lock().unwrap();
        let loses = matches!(*fault, Fault::LoseNextReply);
        if loses {
            *fault = Fault::None;
        }
        loses
    }

    /// Returns true if the reply to this request is to be lost.
    fn loses_reply_to(&self, request: &[u8]) -> bool {
        let mut fault = self.fault.lock().unwrap();
        match *fault {
            Fault::LoseReply(method) if request.starts_with(method.as_bytes()) => {
                *fault = Fault::None;
                true
            }
            _ => false,
        }
    }
}

impl FaultProxy {
    /// Starts a proxy in front of a port on the loopback interface.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            server: AtomicU16::new(server),
            fault: Mutex::new(Fault::None),
            clients: Mutex::default(),
            replied: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            round_trips: AtomicUsize::new(0),
        });
        let proxy = Self {
            port,
            shared: Arc::clone(&shared),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if matches!(shared.fault(), Fault::Refuse) {
                    shared.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let Ok(server) =
                    TcpStream::connect(("127.0.0.1", shared.server.load(Ordering::Relaxed)))
                else {
                    continue;
                };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let known = client.try_clone().unwrap();
                shared.clients.lock().unwrap().push(known);
                let connection = Arc::new(Connection {
                    is_new: matches!(shared.fault(), Fault::HangNew),
                    ..Connection::default()
                });
                let (own, known) = (Arc::clone(&connection), Arc::clone(&shared));
                thread::spawn(move || forward(from, to, &known, &own));
                let shared = Arc::clone(&shared);
                thread::spawn(move || reply(server, client, &shared, &connection));
            }
        });
        proxy
    }

    /// Leads new connections to another port; those that exist stay.
    pub fn lead_to(&self, server: u16) {
        self.shared.server.store(server, Ordering::Relaxed);
    }

    /// Sets what happens from now on.
    ///
    /// # Panics
    /// If a thread of the proxy has panicked.
    pub fn set(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = fault;
        if matches!(fault, Fault::Abandon) {
            // Connections notice it before the next fault is set.
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends all connections that exist; new ones work.
    ///
    /// # Panics
    /// If a thread of the proxy has panicked.
    pub fn end_connections(&self) {
        for connection in self.shared.clients.lock().unwrap().drain(..) {
            // It may have ended before.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// The number of bytes of replies that were forwarded.
    #[must_use]
    pub fn replied(&self) -> usize {
        self.shared.replied.load(Ordering::Relaxed)
    }

    /// The number of connections that were refused.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// The number of requests that were not sent before the reply to an earlier one, on all connections.
    #[must_use]
    pub fn round_trips(&self) -> usize {
        self.shared.round_trips.load(Ordering::Relaxed)
    }

    /// The port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL with the proxy's port in place of the server's.
    #[must_use]
    pub fn url(&self, url: &str, server: u16) -> String {
        url.replace(&format!(":{server}"), &format!(":{}", self.port))
    }
}

/// Forwards requests; ends with the connection.
fn forward(mut from: TcpStream, mut to: TcpStream, shared: &Shared, connection: &Connection) {
    let mut buffer = [0; 16 << 10];
    from.set_read_timeout(Some(IDLE)).unwrap();
    loop {
        // Data stays unread until it is marked as being forwarded: see `has_forwarded`.
        match from.peek(&mut buffer) {
            Ok(1..) => connection.is_forwarding.store(true, Ordering::SeqCst),
            Err(error) if is_idle(&error) => continue,
            Ok(0) | Err(_) => break,
        }
        let Ok(read @ 1..) = from.read(&mut buffer) else {
            break;
        };
        if shared.loses_reply_to(&buffer[..read]) {
            connection.is_lost.store(true, Ordering::Relaxed);
        }
        if !connection.is_asked.swap(true, Ordering::SeqCst) {
            shared.round_trips.fetch_add(1, Ordering::Relaxed);
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
        connection.is_forwarding.store(false, Ordering::SeqCst);
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// The timeout of reads, after which the state is looked at.
const IDLE: Duration = Duration::from_millis(20);

fn is_idle(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
    )
}

/// Returns true if everything that a client has sent was forwarded.
fn has_forwarded(client: &TcpStream, connection: &Connection) -> bool {
    // In this order: what is no longer unread is marked.
    let is_read = client.peek(&mut [0]).is_err_and(|error| is_idle(&error));
    is_read && !connection.is_forwarding.load(Ordering::SeqCst)
}

/// Forwards replies; ends with the connection.
fn reply(mut from: TcpStream, mut to: TcpStream, shared: &Shared, connection: &Connection) {
    let mut buffer = [0; 16 << 10];
    from.set_read_timeout(Some(IDLE)).unwrap();
    let mut is_abandoned = false;
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if is_idle(&error) => 0,
            Err(_) => break,
        };
        let hangs = |fault| match fault {
            Fault::Hang => true,
            Fault::HangNew => connection.is_new,
            _ => false,
        };
        while hangs(shared.fault()) {
            thread::sleep(Duration::from_millis(5));
        }
        let now = shared.fault();
        is_abandoned |= matches!(now, Fault::Abandon);
        let forwarded = match now {
            Fault::Refuse => break,
            _ if read > 0 && connection.is_lost.load(Ordering::Relaxed) => break,
            _ if read > 0 && shared.loses_next_reply() => break,
            Fault::Cut(bytes) if read > 0 => bytes.min(read),
            Fault::Delay(delay) if read > 0 => {
                thread::sleep(delay);
                read
            }
            Fault::WhenIdle(is_client_idle) if read > 0 => {
                while !(is_client_idle() && has_forwarded(&to, connection)) {
                    thread::sleep(Duration::from_millis(1));
                }
                read
            }
            _ => read,
        };
        if forwarded > 0 {
            connection.is_asked.store(false, Ordering::SeqCst);
        }
        shared.replied.fetch_add(forwarded, Ordering::Relaxed);
        if !is_abandoned && to.write_all(&buffer[..forwarded]).is_err() || forwarded < read {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
