//! Headers of a client that select whose answers it gets.

use std::collections::BTreeMap;
use std::sync::Arc;

use cachalot_core::DigestKey;

/// The partition of clients without credentials.
const LOCAL: &str = "local";

/// Headers that belong to the transport or to the protocol. All others may hold a credential, or select what the server
/// answers.
const OF_TRANSPORT: [&str; 28] = [
    "accept",
    "accept-encoding",
    "baggage",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "pragma",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "te",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "x-request-id",
];

/// The beginning of the names of headers that repeat arguments.
const OF_ARGUMENTS: &str = "mcp-param-";

/// Returns the partition of a client: a keyed digest of the headers that may be credentials. Only clients of one
/// partition share answers.
pub(super) fn partition(headers: &BTreeMap<String, String>, key: &DigestKey) -> Arc<str> {
    let mut credentials = Vec::new();
    for (name, value) in headers {
        if name.starts_with(OF_ARGUMENTS) || OF_TRANSPORT.contains(&name.as_str()) {
            continue;
        }
        // With their lengths, no two lists of headers have the same bytes.
        for part in [name.as_bytes(), value.as_bytes()] {
            credentials.extend_from_slice(&(part.len() as u64).to_le_bytes());
            credentials.extend_from_slice(part);
        }
    }
    if credentials.is_empty() {
        return LOCAL.into();
    }
    let digest = key.digest(&credentials).to_hex();
    digest[..32].into()
}

/// Returns the headers that repeat arguments, which are a part of the key.
pub(super) fn of_arguments(
    headers: &BTreeMap<String, String>,
) -> impl Iterator<Item = (&String, &String)> {
    headers
        .iter()
        .filter(|(name, _)| name.starts_with(OF_ARGUMENTS))
}

/// Returns the headers for a request of the proxy itself on behalf of a client.
pub(super) fn for_own_request(
    headers: &Arc<BTreeMap<String, String>>,
    method: &str,
) -> Arc<BTreeMap<String, String>> {
    if headers.is_empty() {
        return Arc::clone(headers);
    }
    let mut own = BTreeMap::clone(headers);
    own.retain(|name, _| name != "mcp-name" && !name.starts_with(OF_ARGUMENTS));
    if let Some(of_client) = own.get_mut("mcp-method") {
        method.clone_into(of_client);
    }
    Arc::new(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &str)]) -> Arc<str> {
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        partition(&headers.collect(), &DigestKey::new([3; 32]))
    }

    #[test]
    fn headers_that_may_be_credentials_separate_clients() {
        assert_eq!(&*of(&[]), LOCAL);
        assert_eq!(&*of(&[("user-agent", "x"), ("mcp-session-id", "1")]), LOCAL);
        let mut partitions = vec![
            of(&[]),
            of(&[("authorization", "Bearer a")]),
            of(&[("authorization", "Bearer b")]),
            of(&[("cookie", "Bearer a")]),
            of(&[("x-api-key", "a"), ("x-tenant", "b")]),
            of(&[("x-api-key", "a"), ("x-tenant", "c")]),
            of(&[("accept-language", "de")]),
        ];
        let count = partitions.len();
        partitions.sort();
        partitions.dedup();
        assert_eq!(partitions.len(), count);
        assert!(!of(&[("authorization", "Bearer a")]).contains("Bearer"));
    }
}
