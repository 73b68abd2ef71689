//! A proxy between a client and a server, which injects faults.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a proxy does with data from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Forwards it.
    None,
    /// Accepts no connection, and ends those that exist.
    Refuse,
    /// Forwards nothing on any connection that exists then or is made, as long as this lasts.
    Hang,
    /// Never forwards anything again on the connections that exist; new ones work.
    Abandon,
    /// Forwards it after a delay.
    Delay(Duration),
    /// Ends the connection after so many bytes of a reply.
    Cut(usize),
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
    /// Bytes of replies that were forwarded.
    replied: AtomicUsize,
}

impl Shared {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
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
            replied: AtomicUsize::new(0),
        });
        let proxy = Self {
            port,
            shared: Arc::clone(&shared),
        };
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if shared.fault() == Fault::Refuse {
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
                let is_lost = Arc::new(AtomicBool::new(false));
                let (lost, known) = (Arc::clone(&is_lost), Arc::clone(&shared));
                thread::spawn(move || forward(from, to, &known, &lost));
                let shared = Arc::clone(&shared);
                thread::spawn(move || reply(server, client, &shared, &is_lost));
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
        if fault == Fault::Abandon {
            // Connections notice it before the next fault is set.
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The number of bytes of replies that were forwarded.
    #[must_use]
    pub fn replied(&self) -> usize {
        self.shared.replied.load(Ordering::Relaxed)
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

/// Forwards requests; ends with the connection. Sets `is_lost` if the reply to the last one is to be lost.
fn forward(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_lost: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if shared.loses_reply_to(&buffer[..read]) {
            is_lost.store(true, Ordering::Relaxed);
        }
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Forwards replies; ends with the connection.
fn reply(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_lost: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    let timeout = Some(Duration::from_millis(20));
    from.set_read_timeout(timeout).unwrap();
    let mut is_abandoned = false;
    loop {
        let is_idle = |error: &std::io::Error| {
            matches!(
                error.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            )
        };
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if is_idle(&error) => 0,
            Err(_) => break,
        };
        while shared.fault() == Fault::Hang {
            thread::sleep(Duration::from_millis(5));
        }
        let now = shared.fault();
        is_abandoned |= now == Fault::Abandon;
        let forwarded = match now {
            Fault::Refuse => break,
            _ if read > 0 && is_lost.load(Ordering::Relaxed) => break,
            Fault::Cut(bytes) if read > 0 => bytes.min(read),
            Fault::Delay(delay) if read > 0 => {
                thread::sleep(delay);
                read
            }
            _ => read,
        };
        shared.replied.fetch_add(forwarded, Ordering::Relaxed);
        if !is_abandoned && to.write_all(&buffer[..forwarded]).is_err() || forwarded < read {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
