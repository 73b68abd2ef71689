//! The connections of a store. Calls share them: they are sent one after another without waiting for replies, and the
//! future of a call can be dropped at any time.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cachalot_store::implementation::too_new;
use cachalot_store::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{
    Cmd, ConnectionAddr, ErrorKind as RedisErrorKind, RedisError, Script, ServerErrorKind, Value,
};
use tokio::sync::Mutex;

use super::call::Call;
use super::record;
use super::sentinel;
use super::server::{Server, Topology, connect};
use super::server_info::{ServerInfo, replication};
use crate::liveness::Liveness;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum time for replicas to acknowledge a write, in milliseconds.
const REPLICATION_TIMEOUT: u32 = 2000;

/// The time after which the sentinels are asked again which server is the primary. One that is cut off from them serves
/// what it has until then.
const PRIMARY_VALIDITY: Duration = Duration::from_secs(1);

/// The operations that write, as a script.
static SCRIPT: &str = include_str!("store.lua");

/// The `run_id` of the server process that a connection leads to, or was the last one to lead to.
pub(super) type LastProcess = Arc<parking_lot::Mutex<Option<Arc<str>>>>;

/// An open connection, and the `run_id` of the server process that it leads to.
#[derive(Clone)]
struct Open {
    connection: MultiplexedConnection,
    run_id: Arc<str>,
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
    /// The server, for messages.
    name: String,
    /// The address of the server; `None` if the sentinels name it.
    address: Option<ConnectionAddr>,
    current: Mutex<Option<Current>>,
    last_process: LastProcess,
}

struct Current {
    open: Open,
    /// The primary that the sentinels have named, and when.
    named: Option<(ConnectionAddr, Instant)>,
}

/// The result of an execution of the script.
pub(super) struct Executed {
    pub(super) value: Value,
    open: Open,
}

impl Executed {
    /// True if both were executed on the same open connection.
    pub(super) fn has_connection_of(&self, other: &Executed) -> bool {
        Arc::ptr_eq(&self.open.run_id, &other.open.run_id)
    }
}

/// The replies of a read.
pub(super) struct Read {
    /// The server's time.
    pub(super) time: Value,
    /// The reply to the command.
    pub(super) reply: Value,
    /// The identity of the server that answered.
    pub(super) identity: String,
}

impl Connection {
    pub(super) fn new(server: Arc<Server>, address: Option<ConnectionAddr>) -> Self {
        let name = match &address {
            Some(node) => format!("the node {node} of {}", server.location),
            None => server.location.clone(),
        };
        Self {
            server,
            name,
            address,
            current: Mutex::default(),
            last_process: LastProcess::default(),
        }
    }

    /// The server process that calls go to.
    pub(super) fn last_process(&self) -> &LastProcess {
        &self.last_process
    }

    /// Executes the script with arguments, behind the `run_id` of the server process.
    pub(super) async fn run(&self, call: &Call) -> Result<Executed, Error> {
        let mut open = self.get().await?;
        let command = self.command(&open, call);
        let mut done = open.send(&command).await;
        if is_without_script(&done) {
            done = match load(&mut open).await {
                Ok(_) => open.send(&command).await,
                failed => failed,
            };
        }
        let value = self.finish(done).await?;
        Ok(Executed { value, open })
    }

