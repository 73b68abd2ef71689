//! Certificates of servers on the loopback interface.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// A certificate for 127.0.0.1, its key, and the authority that signed it, as PEM files.
#[derive(Debug)]
pub struct Certificates {
    /// The certificate of the authority, which is not trusted by default.
    pub authority: PathBuf,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The server's key.
    pub key: PathBuf,
}

impl Certificates {
    /// Returns the certificates of this process, made by the first call with the program `openssl`.
    ///
    /// # Panics
    /// If they cannot be made.
    pub fn shared() -> &'static Self {
        static CERTIFICATES: OnceLock<Certificates> = OnceLock::new();
        CERTIFICATES.get_or_init(|| {
            let directory = tempfile::tempdir().unwrap().keep();
            let script = r#"
                set -e
                new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
                $new -x509 -days 2 -subj /CN=authority -keyout authority.key -out authority.pem
                $new -subj /CN=localhost -keyout key.pem -out request.pem
                echo subjectAltName=IP:127.0.0.1 >extensions
                openssl x509 -req -days 2 -in request.pem -CA authority.pem -CAkey authority.key -CAcreateserial \
                    -extfile extensions -out certificate.pem"#;
            let made = Command::new("sh")
                .args(["-c", script])
                .current_dir(&directory)
                .output()
                .unwrap();
            assert!(made.status.success(), "{made:?}");
            Self {
                authority: directory.join("authority.pem"),
                certificate: directory.join("certificate.pem"),
                key: directory.join("key.pem"),
            }
        })
    }
}
