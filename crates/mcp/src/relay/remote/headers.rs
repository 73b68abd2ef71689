//! Headers of requests to a server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachalot_core::Secret;
use http::{HeaderName, HeaderValue};

/// The header with the revision of the protocol.
pub(super) const PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// Headers of a client that are not passed on: those of one connection, those that are written anew, and those by which a
/// browser names a page.
const OWN: [&str; 22] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-session-id",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "referer",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns true for a header that a client's request takes to the server.
pub(super) fn is_passed(name: &str) -> bool {
    !OWN.contains(&name) && !name.starts_with("sec-")
}

/// Reads a header of the settings.
///
/// # Errors
/// If it is none, or belongs to the protocol, as a sentence for the user without the value.
pub(in crate::relay) fn own_header(
    name: &str,
    value: &Secret<String>,
) -> Result<(HeaderName, HeaderValue), String> {
    let bad = |what| format!("the header `{name}` has {what} that no header can have");
    let header = HeaderName::try_from(name).map_err(|_| bad("a name"))?;
    // A server may ask for the page of a browser.
    let is_free = is_passed(header.as_str()) || ["origin", "referer"].contains(&header.as_str());
    if !is_free || header == PROTOCOL_VERSION {
        return Err(format!(
            "the header `{name}` belongs to the protocol; leave it out"
        ));
    }
    let mut value = HeaderValue::try_from(value.expose()).map_err(|_| bad("a value"))?;
    value.set_sensitive(true);
    Ok((header, value))
}

/// Returns a text as the value of a header: as it is, or by the Base64 form of the protocol.
pub(super) fn header_text(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e | b'\t'))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if is_plain {
        text.to_owned()
    } else {
        format!("=?base64?{}?=", STANDARD.encode(text))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_header_can_have_are_encoded() {
        assert_eq!(header_text("us-west1"), "us-west1");
        assert_eq!(
            header_text("Hello, 世界"),
            "=?base64?SGVsbG8sIOS4lueVjA==?="
        );
        assert_eq!(header_text(" padded "), "=?base64?IHBhZGRlZCA=?=");
        assert_eq!(header_text("line1\nline2"), "=?base64?bGluZTEKbGluZTI=?=");
        assert_eq!(
            header_text("=?base64?literal?="),
            "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="
        );
    }
}
