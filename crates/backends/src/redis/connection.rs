//! The connection of a store. Calls share it: they are sent one after another without waiting for replies, and the
//! future of a call can be dropped at any time.

use std::sync::OnceLock;
use std::time::Duration;

use cachalot_store::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind as RedisErrorKind, RedisError, Script, Value,
};
use redis::{ConnectionInfo, IntoConnectionInfo as _, ServerErrorKind};
use tokio::sync::Mutex;

use crate::url::StoreUrl;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time of a call. Callers have limits of their own, which are shorter.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The operations that write, as a script.
static SCRIPT: &str = include_str!("store.lua");

/// Returns the command that executes the script; arguments follow.
pub(super) fn script() -> Cmd {
    static HASH: OnceLock<String> = OnceLock::new();
    let hash = HASH.get_or_init(|| Script::new(SCRIPT).get_hash().to_owned());
    let mut command = redis::cmd("EVALSHA");
    command.arg(hash).arg(0);
    command
}

/// A server, and the number of the database on it.
pub struct Server {
    info: ConnectionInfo,
    location: String,
}

impl Server {
    /// Reads a URL `redis://USER:PASSWORD@HOST:PORT/NUMBER`; `password` is used if it has none.
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
        let mut info =
            info.map_err(|_| invalid("for example redis://HOST:6379/0, with a number at the end"))?;
        if let (None, Some(password)) = (info.redis_settings().password(), password) {
            let settings = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(settings);
        }
        Ok(Self {
            info,
            location: url.location().to_owned(),
        })
    }

    /// The URL without the password and the parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }
}

/// The connection, opened when it is first needed, and again after a failure.
pub(super) struct Connection {
    server: Server,
    current: Mutex<Option<MultiplexedConnection>>,
}

impl Connection {
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
            current: Mutex::default(),
        }
    }

    /// Executes a command; loads the script first if the server does not have it.
    pub(super) async fn run(&self, command: Cmd) -> Result<Value, Error> {
        let mut connection = self.get().await?;
        let mut done = connection.send_packed_command(&command).await;
        if is_without_script(&done) {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(SCRIPT);
            done = match connection.send_packed_command(&load).await {
                Ok(_) => connection.send_packed_command(&command).await,
                failed => failed,
            };
        }
        self.finish(done).await
    }

    /// Executes `TIME` and a command in one round trip.
    pub(super) async fn read(&self, command: Cmd) -> Result<(Value, Value), Error> {
        let mut connection = self.get().await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME").add_command(command);
        let done = connection.send_packed_commands(&pipeline, 0, 2).await;
        let mut replies = match done {
            Ok(replies) => replies.into_iter(),
            Err(error) => {
                return self
                    .finish(Err(error))
                    .await
                    .map(|value| (value, Value::Nil));
            }
        };
        let mut next = || replies.next().unwrap_or(Value::Nil).extract_error();
        let (first, second) = (next(), next());
        Ok((self.finish(first).await?, self.finish(second).await?))
    }

    async fn get(&self) -> Result<MultiplexedConnection, Error> {
        let mut current = self.current.lock().await;
        if let Some(connection) = &*current {
            return Ok(connection.clone());
        }
        let client = Client::open(self.server.info.clone());
        let client = client.map_err(|error| self.failure(error))?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let connection = connection.await.map_err(|error| self.failure(error))?;
        *current = Some(connection.clone());
        Ok(connection)
    }

    /// Converts the result of a command. A failed connection is not used again.
    async fn finish(&self, done: Result<Value, RedisError>) -> Result<Value, Error> {
        let error = match done.and_then(Value::extract_error) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if error.is_unrecoverable_error() || error.is_timeout() {
            *self.current.lock().await = None;
        }
        Err(self.failure(error))
    }

    fn failure(&self, error: RedisError) -> Error {
        let location = &self.server.location;
        let kind = match error.kind() {
            RedisErrorKind::AuthenticationFailed => ErrorKind::Denied,
            RedisErrorKind::Server(ServerErrorKind::NoPerm | ServerErrorKind::ReadOnly) => {
                ErrorKind::Denied
            }
            RedisErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::TryAgain) => {
                ErrorKind::Busy
            }
            RedisErrorKind::Server(_) => match error.code() {
                Some("OOM") => ErrorKind::Full,
                Some("MISCONF") => ErrorKind::Unavailable,
                Some("NOAUTH" | "WRONGPASS") => ErrorKind::Denied,
                _ => ErrorKind::Unsupported,
            },
            _ => ErrorKind::Unavailable,
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

fn is_without_script(done: &Result<Value, RedisError>) -> bool {
    let is_missing =
        |error: &RedisError| error.kind() == RedisErrorKind::Server(ServerErrorKind::NoScript);
    match done {
        Err(error) => is_missing(error),
        Ok(Value::ServerError(error)) => error.kind() == Some(ServerErrorKind::NoScript),
        Ok(_) => false,
    }
}
