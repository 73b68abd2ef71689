//! URLs that name a store.

use std::collections::BTreeMap;
use std::fmt;

use url::Url;

use crate::{Address, Backend};

/// The beginnings of libpq's connection strings, which are not URLs.
const KEYWORDS: [&str; 7] = [
    "dbname=",
    "host=",
    "hostaddr=",
    "password=",
    "port=",
    "service=",
    "user=",
];

/// The reason why a URL names no store of this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// The store of this backend is not part of this build.
    #[error("the store backend `{0}` is not part of this build")]
    NotBuilt(&'static str),
    /// No backend has this scheme.
    #[error("there is no store for URLs that begin with `{0}:`")]
    UnknownScheme(String),
    /// The URL is invalid; the message does not contain a password.
    #[error("{0}")]
    Invalid(String),
}

/// A URL that names a store on a server. It may contain a password, which no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    /// The scheme is in lower case.
    text: String,
    scheme: String,
    location: String,
    /// Parameters that are not secret.
    parameters: String,
    has_password: bool,
    fault: Option<&'static str>,
}

impl StoreUrl {
    /// Recognizes a URL; `None` for anything else, such as the path of a file. A text with `://`, or with the
    /// scheme of a store in front of a colon, is a URL, and so is a connection string of libpq, which is invalid.
    #[must_use]
    pub fn recognize(text: &str) -> Option<Self> {
        let text = text.trim_start();
        if KEYWORDS.iter().any(|keyword| text.starts_with(keyword)) {
            return Some(Self::without_location(
                "postgres",
                text,
                "write the connection string as a URL",
            ));
        }
        let (scheme, rest) = text.split_once(':')?;
        let mut characters = scheme.chars();
        // One letter is a drive of Windows.
        let is_scheme = scheme.len() > 1
            && characters.next().is_some_and(|c| c.is_ascii_alphabetic())
            && characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        let scheme = scheme.to_ascii_lowercase();
        (is_scheme && (backend_of(&scheme).is_some() || rest.starts_with("//")))
            .then(|| Self::read(&scheme, rest))
    }

