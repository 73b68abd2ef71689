//! Headers: those of one connection only, those that identify the caller, those that can change an answer.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::credentials;

/// Returns the media type of a body without parameters, in small letters (RFC 9110, section 8.3.1); empty if none is given.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(http::header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = value.split(';').next().unwrap_or(value);
    kind.trim().to_ascii_lowercase()
}

/// Headers that belong to one connection (RFC 9110, section 7.6.1), and `Host`, which names the server.
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers of a client that are passed on beside a credential of the operator. Any other one might select a model, a
/// price, an object or a server that the gateway does not see. This list is published in `docs/gateway.md`.
pub(crate) const WITH_KEY: [&str; 16] = [
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-dangerous-direct-browser-access",
    "anthropic-version",
    "content-encoding",
    "content-length",
    "content-type",
    "openai-beta",
    "traceparent",
    "tracestate",
    "user-agent",
    "x-app",
    "x-client-request-id",
    "x-goog-api-client",
    "x-openai-internal-codex-responses-lite",
];

/// Beginnings of the names of further headers that are passed on beside a credential of the operator.
pub(crate) const PREFIXES_WITH_KEY: [&str; 2] = ["x-claude-code-", "x-stainless-"];

/// Headers that do not change an answer: about the transport, for tracing, for statistics, and our own. This list is
/// published in `docs/gateway.md`; every other header is part of the key.
pub(crate) const WITHOUT_EFFECT: [&str; 31] = [
    "accept-encoding",
    "accept-language",
    "baggage",
    "cache-control",
    "content-encoding",
    "content-length",
    "date",
    "dnt",
    "forwarded",
    "idempotency-key",
    "origin",
    "pragma",
    "priority",
    "referer",
    "request-id",
    "sentry-trace",
    "traceparent",
    "tracestate",
    "user-agent",
    "via",
    "x-client-request-id",
    "x-correlation-id",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-request-id",
    "x-trace-id",
];

/// Beginnings of the names of further headers that do not change an answer.
pub(crate) const PREFIXES_WITHOUT_EFFECT: [&str; 4] =
    ["sec-", "x-b3-", "x-cachalot-", "x-stainless-"];

/// Headers of an answer that are stored with it and sent with a hit. Limits of rates, cookies, the organization and
/// times of processing belong to the request that was paid for.
const STORED: [&str; 6] = [
    "content-language",
    "content-type",
    "openai-model",
    "openai-version",
    "request-id",
    "x-request-id",
];

/// Headers of an upstream's response that a client gets if a credential of the operator was sent: those of
/// [`STORED`], which a hit has, and those about the delivery of this response. Any other one might show the operator's
/// account, or set a cookie of it. This list is published in `docs/gateway.md`.
const FOR_KEYS: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "openai-model",
    "openai-version",
    "request-id",
    "retry-after",
    "retry-after-ms",
    "x-request-id",
    "x-should-retry",
];

/// Headers whose values the ledger shows; the values of all others are digested.
const SHOWN: [&str; 8] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "x-goog-api-client",
];

/// Returns true if the header belongs to one connection. `connection` lists further ones.
fn is_hop_by_hop(name: &HeaderName, listed: &[String]) -> bool {
    HOP_BY_HOP.contains(&name.as_str())
        || listed
            .iter()
            .any(|listed_name| listed_name == name.as_str())
}

