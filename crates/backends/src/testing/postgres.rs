//! A Postgres server.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PASSWORD;
use super::certificates::Certificates;
use super::server_process::ServerProcess;

/// Connections of clients other than the one that asks.
const CLIENTS: &str = "pid <> pg_backend_pid() AND backend_type = 'client backend'";

/// A running Postgres server.
#[derive(Debug)]
pub struct PostgresServer {
    process: ServerProcess,
}

impl PostgresServer {
    /// Returns the server of this process, started by the first call; `None`, with a notice, on a machine
    /// without Postgres.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
        SERVER
            .get_or_init(|| Self::start(&["-c", "fsync=off"]))
            .as_ref()
    }

    /// Starts a server with further arguments; `None`, with a notice, on a machine without Postgres.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let Some(programs) = programs() else {
            eprintln!("skipped: there is no Postgres server (Debian: apt-get install postgresql)");
            return None;
        };
        // The server refuses to run as root.
        let script = r#"
            port=$1 password=$2 programs=$3 certificate=$4 key=$5 && shift 5
            as=
            [ "$(id -u)" = 0 ] && as="setpriv --reuid postgres --regid postgres --clear-groups"
            if ! [ -d data ]; then
                [ -z "$as" ] || chown postgres .
                printf %s "$password" >password
                cp "$certificate" certificate.pem && (umask 077 && cp "$key" key.pem)
                [ -z "$as" ] || chown postgres key.pem
                $as "$programs/initdb" -D data -U cachalot --pwfile password -A scram-sha-256 --no-sync || exit 1
            fi
            exec $as "$programs/postgres" -D data -k "$PWD" -p "$port" -c listen_addresses=127.0.0.1 \
                -c max_connections=300 -c ssl=on -c ssl_cert_file="$PWD/certificate.pem" \
                -c ssl_key_file="$PWD/key.pem" "$@""#;
        let certificates = Certificates::shared();
        let own = [
            PASSWORD,
            programs.to_str().unwrap(),
            certificates.certificate.to_str().unwrap(),
            certificates.key.to_str().unwrap(),
        ];
        let process = ServerProcess::start(script, &[&own[..], arguments].concat());
        let server = Self { process };
        server.wait();
        Some(server)
    }

    /// Starts a hot standby of the server.
    ///
    /// # Panics
    /// If the standby does not start.
    #[must_use]
    pub fn start_standby(&self) -> Self {
        let script = r#"
            port=$1 primary=$2 programs=$4
            export PGPASSWORD="$3"
            as=
            if [ "$(id -u)" = 0 ]; then
                chown postgres . && as="setpriv --reuid postgres --regid postgres --clear-groups"
            fi
            $as "$programs/pg_basebackup" -h 127.0.0.1 -p "$primary" -U cachalot -D data -R --no-sync -c fast || exit 1
            exec $as "$programs/postgres" -D data -k "$PWD" -p "$port" -c listen_addresses=127.0.0.1 \
                -c max_connections=300"#;
        let programs = programs().unwrap();
        let arguments = [
            &self.port().to_string(),
            PASSWORD,
            programs.to_str().unwrap(),
        ];
        let standby = Self {
            process: ServerProcess::start(script, &arguments),
        };
        standby.wait();
        standby
    }

    /// Makes a standby the primary server.
    ///
    /// # Panics
    /// If it does not become one.
    pub fn promote(&self) {
        assert_eq!(self.query("SELECT pg_promote()"), "t");
    }

    /// Ends the connections of all clients.
    ///
    /// # Panics
    /// If they cannot be ended.
    pub fn end_connections(&self) {
        let _ = self.query(&format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {CLIENTS}"
        ));
    }

    /// Ends the connections of a user.
    ///
    /// # Panics
    /// If they cannot be ended.
    pub fn end_connections_of(&self, user: &str) {
        let _ = self.query(&format!(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {CLIENTS} AND usename = '{user}'"
        ));
    }

    /// The number of clients.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn clients(&self) -> u64 {
        let clients = self.query(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE {CLIENTS}"
        ));
        clients.parse().unwrap()
    }

    /// Executes a statement, and returns its rows as text.
    ///
    /// # Panics
    /// If the statement fails.
    #[must_use]
    pub fn query(&self, statement: &str) -> String {
        let output = self.command(&["-At", "-c", statement]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Ends the server as a crash does.
    pub fn stop(&mut self) {
        self.process.stop("QUIT");
    }

    /// Ends the server as a crash does, and starts it again.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart(&mut self) {
        // Its processes end at once, and their memory is free for the next ones, which it is not after `KILL`.
        self.process.restart("QUIT");
        self.wait();
    }

    fn wait(&self) {
        self.process.wait_until(|port| {
            let mut ready = Command::new("pg_isready");
            let ready = ready.args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()]);
            ready.status().unwrap().success()
        });
    }

    /// Returns the URL, with the password, of an empty schema of its own.
    ///
    /// # Panics
    /// If the schema cannot be created.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let schema = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.psql(&["-c", &format!("CREATE SCHEMA {schema}")]);
        format!(
            "postgres://cachalot:{PASSWORD}@127.0.0.1:{}/postgres?options=-csearch_path%3D{schema}",
            self.process.port()
        )
    }
}

impl PostgresServer {
    /// The port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// Executes statements in the schema of a URL from [`PostgresServer::fresh_url`].
    ///
    /// # Panics
    /// If a statement fails.
    pub fn execute(&self, url: &str, statements: &str) {
        let schema = url.rsplit("%3D").next().unwrap_or_default();
        let path = format!("SET search_path = {schema}");
        self.psql(&["-c", &path, "-c", statements]);
    }

    pub(super) fn psql(&self, arguments: &[&str]) {
        assert!(self.command(arguments).status().unwrap().success());
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("psql");
        command
            .args(["-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"])
            .args(["-U", "cachalot", "-d", "postgres"])
            .args(["-p", &self.process.port().to_string()])
            .args(arguments)
            .env("PGPASSWORD", PASSWORD);
        command
    }
}

/// Returns the folder of the server's programs.
fn programs() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut folders: Vec<PathBuf> = installed
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("initdb").exists())
        .collect();
    folders.sort();
    folders.pop()
}