    /// Reads what follows the colon after the scheme. Clients split URLs differently where characters are not
    /// encoded: what one of them takes for a path is the password for another.
    fn read(scheme: &str, rest: &str) -> Self {
        let text = format!("{scheme}:{rest}");
        let backend = Backend::of_scheme(scheme);
        let address = backend.map_or(Address::Host, |backend| backend.address);
        if address == Address::Path {
            let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
            return Self {
                scheme: scheme.to_owned(),
                location: format!("{scheme}:{path}"),
                parameters: parameters.to_owned(),
                has_password: false,
                fault: None,
                text,
            };
        }
        // A socket is named by a path, with or without an empty host in front of it.
        let authority = rest.strip_prefix("//");
        let is_path = scheme == "unix" && rest.starts_with('/');
        let Some(authority) = authority.or(is_path.then_some("")) else {
            return Self::without_location(scheme, &text, "`//` has to follow the scheme");
        };
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let is_ambiguous = user.contains(['/', '?', '#', '@', '\\']);
        if is_ambiguous || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Self::without_location(
                scheme,
                &text,
                "write `/`, `?`, `#`, `@`, `\\` and spaces within a user name, a password or a parameter as %2F, %3F, \
                 %23, %40, %5C and %20",
            );
        }
        let (text, start) = if address == Address::Hosts {
            match with_named_hosts(user, authority) {
                Ok(authority) => (
                    format!("{scheme}://{authority}"),
                    scheme.len() + "://".len(),
                ),
                Err(fault) => return Self::without_location(scheme, &text, fault),
            }
        } else {
            let start = text.len() - authority.len();
            (text, start)
        };
        let authority = &text[start..];
        // The hosts after the first one, of a cluster, of a group of sentinels, or of a primary server and its standbys.
        let hosts = authority.split(['/', '?', '#']).next().unwrap_or_default();
        let first = if scheme.contains('-') || address == Address::Hosts {
            user.len()
                + hosts[user.len()..]
                    .find(',')
                    .unwrap_or(hosts.len() - user.len())
        } else {
            hosts.len()
        };
        let further = hosts[first..].to_owned();
        let start = start + first;
        let parsed = Url::parse(&format!(
            "{}{}",
            &text[..start],
            &text[start + further.len()..]
        ));
        let Ok(mut url) = parsed else {
            return Self::without_location(scheme, &text, "the host or the port is not valid");
        };
        let is_secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            ["pass", "secret", "token"]
                .iter()
                .any(|word| name.contains(word))
        };
        let has_password =
            url.password().is_some() || url.query_pairs().any(|(name, _)| is_secret(&name));
        let parameters = url.query_pairs().filter(|(name, _)| !is_secret(name));
        let parameters: Vec<_> = parameters
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if url.password().is_some() && url.set_password(None).is_err() {
            return Self::without_location(scheme, &text, "a password needs a host");
        }
        url.set_query(None);
        url.set_fragment(None);
        let mut location = String::from(url);
        if !further.is_empty() {
            let start = scheme.len() + "://".len();
            let path = location[start..].find('/');
            location.insert_str(path.map_or(location.len(), |at| start + at), &further);
        }
        Self {
            text,
            scheme: scheme.to_owned(),
            location,
            parameters: parameters.join("&"),
            has_password,
            fault: None,
        }
    }

    /// A URL that cannot be used, or of which it is not known where a password may be.
    fn without_location(scheme: &str, text: &str, fault: &'static str) -> Self {
        Self {
            text: text.to_owned(),
            scheme: scheme.to_owned(),
            location: format!("{scheme}:"),
            parameters: String::new(),
            has_password: text.contains('@') || text.to_ascii_lowercase().contains("password"),
            fault: Some(fault),
        }
    }

    /// True if the URL contains a password, or may contain one.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.has_password
    }

    /// The URL without a password and parameters.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Returns a text that is the same for all spellings of this URL, and another one for every other store, also one
    /// on a server that the environment chooses. Contains no secrets of the URL.
    #[must_use]
    pub fn identity(&self, environment: &BTreeMap<String, String>) -> String {
        let mut location = self.location.clone();
        let backend = Backend::of_scheme(&self.scheme);
        let default = backend.and_then(|backend| {
            let mut ports = backend.default_ports.iter();
            let default = ports.find(|port| port.schemes.contains(&&*self.scheme))?;
            Some((backend, default))
        });
        if let Some((backend, default)) = default {
            if backend.address == Address::Hosts {
                location = with_default_ports(&location, default.port);
            }
            if let Ok(mut url) = Url::parse(&location) {
                // A URL without a host names no port.
                let _ = url.set_port(Some(url.port().unwrap_or(default.port)));
                if let Some(path) = backend.default_path
                    && ["", "/"].contains(&url.path())
                {
                    url.set_path(path);
                }
                location = String::from(url);
            }
            location.replace_range(..self.scheme.len(), default.counts_as);
        }
        let chosen = environment.iter().filter(|(name, _)| {
            ["ENDPOINT", "EMULATOR", "STORAGE_ACCOUNT"]
                .iter()
                .any(|part| name.contains(part))
                && !name.ends_with("KEY")
        });
        chosen.fold(
            format!("{location}?{}", self.parameters),
            |text, (name, value)| format!("{text}\n{name}={value}"),
        )
    }

    /// The URL with its password.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The backend of this scheme, whether it is built or not.
    #[must_use]
    pub fn backend(&self) -> Option<&'static str> {
        backend_of(&self.scheme)
    }

    /// The environment variable from which the programs of this backend read a password.
    #[must_use]
    pub fn password_variable(&self) -> Option<&'static str> {
        Backend::of_scheme(&self.scheme)?.password_variable
    }

    pub(crate) fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The reason why the URL cannot be used.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        self.fault
    }

    /// Fails if the URL cannot be used.
    pub(crate) fn check(&self) -> Result<(), StoreUrlError> {
        let fault = self.fault();
        fault.map_or(Ok(()), |fault| Err(self.invalid(fault)))
    }

    /// The error of a URL with a fault.
    pub(crate) fn invalid(&self, fault: impl fmt::Display) -> StoreUrlError {
        let location = self.location();
        StoreUrlError::Invalid(format!("the URL of {location} is invalid: {fault}"))
    }
}

