//! A database of Firestore.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::server_process::ServerProcess;

/// An emulator of Firestore.
#[derive(Debug)]
pub struct FirestoreEmulator {
    host: String,
    /// `None` for an emulator that was started by others.
    _process: Option<ServerProcess>,
}

impl FirestoreEmulator {
    /// Returns the emulator that `CACHALOT_TEST_FIRESTORE` names by host and port (Google's own, from
    /// `gcloud emulators firestore start`), or else a stand-in of our own (`firestore_fixture.py`), started by the first
    /// call; `None`, with a notice, on a machine without Python. `CACHALOT_TEST_FIRESTORE_PYTHON` names a Python with
    /// the package `google-cloud-firestore`, with which the stand-in checks the types of requests.
    ///
    /// # Panics
    /// If it does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<FirestoreEmulator>> = OnceLock::new();
        SERVER.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Self> {
        if let Ok(host) = std::env::var("CACHALOT_TEST_FIRESTORE") {
            return Some(Self {
                host,
                _process: None,
            });
        }
        let python = std::env::var("CACHALOT_TEST_FIRESTORE_PYTHON");
        let python = python.unwrap_or_else(|_| "python3".to_owned());
        if Command::new(&python).arg("--help").output().is_err() {
            eprintln!("skipped: there is no Python for the stand-in of Firestore");
            return None;
        }
        let script = concat!(
            "cat >fixture.py <<'END'\n",
            include_str!("firestore_fixture.py"),
            "\nEND\nexec \"$2\" fixture.py \"$1\""
        );
        let process = ServerProcess::start(script, &[&python]);
        process.wait_until(|port| TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self {
            host: format!("127.0.0.1:{}", process.port()),
            _process: Some(process),
        })
    }

    /// The port of the emulator.
    ///
    /// # Panics
    /// If `CACHALOT_TEST_FIRESTORE` has no port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.host.rsplit(':').next().unwrap().parse().unwrap()
    }

    /// Returns the URL of a collection that does not exist.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        format!("firestore://cachalot-test/test-{process}-{number}")
    }

    /// The environment of a client.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let name = "FIRESTORE_EMULATOR_HOST".to_owned();
        BTreeMap::from([(name, self.host.clone())])
    }
}
