//! The connections of a store. Calls share them: they are sent one after another without waiting for replies, and the
//! future of a call can be dropped at any time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cachalot_store::implementation::too_new;
use cachalot_store::{Error, ErrorKind};
use futures_util::FutureExt as _;
use redis::aio::MultiplexedConnection;
use redis::{
    Cmd, ConnectionAddr, ErrorKind as RedisErrorKind, RedisError, Script, ServerErrorKind, Value,
};
use tokio::sync::Mutex;

use super::append_file::{self, AppendFile};
use super::call::Call;
use super::record;
use super::sentinel;
use super::server::{Server, Topology, connect};
use super::server_info::{ServerInfo, replication};
use crate::liveness::Liveness;
use crate::repetition::{Progress, REOPEN_PAUSES, Repetition};
use crate::trust::trust_remedy;

/// Maximum time for replicas to acknowledge a write, in milliseconds.
const REPLICATION_TIMEOUT: u32 = 2000;

/// The time after which the sentinels are asked again which server is the primary. One that is cut off from them serves
/// what it has until then.
const PRIMARY_VALIDITY: Duration = Duration::from_secs(1);

/// The time after the last answer from which on a connection is looked at before it is used: servers and machines in
/// between end connections that are idle.
const IDLE: Duration = Duration::from_millis(100);

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

/// The failure of a command.
struct Failed {
    error: RedisError,
    progress: Progress,
}

impl Failed {
    /// An error of the client. It does not tell whether it has sent the command before the connection ended: another
    /// thread may have sent it, and read the end, before the caller first asked for the answer.
    fn new(error: RedisError) -> Self {
        let progress = if error.is_connection_dropped() {
            Progress::Lost
        } else {
            Progress::Answered
        };
        Self { error, progress }
    }
}

impl From<RedisError> for Failed {
    /// A reply of the server.
    fn from(error: RedisError) -> Self {
        let progress = Progress::Answered;
        Self { error, progress }
    }
}

impl Open {
    /// True if both are one open connection.
    fn is(&self, other: &Open) -> bool {
        Arc::ptr_eq(&self.run_id, &other.run_id)
    }

    /// True if the client has noticed that the connection has ended, while it was idle: a command that is polled once
    /// fails at once then. It is harmless, and its reply is not awaited.
    fn has_ended(&self) -> bool {
        if !self.liveness.is_idle(IDLE) {
            return false;
        }
        let (mut connection, ping) = (self.connection.clone(), redis::cmd("PING"));
        let first = connection.send_packed_command(&ping).now_or_never();
        matches!(first, Some(Err(error)) if error.is_connection_dropped())
    }

    async fn send(&mut self, command: &Cmd) -> Result<Value, Failed> {
        let sent = self.connection.send_packed_command(command);
        let value = self.liveness.watch(sent).await.map_err(Failed::new)?;
        Ok(value.extract_error()?)
    }

    /// Executes the script. If the server does not have it yet, it has not executed it either.
    async fn execute(&mut self, command: &Cmd) -> Result<Value, Failed> {
        match self.send(command).await {
            Err(failed) if is_without_script(&failed.error) => {
                let loaded = self.send(&load()).await;
                // A failure here leaves the command unsent: only the script may have been loaded.
                loaded.map_err(|failed| Failed {
                    progress: match failed.progress {
                        Progress::Lost => Progress::Unsent,
                        other => other,
                    },
                    ..failed
                })?;
                self.send(command).await
            }
            done => done,
        }
    }

    /// Executes `TIME`, a command, and the question for the role.
    async fn read(&mut self, command: &Cmd) -> Result<[Result<Value, RedisError>; 3], Failed> {
        // The role comes behind the command: a server that had become a replica before reports it, and its reply does
        // not count.
        let mut pipeline = redis::pipe();
        pipeline.cmd("TIME").add_command(command.clone());
        pipeline.add_command(replication());
        let sent = self.connection.send_packed_commands(&pipeline, 0, 3);
        let replies = self.liveness.watch(sent).await.map_err(Failed::new)?;
        let mut replies = replies.into_iter();
        let next = |_| replies.next().unwrap_or(Value::Nil).extract_error();
        Ok([(); 3].map(next))
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
    /// True if the last call has got no connection.
    has_failed: AtomicBool,
}

struct Current {
    open: Open,
    /// The primary that the sentinels have named, and when.
    named: Option<(ConnectionAddr, Instant)>,
}

/// The result of an execution of the script.
pub(super) struct Executed {
    pub(super) value: Value,
    /// The error of an earlier attempt, which the server may have executed, too.
    pub(super) lost: Option<Error>,
    open: Open,
}

impl Executed {
    /// True if both were executed on the same open connection.
    pub(super) fn has_connection_of(&self, other: &Executed) -> bool {
        self.open.is(&other.open)
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
            has_failed: AtomicBool::new(false),
        }
    }