/// Splits a host and its port, either of which may be empty.
fn host_and_port(text: &str) -> (&str, &str) {
    let after_address = text.rfind(']').map_or(0, |at| at + 1);
    match text[after_address..].rfind(':') {
        Some(at) => (&text[..after_address + at], &text[after_address + at + 1..]),
        None => (text, ""),
    }
}

/// Moves the parameters `host` and `port` of what follows `postgres://` in front of the path, in place of the hosts and
/// the ports there, as libpq does: this crate's client would add them. `user` is what is in front of the `@`.
///
/// # Errors
/// There are neither one port nor as many as hosts.
fn with_named_hosts(user: &str, authority: &str) -> Result<String, &'static str> {
    let unchanged = || Ok(authority.to_owned());
    let Some((place, query)) = authority.split_once('?') else {
        return unchanged();
    };
    let (mut hosts, mut ports, mut others) = (None, None, Vec::new());
    for parameter in query.split('&') {
        match parameter.split_once('=') {
            Some(("host", value)) if !value.is_empty() => hosts = Some(value),
            Some(("port", value)) if !value.is_empty() => ports = Some(value),
            _ => others.push(parameter),
        }
    }
    if hosts.is_none() && ports.is_none() {
        return unchanged();
    }
    let (user, place) = match place
        .get(user.len()..)
        .and_then(|rest| rest.strip_prefix('@'))
    {
        Some(rest) => (&place[..=user.len()], rest),
        None => ("", place),
    };
    let (own, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let own: Vec<_> = own.split(',').map(host_and_port).collect();
    let hosts: Vec<String> = match hosts {
        // The path of a socket, and an address in version 6.
        Some(hosts) => hosts
            .split(',')
            .map(|host| {
                if host.contains(':') && !host.starts_with('[') {
                    format!("[{host}]")
                } else {
                    host.replace('/', "%2F")
                }
            })
            .collect(),
        None => own.iter().map(|(host, _)| (*host).to_owned()).collect(),
    };
    if hosts.iter().all(String::is_empty) {
        return unchanged();
    }
    let ports: Vec<&str> = match ports {
        Some(ports) => ports.split(',').collect(),
        None => own.iter().map(|(_, port)| *port).collect(),
    };
    if ports.len() != 1 && ports.len() != hosts.len() {
        return Err("write one port, or as many as hosts");
    }
    let hosts = hosts
        .iter()
        .enumerate()
        .map(|(at, host)| match ports[at.min(ports.len() - 1)] {
            "" => host.clone(),
            port => format!("{host}:{port}"),
        });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let query = if others.is_empty() {
        String::new()
    } else {
        format!("?{}", others.join("&"))
    };
    Ok(format!("{user}{hosts}{path}{query}"))
}

/// Adds the default port to each of several hosts of a URL that has none.
fn with_default_ports(location: &str, port: u16) -> String {
    let start = location.find("://").map_or(0, |at| at + "://".len());
    let end = location[start..]
        .find('/')
        .map_or(location.len(), |at| start + at);
    let start = location[start..end]
        .rfind('@')
        .map_or(start, |at| start + at + 1);
    let hosts = &location[start..end];
    if !hosts.contains(',') {
        return location.to_owned();
    }
    let hosts = hosts.split(',').map(|host| match host_and_port(host) {
        (host, "") => format!("{host}:{port}"),
        _ => host.to_owned(),
    });
    let hosts: Vec<_> = hosts.collect();
    format!(
        "{}{}{}",
        &location[..start],
        hosts.join(","),
        &location[end..]
    )
}

