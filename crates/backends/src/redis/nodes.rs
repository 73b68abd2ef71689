//! The connections to the servers of a store, and which of them has a shard.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cachalot_store::{Error, ErrorKind, Finding};
use futures_util::future::{select_ok, try_join_all};
use redis::{Cmd, ConnectionAddr, RedisError, Value};
use tokio::sync::Mutex;

use super::append_file::AppendFile;
use super::call::Call;
use super::connection::{Connection, Executed, LastProcess, Read, failure, redirection};
use super::record::{array, damaged, integer, text};
use super::server::{Server, Topology, connect};
use super::server_info::ServerInfo;
use super::shard::{SLOTS, Shard};

/// Maximum time of a node's answer to which nodes there are.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The connections to one server.
struct Node {
    /// `None` for the server that a URL or sentinels name.
    address: Option<ConnectionAddr>,
    connection: Connection,
    /// For writes that wait for replicas, and keep other calls of their connection waiting.
    confirming: Connection,
}

impl Node {
    fn new(server: &Arc<Server>, address: Option<ConnectionAddr>) -> Arc<Self> {
        Arc::new(Self {
            connection: Connection::new(Arc::clone(server), address.clone()),
            confirming: Connection::new(Arc::clone(server), address.clone()),
            address,
        })
    }
}

/// The slots up to `last`, from the end of the range before it, and the node that has them.
struct SlotRange {
    last: u16,
    node: Arc<Node>,
}

/// The servers of a store: one, or the nodes of a cluster.
pub(super) struct Nodes {
    server: Arc<Server>,
    /// In the order of the slots; empty before the first call, and after a call that found it outdated.
    slots: Mutex<Vec<SlotRange>>,
    /// The nodes of the last slots that were read.
    known: Mutex<Vec<Arc<Node>>>,
}

