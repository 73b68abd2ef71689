//! Servers of Debian's packages, in temporary directories, for all tests of a process.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it was skipped"
)]

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The password of the servers' users.
pub const PASSWORD: &str = "pg-secret-5531";

/// A running server.
#[derive(Debug)]
pub struct PostgresServer {
    port: u16,
    /// Ends the server when this process ends: it reads the pipe.
    _watcher: Child,
}

impl PostgresServer {
    /// Returns the server of this process, started by the first call; `None`, with a notice, on a machine
    /// without Postgres.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<PostgresServer>> = OnceLock::new();
        let server = SERVER.get_or_init(start).as_ref();
        if server.is_none() {
            eprintln!("skipped: there is no Postgres server (Debian: apt-get install postgresql)");
        }
        server
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
            self.port
        )
    }
}

impl PostgresServer {
    /// Executes statements in the schema of a URL from [`PostgresServer::fresh_url`].
    ///
    /// # Panics
    /// If a statement fails.
    pub fn execute(&self, url: &str, statements: &str) {
        let schema = url.rsplit("%3D").next().unwrap_or_default();
        let path = format!("SET search_path = {schema}");
        self.psql(&["-c", &path, "-c", statements]);
    }

    fn psql(&self, arguments: &[&str]) {
        let done = Command::new("psql")
            .args(["-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"])
            .args(["-U", "cachalot", "-d", "postgres"])
            .args(["-p", &self.port.to_string()])
            .args(arguments)
            .env("PGPASSWORD", PASSWORD)
            .status()
            .unwrap();
        assert!(done.success());
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

fn start() -> Option<PostgresServer> {
    let programs = programs()?;
    let directory = tempfile::tempdir().unwrap().keep();
    let password = directory.join("password");
    std::fs::File::create(&password)
        .unwrap()
        .write_all(PASSWORD.as_bytes())
        .unwrap();
    // The server refuses to run as root.
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if is_root {
        let owner = Command::new("chown")
            .args(["-R", "postgres"])
            .arg(&directory)
            .status();
        assert!(owner.unwrap().success());
    }
    let port = free_port();
    let script = r#"
        cd "$2" && as=; [ "$(id -u)" = 0 ] && as="setpriv --reuid postgres --regid postgres --clear-groups"
        $as "$1/initdb" -D data -U cachalot --pwfile password -A scram-sha-256 --no-sync >log 2>&1 || { cat log; exit 1; }
        $as "$1/postgres" -D data -k "$2" -p "$3" -c listen_addresses=127.0.0.1 -c fsync=off \
            -c max_connections=300 >>log 2>&1 &
        cat >/dev/null
        kill -INT $!; wait; rm -rf "$2""#;
    let watcher = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&programs)
        .arg(&directory)
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(port, &directory);
    Some(PostgresServer {
        port,
        _watcher: watcher,
    })
}

/// Waits until the server accepts connections.
fn wait_for(port: u16, directory: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let ready = Command::new("pg_isready")
            .args(["-q", "-h", "127.0.0.1", "-p", &port.to_string()])
            .status();
        if ready.unwrap().success() {
            return;
        }
        let log = std::fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(
            Instant::now() < end,
            "the Postgres server did not start: {log}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A running Redis server.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    /// Ends the server when this process ends: it reads the pipe.
    _watcher: Child,
}

impl RedisServer {
    /// Returns the server of this process, started by the first call; `None`, with a notice, on a machine
    /// without Redis.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<RedisServer>> = OnceLock::new();
        let server = SERVER.get_or_init(start_redis).as_ref();
        if server.is_none() {
            eprintln!("skipped: there is no Redis server (Debian: apt-get install redis-server)");
        }
        server
    }

    /// Returns the URL, with the password, of an empty database of its own.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("redis://:{PASSWORD}@127.0.0.1:{}/{number}", self.port)
    }
}

fn start_redis() -> Option<RedisServer> {
    Command::new("redis-server")
        .arg("--version")
        .output()
        .ok()?;
    let directory = tempfile::tempdir().unwrap().keep();
    let port = free_port();
    let script = r#"
        cd "$1"
        redis-server --port "$2" --bind 127.0.0.1 --requirepass "$3" --databases 10000 --save "" >log 2>&1 &
        cat >/dev/null
        kill -INT $!; wait; rm -rf "$1""#;
    let watcher = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&directory)
        .args([&port.to_string(), PASSWORD])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "the Redis server did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(RedisServer {
        port,
        _watcher: watcher,
    })
}