fn backend_of(scheme: &str) -> Option<&'static str> {
    Backend::of_scheme(scheme).map(|backend| backend.name)
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreUrl").field(&self.location()).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::open;

    #[test]
    fn paths_are_no_urls() {
        for path in [
            "cachalot.db",
            "./a:b/c.db",
            "C:\\data\\x.db",
            "c:/x.db",
            "a:b",
            "/x/redis:/y",
            "",
        ] {
            assert_eq!(StoreUrl::recognize(path), None, "{path}");
        }
    }

    #[test]
    fn identity_is_that_of_the_store() {
        let none = BTreeMap::new();
        let identity = |url: &str| StoreUrl::recognize(url).unwrap().identity(&none);
        for (one, other, is_same) in [
            ("redis://h", "valkey://h:6379/0", true),
            ("redis://h/", "redis://user:secret@h/0", false),
            ("redis://h/0", "redis://h/1", false),
            ("redis://h", "rediss://h", false),
            ("postgres://h/x", "postgresql://h:5432/x", true),
            ("postgres://h/x", "postgres://h/x?port=5432", true),
            ("postgres://h:1/x", "postgres://h/x?port=2", false),
            ("postgres://a,b:1/x", "postgresql://a:5432,b:1/x", true),
            ("postgres://a,b/x", "postgres:///x?host=a,b", true),
            ("postgres://a,b/x", "postgres://a,c/x", false),
            (
                "postgres://%2Frun%2Fp:1/x",
                "postgres:///x?host=/run/p&port=1",
                true,
            ),
            ("postgres://u:one@h/x", "postgres://u:two@h/x", true),
            (
                "postgres://h/x",
                "postgres://h/x?options=-csearch_path%3Dy",
                false,
            ),
            ("s3://bucket/x.db", "s3://bucket/y.db", false),
        ] {
            assert_eq!(identity(one) == identity(other), is_same, "{one} {other}");
        }
        let url = StoreUrl::recognize("s3://bucket/x.db").unwrap();
        let endpoint = [(
            "AWS_ENDPOINT_URL_S3".to_owned(),
            "http://localhost".to_owned(),
        )];
        assert_ne!(url.identity(&none), url.identity(&endpoint.into()));
    }

    #[test]
    fn hosts_and_ports_are_those_of_the_parameters() {
        for (url, expected) in [
            ("postgres://h/x", "postgres://h/x"),
            ("postgres://u@h/x?port=5433", "postgres://u@h:5433/x"),
            (
                "postgres://u:p@h:1/x?port=2&sslmode=require",
                "postgres://u:p@h:2/x?sslmode=require",
            ),
            ("postgres://a:1,b:2/x", "postgres://a:1,b:2/x"),
            (
                "postgres://u@a,b/x?port=5433",
                "postgres://u@a:5433,b:5433/x",
            ),
            ("postgres://a,b/x?port=1,2", "postgres://a:1,b:2/x"),
            ("postgres://u@/x?host=c", "postgres://u@c/x"),
            ("postgres://a:1/x?host=c", "postgres://c:1/x"),
            (
                "postgres:///x?host=/run/p&port=3",
                "postgres://%2Frun%2Fp:3/x",
            ),
            ("postgres://[::1]/x?port=3", "postgres://[::1]:3/x"),
            ("postgres:///x?host=::1", "postgres://[::1]/x"),
            (
                "postgres:///x?hostaddr=127.0.0.1&port=3",
                "postgres:///x?hostaddr=127.0.0.1&port=3",
            ),
        ] {
            assert_eq!(StoreUrl::recognize(url).unwrap().text(), expected, "{url}");
        }
        let location = |url| StoreUrl::recognize(url).unwrap().location().to_owned();
        assert_eq!(
            location("postgres://u:p@a:1,b:2/x?sslmode=require"),
            "postgres://u@a:1,b:2/x"
        );
        assert_eq!(location("postgres://u:p@a/x?port=7"), "postgres://u@a:7/x");
        for url in [
            "postgres://a,b,c/x?port=1,2",
            "postgres://a/x?host=b,c,d&port=1,2",
        ] {
            assert!(StoreUrl::recognize(url).unwrap().fault().is_some(), "{url}");
        }
    }

    #[test]
    fn urls_are_recognized_in_any_spelling() {
        for url in [
            "postgres://host/x",
            "PostgreSQL://host/x",
            "postgres:host",
            "redis:host",
            "valkeys://host/0",
            "duckdb:file.db",
            "unix:/run/redis.sock",
            "http://host/x",
            "mysql://host/x",
            "file:///x.db",
            "sqlite://x.db",
        ] {
            assert!(StoreUrl::recognize(url).is_some(), "{url}");
        }
    }

    #[test]
    fn files_of_duckdb_are_told_apart() {
        let none = BTreeMap::new();
        let url = |text| StoreUrl::recognize(text).unwrap();
        let file = url("duckdb:a b@c.db?values=s3://bucket/x");
        assert_eq!(file.location(), "duckdb:a b@c.db");
        assert!(!file.has_password());
        assert_ne!(file.identity(&none), url("duckdb:a b@c.db").identity(&none));
        assert_ne!(
            url("duckdb:a.db").identity(&none),
            url("duckdb:b.db").identity(&none)
        );
    }

    #[test]
    fn passwords_are_seen_and_not_shown() {
        for (url, has_password) in [
            ("postgres://me:hunter2@host/x", true),
            ("postgres://me:hunter2@[::1]:5432/x?sslmode=require", true),
            ("postgres://host/x?user=me&password=hunter2", true),
            ("postgres://me:hunter2@host:no/x", true),
            ("postgres://me@host:5432/x", false),
            ("postgres://host:5432/x?user=me%40corp", false),
            // Postgres's client takes all up to the first `@` for the user and the password.
            ("postgres://me:12/hunter2@host/x", true),
            ("postgres://me:/hunter2@host/x", true),
            ("postgres://me:12#hunter2@host/x", true),
            ("postgres://me:12?hunter2@host/x", true),
            ("postgres://me:hun@hunter2@host/x", true),
            ("postgres://me:12\\hunter2@host/x", true),
            ("postgres://me:hun\nhunter2@host/x", true),
            ("POSTGRES://me:hunter2@host/x?sslmode=require", true),
            (" postgres://me:hunter2@host/x", true),
            ("postgres:me:hunter2@host", true),
            ("postgres:/me:hunter2@host/x", true),
            ("redis::hunter2@host", true),
            ("redis://:hunter2@host", true),
            ("unix:/run/redis.sock?pass=hunter2", true),
            ("unix:///run/redis.sock?db=1", false),
            ("libsql://host?authToken=hunter2", true),
            ("postgres://host/x?passw%6Frd=hunter2", true),
            ("postgres://host/x?PASSWORD=hunter2", true),
            ("host=localhost password=hunter2", true),
            ("postgres://host/x?hunter2", false),
            ("postgres://host/x?hunter2=1", false),
        ] {
            let url = StoreUrl::recognize(url).unwrap();
            assert_eq!(url.has_password(), has_password, "{}", url.text);
            let identity = if url.text.contains("?hunter2") {
                String::new()
            } else {
                url.identity(&BTreeMap::new())
            };
            let shown = format!(
                "{url:?} {} {identity} {:?}",
                url.location(),
                open(&url, &crate::OpenOptions::default()).err()
            );
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
