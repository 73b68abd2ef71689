//! The parts of a request that its key and its treatment depend on.

use std::ops::Range;

use cachalot_core::json::JsonError;

use crate::json_members::{members, text_value};

/// The member of `_meta` with the revision of the protocol, in requests of revisions without sessions.
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS_TOKEN: &str = "progressToken";

/// Members of `_meta` that select nothing of the answer, or that the key has by other means.
pub(super) const OMITTED_META: [&str; 8] = [
    PROGRESS_TOKEN,
    PROTOCOL_VERSION,
    CAPABILITIES,
    LOG_LEVEL,
    "io.modelcontextprotocol/clientInfo",
    "traceparent",
    "tracestate",
    "baggage",
];

/// The parts of the parameters of a request.
#[derive(Debug, Default)]
pub(super) struct RequestParts<'a> {
    /// The parameters.
    pub(super) params: &'a str,
    /// `name`: of a tool.
    pub(super) name: Option<String>,
    /// `uri`: of a resource.
    pub(super) uri: Option<String>,
    pub(super) arguments: Option<&'a str>,
    pub(super) meta: Option<&'a str>,
    /// The revision in `_meta`; `None` for revisions with sessions.
    pub(super) version: Option<String>,
    /// The capabilities in `_meta`.
    pub(super) capabilities: Option<&'a str>,
    /// True if the client asks for log messages of this request.
    pub(super) wants_logs: bool,
    /// True for a continuation of an earlier request.
    pub(super) is_continuation: bool,
    /// True if the client asks for a task.
    pub(super) is_task: bool,
}

impl<'a> RequestParts<'a> {
    /// Reads the parameters of a request.
    ///
    /// # Errors
    /// If they are no JSON object.
    pub(super) fn read(params: Option<&'a str>) -> Result<Self, JsonError> {
        let params = params.unwrap_or("{}");
        let mut parts = Self {
            params,
            ..Self::default()
        };
        members(params, |key, place| {
            let value = params.get(place);
            match key {
                b"name" => parts.name = value.and_then(text_value),
                b"uri" => parts.uri = value.and_then(text_value),
                b"arguments" => parts.arguments = value,
                b"_meta" => parts.meta = value,
                b"inputResponses" | b"requestState" => parts.is_continuation = true,
                b"task" => parts.is_task = true,
                _ => {}
            }
        })?;
        if let Some(meta) = parts.meta {
            members(meta, |key, place| {
                let value = meta.get(place);
                match std::str::from_utf8(key) {
                    Ok(PROTOCOL_VERSION) => parts.version = value.and_then(text_value),
                    Ok(CAPABILITIES) => parts.capabilities = value,
                    Ok(LOG_LEVEL) => parts.wants_logs = true,
                    _ => {}
                }
            })?;
        }
        Ok(parts)
    }

    /// Returns `_meta` for a request of the proxy itself on behalf of this client.
    pub(super) fn own_meta(&self) -> String {
        let Some(meta) = self.meta else {
            return "{}".to_owned();
        };
        let mut token: Option<Range<usize>> = None;
        let mut kept = String::from("{");
        let mut unescaped = Vec::new();
        let mut scanner = cachalot_core::json::Scanner::new(meta.as_bytes());
        let Ok(mut more) = scanner.open(&cachalot_core::json::OBJECT) else {
            return "{}".to_owned();
        };
        while more {
            scanner.peek();
            let start = scanner.at();
            let Ok(key) = scanner.key(&mut unescaped) else {
                return "{}".to_owned();
            };
            let is_token = key == PROGRESS_TOKEN.as_bytes();
            if scanner.value().is_err() {
                return "{}".to_owned();
            }
            let place = start..scanner.at();
            if is_token {
                token = Some(place);
            } else if let Some(member) = meta.get(place) {
                if kept.len() > 1 {
                    kept.push(',');
                }
                kept.push_str(member);
            }
            match scanner.more(&cachalot_core::json::OBJECT) {
                Ok(is_more) => more = is_more,
                Err(_) => return "{}".to_owned(),
            }
        }
        if token.is_none() {
            return meta.to_owned();
        }
        kept.push('}');
        kept
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_both_eras() {
        let params = r#"{"n\u0061me":"x","arguments":{"a":1.0},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":1}}"#;
        let parts = RequestParts::read(Some(params)).unwrap();
        assert_eq!(parts.name.as_deref(), Some("x"));
        assert_eq!(parts.arguments, Some(r#"{"a":1.0}"#));
        assert_eq!(parts.version.as_deref(), Some("2026-07-28"));
        let own = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":1}"#;
        assert_eq!(parts.own_meta(), own);
        let legacy = RequestParts::read(Some(r#"{"name":"x","requestState":"s"}"#)).unwrap();
        assert!(legacy.version.is_none() && legacy.is_continuation);
        assert_eq!(legacy.own_meta(), "{}");
        assert!(RequestParts::read(Some("[]")).is_err());
        assert!(RequestParts::read(Some(r#"{"_meta":1}"#)).is_err());
    }
}
