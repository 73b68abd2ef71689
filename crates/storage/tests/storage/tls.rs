//! TLS: without trust there is no answer. The positive case needs a certificate that the whole
//! machine trusts, which a test must not install.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cachalot_storage::ErrorKind;

use crate::server::say;
use crate::storage_in;

/// `openssl s_server`, ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with a self-signed certificate, and its port; `None` without openssl.
fn self_signed(directory: &Path) -> Option<(Server, u16)> {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ])
        .args([
            "-days",
            "2",
            "-keyout",
            "key.pem",
            "-out",
            "certificate.pem",
        ])
        .current_dir(directory)
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut server = Command::new("openssl")
        .args(["s_server", "-accept", "127.0.0.1:0", "-www"])
        .args(["-key", "key.pem", "-cert", "certificate.pem"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let output = BufReader::new(server.stdout.take().unwrap());
    let server = Server(server);
    let place = output
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("ACCEPT "))?;
    let port = place.rsplit(':').next()?.trim().parse().ok()?;
    Some((server, port))
}

#[tokio::test]
async fn a_self_signed_certificate_is_not_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let Some((_server, port)) = self_signed(directory.path()) else {
        return;
    };
    let uri = format!("https://localhost:{port}/");
    let error = storage_in(directory.path())
        .read(&uri, 1 << 20)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.is_retryable()),
        (ErrorKind::Unavailable, false),
        "{error}"
    );
    assert!(error.message.contains("no trust in"), "{error}");
}

#[tokio::test]
async fn server_without_tls_is_an_error() {
    let server = say(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", true).await;
    let error = storage_in(Path::new("/"))
        .read(&format!("https://{server}/"), 10)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}
