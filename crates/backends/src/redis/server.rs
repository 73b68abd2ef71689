//! The servers that a URL names.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    RedisError,
};

use crate::CONNECT_TIMEOUT;
use crate::url::{StoreUrl, StoreUrlError};

/// Maximum time of a call. Callers have limits of their own, which are shorter.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The time without data after which the server is asked if it is there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);

/// Maximum time for the server's machine to acknowledge data.
#[cfg(any(target_os = "android", target_os = "linux"))]
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(10);

/// How the server of a key is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Topology {
    /// The URL names the server.
    Single,
    /// The URL names sentinels, which name the primary server that has this name.
    Sentinel { primary: String },
    /// The URL names some nodes of a cluster.
    Cluster,
}

/// A server, or several that work together, and the number of the database on them.
pub struct Server {
    /// Without the number of the database: the client hides the cause if the server refuses to select it.
    info: ConnectionInfo,
    /// The addresses that the URL names; at least one.
    pub(super) addresses: Vec<ConnectionAddr>,
    pub(super) topology: Topology,
    pub(super) database: i64,
    pub(super) location: String,
    /// True if the operator says that the server has all acknowledged writes when it starts again.
    pub(super) is_durable: bool,
    /// Maximum time to connect.
    pub(super) connect_timeout: Duration,
}

impl Server {
    /// Reads a URL; `password` is used if it has none:
    ///
    /// - `redis://USER:PASSWORD@HOST:PORT/NUMBER`, or `unix:/PATH?db=NUMBER`
    /// - `redis-cluster://USER:PASSWORD@HOST:PORT,HOST:PORT`
    /// - `redis-sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/PRIMARY/NUMBER`
    ///
    /// `rediss`, `rediss-cluster` and `rediss-sentinel` are the same with TLS. The parameter `durable=true` declares that
    /// the server has all acknowledged writes when it starts again.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn new(url: &StoreUrl, password: Option<&str>) -> Result<Self, StoreUrlError> {
        let invalid = |fault| url.invalid(fault);
        url.check()?;
        let (client_scheme, kind) = url.scheme().split_once('-').unwrap_or((url.scheme(), ""));
        let (topology, urls) = match kind {
            "cluster" => {
                let (user, hosts, path) = parts(url.text());
                if !matches!(path, "" | "0") {
                    return Err(invalid(
                        "a cluster has no databases: write nothing after the hosts",
                    ));
                }
                (Topology::Cluster, urls(client_scheme, user, hosts, ""))
            }
            "sentinel" => {
                let (user, hosts, path) = parts(url.text());
                let (primary, number) = path.split_once('/').unwrap_or((path, ""));
                if primary.is_empty() {
                    return Err(invalid(
                        "write the name of the primary server after the hosts: \
                         redis-sentinel://HOST:26379,HOST:26379/mymaster/0",
                    ));
                }
                let primary = primary.to_owned();
                (
                    Topology::Sentinel { primary },
                    urls(client_scheme, user, hosts, number),
                )
            }
            _ => (Topology::Single, vec![url.text().to_owned()]),
        };
        let mut addresses = Vec::new();
        let mut first = None;
        for client_url in urls {
            // The text of the error may contain parts of the URL.
            let info = client_url.as_str().into_connection_info().map_err(|_| {
                invalid(
                    "write redis://HOST:6379/0 or unix:/PATH?db=0, with the number of the database",
                )
            })?;
            addresses.push(with_default_port(
                info.addr().clone(),
                &client_url,
                &topology,
            ));
            first.get_or_insert(info);
        }
        let mut info = first.ok_or_else(|| invalid("it names no host"))?;
        let mut settings = info.redis_settings().clone();
        let database = settings.db();
        settings = settings.set_db(0);
        if let (None, Some(password)) = (settings.password(), password) {
            settings = settings.set_password(password);
        }
        info = info.set_redis_settings(settings);
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(TcpKeepalive::new().with_time(KEEPALIVE_AFTER));
        #[cfg(any(target_os = "android", target_os = "linux"))]
        let tcp = tcp.set_user_timeout(UNACKNOWLEDGED_TIMEOUT);
        Ok(Self {
            info: info.set_tcp_settings(tcp),
            addresses,
            topology,
            database,
            location: url.location().to_owned(),
            is_durable: has_parameter(url.text(), "durable=true"),
            connect_timeout: CONNECT_TIMEOUT,
        })
    }

    /// Declares that the server has all acknowledged writes when it starts again, if the URL does not. Each connection
    /// checks the settings that this needs.
    #[must_use]
    pub fn durable(mut self, is_durable: bool) -> Self {
        self.is_durable |= is_durable;
        self
    }

    /// Sets the maximum time to connect.
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

    /// What a connection to an address needs.
    pub(super) fn connection_info(&self, address: ConnectionAddr) -> ConnectionInfo {
        self.info.clone().set_addr(address)
    }

    /// The same without the user and the password: sentinels often have none.
    pub(super) fn anonymous_connection_info(&self, address: ConnectionAddr) -> ConnectionInfo {
        self.connection_info(address)
            .set_redis_settings(redis::RedisConnectionInfo::default())
    }

    /// Returns the address of a server that another one has named, reached like the servers of the URL.
    pub(super) fn address(&self, host: &str, port: u16) -> ConnectionAddr {
        at(self.info.addr(), host, port)
    }
}

/// Opens a connection.
pub(super) async fn connect(
    info: ConnectionInfo,
    timeout: Duration,
) -> Result<MultiplexedConnection, RedisError> {
    // The provider of cryptography is one for the process.
    let _ = cachalot_storage::tls_config();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(timeout))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    let client = Client::open(info)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

/// Splits a URL of several hosts into the user with the password and an `@`, the hosts, and the path.
fn parts(url: &str) -> (&str, &str, &str) {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = authority.rfind('@').map_or(0, |at| at + 1);
    (
        &authority[..hosts],
        &authority[hosts..],
        path.trim_matches('/'),
    )
}

/// True if a URL has a parameter with this name and value.
fn has_parameter(url: &str, parameter: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split(['&', '#']).any(|pair| pair == parameter)
}

/// Returns a URL for each of several hosts.
fn urls(scheme: &str, user: &str, hosts: &str, number: &str) -> Vec<String> {
    let hosts = hosts.split(',');
    hosts
        .map(|host| format!("{scheme}://{user}{host}/{number}"))
        .collect()
}

/// Sentinels have another port than servers if the URL does not say it.
fn with_default_port(address: ConnectionAddr, url: &str, topology: &Topology) -> ConnectionAddr {
    let is_sentinel = matches!(topology, Topology::Sentinel { .. });
    let is_default = url::Url::parse(url).is_ok_and(|url| url.port().is_none());
    match &address {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. }
            if is_sentinel && is_default =>
        {
            at(&address, host, 26379)
        }
        _ => address,
    }
}

/// Returns another address that is reached in the same way.
fn at(like: &ConnectionAddr, host: &str, port: u16) -> ConnectionAddr {
    let mut address = like.clone();
    match &mut address {
        ConnectionAddr::Tcp(to, its)
        | ConnectionAddr::TcpTls {
            host: to,
            port: its,
            ..
        } => {
            host.clone_into(to);
            *its = port;
        }
        _ => {}
    }
    address
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/redis/server.rs"]
mod tests;
