//! Refuses requests that a web page may have sent to a server of this machine: by another name of it (DNS rebinding), or
//! from another site.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderValue, Uri, header};

/// Checks the names by which clients address a server.
#[derive(Debug, Clone)]
pub struct PageGuard {
    address: SocketAddr,
    /// Further names, in lower case.
    allowed: Vec<String>,
}

/// The reason why a request must not be processed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PageRefusal {
    /// The request names another host.
    #[error("the host `{0}` is not one of this server; start it with --allow-host NAME if it is")]
    Host(String),
    /// The request comes from a web page of this origin.
    #[error("requests of web pages are refused (Origin: {0})")]
    Origin(String),
    /// A browser says that the request comes from another site.
    #[error("requests of web pages are refused (Sec-Fetch-Site)")]
    Site,
}

impl PageGuard {
    /// Creates the guard of a server that listens on an address. `allowed` are further names of it.
    #[must_use]
    pub fn new(address: SocketAddr, allowed: &[String]) -> Self {
        let allowed = allowed.iter().map(|name| name.to_ascii_lowercase());
        Self {
            address,
            allowed: allowed.collect(),
        }
    }

    /// Checks `Host`, `Origin` and `Sec-Fetch-Site`.
    ///
    /// # Errors
    /// The request must not be processed.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), PageRefusal> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => "",
        };
        // A request line with a whole URL is one to a proxy of HTTP.
        if uri.scheme().is_some() || !self.is_allowed(host) {
            return Err(PageRefusal::Host(host.to_owned()));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            let authority = origin.split_once("://").map_or("", |(_, rest)| rest);
            // A page at an address sends that address, which is not always ours.
            if !self.is_own_origin(authority) && !authority.eq_ignore_ascii_case(host) {
                return Err(PageRefusal::Origin(origin.to_owned()));
            }
        }
        // Sent by browsers only, without `Origin` for some requests.
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        match site {
            None | Some(b"none" | b"same-origin") => Ok(()),
            Some(_) => Err(PageRefusal::Site),
        }
    }

    /// Returns true for the authority of an origin that is this server wherever it listens.
    fn is_own_origin(&self, authority: &str) -> bool {
        match host_of(authority).parse::<IpAddr>() {
            Ok(address) => address == self.address.ip() || address.is_loopback(),
            Err(_) => self.is_allowed(authority),
        }
    }

    /// Returns true for an authority (`HOST` or `HOST:PORT`) that names this server: an address, since a page cannot
    /// make the browser send one that it did not load, `localhost`, or an allowed name.
    fn is_allowed(&self, authority: &str) -> bool {
        let authority = authority.to_ascii_lowercase();
        let host = host_of(&authority);
        if self
            .allowed
            .iter()
            .any(|name| name == host || *name == authority)
        {
            return true;
        }
        match host.parse::<IpAddr>() {
            Ok(address) => {
                address == self.address.ip()
                    || address.is_loopback()
                    // Listening on all addresses of the machine, which are not known here.
                    || self.address.ip().is_unspecified()
            }
            Err(_) => host == "localhost",
        }
    }
}

/// Returns the host of an authority, without port and brackets; an empty text if it is malformed.
fn host_of(authority: &str) -> &str {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or(("", "")),
        None => match authority.find(':') {
            Some(colon) => authority.split_at(colon),
            None => (authority, ""),
        },
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    if port.is_empty() || port.strip_prefix(':').is_some_and(is_port) {
        host
    } else {
        ""
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn check(guard: &PageGuard, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.check(&Uri::from_static("/x"), &headers).is_ok()
    }

    #[test]
    fn only_names_of_the_server_are_accepted() {
        let loopback = PageGuard::new(
            "127.0.0.1:4114".parse().unwrap(),
            &["Server.example".into()],
        );
        for host in [
            "127.0.0.1:4114",
            "localhost:4114",
            "LOCALHOST",
            "[::1]:4114",
            "server.example:4114",
        ] {
            assert!(check(&loopback, host, None), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "localhost.evil.example:4114",
            "[::1]evil.example",
            "[::1",
            "localhost:x",
            "localhost:",
            "127.0.0.1:80:evil.example",
        ] {
            assert!(!check(&loopback, host, None), "{host}");
        }
        let any = PageGuard::new("0.0.0.0:4114".parse().unwrap(), &[]);
        assert!(check(&any, "10.0.0.1:4114", None));
        assert!(!check(&any, "server.example", None));
        assert!(check(&any, "10.0.0.1:4114", Some("http://10.0.0.1:4114")));
        assert!(!check(&any, "10.0.0.1:4114", Some("http://6.6.6.6")));
    }

    #[test]
    fn web_pages_are_refused() {
        let guard = PageGuard::new("127.0.0.1:4114".parse().unwrap(), &[]);
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://evil.example:4114",
            "file://",
        ] {
            assert!(!check(&guard, "127.0.0.1:4114", Some(origin)), "{origin}");
        }
        assert!(check(
            &guard,
            "127.0.0.1:4114",
            Some("http://localhost:4114")
        ));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "127.0.0.1:4114".parse().unwrap());
        headers.insert("sec-fetch-site", "cross-site".parse().unwrap());
        assert!(guard.check(&Uri::from_static("/x"), &headers).is_err());
        let proxied = Uri::from_static("http://127.0.0.1:4114/x");
        headers.remove("sec-fetch-site");
        assert!(guard.check(&proxied, &headers).is_err());
    }
}
