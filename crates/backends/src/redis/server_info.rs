//! What a server says about itself: its version, its process, its replication, and its eviction policy.

use cachalot_store::{Error, ErrorKind, Finding};
use redis::{Cmd, Value};

use super::append_file::AppendFile;
use super::record::text;

/// Returns the command for the part of `INFO` that has the role and the replication ID.
pub(super) fn replication() -> Cmd {
    let mut info = redis::cmd("INFO");
    info.arg("replication");
    info
}

/// The lines of a reply to `INFO`.
pub(super) struct ServerInfo(String);

impl ServerInfo {
    /// # Errors
    /// If the reply is no text.
    pub(super) fn read(reply: Value) -> Result<Self, Error> {
        match reply {
            Value::VerbatimString { text, .. } => Ok(Self(text)),
            other => text(other).map(Self),
        }
    }

    /// Returns the value of a field, without line ends.
    fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.0.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
    }

    /// The number of connected replicas.
    pub(super) fn replicas(&self) -> u64 {
        let count = self.field("connected_slaves");
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Returns a text that is another one after each start of the server.
    ///
    /// # Errors
    /// If the server does not report it.
    pub(super) fn run_id(&self, location: &str) -> Result<&str, Error> {
        let run = self.field("run_id").filter(|run| !run.is_empty());
        run.ok_or_else(|| {
            unsupported(format!(
                "{location} does not report its `run_id`: lost writes could not be noticed"
            ))
        })
    }

    /// Returns a text that is another one after each start of a server, and each time it becomes the primary: writes may
    /// be lost with either. `store.lua` forms the same text.
    pub(super) fn identity(&self, run_id: &str) -> String {
        let replication = self.field("master_replid").unwrap_or_default();
        format!("{run_id}:{replication}")
    }

    /// The version, and the settings that matter for what a store can promise.
    pub(super) fn findings(&self, append_file: Option<&AppendFile>) -> Vec<Finding> {
        let field = |name| self.field(name).unwrap_or("unknown");
        let version = match self.field("valkey_version") {
            Some(version) => format!("Valkey {version}"),
            None => format!("Redis {}", field("redis_version")),
        };
        let memory = match self.field("maxmemory") {
            None | Some("0") => Finding::degraded(
                "memory",
                format!("{} used, no limit", field("used_memory_human")),
                "set maxmemory, so that the server refuses writes before its machine has no memory left",
            ),
            Some(_) => Finding::good(
                "memory",
                format!(
                    "{} used of {}",
                    field("used_memory_human"),
                    field("maxmemory_human")
                ),
            ),
        };
        let keeps_all = append_file.map(AppendFile::keeps_all);
        let persistence = match (
            self.field("aof_enabled"),
            self.field("rdb_last_bgsave_status"),
        ) {
            (Some("1"), _) if keeps_all == Some(true) => {
                Finding::good("persistence", "append-only file, written before each reply")
            }
            (Some("1"), _) => Finding::good("persistence", "append-only file"),
            (_, Some("err")) => Finding::degraded(
                "persistence",
                "the last snapshot failed",
                "see the server's log, and whether its disk is full",
            ),
            _ => Finding::degraded(
                "persistence",
                "snapshots at most",
                "a restart loses the last writes, and the cache begins anew; for long-term memory and sessions set \
                 appendonly to yes and appendfsync to always",
            ),
        };
        vec![
            Finding::good("version", version),
            Finding::good("eviction", field("maxmemory_policy")),
            memory,
            persistence,
            Finding::good("replicas", self.replicas().to_string()),
            match (self.field("aof_enabled"), keeps_all) {
                (Some("1"), Some(true)) => {
                    Finding::good("budgets", "a restart of the server loses nothing")
                }
                (Some("1"), None) => Finding::degraded(
                    "budgets",
                    "whether a restart loses the last ones is unknown",
                    "give the user the right +config|get, so that appendfsync can be read",
                ),
                _ => Finding::degraded(
                    "budgets",
                    "a restart may lose what was counted last",
                    "set appendonly to yes and appendfsync to always: after a loss, only what the running gateways know of \
                     is counted again",
                ),
            },
        ]
    }

    /// # Errors
    /// If the server is part of a cluster and the URL is not one of a cluster, or the reverse.
    pub(super) fn check_mode(&self, location: &str, is_cluster: bool) -> Result<(), Error> {
        match (self.field("redis_mode"), is_cluster) {
            (Some("sentinel"), _) => Err(unsupported(format!(
                "{location} is a sentinel: write redis-sentinel://HOST:PORT,HOST:PORT/PRIMARY/NUMBER"
            ))),
            (Some("cluster"), false) => Err(unsupported(format!(
                "{location} is a node of a cluster: write redis-cluster://HOST:PORT,HOST:PORT"
            ))),
            (Some("standalone"), true) => Err(unsupported(format!(
                "{location} is not a cluster: write redis://HOST:PORT/NUMBER"
            ))),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// If the server is a replica.
    pub(super) fn check_role(&self, location: &str) -> Result<(), Error> {
        match self.field("role") {
            Some("master") => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Unavailable,
                format!("{location} is a replica: name the primary server"),
            )),
        }
    }

    /// # Errors
    /// If the server evicts keys of any kind.
    pub(super) fn check_eviction(&self, location: &str) -> Result<(), Error> {
        let policy = self.field("maxmemory_policy").unwrap_or_default();
        if policy.starts_with("allkeys-") {
            return Err(unsupported(format!(
                "{location} evicts any key when its memory is full (maxmemory-policy {policy}), also the counters by \
                 which outdated entries are recognized"
            ))
            .with_remedy("set maxmemory-policy to noeviction or to volatile-ttl"));
        }
        Ok(())
    }
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}
