//! A Redis server.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PASSWORD;
use super::certificates::Certificates;
use super::server_process::{ServerProcess, free_port};

/// A running Redis server.
#[derive(Debug)]
pub struct RedisServer {
    process: ServerProcess,
    pid: String,
}

impl RedisServer {
    /// Returns the server of this process, started by the first call; `None`, with a notice, on a machine
    /// without Redis.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<RedisServer>> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// Starts a server with further arguments, which keeps nothing in files unless they say so; `None`, with a
    /// notice, on a machine without Redis. The variable `CACHALOT_TEST_REDIS_SERVER` names another program, such as
    /// Valkey's.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Option<Self> {
        Self::start_in("", arguments)
    }

    /// Starts a server that orders text as in English; `None`, with a notice, on a machine that cannot generate
    /// the locale.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start_in_english() -> Option<Self> {
        let server = Self::start_in("en_US.UTF-8", &[])?;
        if server.execute(&["EVAL", "return 'a' < 'B'", "0"]).trim() != "1" {
            eprintln!(
                "skipped: there is no source of the locale en_US (Debian: apt-get install locales)"
            );
            return None;
        }
        Some(server)
    }

    fn start_in(locale: &str, arguments: &[&str]) -> Option<Self> {
        let program = std::env::var("CACHALOT_TEST_REDIS_SERVER");
        let program = program.unwrap_or_else(|_| "redis-server".to_owned());
        let version = Command::new(&program).arg("--version").output();
        if version.is_err() {
            eprintln!("skipped: there is no Redis server (Debian: apt-get install redis-server)");
            return None;
        }
        let script = r#"
            port=$1 program=$2 password=$3 locale=$4 && shift 4
            if [ -n "$locale" ] && localedef -i "${locale%%.*}" -f "${locale##*.}" "./$locale"
            then export LOCPATH="$PWD" LC_ALL="$locale"
            fi
            exec "$program" --port "$port" --bind 127.0.0.1 --unixsocket "$PWD/socket" --requirepass "$password" \
                --masterauth "$password" --databases 10000 --save "" "$@""#;
        let process = ServerProcess::start(
            script,
            &[&[&*program, PASSWORD, locale], arguments].concat(),
        );
        let mut server = Self {
            process,
            pid: String::new(),
        };
        server.wait();
        Some(server)
    }

    /// Starts a server that also speaks TLS; returns it with the URL for that, which contains the password.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start_with_tls() -> Option<(Self, String)> {
        let port = free_port();
        let certificates = Certificates::shared();
        let server = Self::start(&[
            "--tls-port",
            &port.to_string(),
            "--tls-auth-clients",
            "no",
            "--tls-ca-cert-file",
            certificates.authority.to_str().unwrap(),
            "--tls-cert-file",
            certificates.certificate.to_str().unwrap(),
            "--tls-key-file",
            certificates.key.to_str().unwrap(),
        ])?;
        Some((server, format!("rediss://:{PASSWORD}@127.0.0.1:{port}/0")))
    }

    /// Ends the server as a crash does, and starts it again.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart(&mut self) {
        self.process.restart("KILL");
        self.wait();
    }

    /// Ends the server as a crash does.
    pub fn stop(&mut self) {
        self.process.stop("KILL");
    }

    /// Sends a signal to the process, such as `STOP`, which it does not notice, and `CONT`.
    ///
    /// # Panics
    /// If there is no such process.
    pub fn signal(&self, name: &str) {
        let done = Command::new("kill")
            .args([&format!("-{name}"), &self.pid])
            .status();
        assert!(done.unwrap().success());
    }

    /// Returns the URL, with the password, of an empty database of its own.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("redis://:{PASSWORD}@127.0.0.1:{}/{number}", self.port())
    }

    /// The port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// The socket in the file system.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.process.directory().join("socket")
    }

    /// Executes a command, and returns its reply as text.
    ///
    /// # Panics
    /// If `redis-cli` cannot be run.
    pub fn execute(&self, command: &[&str]) -> String {
        Self::execute_at(self.port(), command)
    }

    /// Ends the connections of all clients.
    pub fn end_connections(&self) {
        self.execute(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }

    /// The number of clients.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn clients(&self) -> u64 {
        let clients = self.execute(&["CLIENT", "LIST", "TYPE", "normal"]);
        // One of them asks.
        clients
            .lines()
            .filter(|line| line.starts_with("id="))
            .count() as u64
            - 1
    }

    /// Executes a command on the server at a port.
    pub(super) fn execute_at(port: u16, command: &[&str]) -> String {
        let done = Command::new("redis-cli")
            .args(["-p", &port.to_string(), "--no-auth-warning"])
            .args(command)
            .env("REDISCLI_AUTH", PASSWORD)
            .output();
        String::from_utf8(done.unwrap().stdout).unwrap()
    }

    fn wait(&mut self) {
        self.process
            .wait_until(|_| self.execute(&["PING"]).trim() == "PONG");
        let info = self.execute(&["INFO", "server"]);
        let pid = info
            .lines()
            .find_map(|line| line.strip_prefix("process_id:"));
        pid.unwrap().clone_into(&mut self.pid);
    }
}
