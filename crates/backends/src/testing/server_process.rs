//! A server that ends with the tests.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A running server in a temporary directory, which is removed with it.
#[derive(Debug)]
pub(super) struct ServerProcess {
    port: u16,
    directory: PathBuf,
    script: &'static str,
    arguments: Vec<String>,
    /// Ends the server when this process ends: it reads the pipe.
    watcher: Child,
}

impl ServerProcess {
    /// Starts a server in an empty directory, by a shell script that ends by replacing itself with the server. The
    /// script's first argument is a free port.
    pub(super) fn start(script: &'static str, arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap().keep();
        let port = free_port();
        let arguments: Vec<String> = arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect();
        let watcher = watch(script, &directory, port, &arguments);
        Self {
            port,
            directory,
            script,
            arguments,
            watcher,
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Ends the server with a signal.
    pub(super) fn stop(&mut self, signal: &str) {
        let mut pipe = self.watcher.stdin.take().unwrap();
        writeln!(pipe, "{signal}").unwrap();
        self.watcher.wait().unwrap();
    }

    /// Ends the server with a signal, and starts it again in its directory and on its port.
    pub(super) fn restart(&mut self, signal: &str) {
        self.stop(signal);
        self.watcher = watch(self.script, &self.directory, self.port, &self.arguments);
    }

    /// Waits until the server is ready.
    pub(super) fn wait_until(&self, is_ready: impl Fn(u16) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_ready(self.port) {
            let log = std::fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            assert!(Instant::now() < end, "the server did not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns a port that nothing listens on, below those that the system gives to connections: one of these could be
/// taken before the server listens.
pub(super) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id()
            .wrapping_mul(61)
            .wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + u16::try_from(number % 12_000).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Runs the script; ends the server with the signal that the pipe names, or with this process. A server that has not
/// ended 10 s after this process is killed. The shell has no output of its own: a reader of the tests' output would wait
/// for it.
fn watch(script: &str, directory: &Path, port: u16, arguments: &[String]) -> Child {
    let watch = r#"
        cd "$1" && script=$2 && shift 2
        sh -c "$script" sh "$@" >>log 2>&1 &
        server=$!
        if read -r signal; then
            kill -"$signal" $server; wait; exit
        fi
        kill -CONT $server; kill -INT $server
        for _ in $(seq 100); do
            kill -0 $server || break
            sleep 0.1
        done
        kill -KILL $server; wait; rm -rf "$PWD""#;
    Command::new("sh")
        .args(["-c", watch, "sh"])
        .arg(directory)
        .args([script, &port.to_string()])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
