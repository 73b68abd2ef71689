//! Unit tests of `src/postgres/server.rs`.

use super::*;

#[test]
fn certificates_are_named_by_the_environment() {
    for parameters in ["sslrootcert=/x.pem", "sslmode=verify-full"] {
        let url = format!("postgres://me@one/db?{parameters}");
        let server = Server::new(&StoreUrl::recognize(&url).unwrap(), None);
        let fault = server.err().unwrap().to_string();
        assert!(fault.contains("SSL_CERT_FILE"), "{fault}");
    }
}

#[test]
fn primary_is_looked_for_among_several_hosts() {
    let attributes = |url| {
        let server = Server::new(&StoreUrl::recognize(url).unwrap(), None).unwrap();
        server.config().unwrap().get_target_session_attrs()
    };
    let one = attributes("postgres://me@one/db");
    assert_eq!(one, TargetSessionAttrs::Any);
    let several = attributes("postgres://me@one,two/db");
    assert_eq!(several, TargetSessionAttrs::ReadWrite);
}
