//! The connections of a store. Calls share them: their statements are sent one after another without waiting for
//! answers, and the future of a call can be dropped at any time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cachalot_core::Secret;
use cachalot_store::{Error, ErrorKind};
use tokio::sync::Mutex;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{failure, layout, lookup};
use crate::liveness::Liveness;
use crate::url::StoreUrl;

/// Connections that reads share. Each is a process of the server.
const READERS: usize = 3;

/// Connections that writes share: a write may wait for the lock of a key, and others behind it with it.
const WRITERS: usize = 4;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time without data after which the server is asked if it is there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);

/// Maximum time for the server's machine to acknowledge data.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// A setting of the session, given when a connection is opened: a pooler in between refuses or drops it.
const MARK: &str = "cachalot.connection";

/// A server and the database on it.
pub struct Server {
    url: Secret<String>,
    /// Used if the URL has none.
    password: Option<Secret<String>>,
    /// The URL without the password.
    location: String,
}

impl Server {
    /// Reads a URL `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`; `password` is used if it has none.
    ///
    /// # Errors
    /// A message without the password.
    pub fn new(url: &StoreUrl, password: Option<&str>) -> Result<Self, String> {
        if let Some(fault) = url.fault() {
            return Err(format!("the URL of {} is invalid: {fault}", url.location()));
        }
        let server = Self {
            url: Secret::new(url.text().to_owned()),
            password: password.map(|password| Secret::new(password.to_owned())),
            location: url.location().to_owned(),
        };
        server.config().map(|_| server)
    }

    /// The URL without the password and the parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    pub(super) fn config(&self) -> Result<Config, String> {
        // The text of the error may contain parts of the URL.
        let mut config: Config = self.url.expose().parse().map_err(|_| {
            format!(
                "the URL of {} is invalid: check its port and its parameters (sslmode, connect_timeout, options)",
                self.location
            )
        })?;
        config.application_name("cachalot");
        if let (None, Some(password)) = (config.get_password(), &self.password) {
            config.password(password.expose());
        }
        // The client's default, `prefer`, goes on without TLS if the server, or a machine in between, declines it. A
        // server on this machine needs none, and often has a certificate that nobody signed.
        if config.get_ssl_mode() == SslMode::Prefer {
            config.ssl_mode(match is_local(&config) {
                true => SslMode::Disable,
                false => SslMode::Require,
            });
        }
        // A server that vanished without ending the connection is noticed.
        config.keepalives_idle(KEEPALIVE_AFTER);
        config.tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        Ok(config)
    }
}

/// True if connections stay on this machine.
fn is_local(config: &Config) -> bool {
    let mut hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    // An address takes the place of a host.
    let mut addresses = config.get_hostaddrs().iter().map(IpAddr::is_loopback);
    let names_any = hosts.len() + addresses.len() > 0;
    names_any && hosts.all(|is_local| is_local) && addresses.all(|is_local| is_local)
}

/// The work of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Waits for no lock.
    Read,
    /// May wait for a lock.
    Write,
}

/// An open connection.
pub(super) struct Open {
    pub(super) client: Client,
    pub(super) liveness: Liveness,
    /// The statement of [`lookup::prepare`]; `None` if there may be a pooler, which moves statements between connections to the server.
    pub(super) lookup: Option<Statement>,
}

impl Open {
    fn is_usable(&self) -> bool {
        !self.client.is_closed() && !self.liveness.is_silent()
    }
}

/// The connections of a store, each opened when it is first needed, and again after a failure.
pub(super) struct Connections {
    server: Server,
    readers: [Mutex<Option<Arc<Open>>>; READERS],
    writers: [Mutex<Option<Arc<Open>>>; WRITERS],
    next_writer: AtomicUsize,
    is_prepared: AtomicBool,
    /// True if there is a pooler in front of the server.
    is_pooled: AtomicBool,
}

impl Connections {
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
            readers: Default::default(),
            writers: Default::default(),
            next_writer: AtomicUsize::new(0),
            is_prepared: AtomicBool::new(false),
            is_pooled: AtomicBool::new(false),
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    pub(super) fn failure(&self, error: tokio_postgres::Error) -> Error {
        failure::failure(self.server.location(), error)
    }