fn listed_in_connection(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(http::header::CONNECTION).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the headers that are sent to the upstream: all, without those of the connection and our own. The upstream
/// is asked for uncompressed answers, because their bytes are read while they are passed on.
///
/// With a credential of the operator, only the headers of [`WITH_KEY`] are passed on beside it.
pub(crate) fn for_upstream(
    headers: &HeaderMap,
    credential: Option<(HeaderName, HeaderValue)>,
) -> HeaderMap {
    let listed = listed_in_connection(headers);
    let mut passed = HeaderMap::with_capacity(headers.len() + 1);
    for (name, value) in headers {
        let is_permitted = credential.is_none()
            || WITH_KEY.contains(&name.as_str())
            || PREFIXES_WITH_KEY
                .iter()
                .any(|prefix| name.as_str().starts_with(prefix));
        let is_own = name.as_str().starts_with("x-cachalot-");
        if !is_hop_by_hop(name, &listed) && !is_own && is_permitted {
            passed.append(name, value.clone());
        }
    }
    passed.extend(credential);
    let identity = HeaderValue::from_static("identity");
    passed.insert(http::header::ACCEPT_ENCODING, identity);
    passed
}

/// Returns the headers of an upstream's response that are passed on to the client: all, without those of the
/// connection.
///
/// If a credential of the operator was sent, only those of [`FOR_KEYS`].
pub(crate) fn for_client(headers: &HeaderMap, is_of_operator: bool) -> HeaderMap {
    let listed = listed_in_connection(headers);
    let mut passed = HeaderMap::with_capacity(headers.len() + 2);
    for (name, value) in headers {
        let is_permitted = !is_of_operator || FOR_KEYS.contains(&name.as_str());
        if !is_hop_by_hop(name, &listed) && is_permitted {
            passed.append(name, value.clone());
        }
    }
    if headers.contains_key(http::header::TRANSFER_ENCODING) {
        // The chunks count (RFC 9112, section 6.3).
        passed.remove(http::header::CONTENT_LENGTH);
    }
    passed
}

/// Returns the announced length of a body.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers
        .get(http::header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

/// Returns true if the client asks for a longer context than the usual one of a model.
pub(crate) fn asks_for_longer_context(headers: &HeaderMap) -> bool {
    let values = headers.get_all("anthropic-beta").iter();
    let mut options = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    options.any(|option| {
        let option = option.trim_ascii().to_ascii_lowercase();
        let rest = option.strip_prefix(b"context-");
        rest.is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
    })
}

/// Returns the headers that are stored with an answer.
pub(crate) fn stored(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let stored = headers
        .iter()
        .filter(|(name, _)| STORED.contains(&name.as_str()));
    stored
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}

/// Returns true if the header is part of the key.
pub(crate) fn changes_answers(name: &HeaderName, listed: &[String]) -> bool {
    let name_text = name.as_str();
    !is_hop_by_hop(name, listed)
        && !credentials::HEADERS
            .iter()
            .any(|(known, _)| *known == name_text)
        && !WITHOUT_EFFECT.contains(&name_text)
        && !PREFIXES_WITHOUT_EFFECT
            .iter()
            .any(|prefix| name_text.starts_with(prefix))
}

/// Returns the headers that are part of the key, sorted by name, values of one name in their order.
pub(crate) fn in_key(headers: &HeaderMap) -> Vec<(&HeaderName, Vec<&HeaderValue>)> {
    let listed = listed_in_connection(headers);
    let mut names: Vec<&HeaderName> = headers
        .keys()
        .filter(|name| changes_answers(name, &listed))
        .collect();
    names.sort_unstable_by_key(|name| name.as_str());
    names
        .into_iter()
        .map(|name| (name, headers.get_all(name).iter().collect()))
        .collect()
}

/// Returns true if the ledger may show the header's value.
pub(crate) fn is_shown(name: &HeaderName) -> bool {
    SHOWN.contains(&name.as_str())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_published() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md");
        let text = std::fs::read_to_string(path).unwrap();
        let credentials = credentials::HEADERS.map(|(name, _)| name);
        let lists = [
            &credentials[..],
            &WITHOUT_EFFECT,
            &PREFIXES_WITHOUT_EFFECT,
            &STORED,
            &FOR_KEYS,
            &WITH_KEY,
            &PREFIXES_WITH_KEY,
        ];
        for name in lists.into_iter().flatten() {
            assert!(text.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn clients_with_keys_may_get_what_hits_have() {
        assert!(STORED.iter().all(|name| FOR_KEYS.contains(name)));
    }

    #[test]
    fn longer_contexts_are_asked_for_by_an_option_of_their_own() {
        let asks = |options: &[&str]| {
            let mut headers = HeaderMap::new();
            for option in options {
                headers.append("anthropic-beta", option.parse().unwrap());
            }
            asks_for_longer_context(&headers)
        };
        assert!(asks(&["context-1m-2025-08-07"]));
        assert!(asks(&["a-1", "b-2, Context-1M-2025-08-07"]));
        assert!(!asks(&[
            "context-management-2025-06-27,extended-context-1m"
        ]));
        assert!(!asks(&[]));
    }

    #[test]
    fn headers_of_the_connection_are_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("host", "a"),
            ("x-cachalot-run", "1"),
            ("accept-encoding", "gzip"),
            ("authorization", "Bearer x"),
            ("x-end-to-end", "1"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let passed = for_upstream(&headers, None);
        let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "authorization", "x-end-to-end"]);
        assert_eq!(passed["accept-encoding"], "identity");
        headers.append("anthropic-version", "2023-06-01".parse().unwrap());
        let own = (HeaderName::from_static("x-api-key"), "own".parse().unwrap());
        let passed = for_upstream(&headers, Some(own));
        let mut names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "anthropic-version", "x-api-key"]);
        assert_eq!(passed["x-api-key"], "own");
    }
}
