//! The connection on which the server reports changes of keys
//! (<https://redis.io/docs/latest/develop/reference/client-side-caching/>, in broadcasting mode).

use std::sync::Arc;
use std::time::Duration;

use cachalot_store::{Error, ErrorKind, space};
use redis::aio::{MultiplexedConnection, SendError};
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, PushKind, Value};

use super::connection::{LastProcess, failure};
use super::server::{Server, Topology};
use super::server_info::{ServerInfo, replication};
use super::shard;
use crate::changes::{self, Changes};

/// Maximum time to connect, and for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A subscription to the changes of one server.
pub struct Subscription {
    connection: MultiplexedConnection,
    location: String,
    run_id: String,
    identity: String,
    /// The server process that lookups ask.
    process: LastProcess,
}

impl Subscription {
    /// Opens a connection, and asks for the changes of the cache. Fails for a cluster, whose nodes each report some of
    /// the changes, and for servers with sentinels: one that is not the primary any more would go on to answer.
    pub(super) async fn open(
        server: &Server,
        changes: &Arc<Changes>,
        process: LastProcess,
    ) -> Result<Self, Error> {
        let location = server.location().to_owned();
        if server.topology != Topology::Single {
            let refused = format!("{location} is not a single server");
            return Err(Error::new(ErrorKind::Unsupported, refused));
        }
        let failed = |error| failure(&location, error);
        // The provider of cryptography is one for the process.
        let _ = cachalot_storage::tls_config();
        let prefix = shard::shard(space::CACHE, "", false).prefix;
        let (names, changes) = (prefix.clone(), Arc::clone(changes));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT))
            // Called before the answer that follows is read.
            .set_push_sender(move |message: PushInfo| {
                note(&message, &names, &changes);
                Ok::<(), SendError>(())
            });
        let info = server.connection_info(server.addresses[0].clone());
        let settings = info.redis_settings().clone();
        let info = info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3));
        let client = Client::open(info).map_err(failed)?;
        let connected = client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connected.await.map_err(failed)?;
        let mut track = redis::cmd("CLIENT");
        track.arg("TRACKING").arg("ON").arg("BCAST");
        // Records, counters, and the incarnation.
        for kind in ["r:", "c:", "i"] {
            track.arg("PREFIX").arg(format!("{prefix}{kind}"));
        }
        let tracked = connection.send_packed_command(&track).await;
        tracked.and_then(Value::extract_error).map_err(failed)?;
        let info = connection.send_packed_command(&redis::cmd("INFO")).await;
        let info = info.and_then(Value::extract_error).map_err(failed)?;
        let info = ServerInfo::read(info)?;
        info.check_mode(&location, false)?;
        info.check_role(&location)?;
        let run_id = info.run_id(&location)?.to_owned();
        Ok(Self {
            identity: info.identity(&run_id),
            run_id,
            connection,
            location,
            process,
        })
    }
}

impl changes::Subscription for Subscription {
    /// The server sends its reports in the order of the changes, and of its answers. A server that has become a replica
    /// goes on to answer, and so does one that the name does not lead to any more.
    async fn ping(&mut self) -> Result<(), Error> {
        let info = self.connection.send_packed_command(&replication()).await;
        let info = info.and_then(Value::extract_error);
        let info = ServerInfo::read(info.map_err(|error| failure(&self.location, error))?)?;
        info.check_role(&self.location)?;
        let process = self.process.lock();
        // Before the first lookup there is no process to compare with.
        let is_asked = process.as_deref().is_none_or(|run| run == self.run_id);
        if is_asked && info.identity(&self.run_id) == self.identity {
            Ok(())
        } else {
            Err(Error::new(
                ErrorKind::Unavailable,
                format!("{} is another server than before", self.location),
            ))
        }
    }
}

/// Notes the changes of keys that a server reports; everything, if it reports nothing more precise.
fn note(message: &PushInfo, prefix: &str, changes: &Changes) {
    if message.kind == PushKind::Disconnection {
        changes.note_all();
    }
    if message.kind != PushKind::Invalidate {
        return;
    }
    for part in &message.data {
        match part {
            Value::Array(keys) => keys.iter().for_each(|key| note_key(key, prefix, changes)),
            // The database was emptied.
            _ => changes.note_all(),
        }
    }
}

fn note_key(key: &Value, prefix: &str, changes: &Changes) {
    let key = match key {
        Value::BulkString(key) => std::str::from_utf8(key).ok(),
        Value::SimpleString(key) => Some(key.as_str()),
        _ => None,
    };
    let name = key.and_then(|key| key.strip_prefix(prefix));
    let name = name.and_then(|name| name.strip_prefix("r:").or(name.strip_prefix("c:")));
    match name {
        Some(name) => changes.note(name),
        None => changes.note_all(),
    }
}
