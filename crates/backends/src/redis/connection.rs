//! The connections of a store. Calls share them: they are sent one after another without waiting for replies, and the
//! future of a call can be dropped at any time.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cachalot_store::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind as RedisErrorKind, RedisError, Script, Value,
};
use redis::{ConnectionInfo, IntoConnectionInfo as _, ServerErrorKind};
use tokio::sync::Mutex;

use super::record;
use super::server_info::ServerInfo;
use crate::liveness::Liveness;
use crate::url::StoreUrl;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time of a call. Callers have limits of their own, which are shorter.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The time without data after which the server is asked if it is there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);

/// Maximum time for the server's machine to acknowledge data.
#[cfg(any(target_os = "android", target_os = "linux"))]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time for replicas to acknowledge a write, in milliseconds.
const REPLICATION_TIMEOUT: u32 = 2000;

/// The operations that write, as a script.
static SCRIPT: &str = include_str!("store.lua");

/// Returns the command that executes the script; arguments follow.
fn script() -> Cmd {
    static HASH: OnceLock<String> = OnceLock::new();
    let hash = HASH.get_or_init(|| Script::new(SCRIPT).get_hash().to_owned());
    let mut command = redis::cmd("EVALSHA");
    command.arg(hash).arg(0);
    command
}

/// A server, and the number of the database on it.
pub struct Server {
    /// Without the number of the database: the client hides the cause if the server refuses to select it.
    info: ConnectionInfo,
    database: i64,
    location: String,
}

impl Server {
    /// Reads a URL `redis://USER:PASSWORD@HOST:PORT/NUMBER`, `rediss://` for TLS, or `unix:/PATH?db=NUMBER`;
    /// `password` is used if it has none.
    ///
    /// # Errors
    /// A message without the password.
    pub fn new(url: &StoreUrl, password: Option<&str>) -> Result<Self, String> {
        let invalid = |fault| format!("the URL of {} is invalid: {fault}", url.location());
        if let Some(fault) = url.fault() {
            return Err(invalid(fault));
        }
        // The text of the error may contain parts of the URL.
        let info = url.text().into_connection_info();
        let mut info = info.map_err(|_| {
            invalid("write redis://HOST:6379/0 or unix:/PATH?db=0, with the number of the database")
        })?;
        let mut settings = info.redis_settings().clone();
        let database = settings.db();
        settings = settings.set_db(0);
        if let (None, Some(password)) = (settings.password(), password) {
            settings = settings.set_password(password);
        }
        info = info.set_redis_settings(settings);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(TcpKeepalive::new().with_time(KEEPALIVE_AFTER));
        #[cfg(any(target_os = "android", target_os = "linux"))]
        let tcp = tcp.set_user_timeout(UNACKNOWLEDGED_TIMEOUT);
        Ok(Self {
            info: info.set_tcp_settings(tcp),
            database,
            location: url.location().to_owned(),
        })
    }

    /// The URL without the password and the parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }
}

/// An open connection, and the identity of the server process that it leads to.
#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    identity: Arc<str>,
    liveness: Liveness,
}

impl Open {
    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        let sent = self.connection.send_packed_command(command);
        self.liveness.watch(sent).await
    }
}

/// A connection, opened when it is first needed, and again after a failure.
pub(super) struct Connection {
    server: Arc<Server>,
    current: Mutex<Option<Open>>,
}

/// The replies of a read.
pub(super) struct Read {
    /// The server's time.
    pub(super) time: Value,
    /// The reply to the command.
    pub(super) reply: Value,
    /// The identity of the server process that answered.
    pub(super) identity: Arc<str>,
}

