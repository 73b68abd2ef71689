//! A Redis cluster.

use std::process::Command;
use std::sync::OnceLock;

use super::PASSWORD;
use super::redis::RedisServer;
use super::server_process::free_port;

/// A running cluster.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Returns the cluster of this process, of three nodes, started by the first call; `None`, with a notice, on a
    /// machine without Redis.
    ///
    /// # Panics
    /// If the cluster does not start.
    pub fn shared() -> Option<&'static Self> {
        static CLUSTER: OnceLock<Option<RedisCluster>> = OnceLock::new();
        CLUSTER.get_or_init(|| Self::start(0)).as_ref()
    }

    /// Starts a cluster of three primaries, with some replicas each; `None`, with a notice, on a machine without
    /// Redis.
    ///
    /// # Panics
    /// If the cluster does not start.
    #[must_use]
    pub fn start(replicas: usize) -> Option<Self> {
        let start = || {
            let bus = free_port().to_string();
            let cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus];
            let fast = [
                "--cluster-node-timeout",
                "1000",
                "--repl-diskless-sync-delay",
                "0",
            ];
            RedisServer::start(&[&cluster[..], &fast[..]].concat())
        };
        let nodes = (0..3 * (1 + replicas))
            .map(|_| start())
            .collect::<Option<Vec<_>>>()?;
        let addresses = nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        let created = Command::new("redis-cli")
            .args(["--no-auth-warning", "--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", &replicas.to_string(), "--cluster-yes"])
            .env("REDISCLI_AUTH", PASSWORD)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&created.stdout);
        assert!(created.status.success(), "{output}");
        let cluster = Self { nodes };
        for node in 0..cluster.nodes.len() {
            cluster.wait_for(|| {
                cluster.nodes[node]
                    .execute(&["CLUSTER", "INFO"])
                    .contains("cluster_state:ok")
            });
        }
        cluster.wait_for(|| {
            cluster.primaries().iter().all(|primary| {
                cluster.nodes[*primary]
                    .execute(&["INFO", "replication"])
                    .contains(&format!("connected_slaves:{replicas}"))
            })
        });
        Some(cluster)
    }

    /// The URL, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses = self
            .nodes
            .iter()
            .map(|node| format!("127.0.0.1:{}", node.port()));
        let addresses: Vec<_> = addresses.collect();
        format!("redis-cluster://:{PASSWORD}@{}", addresses.join(","))
    }

    /// The nodes.
    pub fn nodes(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// The numbers of the nodes that are primaries.
    #[must_use]
    pub fn primaries(&self) -> Vec<usize> {
        let is_primary = |node: &RedisServer| node.execute(&["ROLE"]).starts_with("master");
        (0..self.nodes.len())
            .filter(|number| is_primary(&self.nodes[*number]))
            .collect()
    }

    /// Waits until all nodes take a node for a primary.
    pub fn wait_for_primary(&self, number: usize) {
        let port = format!(":{}@", self.nodes[number].port());
        let is_known = |node: &RedisServer| {
            let nodes = node.execute(&["CLUSTER", "NODES"]);
            let mut lines = nodes.lines().filter(|line| line.contains(&port));
            lines.any(|line| line.contains("master"))
        };
        self.wait_for(|| self.nodes.iter().all(is_known));
    }

    /// Empties all nodes.
    pub fn clear(&self) {
        for primary in self.primaries() {
            self.nodes[primary].execute(&["FLUSHALL"]);
        }
    }

    /// Waits until something is true, at most a minute.
    fn wait_for(&self, is_true: impl Fn() -> bool) {
        for _ in 0..1200 {
            if is_true() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("the cluster did not change within a minute");
    }
}
