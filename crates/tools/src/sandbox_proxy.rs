//! The HTTP proxy of sandboxes whose programs reach some hosts only.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_sandbox::receive_listener;
use cachalot_storage::{AllowedHosts, Connection, GuardedClient, HttpClient, is_connection_header};
use http::header::HOST;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{client, server};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::{Position, Url};

type Body = BoxBody<Bytes, hyper::Error>;

/// The HTTP proxy of sandboxes, which are started with [`cachalot_sandbox::Network::Proxy`]. It connects their programs
/// to listed hosts only, and to no private address that the list does not contain. It ends when it is dropped.
#[derive(Debug)]
pub struct SandboxProxy {
    _sandboxes: JoinSet<()>,
}

/// Maximum number of connections of a sandbox; others wait.
const MAX_CONNECTIONS: usize = 128;

/// What the proxy connects to.
struct Destinations {
    hosts: AllowedHosts,
    client: GuardedClient,
}

/// A sandbox that is served.
#[derive(Clone)]
struct Sandbox {
    destinations: Arc<Destinations>,
    /// One for each connection that can be made.
    permits: Arc<Semaphore>,
    /// Cancelled at the end of the sandbox.
    end: CancellationToken,
}

impl SandboxProxy {
    /// Starts the proxy for the sandboxes that find it at a path, where a Unix socket is made.
    ///
    /// # Errors
    /// The socket cannot be made, or an entry of `hosts` is neither a host nor a network.
    pub fn start(socket: &Path, hosts: &[String], client: &HttpClient) -> io::Result<Self> {
        let hosts = AllowedHosts::parse(hosts).map_err(io::Error::other)?;
        // Names do not stand for private addresses: who answers for a name could let it be one.
        let private: Vec<_> = hosts.addresses().collect();
        let client = client.allowing(&private).map_err(io::Error::other)?;
        let destinations = Destinations {
            hosts,
            client: client.guarded(),
        };
        let listener = UnixListener::bind(socket)?;
        let mut sandboxes = JoinSet::new();
        sandboxes.spawn(serve(listener, Arc::new(destinations)));
        Ok(Self {
            _sandboxes: sandboxes,
        })
    }
}

/// Serves every sandbox that announces itself.
async fn serve(listener: UnixListener, destinations: Arc<Destinations>) {
    let mut sandboxes = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let destinations = Arc::clone(&destinations);
                    sandboxes.spawn(async move {
                        // A sandbox that ends before it is served.
                        let _ = serve_sandbox(stream, destinations).await;
                    });
                }
                // Too many open files: some may be closed soon.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            Some(_) = sandboxes.join_next() => {}
        }
    }
}

