//! Servers of the protocols of buckets.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::server_process::ServerProcess;

/// The account of the Azure server, and its key.
const ACCOUNT: &str = "account";
const ACCOUNT_KEY: &[u8] = b"testing-secret";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    S3,
    Azure,
    Google,
}

/// A running server.
#[derive(Debug)]
pub struct ObjectServer {
    process: ServerProcess,
    protocol: Protocol,
}

impl ObjectServer {
    /// Returns the server of S3's protocol of this process, Moto (Python package `moto[server]`), started by the
    /// first call; `None`, with a notice, on a machine without it. The variable `CACHALOT_TEST_MOTO` names the
    /// program.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn shared() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<ObjectServer>> = OnceLock::new();
        let start = || {
            let program = std::env::var("CACHALOT_TEST_MOTO");
            let program = program.unwrap_or_else(|_| "moto_server".to_owned());
            // Python executes `sitecustomize.py` when it starts.
            let script = concat!(
                "cat >sitecustomize.py <<'END'\n",
                include_str!("moto_fixture.py"),
                "\nEND\nPYTHONPATH=. exec \"$2\" -H 127.0.0.1 -p \"$1\""
            );
            Self::start(Protocol::S3, script, &program, "pip install 'moto[server]'")
        };
        SERVER.get_or_init(start).as_ref()
    }

    /// Returns the server of Azure's protocol of this process, Azurite (Node package `azurite`), like
    /// [`ObjectServer::shared`]. The variable `CACHALOT_TEST_AZURITE` names the program `azurite-blob`.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn azure() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<ObjectServer>> = OnceLock::new();
        let start = || {
            let program = std::env::var("CACHALOT_TEST_AZURITE");
            let program = program.unwrap_or_else(|_| "azurite-blob".to_owned());
            let script = r#"
                AZURITE_ACCOUNTS="account:dGVzdGluZy1zZWNyZXQ=" \
                    exec "$2" --blobHost 127.0.0.1 --blobPort "$1" --silent --inMemoryPersistence \
                    --skipApiVersionCheck --disableTelemetry"#;
            Self::start(Protocol::Azure, script, &program, "npm install azurite")
        };
        SERVER.get_or_init(start).as_ref()
    }

    /// Returns a stand-in of our own for Google Cloud Storage (`google_storage_fixture.py`), like
    /// [`ObjectServer::shared`]: the emulators of the package registries ignore the conditions of writes.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn google() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<ObjectServer>> = OnceLock::new();
        let start = || {
            let script = concat!(
                "cat >fixture.py <<'END'\n",
                include_str!("google_storage_fixture.py"),
                "\nEND\nexec \"$2\" fixture.py \"$1\""
            );
            Self::start(Protocol::Google, script, "python3", "install Python")
        };
        SERVER.get_or_init(start).as_ref()
    }

    fn start(
        protocol: Protocol,
        script: &'static str,
        program: &str,
        remedy: &str,
    ) -> Option<Self> {
        if Command::new(program).arg("--help").output().is_err() {
            eprintln!("skipped: there is no server of buckets ({protocol:?}): {remedy}");
            return None;
        }
        let process = ServerProcess::start(script, &[program]);
        process.wait_until(|port| TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { process, protocol })
    }

    /// Returns the URL of an object that does not exist, in a new bucket.
    ///
    /// # Panics
    /// If the bucket cannot be created.
    #[must_use]
    pub fn fresh_url(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let bucket = format!("bucket-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (scheme, path, headers) = match self.protocol {
            Protocol::S3 => ("s3", format!("/{bucket}"), String::new()),
            Protocol::Google => ("gs", format!("/{bucket}"), String::new()),
            Protocol::Azure => {
                let path = format!("/{ACCOUNT}/{bucket}?restype=container");
                ("az", path, signature(&bucket))
            }
        };
        let mut connection = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let request = format!(
            "PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        format!("{scheme}://{bucket}/folder/store.db")
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
        let pairs = match self.protocol {
            Protocol::S3 => vec![
                ("AWS_ACCESS_KEY_ID", "testing".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "testing-secret".to_owned()),
                ("AWS_REGION", "us-east-1".to_owned()),
                ("AWS_ENDPOINT_URL_S3", endpoint),
            ],
            Protocol::Azure => {
                let key = BASE64_STANDARD.encode(ACCOUNT_KEY);
                vec![(
                    "AZURE_STORAGE_CONNECTION_STRING",
                    format!(
                        "DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};\
                         BlobEndpoint={endpoint}/{ACCOUNT}"
                    ),
                )]
            }
            Protocol::Google => vec![(
                "GOOGLE_SERVICE_ACCOUNT_KEY",
                format!(
                    r#"{{"gcs_base_url": "{endpoint}", "disable_oauth": true, "client_email": "",
                        "private_key": "", "private_key_id": ""}}"#
                ),
            )],
        };
        let pairs = pairs.into_iter();
        pairs
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

/// Returns the headers that authorize the creation of a container
/// (<https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key>).
fn signature(container: &str) -> String {
    let date = Command::new("date")
        .args(["-u", "+%a, %d %b %Y %H:%M:%S GMT"])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let date = String::from_utf8(date.stdout).unwrap();
    let headers = format!("x-ms-date:{}\nx-ms-version:2021-08-06", date.trim());
    let resource = format!("/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container");
    let text = format!("PUT{}{headers}\n{resource}", "\n".repeat(12));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, ACCOUNT_KEY);
    let signed = BASE64_STANDARD.encode(ring::hmac::sign(&key, text.as_bytes()));
    let headers = headers.replace('\n', "\r\n").replacen(':', ": ", 1);
    format!("{headers}\r\nAuthorization: SharedKey {ACCOUNT}:{signed}\r\n")
}
