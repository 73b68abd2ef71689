//! Headers that belong to a connection and to the framing of a message. The client sets them. In a request that
//! a model or a template composes, they could name another host than the checked one, or smuggle a second
//! request.

use reqwest::header::HeaderName;

/// The names, as in RFC 9110, section 7.6.1, and RFC 9112; those with the prefix `Proxy-` belong to them.
pub const CONNECTION_HEADERS: [&str; 11] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "alt-used",
];

/// True for a header that only the client may set.
#[must_use]
pub fn is_connection_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("proxy-") || CONNECTION_HEADERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_headers_are_recognized_in_any_case() {
        let is =
            |name: &str| HeaderName::try_from(name).is_ok_and(|name| is_connection_header(&name));
        for name in [
            "Host",
            "HOST",
            "content-length",
            "Transfer-Encoding",
            "Connection",
            "Proxy-Authorization",
            "proxy-connection",
            "TE",
            "Upgrade",
        ] {
            assert!(is(name), "{name}");
        }
        for name in [
            "Authorization",
            "Accept",
            "X-Forwarded-Host",
            "Content-Type",
            "Proxy",
        ] {
            assert!(!is(name), "{name}");
        }
    }
}
