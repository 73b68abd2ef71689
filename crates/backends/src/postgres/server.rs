//! The server of a store, and how connections to it are made.

use std::net::IpAddr;
use std::time::Duration;

use cachalot_core::Secret;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::CONNECT_TIMEOUT;
use crate::url::{StoreUrl, StoreUrlError};

/// The time without data after which the server is asked if it is there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);

/// Maximum time for the server's machine to acknowledge data.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// A server and the database on it.
pub struct Server {
    url: Secret<String>,
    /// Used if the URL has none.
    password: Option<Secret<String>>,
    /// The URL without the password.
    location: String,
    /// Maximum time to connect to a host, to check the tables, and to prepare a statement.
    pub(super) connect_timeout: Duration,
}

impl Server {
    /// Reads a URL `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`; `password` is used if it has none.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn new(url: &StoreUrl, password: Option<&str>) -> Result<Self, StoreUrlError> {
        url.check()?;
        let server = Self {
            url: Secret::new(url.text().to_owned()),
            password: password.map(|password| Secret::new(password.to_owned())),
            location: url.location().to_owned(),
            connect_timeout: CONNECT_TIMEOUT,
        };
        server.config().map(|_| server)
    }

    /// Sets the maximum time to connect, unless the URL has one.
    #[must_use]
    pub fn connecting_within(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The URL without the password and the parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    pub(super) fn config(&self) -> Result<Config, StoreUrlError> {
        // The text of the error may contain parts of the URL.
        let mut config: Config = self.url.expose().parse().map_err(|_| {
            let url = self.url.expose();
            let fault = if url.contains("sslrootcert=") || url.contains("sslmode=verify-") {
                "sslmode=require verifies the certificate; name the file of sslrootcert in SSL_CERT_FILE, and \
                 leave sslrootcert out"
            } else {
                "check its port and its parameters (sslmode, connect_timeout, options)"
            };
            StoreUrlError::Invalid(format!("the URL of {} is invalid: {fault}", self.location))
        })?;
        config.application_name("cachalot");
        if let (None, Some(password)) = (config.get_password(), &self.password) {
            config.password(password.expose());
        }
        // The client's default, `prefer`, goes on without TLS if the server, or a machine in between, declines it. A
        // server on this machine needs none, and often has a certificate that nobody signed.
        if config.get_ssl_mode() == SslMode::Prefer {
            config.ssl_mode(if is_local(&config) {
                SslMode::Disable
            } else {
                SslMode::Require
            });
        }
        // The primary server has to be found among them.
        let servers = config.get_hosts().len().max(config.get_hostaddrs().len());
        if servers > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        // A server that vanished without ending the connection is noticed.
        config.keepalives_idle(KEEPALIVE_AFTER);
        config.tcp_user_timeout(UNACKNOWLEDGED_TIMEOUT);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.connect_timeout);
        }
        Ok(config)
    }
}

/// True if connections stay on this machine.
fn is_local(config: &Config) -> bool {
    let mut hosts = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => {
            let address = name.parse::<IpAddr>();
            name == "localhost" || address.is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    // An address takes the place of a host.
    let mut addresses = config.get_hostaddrs().iter().map(IpAddr::is_loopback);
    let names_any = hosts.len() + addresses.len() > 0;
    names_any && hosts.all(|is_local| is_local) && addresses.all(|is_local| is_local)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/postgres/server.rs"]
mod tests;
