//! A server of S3's protocol.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::server_process::ServerProcess;

/// A running Moto server (Python package `moto[server]`).
#[derive(Debug)]
pub struct ObjectServer {
    process: ServerProcess,
}

impl ObjectServer {
    /// Returns the server of this process, started by the first call; `None`, with a notice, on a machine
    /// without it. The variable `CACHALOT_TEST_MOTO` names the program.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<ObjectServer>> = OnceLock::new();
        SERVER.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Self> {
        let program = std::env::var("CACHALOT_TEST_MOTO");
        let program = program.unwrap_or_else(|_| "moto_server".to_owned());
        if Command::new(&program).arg("--help").output().is_err() {
            eprintln!("skipped: there is no server of S3's protocol (pip install 'moto[server]')");
            return None;
        }
        let script = r#"exec "$2" -H 127.0.0.1 -p "$1""#;
        let process = ServerProcess::start(script, &[&program]);
        process.wait_until(|port| TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { process })
    }

    /// Returns the URL of an object that does not exist, in a new bucket.
    ///
    /// # Panics
    /// If the bucket cannot be created.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bucket = format!("bucket-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut connection = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let request = format!(
            "PUT /{bucket} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        format!("s3://{bucket}/folder/store.db")
    }

    /// The port on the loopback interface.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.process.port()
    }

    /// The environment of a client.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let endpoint = format!("http://127.0.0.1:{}", self.port());
        [
            ("AWS_ACCESS_KEY_ID", "testing"),
            ("AWS_SECRET_ACCESS_KEY", "testing-secret"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL_S3", &endpoint),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }
}