    /// The server process that calls go to.
    pub(super) fn last_process(&self) -> &LastProcess {
        &self.last_process
    }

    /// Executes the script with arguments, behind the `run_id` of the server process.
    pub(super) async fn run(&self, call: &Call) -> Result<Executed, Error> {
        let mut repetition = Repetition::default();
        loop {
            let mut open = self.get_for_write().await?;
            let command = self.command(&open, call);
            match open.execute(&command).await {
                Ok(value) => {
                    return Ok(Executed {
                        value,
                        lost: repetition.lost(),
                        open,
                    });
                }
                Err(failed) => {
                    let is_repeatable = call.is_repeatable;
                    self.repeat(&open, failed, &mut repetition, is_repeatable)
                        .await?;
                }
            }
        }
    }

    /// Waits until the replicas that are connected have the result of an execution, and of those before it. It keeps
    /// other calls of this connection waiting.
    pub(super) async fn confirm(&self, executed: &Executed) -> Result<(), Error> {
        // Redis waits for the writes of one connection.
        let mut open = executed.open.clone();
        let info = match open.send(&replication()).await {
            Ok(info) => info,
            Err(failed) => {
                let error = self.failed(&open, failed.error).await;
                return self.confirm_without_replicas(executed, error).await;
            }
        };
        let replicas = ServerInfo::read(info)?.replicas();
        if replicas == 0 {
            return Ok(());
        }
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(REPLICATION_TIMEOUT);
        let confirmed = match open.send(&wait).await {
            Ok(confirmed) => confirmed,
            Err(failed) => return Err(self.failed(&open, failed.error).await),
        };
        match confirmed {
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

    /// Confirms an execution whose connection has ended since, if the same server process has no replicas. Another
    /// connection does not wait for the writes of the first one.
    async fn confirm_without_replicas(
        &self,
        executed: &Executed,
        error: Error,
    ) -> Result<(), Error> {
        let mut open = self.get().await?;
        let info = open.send(&replication()).await;
        // The same process without replicas has the write, and no other server needs it.
        match info.map(ServerInfo::read) {
            Ok(Ok(info)) if open.run_id == executed.open.run_id && info.replicas() == 0 => Ok(()),
            _ => Err(error),
        }
    }

    /// Executes a command that reads.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, Error> {
        let mut repetition = Repetition::default();
        loop {
            let mut open = self.get().await?;
            match open.send(command).await {
                Ok(value) => return Ok(value),
                Err(failed) => self.repeat(&open, failed, &mut repetition, true).await?,
            }
        }
    }

    /// Executes `TIME` and a command in one round trip, on a primary.
    pub(super) async fn read(&self, command: &Cmd) -> Result<Read, Error> {
        let mut repetition = Repetition::default();
        loop {
            let mut open = self.get().await?;
            let [time, reply, info] = match open.read(command).await {
                Ok(replies) => replies,
                Err(failed) => {
                    self.repeat(&open, failed, &mut repetition, true).await?;
                    continue;
                }
            };
            let time = self.finish(&open, time).await?;
            // A node of a cluster that is a replica says in its reply which one is the primary.
            let reply = self.finish(&open, reply).await?;
            let info = ServerInfo::read(self.finish(&open, info).await?)?;
            if let Err(error) = info.check_role(&self.name) {
                // The next call connects again, because the name may lead to the new primary by then.
                self.discard(&open).await;
                return Err(error);
            }
            return Ok(Read {
                time,
                reply,
                identity: info.identity(&open.run_id),
            });
        }
    }

    /// Returns the connection. Waits a little for a server that was there until now.
    async fn get_for_write(&self) -> Result<Open, Error> {
        let may_be_back_soon =
            self.last_process.lock().is_some() && !self.has_failed.load(Ordering::Relaxed);
        let mut open = self.get().await;
        for pause in REOPEN_PAUSES {
            match &open {
                // One that reads its file into memory is busy.
                Err(error)
                    if may_be_back_soon
                        && matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Busy) => {}
                _ => break,
            }
            tokio::time::sleep(pause).await;
            open = self.get().await;
        }
        open
    }