impl Connection {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            current: Mutex::default(),
        }
    }

    /// Executes the script with arguments, behind the identity of the server process.
    pub(super) async fn run(&self, arguments: &[Vec<u8>]) -> Result<Value, Error> {
        let mut open = self.get().await?;
        self.execute(&mut open, arguments).await
    }

    async fn execute(&self, open: &mut Open, arguments: &[Vec<u8>]) -> Result<Value, Error> {
        let command = command(open, arguments);
        let mut done = open.send(&command).await;
        if is_without_script(&done) {
            done = match load(open).await {
                Ok(_) => open.send(&command).await,
                failed => failed,
            };
        }
        self.finish(done).await
    }

    /// Executes the script like [`Connection::run`], and waits until the replicas that are connected have the result.
    /// It keeps other calls of this connection waiting.
    pub(super) async fn run_confirmed(&self, arguments: &[Vec<u8>]) -> Result<Value, Error> {
        let mut open = self.get().await?;
        let done = self.execute(&mut open, arguments).await?;
        let mut info = redis::cmd("INFO");
        info.arg("replication");
        let info = self.finish(open.send(&info).await).await?;
        let replicas = ServerInfo::read(info)?.replicas();
        if replicas == 0 {
            return Ok(done);
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(REPLICATION_TIMEOUT);
        let confirmed = open.send(&wait).await;
        match self.finish(confirmed).await? {
            Value::Int(count) if u64::try_from(count).is_ok_and(|count| count >= replicas) => {
                Ok(done)
            }
            _ => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "not all {replicas} replicas of {} have confirmed a write within {REPLICATION_TIMEOUT} ms",
                    self.server.location
                ),
            )),
        }
    }

    /// Executes `TIME` and a command in one round trip.
    pub(super) async fn read(&self, command: Cmd) -> Result<Read, Error> {
        let mut open = self.get().await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME").add_command(command);
        let sent = open.connection.send_packed_commands(&pipeline, 0, 2);
        let replies = open.liveness.watch(sent).await;
        let mut replies = match replies {
            Ok(replies) => replies.into_iter(),
            Err(error) => return Err(self.failed(error).await),
        };
        let mut next = || replies.next().unwrap_or(Value::Nil).extract_error();
        let (time, reply) = (next(), next());
        Ok(Read {
            time: self.finish(time).await?,
            reply: self.finish(reply).await?,
            identity: open.identity,
        })
    }

    async fn get(&self) -> Result<Open, Error> {
        let mut current = self.current.lock().await;
        if let Some(open) = current.as_ref().filter(|open| !open.liveness.is_silent()) {
            return Ok(open.clone());
        }
        let open = self.connect().await?;
        *current = Some(open.clone());
        Ok(open)
    }

    async fn connect(&self) -> Result<Open, Error> {
        let location = &self.server.location;
        // The provider of cryptography is one for the process.
        let _ = cachalot_storage::tls_config();
        let client = Client::open(self.server.info.clone());
        let client = client.map_err(|error| self.failure(error))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connection.await.map_err(|error| self.failure(error))?;
        let mut select = redis::cmd("SELECT");
        select.arg(self.server.database);
        let mut layout = redis::cmd("GET");
        layout.arg("cachalot:layout");
        let mut replies = Vec::new();
        for command in [select, layout, redis::cmd("INFO")] {
            let done = connection.send_packed_command(&command).await;
            let done = done.and_then(Value::extract_error);
            replies.push(done.map_err(|error| self.failure(error))?);
        }
        let info = ServerInfo::read(replies.pop().unwrap_or(Value::Nil))?;
        info.check(location)?;
        if replies.pop().map_or(Ok(0), record::count)? > record::VERSION.into() {
            return Err(Error::new(
                ErrorKind::TooNew,
                format!("{location} was written by a newer version of Cachalot: update Cachalot"),
            ));
        }
        Ok(Open {
            connection,
            identity: info.identity(location)?.into(),
            liveness: Liveness::default(),
        })
    }

    /// Converts the result of a command.
    async fn finish(&self, done: Result<Value, RedisError>) -> Result<Value, Error> {
        match done.and_then(Value::extract_error) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Converts an error of a command. A failed connection, and one to a server that has become a replica, is not used
    /// again.
    async fn failed(&self, error: RedisError) -> Error {
        let is_read_only = error.code() == Some("READONLY");
        if error.is_unrecoverable_error() || error.is_timeout() || is_read_only {
            *self.current.lock().await = None;
        }
        self.failure(error)
    }

    fn failure(&self, error: RedisError) -> Error {
        let location = &self.server.location;
        let kind = match error.code() {
            Some("NOAUTH" | "WRONGPASS" | "NOPERM") => ErrorKind::Denied,
            Some("OOM") => ErrorKind::Full,
            Some("LOADING" | "TRYAGAIN" | "BUSY") => ErrorKind::Busy,
            Some("READONLY" | "MISCONF" | "MASTERDOWN" | "NOREPLICAS") => ErrorKind::Unavailable,
            Some(_) => ErrorKind::Unsupported,
            None if error.kind() == RedisErrorKind::AuthenticationFailed => ErrorKind::Denied,
            None => ErrorKind::Unavailable,
        };
        let message = match kind {
            ErrorKind::Denied => format!(
                "{location} refused access ({error}); check the user, the password and the permissions"
            ),
            ErrorKind::Full => format!("no memory left on {location} ({error})"),
            _ => format!("{location} failed: {error}"),
        };
        Error::new(kind, message).with_source(error)
    }
}

fn command(open: &Open, arguments: &[Vec<u8>]) -> Cmd {
    let mut command = script();
    command.arg(&*open.identity);
    for argument in arguments {
        command.arg(argument);
    }
    command
}

async fn load(open: &mut Open) -> Result<Value, RedisError> {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(SCRIPT);
    open.send(&load).await
}

fn is_without_script(done: &Result<Value, RedisError>) -> bool {
    let is_missing =
        |error: &RedisError| error.kind() == RedisErrorKind::Server(ServerErrorKind::NoScript);
    match done {
        Err(error) => is_missing(error),
        Ok(Value::ServerError(error)) => error.kind() == Some(ServerErrorKind::NoScript),
        Ok(_) => false,
    }
}
