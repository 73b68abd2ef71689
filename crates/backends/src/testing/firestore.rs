//! A database of Firestore.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
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
    process: Option<ServerProcess>,
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
                process: None,
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
            process: Some(process),
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

    /// Makes the next requests to the collection of a URL fail with an error of the service; those with a method, or
    /// with any if that is empty. False for an emulator that cannot do so.
    #[must_use]
    pub fn fail(&self, url: &str, times: u32, method: &str, error: (u16, &str, &str)) -> bool {
        let (code, status, message) = error;
        let fault = format!(
            r#"{{"collection": "{}", "times": {times}, "method": "{method}", "code": {code}, "status": "{status}",
                "message": "{message}"}}"#,
            collection(url)
        );
        self.call_stand_in("test:fail", &fault).is_some()
    }

    /// Returns the number of requests to the collection of a URL since the last call, and that of the documents that
    /// they have read; `None` for an emulator that does not count them.
    ///
    /// # Panics
    /// If there is no answer.
    #[must_use]
    pub fn count(&self, url: &str) -> Option<(u64, u64)> {
        let request = format!(r#"{{"collection": "{}"}}"#, collection(url));
        let answer = self.call_stand_in("test:count", &request)?;
        let number = |name: &str| {
            let (_, rest) = answer.split_once(name).unwrap();
            let digits = rest.trim_start_matches(['"', ':', ' ']);
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap();
            digits[..end].parse().unwrap()
        };
        Some((number("requests"), number("documents")))
    }

    /// Calls a method that only the stand-in has.
    fn call_stand_in(&self, method: &str, content: &str) -> Option<String> {
        self.process.as_ref()?;
        let mut connection = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let request = format!(
            "POST /v1/{method} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer owner\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{content}",
            content.len()
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        Some(answer)
    }

    /// The environment of a client.
    #[must_use]
    pub fn environment(&self) -> BTreeMap<String, String> {
        let name = "FIRESTORE_EMULATOR_HOST".to_owned();
        BTreeMap::from([(name, self.host.clone())])
    }
}

fn collection(url: &str) -> &str {
    url.rsplit('/').next().unwrap_or_default()
}