    async fn get(&self) -> Result<Open, Error> {
        // Held while a connection is opened, so that concurrent calls open one.
        let mut current = self.current.lock().await;
        let opened = self.open(&mut current).await;
        self.has_failed.store(opened.is_err(), Ordering::Relaxed);
        opened
    }

    /// Returns the current connection if it can be used, or opens another one.
    async fn open(&self, current: &mut Option<Current>) -> Result<Open, Error> {
        if let Some(known) = current
            .as_mut()
            .filter(|known| !known.open.liveness.is_silent())
            && !known.open.has_ended()
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
        // The time before the question: the answer may be as old as that.
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
        let connection = connect(info, server.connect_timeout).await;
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
        if server.is_durable {
            let settings = send(AppendFile::question()).await;
            let settings = settings.map_err(|error| match error.kind {
                ErrorKind::Denied | ErrorKind::Unsupported => {
                    append_file::unknown(location, &error)
                }
                _ => error,
            });
            AppendFile::read(settings?)?.check(location)?;
        }
        // A cluster has one database, and the layout of each record in the record.
        if !is_cluster {
            if server.database != 0 {
                let mut select = redis::cmd("SELECT");
                select.arg(server.database);
                send(select).await?;
            }
            let mut layout = redis::cmd("GET");
            layout.arg(record::LAYOUT);
            record::check_layout(send(layout).await?, location)?;
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
        if self.server.topology == Topology::Cluster {
            command.arg(1).arg(&call.shard.prefix)
        } else {
            command.arg(0)
        };
        command.arg(if self.server.is_durable {
            format!("{} durable", open.run_id)
        } else {
            open.run_id.to_string()
        });
        let birth = call.birth.map(|birth| birth.to_string());
        command.arg(birth.unwrap_or_default());
        for argument in &call.arguments {
            command.arg(argument);
        }
        command
    }

    /// Converts the reply to a command.
    async fn finish(&self, open: &Open, reply: Result<Value, RedisError>) -> Result<Value, Error> {
        match reply {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(open, error).await),
        }
    }

    /// Returns if a command that has failed is to be sent again, and its error if not.
    async fn repeat(
        &self,
        open: &Open,
        failed: Failed,
        repetition: &mut Repetition,
        is_repeatable: bool,
    ) -> Result<(), Error> {
        let error = self.failed(open, failed.error).await;
        repetition.after(error, failed.progress, is_repeatable)
    }

    /// Converts an error of a command. A failed connection, and one to a server that has become a replica or does not have
    /// a shard any more, is not used again.
    async fn failed(&self, open: &Open, error: RedisError) -> Error {
        let is_demoted = matches!(error.code(), Some("READONLY" | "MOVED"));
        if error.is_unrecoverable_error() || error.is_timeout() || is_demoted {
            self.discard(open).await;
        }
        self.failure(error)
    }

    /// Keeps further calls from using a connection; one that was opened since is used.
    async fn discard(&self, open: &Open) {
        let mut current = self.current.lock().await;
        current.take_if(|current| current.open.is(open));
    }

    fn failure(&self, error: RedisError) -> Error {
        failure(&self.name, error)
    }
}

/// Converts an error of a server.
pub(super) fn failure(location: &str, error: RedisError) -> Error {
    if error.code() == Some(record::TOO_NEW) {
        return too_new(location);
    }
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
    let remedy = match error.code() {
        Some("NOPERM") => Some(
            "give the user the rights that docs/backends.md lists (ACL SETUSER NAME ~cachalot:* +@read +@write …)",
        ),
        Some(_) => None,
        None => trust_remedy(&error.to_string()),
    };
    let failed = Error::new(kind, message).with_source(error);
    match remedy {
        Some(remedy) => failed.with_remedy(remedy),
        None => failed,
    }
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

fn load() -> Cmd {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(SCRIPT);
    load
}

fn is_without_script(error: &RedisError) -> bool {
    error.kind() == RedisErrorKind::Server(ServerErrorKind::NoScript)
}
