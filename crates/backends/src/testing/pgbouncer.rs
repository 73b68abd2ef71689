//! A pooler in front of a Postgres server.

use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PASSWORD;
use super::postgres::PostgresServer;
use super::server_process::ServerProcess;

/// PgBouncer in transaction mode: each transaction may use another connection to the server.
#[derive(Debug)]
pub struct PgBouncer {
    process: ServerProcess,
}

impl PgBouncer {
    /// Returns the pooler in front of [`PostgresServer::shared`], started by the first call; `None`, with a notice, on
    /// a machine without it.
    ///
    /// # Panics
    /// If the pooler does not start.
    pub fn shared() -> Option<&'static Self> {
        static POOLER: OnceLock<Option<PgBouncer>> = OnceLock::new();
        POOLER
            .get_or_init(|| Self::start(PostgresServer::shared()?.port()))
            .as_ref()
    }

    /// Starts a pooler in front of the server at a port of the loopback interface; `None`, with a notice, on a machine
    /// without it.
    ///
    /// # Panics
    /// If the pooler does not start.
    #[must_use]
    pub fn start(server: u16) -> Option<Self> {
        if Command::new("pgbouncer").arg("--version").output().is_err() {
            eprintln!("skipped: there is no PgBouncer (Debian: apt-get install pgbouncer)");
            return None;
        }
        // It refuses to run as root. It knows users by a file, so all that tests may create are in it.
        let script = r#"
            as=
            if [ "$(id -u)" = 0 ]; then
                chown postgres . && as="setpriv --reuid postgres --regid postgres --clear-groups"
            fi
            for user in cachalot $(seq -f p%.0f 0 999); do echo "\"$user\" \"$3\""; done >users
            cat >ini <<END
[databases]
* = host=127.0.0.1 port=$2
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $1
unix_socket_dir =
auth_type = scram-sha-256
auth_file = users
pool_mode = transaction
default_pool_size = 3
; By default, it waits 15 s after a login that fails, as it does while the test ends connections.
server_login_retry = 1
END
            exec $as pgbouncer ini"#;
        let process = ServerProcess::start(script, &[&server.to_string(), PASSWORD]);
        process.wait_until(|port| TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { process })
    }

    /// The port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// Returns the URL, with the password, of a new user with an empty schema of its own.
    ///
    /// # Panics
    /// If they cannot be created.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let user = format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed));
        if let Some(server) = PostgresServer::shared() {
            server.psql(&[
                "-c",
                &format!(
                    "CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'; CREATE SCHEMA {user} AUTHORIZATION {user}"
                ),
            ]);
        }
        let port = self.port();
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{port}/postgres")
    }
}