    /// Waits until the replicas that are connected have the result of an execution, and of those before it. It keeps
    /// other calls of this connection waiting.
    pub(super) async fn confirm(&self, executed: &Executed) -> Result<(), Error> {
        // Redis waits for the writes of one connection.
        let mut open = executed.open.clone();
        let info = self.finish(open.send(&replication()).await).await?;
        let replicas = ServerInfo::read(info)?.replicas();
        if replicas == 0 {
            return Ok(());
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(REPLICATION_TIMEOUT);
        let confirmed = open.send(&wait).await;
        match self.finish(confirmed).await? {
            Value::Int(count) if u64::try_from(count).is_ok_and(|count| count >= replicas) => {
                Ok(())
            }
            _ => Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "not all {replicas} replicas of {} have confirmed a write within {REPLICATION_TIMEOUT} ms",
                    self.name
                ),
            )),
        }
    }

    /// Executes a command.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Error> {
        let mut open = self.get().await?;
        self.finish(open.send(command).await).await
    }

    /// Executes `TIME` and a command in one round trip, on a primary.
    pub(super) async fn read(&self, command: &Cmd) -> Result<Read, Error> {
        let mut open = self.get().await?;
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME").add_command(command.clone());
        pipeline.add_command(replication());
        let sent = open.connection.send_packed_commands(&pipeline, 0, 3);
        let replies = open.liveness.watch(sent).await;
        let mut replies = match replies {
            Ok(replies) => replies.into_iter(),
            Err(error) => return Err(self.failed(error).await),
        };
        let mut next = || replies.next().unwrap_or(Value::Nil).extract_error();
        let (time, reply, info) = (next(), next(), next());
        let time = self.finish(time).await?;
        // A node of a cluster that is a replica says in its reply which one is the primary.
        let reply = self.finish(reply).await?;
        let info = ServerInfo::read(self.finish(info).await?)?;
        if let Err(error) = info.check_role(&self.name) {
            *self.current.lock().await = None;
            return Err(error);
        }
        Ok(Read {
            time,
            reply,
            identity: info.identity(&open.run_id),
        })
    }

    async fn get(&self) -> Result<Open, Error> {
        let mut current = self.current.lock().await;
        if let Some(known) = current
            .as_mut()
            .filter(|known| !known.open.liveness.is_silent())
            && self.is_primary(known).await?
        {
            return Ok(known.open.clone());
        }
        *current = None;
        let (address, named) = match (&self.address, &self.server.topology) {
            (Some(address), _) => (address.clone(), None),
            (None, Topology::Sentinel { primary }) => {
                let address = sentinel::primary(&self.server, primary).await?;
                (address.clone(), Some((address, Instant::now())))
            }
            (None, _) => (self.server.addresses[0].clone(), None),
        };
        let open = self.connect(address).await?;
        let run_id = Some(Arc::clone(&open.run_id));
        *self.last_process.lock() = run_id;
        let new = current.insert(Current { open, named });
        Ok(new.open.clone())
    }

    /// False if the sentinels name another server now. Fails if most of them do not answer: which server is the
    /// primary is not known then.
    async fn is_primary(&self, known: &mut Current) -> Result<bool, Error> {
        let (Some((address, at)), Topology::Sentinel { primary }) =
            (&mut known.named, &self.server.topology)
        else {
            return Ok(true);
        };
        if at.elapsed() < PRIMARY_VALIDITY {
            return Ok(true);
        }
        let asked = Instant::now();
        let is_primary = sentinel::primary(&self.server, primary).await? == *address;
        *at = asked;
        Ok(is_primary)
    }

    async fn connect(&self, address: ConnectionAddr) -> Result<Open, Error> {
        let server = &self.server;
        let location = &self.name;
        let is_cluster = server.topology == Topology::Cluster;
        let info = server.connection_info(address);
        let connection = connect(info, CONNECT_TIMEOUT).await;
        let mut connection = connection.map_err(|error| self.failure(error))?;
        let mut send = async |command: Cmd| {
            let done = connection.send_packed_command(&command).await;
            let done = done.and_then(Value::extract_error);
            done.map_err(|error| self.failure(error))
        };
        let info = ServerInfo::read(send(redis::cmd("INFO")).await?)?;
        info.check_mode(location, is_cluster)?;
        info.check_role(location)?;
        info.check_eviction(location)?;
        // A cluster has one database, and the layout of each record in the record.
        if !is_cluster {
            if server.database != 0 {
                let mut select = redis::cmd("SELECT");
                select.arg(server.database);
                send(select).await?;
            }
            let mut layout = redis::cmd("GET");
            layout.arg("cachalot:layout");
            if record::count(send(layout).await?)? > record::VERSION.into() {
                return Err(too_new(location));
            }
        }
        Ok(Open {
            connection,
            run_id: info.run_id(location)?.into(),
            liveness: Liveness::default(),
        })
    }

    /// Returns the command that executes the script.
    fn command(&self, open: &Open, call: &Call) -> Cmd {
        static HASH: OnceLock<String> = OnceLock::new();
        let hash = HASH.get_or_init(|| Script::new(SCRIPT).get_hash().to_owned());
        let mut command = redis::cmd("EVALSHA");
        command.arg(hash);
        // A cluster refuses a script on a node that does not have the slot of its keys.
        match self.server.topology == Topology::Cluster {
            true => command.arg(1).arg(&call.shard.prefix),
            false => command.arg(0),
        };
        command.arg(&*open.run_id);
        let birth = call.birth.map(|birth| birth.to_string());
        command.arg(birth.unwrap_or_default());
        for argument in &call.arguments {
            command.arg(argument);
        }
        command
    }

    /// Converts the result of a command.
    async fn finish(&self, done: Result<Value, RedisError>) -> Result<Value, Error> {
        match done.and_then(Value::extract_error) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Converts an error of a command. A failed connection, and one to a server that has become a replica or does not have
    /// a shard any more, is not used again.
    async fn failed(&self, error: RedisError) -> Error {
        let is_demoted = matches!(error.code(), Some("READONLY" | "MOVED"));
        if error.is_unrecoverable_error() || error.is_timeout() || is_demoted {
            *self.current.lock().await = None;
        }
        self.failure(error)
    }

    fn failure(&self, error: RedisError) -> Error {
        failure(&self.name, error)
    }
}

/// Converts an error of a server.
pub(super) fn failure(location: &str, error: RedisError) -> Error {
    let kind = match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM") => ErrorKind::Denied,
        Some("OOM") => ErrorKind::Full,
        Some("LOADING" | "TRYAGAIN" | "BUSY" | "MOVED" | "ASK") => ErrorKind::Busy,
        Some("READONLY" | "MISCONF" | "MASTERDOWN" | "NOREPLICAS" | "CLUSTERDOWN") => {
            ErrorKind::Unavailable
        }
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
/// Returns the host and the port of the node that has the slot of a key if the node that was asked has not, and has done
/// nothing.
pub(super) fn redirection(error: &Error) -> Option<(String, u16)> {
    let cause = error.source.as_deref()?.downcast_ref::<RedisError>()?;
    let is_moved = cause.code() == Some("MOVED");
    let (address, _) = cause.redirect_node().filter(|_| is_moved)?;
    let (host, port) = address.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
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
