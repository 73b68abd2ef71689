//! Remedies for certificates that are not trusted.

/// Returns the change after which the certificate of a server is trusted, by the text of a failure of TLS: that of
/// `CertificateError` in rustls. Where rustls 0.23.46 verifies (Linux), two causes are sentences; where the operating
/// system does, all are names.
pub(crate) fn trust_remedy(failure: &str) -> Option<&'static str> {
    const OTHER_NAME: &str = "connect by a name that the certificate has as a subjectAltName";
    const EXPIRED: &str = "renew the certificate of the server";
    [
        (
            "UnknownIssuer",
            "name a file with the certificate of its issuer, or with its own one if it signed itself, in SSL_CERT_FILE",
        ),
        (
            "CaUsedAsEndEntity",
            "its certificate is one of an authority: make one for the server (openssl req -x509 -addext \
             basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:HOST …), and name it in SSL_CERT_FILE",
        ),
        ("certificate not valid for name", OTHER_NAME),
        ("NotValidForName", OTHER_NAME),
        ("certificate expired", EXPIRED),
        ("Expired", EXPIRED),
        (
            "failed to read PEM",
            "name a file with certificates in SSL_CERT_FILE, or leave that variable out",
        ),
    ]
    .into_iter()
    .find_map(|(cause, remedy)| failure.contains(cause).then_some(remedy))
}
