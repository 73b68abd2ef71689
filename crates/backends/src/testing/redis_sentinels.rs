//! Redis servers with sentinels.

use super::PASSWORD;
use super::redis::RedisServer;
use super::server_process::ServerProcess;

/// A primary server, a replica, and three sentinels that watch them.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: [RedisServer; 2],
    sentinels: Vec<ServerProcess>,
}

impl RedisSentinels {
    /// Starts them; `None`, with a notice, on a machine without Redis. The sentinels have a password if `with_password`.
    ///
    /// # Panics
    /// If a server does not start.
    #[must_use]
    pub fn start(with_password: bool) -> Option<Self> {
        let primary = RedisServer::start(&["--repl-diskless-sync-delay", "0"])?;
        let port = primary.port().to_string();
        let replica = RedisServer::start(&["--replicaof", "127.0.0.1", &port])?;
        let script = r#"
            printf '%s\n' "port $1" "bind 127.0.0.1" "sentinel monitor main 127.0.0.1 $2 2" \
                "sentinel auth-pass main $3" "sentinel down-after-milliseconds main 1000" \
                "sentinel failover-timeout main 3000" "$4" >sentinel.conf
            exec redis-server sentinel.conf --sentinel"#;
        let password = if with_password {
            format!("requirepass {PASSWORD}\nsentinel sentinel-pass {PASSWORD}")
        } else {
            String::new()
        };
        let start = |_| ServerProcess::start(script, &[&port, PASSWORD, &password]);
        let sentinels: Vec<_> = (0..3).map(start).collect();
        let started = Self {
            servers: [primary, replica],
            sentinels,
        };
        for sentinel in &started.sentinels {
            sentinel.wait_until(|port| {
                let asked = RedisServer::execute_at(port, &["SENTINEL", "MASTER", "main"]);
                asked.contains("num-other-sentinels\n2\n") && asked.contains("num-slaves\n1\n")
            });
        }
        Some(started)
    }

    /// The URL of a database, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        let addresses = self
            .sentinels
            .iter()
            .map(|sentinel| format!("127.0.0.1:{}", sentinel.port()));
        let addresses: Vec<_> = addresses.collect();
        format!(
            "redis-sentinel://:{PASSWORD}@{}/main/1",
            addresses.join(",")
        )
    }

    /// The first primary server, and its replica.
    pub fn servers(&mut self) -> &mut [RedisServer; 2] {
        &mut self.servers
    }

    /// Ends one of the three sentinels.
    pub fn stop_sentinel(&mut self, number: usize) {
        self.sentinels[number].stop("KILL");
    }
}