/// Serves the programs of a sandbox until it ends.
async fn serve_sandbox(stream: UnixStream, destinations: Arc<Destinations>) -> io::Result<()> {
    let listener = loop {
        stream.readable().await?;
        match stream.try_io(Interest::READABLE, || receive_listener(&stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => break received?,
        }
    };
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let sandbox = Sandbox {
        destinations,
        permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        end: CancellationToken::new(),
    };
    // Also if this is dropped.
    let _end = sandbox.end.clone().drop_guard();
    // The permit comes first: connections above the limit wait in the queue of the system.
    let accept = async || {
        let permit = Arc::clone(&sandbox.permits).acquire_owned().await;
        (permit, listener.accept().await)
    };
    loop {
        tokio::select! {
            _ = stream.readable() => match stream.try_read(&mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The end: nothing else is sent.
                _ => return Ok(()),
            },
            (permit, accepted) = accept() => match (permit, accepted) {
                (Ok(permit), Ok((program, _))) => {
                    sandbox.spawn(serve_connection(program, sandbox.clone(), Arc::new(permit)));
                }
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

impl Sandbox {
    /// Runs a task that ends with the sandbox.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        tokio::spawn(async move { end.run_until_cancelled(task).await });
    }
}

/// A connection counts until its tunnel ends, too.
type Permit = Arc<OwnedSemaphorePermit>;

async fn serve_connection(stream: TcpStream, sandbox: Sandbox, permit: Permit) {
    let service = service_fn(move |request| {
        let (sandbox, permit) = (sandbox.clone(), Arc::clone(&permit));
        async move { Ok::<_, Infallible>(answer(request, &sandbox, permit).await) }
    });
    let connection = server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // The client has gone.
    let _ = connection.await;
}

/// Answers a request of a program: connects it to the host, or sends its request there.
async fn answer(request: Request<Incoming>, sandbox: &Sandbox, permit: Permit) -> Response<Body> {
    let destinations = &sandbox.destinations;
    let is_tunnel = request.method() == Method::CONNECT;
    let Some(url) = target(request.uri(), is_tunnel) else {
        return refusal(
            StatusCode::BAD_REQUEST,
            "this is the proxy of a sandbox: a request names a host by CONNECT or an http:// address",
        );
    };
    if !destinations.hosts.allows(&url) {
        let host = url.host_str().unwrap_or_default();
        return refusal(
            StatusCode::FORBIDDEN,
            &format!("the sandbox does not permit to connect to {host}; the user can permit it"),
        );
    }
    // The check above is about the name. The client checks the addresses to which the name resolves.
    let connection = match destinations.client.connect(&url).await {
        Ok(connection) => connection,
        Err(error) => return refusal(StatusCode::BAD_GATEWAY, &error.to_string()),
    };
    if is_tunnel {
        sandbox.spawn(tunnel(request, connection, permit));
        return Response::new(text(""));
    }
    match forward(request, &url, connection, sandbox).await {
        Ok(response) => response.map(BodyExt::boxed),
        Err(error) => refusal(StatusCode::BAD_GATEWAY, &error.to_string()),
    }
}

/// Returns the address that a request names.
fn target(uri: &Uri, is_tunnel: bool) -> Option<Url> {
    if is_tunnel {
        // Most tunnels are for TLS; the port is always written.
        Url::parse(&format!("https://{}", uri.authority()?)).ok()
    } else {
        Url::parse(&uri.to_string())
            .ok()
            .filter(|url| url.scheme() == "http")
    }
}

/// Passes bytes on in both directions, until both sides have ended.
async fn tunnel(request: Request<Incoming>, mut connection: Connection, _permit: Permit) {
    if let Ok(program) = hyper::upgrade::on(request).await {
        // A side that breaks off.
        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(program), &mut connection).await;
    }
}

/// Sends a request to its host. Headers for the proxy itself stay here.
async fn forward(
    mut request: Request<Incoming>,
    url: &Url,
    connection: Connection,
    sandbox: &Sandbox,
) -> hyper::Result<Response<Incoming>> {
    let (mut sender, sending) = client::conn::http1::handshake(TokioIo::new(connection)).await?;
    sandbox.spawn(async move {
        // The response reports it.
        let _ = sending.await;
    });
    let headers = request.headers_mut();
    let own: Vec<_> = headers
        .keys()
        .filter(|name| is_connection_header(name))
        .cloned()
        .collect();
    for name in own {
        headers.remove(name);
    }
    let [host, path] = [
        &url[Position::BeforeHost..Position::AfterPort],
        &url[Position::BeforePath..Position::AfterQuery],
    ];
    // Made from the URL that was checked: the header of the program may name a host that is not permitted.
    if let Ok(host) = HeaderValue::try_from(host) {
        headers.insert(HOST, host);
    }
    if let Ok(path) = Uri::try_from(path) {
        *request.uri_mut() = path;
    }
    sender.send_request(request).await
}

fn refusal(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = Response::new(text(&format!("cachalot: {message}\n")));
    *response.status_mut() = status;
    response
}

fn text(text: &str) -> Body {
    let body = Full::new(Bytes::from(text.to_owned()));
    body.map_err(|never| match never {}).boxed()
}