    /// Returns a shared connection.
    pub(super) async fn get(&self, work: Work) -> Result<Arc<Open>, Error> {
        let place = match work {
            Work::Read => self.least_busy_reader(),
            Work::Write => {
                &self.writers[self.next_writer.fetch_add(1, Ordering::Relaxed) % WRITERS]
            }
        };
        let mut place = place.lock().await;
        if let Some(open) = place.as_ref().filter(|open| open.is_usable()) {
            return Ok(Arc::clone(open));
        }
        let (client, lookup) = match work {
            Work::Read => self.connect_for_lookups().await?,
            Work::Write => (self.connect(&self.config()?).await?, None),
        };
        let open = Arc::new(Open {
            client,
            liveness: Liveness::default(),
            lookup,
        });
        *place = Some(Arc::clone(&open));
        Ok(open)
    }

    /// Returns the place of the reader with the fewest calls under way. An idle connection comes before one that has to be
    /// opened, and that before a busy one.
    fn least_busy_reader(&self) -> &Mutex<Option<Arc<Open>>> {
        let calls = |place: &&Mutex<Option<Arc<Open>>>| match place.try_lock() {
            Ok(open) => open.as_ref().map_or(3, |open| 2 * Arc::strong_count(open)),
            // It is being opened.
            Err(_) => usize::MAX,
        };
        let least = self.readers.iter().min_by_key(calls);
        least.unwrap_or(&self.readers[0])
    }

    fn config(&self) -> Result<Config, Error> {
        let invalid = |message| Error::new(ErrorKind::Unsupported, message);
        self.server.config().map_err(invalid)
    }

    /// Connects, and prepares lookups unless there is a pooler.
    async fn connect_for_lookups(&self) -> Result<(Client, Option<Statement>), Error> {
        if self.is_pooled.load(Ordering::Relaxed) {
            return Ok((self.connect(&self.config()?).await?, None));
        }
        let mark = format!("{:016x}", RandomState::new().build_hasher().finish());
        let mut config = self.config()?;
        let options = config.get_options().unwrap_or_default();
        let options = format!("{options} -c {MARK}={mark}");
        config.options(options.trim_start());
        if let Ok(client) = self.connect(&config).await {
            let question = format!("SELECT 1 WHERE current_setting('{MARK}', true) = '{mark}'");
            let answer = client.query_typed(&question, &[]).await;
            if answer.is_ok_and(|rows| !rows.is_empty()) {
                let lookup = lookup::prepare(&client).await;
                return Ok((client, Some(lookup.map_err(|error| self.failure(error))?)));
            }
        }
        // Any other cause of the failure is found here.
        let client = self.connect(&self.config()?).await?;
        self.is_pooled.store(true, Ordering::Relaxed);
        Ok((client, None))
    }

    async fn connect(&self, config: &Config) -> Result<Client, Error> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.open(config)).await;
        let mut client = connected.map_err(|_| {
            let location = self.server.location();
            Error::new(
                ErrorKind::Unavailable,
                format!("{location} did not accept a connection within {CONNECT_TIMEOUT:?}"),
            )
        })??;
        if !self.is_prepared.load(Ordering::Acquire) {
            layout::prepare(&mut client, self.server.location()).await?;
            self.is_prepared.store(true, Ordering::Release);
        }
        Ok(client)
    }

    async fn open(&self, config: &Config) -> Result<Client, Error> {
        let failed = |error| self.failure(error);
        // The task of a connection ends with its client.
        if config.get_ssl_mode() == SslMode::Disable {
            let (client, connection) = config.connect(NoTls).await.map_err(failed)?;
            tokio::spawn(connection);
            return Ok(client);
        }
        let tls = MakeRustlsConnect::new(cachalot_storage::tls_config());
        let (client, connection) = config.connect(tls).await.map_err(failed)?;
        tokio::spawn(connection);
        Ok(client)
    }
}
