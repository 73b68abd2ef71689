//! `tls` of a configuration file: reads the certificate and its key.

use std::path::Path;
use std::sync::Arc;

use cachalot_core::Problem;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::TlsFiles;

impl TlsFiles {
    /// Reads the files. Relative paths start at `directory`.
    ///
    /// # Errors
    /// The problem of a file, or the key is not that of the certificate.
    pub(crate) fn read(&self, directory: &Path) -> Result<Arc<ServerConfig>, Box<Problem>> {
        let problem =
            |text: String| Box::new(Problem::new("unusable-certificate", text).at(&self.place));
        let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
            problem(format!("{}: {error}; expected a PEM file", path.display()))
        };
        let certificates = CertificateDer::pem_file_iter(directory.join(&self.certificate))
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unreadable(&self.certificate, &error))?;
        if certificates.is_empty() {
            return Err(unreadable(&self.certificate, &"there is no certificate"));
        }
        let key = PrivateKeyDer::from_pem_file(directory.join(&self.key));
        let key = key.map_err(|error| unreadable(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(certificates, key)
            });
        let mut config =
            config.map_err(|error| problem(format!("the certificate cannot be used: {error}")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
