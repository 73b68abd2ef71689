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
#[path = "../tests/unit/url.rs"]
mod tests;
