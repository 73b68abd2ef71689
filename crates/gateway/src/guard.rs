//! Refuses requests that a web page may have sent: by another name of this machine (DNS rebinding), or from another
//! site.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Uri, header};

use crate::error_body::ErrorBody;

/// Checks the names by which clients address the gateway.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    address: SocketAddr,
    /// Further names, in lower case.
    allowed: Vec<String>,
}

impl Guard {
    pub(crate) fn new(address: SocketAddr, allowed: &[String]) -> Self {
        Self {
            address,
            allowed: allowed
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect(),
        }
    }

    /// Checks `Host` and `Origin`.
    ///
    /// # Errors
    /// The response to a request that must not be processed.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ErrorBody> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().unwrap_or_default(),
            _ => "",
        };
        // A request line with a whole URL is one to a proxy.
        if uri.scheme().is_some() || !self.is_allowed(host) {
            return Err(ErrorBody::forbidden(
                "host_not_allowed",
                format!(
                    "the host `{host}` is not one of this gateway; start it with --allow-host NAME if it is"
                ),
            ));
        }
        let origins = headers.get_all(header::ORIGIN).iter();
        for origin in origins {
            let origin = origin.to_str().unwrap_or_default();
            let authority = origin
                .split_once("://")
                .map_or("", |(_, authority)| authority);
            // A page at an address sends that address, which is not always ours.
            if !self.is_own_origin(authority) && !authority.eq_ignore_ascii_case(host) {
                return Err(ErrorBody::forbidden(
                    "origin_not_allowed",
                    format!("requests of web pages are refused (Origin: {origin})"),
                ));
            }
        }
        // Sent by browsers only, without `Origin` for some requests.
        let site = headers
            .get("sec-fetch-site")
            .map(http::HeaderValue::as_bytes);
        match site {
            None | Some(b"none" | b"same-origin") => Ok(()),
            Some(_) => Err(ErrorBody::forbidden(
                "origin_not_allowed",
                "requests of web pages are refused (Sec-Fetch-Site)",
            )),
        }
    }

    /// Returns true for the authority of an origin that is this gateway wherever it listens.
    fn is_own_origin(&self, authority: &str) -> bool {
        match host_of(authority).parse::<IpAddr>() {
            Ok(address) => address == self.address.ip() || address.is_loopback(),
            Err(_) => self.is_allowed(authority),
        }
    }

    /// Returns true for an authority (`HOST` or `HOST:PORT`) that names this gateway: an address, since a page cannot
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

/// Returns the host of an authority, without port and brackets.
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

    fn check(guard: &Guard, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.insert(header::HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard
            .check(&Uri::from_static("/v1/models"), &headers)
            .is_ok()
    }

    #[test]
    fn only_names_of_the_gateway_are_accepted() {
        let loopback = Guard::new(
            "127.0.0.1:4114".parse().unwrap(),
            &["Gateway.example".into()],
        );
        for host in [
            "127.0.0.1:4114",
            "localhost:4114",
            "LOCALHOST",
            "[::1]:4114",
            "gateway.example:4114",
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
        let any = Guard::new("0.0.0.0:4114".parse().unwrap(), &[]);
        assert!(check(&any, "10.0.0.1:4114", None));
        assert!(!check(&any, "gateway.example", None));
        assert!(check(&any, "10.0.0.1:4114", Some("http://10.0.0.1:4114")));
        assert!(!check(&any, "10.0.0.1:4114", Some("http://6.6.6.6")));
    }

    #[test]
    fn web_pages_are_refused() {
        let guard = Guard::new("127.0.0.1:4114".parse().unwrap(), &[]);
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
        assert!(
            guard
                .check(&Uri::from_static("/v1/models"), &headers)
                .is_err()
        );
        let proxied = Uri::from_static("http://127.0.0.1:4114/v1/models");
        headers.remove("sec-fetch-site");
        assert!(guard.check(&proxied, &headers).is_err());
    }
}
