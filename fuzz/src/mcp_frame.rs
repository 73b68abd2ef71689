//! A message that the relay of MCP passes on, any bytes: no panic; other ids change nothing else; and what is read of the
//! envelope is what a parser of JSON reads.

use bytes::Bytes;
use cachalot_mcp::relay::{Frame, FrameKind, Renames};
use serde_json::Value;

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let Ok(frame) = Frame::parse(Bytes::copy_from_slice(bytes)) else {
        return;
    };
    assert_eq!(frame.bytes(), bytes);
    // Strings are not decoded unless they are needed, so an invalid one may pass.
    if let Ok(Value::Object(members)) = serde_json::from_slice::<Value>(bytes) {
        let method = members.get("method").and_then(Value::as_str);
        assert_eq!(frame.method(), method.unwrap_or_default());
        assert_eq!(frame.id().is_some(), members.contains_key("id"));
        assert_eq!(frame.params().is_some(), members.contains_key("params"));
        // Of both, the one that is null counts as absent.
        let has = |name| members.contains_key(name);
        if has("result") != has("error") {
            assert_eq!(frame.result().is_some(), has("result"));
            assert_eq!(frame.error().is_some(), has("error"));
        }
        assert_eq!(frame.kind() == FrameKind::Response, method.is_none());
    }
    let old = Renames {
        id: frame.id(),
        progress_token: frame.progress_token(),
        request_id: frame.request_id(),
        subscription_id: frame.subscription_id(),
    };
    let new = Renames {
        id: Some("\"another id\""),
        progress_token: Some("12345678901234567890"),
        request_id: Some("1"),
        subscription_id: Some("\"\""),
    };
    let renamed = frame.renamed(new);
    let again = Frame::parse(renamed.bytes().clone()).expect("a message with other ids");
    assert_eq!(again.id(), old.id.and(new.id));
    assert_eq!(
        again.progress_token(),
        old.progress_token.and(new.progress_token)
    );
    assert_eq!(again.request_id(), old.request_id.and(new.request_id));
    assert_eq!(
        again.subscription_id(),
        old.subscription_id.and(new.subscription_id)
    );
    assert_eq!(again.renamed(old).bytes(), bytes);
    let line = frame.on_one_line();
    assert!(!line.contains(&b'\n') && !line.contains(&b'\r'));
}