impl Nodes {
    pub(super) fn new(server: Server) -> Self {
        let server = Arc::new(server);
        let known = match &server.topology {
            Topology::Cluster => Vec::new(),
            Topology::Single | Topology::Sentinel { .. } => vec![Node::new(&server, None)],
        };
        let slots = known.iter().map(|node| SlotRange {
            last: SLOTS - 1,
            node: Arc::clone(node),
        });
        Self {
            slots: Mutex::new(slots.collect()),
            known: Mutex::new(known),
            server,
        }
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the server process that calls for a shard go to.
    pub(super) async fn last_process(&self, shard: &Shard) -> Result<LastProcess, Error> {
        let node = self.node(shard).await?;
        Ok(Arc::clone(node.connection.last_process()))
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.server.topology == Topology::Cluster
    }

    /// Executes the script on the node that has its shard.
    pub(super) async fn run(&self, call: &Call) -> Result<Executed, Error> {
        let mut is_repeated = false;
        loop {
            let node = self.node(&call.shard).await?;
            match node.connection.run(call).await {
                Ok(executed) => return Ok(executed),
                Err(error) => self.repeat(error, &mut is_repeated).await?,
            }
        }
    }

    /// Executes the script several times, and waits for replicas: what it has erased or counted must not come back with
    /// a failover.
    pub(super) async fn run_confirmed(&self, calls: &[Call]) -> Result<Vec<Value>, Error> {
        let run = async |call: &Call| {
            let mut is_repeated = false;
            loop {
                let node = self.node(&call.shard).await?;
                match node.confirming.run(call).await {
                    Ok(executed) => return Ok((node, executed)),
                    Err(error) => self.repeat(error, &mut is_repeated).await?,
                }
            }
        };
        let done = try_join_all(calls.iter().map(run)).await?;
        // A confirmation covers all earlier writes of its connection, so each connection is confirmed once.
        let is_first = |&(place, (_, executed)): &(usize, &(Arc<Node>, _))| {
            !done[..place]
                .iter()
                .any(|(_, earlier)| earlier.has_connection_of(executed))
        };
        let distinct = done.iter().enumerate().filter(is_first);
        try_join_all(distinct.map(|(_, (node, executed))| node.confirming.confirm(executed)))
            .await?;
        Ok(done
            .into_iter()
            .map(|(_, executed)| executed.value)
            .collect())
    }

    /// Executes `TIME` and a command on the node that has a shard.
    pub(super) async fn read(&self, shard: &Shard, command: &Cmd) -> Result<Read, Error> {
        let mut is_repeated = false;
        loop {
            let node = self.node(shard).await?;
            match node.connection.read(command).await {
                Ok(read) => return Ok(read),
                Err(error) => self.repeat(error, &mut is_repeated).await?,
            }
        }
    }

    /// Reports the properties of all servers.
    pub(super) async fn inspect(&self) -> Result<Vec<Finding>, Error> {
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        self.node(&super::shard::shard("", "", true)).await?;
        for range in &*self.slots.lock().await {
            if !nodes.iter().any(|node| Arc::ptr_eq(node, &range.node)) {
                nodes.push(Arc::clone(&range.node));
            }
        }
        let mut findings = Vec::new();
        for node in nodes {
            let info = node.connection.send(&redis::cmd("INFO")).await?;
            // Users need no right to read the settings.
            let settings = node.connection.send(&AppendFile::question()).await.ok();
            let settings = settings.and_then(|settings| AppendFile::read(settings).ok());
            for mut finding in ServerInfo::read(info)?.findings(settings.as_ref()) {
                if let Some(address) = &node.address {
                    finding.state = format!("{address}: {}", finding.state);
                }
                findings.push(finding);
            }
        }
        Ok(findings)
    }

    /// Returns if a call that failed can be repeated, and the error if not. Only a call that was not executed is
    /// repeated, and only once.
    async fn repeat(&self, error: Error, is_repeated: &mut bool) -> Result<(), Error> {
        if !self.is_cluster() {
            return Err(error);
        }
        let Some((host, port)) = redirection(&error) else {
            // Another node may have the slots by now, so the next call reads them again.
            if error.kind == ErrorKind::Unavailable {
                self.slots.lock().await.clear();
            }
            return Err(error);
        };
        if std::mem::replace(is_repeated, true) {
            return Err(error);
        }
        // Other nodes may not know it yet.
        let address = match host.as_str() {
            "" => None,
            host => Some(self.server.address(host, port)),
        };
        let mut slots = self.slots.lock().await;
        *slots = self.read_slots(address).await?;
        Ok(())
    }

    /// Returns the node that has a shard.
    async fn node(&self, shard: &Shard) -> Result<Arc<Node>, Error> {
        let mut slots = self.slots.lock().await;
        if slots.is_empty() {
            *slots = self.read_slots(None).await?;
        }
        let range = slots.iter().find(|range| shard.slot <= range.last);
        let node = range.map(|range| Arc::clone(&range.node));
        node.ok_or_else(|| {
            Error::new(
                ErrorKind::Unavailable,
                format!(
                    "no node of {} has the slot {}",
                    self.server.location, shard.slot
                ),
            )
        })
    }

    /// Asks one node, or all, which of them has which slots; the first answer counts.
    async fn read_slots(&self, node: Option<ConnectionAddr>) -> Result<Vec<SlotRange>, Error> {
        let mut known = self.known.lock().await;
        let addresses = known.iter().filter_map(|node| node.address.as_ref());
        let all = self.server.addresses.iter().chain(addresses);
        let asked: Vec<_> = match &node {
            Some(node) => vec![node],
            None => all.collect(),
        };
        let asked = asked.into_iter();
        let asked = asked.map(|address| Box::pin(self.ask_for_slots(address)));
        let (reply, asked) = select_ok(asked).await?.0;
        let mut rows = Vec::new();
        for row in array(reply)? {
            let mut row = array(row)?.into_iter();
            let mut next = || row.next().ok_or_else(|| damaged("a range of slots"));
            let bound = |value| u16::try_from(integer(value)?).map_err(|_| damaged("a slot"));
            let (first, last) = (bound(next()?)?, bound(next()?)?);
            let mut primary = array(next()?)?.into_iter();
            let host = match primary.next() {
                Some(Value::Nil) | None => String::new(),
                Some(host) => text(host)?,
            };
            let port = primary
                .next()
                .map_or_else(|| Err(damaged("a port")), integer)?;
            let port = u16::try_from(port).map_err(|_| damaged("a port"))?;
            rows.push((first, last, host, port));
        }
        rows.sort_unstable();
        let mut slots = Vec::new();
        let mut next = 0;
        for (first, last, host, port) in rows {
            if first != next {
                break;
            }
            let address = match host.as_str() {
                // The host under which the node was reached.
                "" => self.server.address(host_of(&asked), port),
                host => self.server.address(host, port),
            };
            let node = find(&mut known, &self.server, &address);
            slots.push(SlotRange { last, node });
            next = last + 1;
        }
        if next != SLOTS {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("no node of {} has the slot {next}", self.server.location),
            ));
        }
        known.retain(|node| slots.iter().any(|range| Arc::ptr_eq(&range.node, node)));
        Ok(slots)
    }

    /// Asks a node, which may be a replica, with a connection of its own.
    async fn ask_for_slots(&self, node: &ConnectionAddr) -> Result<(Value, ConnectionAddr), Error> {
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        let info = self.server.connection_info(node.clone());
        let ask = async {
            let mut connection = connect(info, TIMEOUT).await?;
            let mode = connection.send_packed_command(&redis::cmd("INFO")).await?;
            let slots = connection.send_packed_command(&slots).await?;
            Ok((mode.extract_error()?, slots))
        };
        let answer = tokio::time::timeout(TIMEOUT, ask).await;
        let answer =
            answer.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        let failed = |error: RedisError| failure(&node.to_string(), error);
        let (mode, slots) = answer.map_err(failed)?;
        ServerInfo::read(mode)?.check_mode(&self.server.location, true)?;
        Ok((slots.extract_error().map_err(failed)?, node.clone()))
    }
}

/// Returns the node at an address, the same for each call.
fn find(known: &mut Vec<Arc<Node>>, server: &Arc<Server>, address: &ConnectionAddr) -> Arc<Node> {
    let existing = known
        .iter()
        .find(|node| node.address.as_ref() == Some(address));
    let existing = existing.map(Arc::clone);
    existing.unwrap_or_else(|| {
        let node = Node::new(server, Some(address.clone()));
        known.push(Arc::clone(&node));
        node
    })
}

fn host_of(address: &ConnectionAddr) -> &str {
    match address {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
        _ => "",
    }
}
