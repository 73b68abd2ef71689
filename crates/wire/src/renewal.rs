//! Requests that renew a prefix in a provider's cache, and ask for as little else as the provider permits.

use bytes::Bytes;
use cachalot_core::json::{JsonResult, OBJECT, Scanner};
use serde_json::{Map, Value};

use crate::Wire;
use crate::renewal_changes::RenewalChanges;

/// Maximum length of a member that decides about the changes, in bytes.
const MAX_SETTING_BYTES: usize = 64 << 10;

/// Returns the body of a request that reads the same prefix as the request `body` to `model`, and thereby renews it. The
/// bytes of all members that do not change stay the same.
///
/// # Errors
/// The reason why no such request is known.
pub fn renewal(wire: &dyn Wire, model: &str, body: &[u8]) -> Result<Bytes, &'static str> {
    let settings = settings(body).map_err(|_| "the body is no JSON object")?;
    let compacts = |management: &Value| management.to_string().contains("compact");
    if settings.get("context_management").is_some_and(compacts) {
        return Err(
            "the provider may summarize the conversation, which costs more than to read it",
        );
    }
    let changes = wire.renewal(model, &settings)?;
    changed(body, &changes)
        .map(Bytes::from)
        .map_err(|_| "the body is no JSON object")
}

/// Returns the members of an object, without long ones.
fn settings(body: &[u8]) -> JsonResult<Map<String, Value>> {
    let mut found = Map::new();
    let (mut scanner, mut name) = (Scanner::new(body), Vec::new());
    let mut more = scanner.open(&OBJECT)?;
    while more {
        let name = String::from_utf8_lossy(scanner.key(&mut name)?).into_owned();
        let value = scanner.value()?;
        if value.len() <= MAX_SETTING_BYTES
            && let Ok(value) = serde_json::from_slice(value)
        {
            found.insert(name, value);
        }
        more = scanner.more(&OBJECT)?;
    }
    Ok(found)
}

fn changed(body: &[u8], changes: &RenewalChanges) -> JsonResult<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len() + 128);
    let mut add = |name: &[u8], value: &[u8]| {
        out.push(if out.is_empty() { b'{' } else { b',' });
        out.extend_from_slice(name);
        out.push(b':');
        out.extend_from_slice(value);
    };
    let (mut scanner, mut unescaped) = (Scanner::new(body), Vec::new());
    let mut more = scanner.open(&OBJECT)?;
    while more {
        let name = scanner.key(&mut unescaped)?;
        let is_changed = changes.removed.iter().any(|other| other.as_bytes() == name)
            || changes
                .set
                .iter()
                .any(|(other, _)| other.as_bytes() == name);
        let name = Value::from(String::from_utf8_lossy(name)).to_string();
        let value = scanner.value()?;
        if !is_changed {
            add(name.as_bytes(), value);
        }
        more = scanner.more(&OBJECT)?;
    }
    for (name, value) in &changes.set {
        add(
            format!("\"{name}\"").as_bytes(),
            value.to_string().as_bytes(),
        );
    }
    if out.is_empty() {
        out.push(b'{');
    }
    out.push(b'}');
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::{CHAT, GEMINI, MESSAGES, RESPONSES};

    use super::*;

    fn renewed(wire: &dyn Wire, model: &str, body: &str) -> Result<String, &'static str> {
        let renewed = renewal(wire, model, body.as_bytes())?;
        Ok(String::from_utf8(renewed.to_vec()).unwrap())
    }

    #[test]
    fn request_of_messages_generates_nothing_or_one_token() {
        let of = |members: &str| {
            let body =
                format!(r#"{{"model": "m", "messages": [ 1.0 ], "max_tokens": 9{members}}}"#);
            renewed(&*MESSAGES, "claude-opus-5", &body)
        };
        let kept = r#"{"model":"m","messages":[ 1.0 ]"#;
        for members in ["", r#", "stream": true"#, r#", "stre\u0061m": true"#] {
            assert_eq!(of(members).unwrap(), format!(r#"{kept},"max_tokens":0}}"#));
        }
        for members in [
            r#","thinking":{"type":"adaptive"}"#,
            r#","tool_choice":{"type":"any"}"#,
            r#","output_config":{"format":{"type":"json_schema"}}"#,
        ] {
            let expected = format!(r#"{kept}{members},"max_tokens":1}}"#);
            assert_eq!(of(members).unwrap(), expected);
        }
        let budget = r#","thinking":{"type":"enabled","budget_tokens":1024}"#;
        assert!(of(budget).is_err());
        assert!(of(r#","thread":{"type":"create"}"#).is_err());
    }

    #[test]
    fn request_of_openai_generates_nothing_or_few_tokens() {
        let body = r#"{"model":"m","input":"a","stream":true,"store":true,"prompt_cache_options":{"ttl":"12h"}}"#;
        assert_eq!(
            renewed(&*RESPONSES, "gpt-5.6-terra", body).unwrap(),
            r#"{"model":"m","input":"a","prompt_cache_options":{"ttl":"12h","prewarm":true},"store":false}"#
        );
        assert_eq!(
            renewed(&*RESPONSES, "gpt-5-mini", body).unwrap(),
            r#"{"model":"m","input":"a","prompt_cache_options":{"ttl":"12h"},"max_output_tokens":16,"store":false}"#
        );
        let body = r#"{"messages":[],"n":3,"stream":true,"stream_options":{},"max_tokens":900}"#;
        assert_eq!(
            renewed(&*CHAT, "gpt-4.1", body).unwrap(),
            r#"{"messages":[],"max_tokens":16}"#
        );
        assert_eq!(
            renewed(&*CHAT, "gpt-5.6", r#"{"messages":[]}"#).unwrap(),
            r#"{"messages":[],"max_completion_tokens":16}"#
        );
    }

    #[test]
    fn other_requests_are_refused() {
        assert!(renewed(&*GEMINI, "gemini-3-flash", "{}").is_err());
        for body in ["", "[]", "{", r#"{"a""#] {
            assert!(renewed(&*CHAT, "gpt-4.1", body).is_err(), "{body}");
        }
    }
}
