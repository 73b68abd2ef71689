//! Checks that headers of a request say what its body says, as revisions without sessions ask of servers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

use crate::relay::Frame;
use crate::relay::report::subject;

/// The code of headers that are missing or that differ from the body.
const HEADER_MISMATCH: i64 = -32_020;

/// The code of missing parameters.
const INVALID_PARAMS: i64 = -32_602;

/// Revisions with sessions, whose requests have no such headers.
const WITH_SESSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Returns true for a request of a revision without sessions.
pub(super) fn is_modern(message: &Frame, headers: &HeaderMap) -> bool {
    if message.protocol_version().is_some() {
        return true;
    }
    let version = headers.get("mcp-protocol-version");
    !headers.contains_key("mcp-session-id")
        && version.is_some_and(|version| {
            !WITH_SESSIONS
                .iter()
                .any(|known| known.as_bytes() == version.as_bytes())
        })
}

/// Checks a request of a revision without sessions.
///
/// # Errors
/// A JSON-RPC error code and a message.
pub(super) fn check(request: &Frame, headers: &HeaderMap) -> Result<(), (i64, String)> {
    let text = |name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().map(str::to_owned))
    };
    let mismatch = |why: String| (HEADER_MISMATCH, why);
    if text("mcp-protocol-version").is_none() {
        return Err(mismatch(
            "the header MCP-Protocol-Version is missing".to_owned(),
        ));
    }
    let meta = ["protocolVersion", "clientCapabilities"]
        .map(|member| request.params_meta(&format!("io.modelcontextprotocol/{member}")));
    if meta.iter().any(Option::is_none) {
        let why =
            "`_meta` lacks `io.modelcontextprotocol/protocolVersion` or `…/clientCapabilities`";
        return Err((INVALID_PARAMS, why.to_owned()));
    }
    let version = request
        .protocol_version()
        .and_then(|version| serde_json::from_str::<String>(version).ok());
    let is_name_needed = matches!(
        request.method(),
        "tools/call" | "prompts/get" | "resources/read"
    );
    let fields = [
        ("MCP-Protocol-Version", version, true),
        ("Mcp-Method", Some(request.method().to_owned()), true),
        ("Mcp-Name", subject(request), is_name_needed),
    ];
    for (name, body, is_needed) in fields {
        let value = match text(name) {
            None if is_needed && body.is_some() => {
                return Err(mismatch(format!("the header {name} is missing")));
            }
            None => continue,
            Some(Ok(value)) => value,
            Some(Err(_)) => return Err(mismatch(format!("the header {name} is not ASCII"))),
        };
        let Some(body) = body else { continue };
        let value = if name == "Mcp-Name" {
            decoded(&value)
        } else {
            Some(value)
        };
        if value.as_ref() != Some(&body) {
            let value = value.unwrap_or_default();
            return Err(mismatch(format!(
                "the header {name} is `{value}`, and the body says `{body}`"
            )));
        }
    }
    Ok(())
}

/// Decodes the Base64 form of a header.
fn decoded(value: &str) -> Option<String> {
    let inner = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match inner {
        None => Some(value.to_owned()),
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_body_agree() {
        let request = Frame::parse(
            r#"{"id":1,"method":"tools/call","params":{"name":"süd","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#.into(),
        )
        .unwrap();
        let mut headers = HeaderMap::new();
        let mut code = |name: &'static str, value: &'static str| {
            headers.insert(name, value.parse().unwrap());
            check(&request, &headers).err().map(|(code, _)| code)
        };
        assert_eq!(code("mcp-protocol-version", "2026-07-28"), Some(-32_020));
        assert_eq!(code("mcp-method", "tools/call"), Some(-32_020));
        assert_eq!(code("mcp-name", "sud"), Some(-32_020));
        assert_eq!(code("mcp-name", "=?base64?c8O8ZA==?="), None);
        assert_eq!(code("mcp-method", "tools/list"), Some(-32_020));
        assert_eq!(code("mcp-method", "tools/call"), None);
        assert_eq!(code("mcp-protocol-version", "2025-11-25"), Some(-32_020));
    }

    #[test]
    fn eras_are_told_apart() {
        let legacy = Frame::parse(r#"{"id":1,"method":"tools/list"}"#.into()).unwrap();
        let mut headers = HeaderMap::new();
        assert!(!is_modern(&legacy, &headers));
        headers.insert("mcp-protocol-version", "2025-06-18".parse().unwrap());
        assert!(!is_modern(&legacy, &headers));
        headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
        assert!(is_modern(&legacy, &headers));
        headers.insert("mcp-session-id", "a".parse().unwrap());
        assert!(!is_modern(&legacy, &headers));
    }
}
