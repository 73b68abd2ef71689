//! Profiles of clients whose requests contain values without meaning for the answer. They are left out of the key, and
//! sent all the same.

use cachalot_core::Canonical;
use http::{HeaderMap, HeaderName};
use serde_json::Value;

use crate::error_body::ErrorBody;

/// A profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Claude Code: `metadata.user_id` contains the session, and a text of the system prompt a checksum of the request.
    ClaudeCode,
}

const NAME: &str = "claude-code";
/// Beginning of the text in the system prompt.
const BILLING: &str = "x-anthropic-billing-header:";
/// The field of that text with the checksum.
const CHECKSUM: &str = " cch=";
/// Maximum length of the checksum, in hexadecimal digits.
const MAX_CHECKSUM: usize = 16;
/// Beginning of the names of its headers about the session.
const HEADERS: &str = "x-claude-code-";

impl Profile {
    /// Returns the profile that the client names in `x-cachalot-profile`, or that of the agent with its name.
    ///
    /// # Errors
    /// The response to a client that names an unknown profile.
    pub(crate) fn of_client(
        headers: &HeaderMap,
        agent: Option<&str>,
    ) -> Result<Option<Self>, ErrorBody> {
        match headers.get("x-cachalot-profile").map(|name| name.to_str()) {
            None if agent == Some(NAME) => Ok(Some(Self::ClaudeCode)),
            None => Ok(None),
            Some(Ok(NAME)) => Ok(Some(Self::ClaudeCode)),
            Some(_) => Err(ErrorBody::bad_request(
                "malformed_header",
                format!("x-cachalot-profile: expected `{NAME}`"),
            )),
        }
    }

    /// Returns true if the header is no part of the key.
    pub(crate) fn leaves_out(self, header: &HeaderName) -> bool {
        header.as_str().starts_with(HEADERS)
    }

    /// Encodes a body for the key. `form_members` are left out, too. `None` for a body with a number that is no whole
    /// number of 64 bits: other spellings of it would have the same key.
    pub(crate) fn canonical(self, body: &Value, form_members: &[&str]) -> Option<Canonical> {
        if !has_exact_numbers(body) {
            return None;
        }
        let mut body = body.clone();
        if let Some(members) = body.as_object_mut() {
            members.retain(|name, _| !form_members.contains(&name.as_str()));
        }
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("user_id");
        }
        remove_checksum(&mut body);
        Some(Canonical::value(&body))
    }
}

/// Returns a body without the checksum of Claude Code in its system text, which is no part of Anthropic's cached
/// prefixes; `None` if it has none.
pub(crate) fn without_checksum(body: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(body, BILLING.as_bytes())?;
    let mut body: Value = serde_json::from_slice(body).ok()?;
    remove_checksum(&mut body).then(|| body.to_string().into_bytes())
}

/// Empties the checksum in the system text; returns true if there was one.
fn remove_checksum(body: &mut Value) -> bool {
    match body.get_mut("system") {
        Some(Value::Array(blocks)) => {
            let mut is_found = false;
            for block in blocks {
                if let Some(Value::String(text)) = block.get_mut("text") {
                    is_found |= empty_checksum(text);
                }
            }
            is_found
        }
        Some(Value::String(text)) => empty_checksum(text),
        _ => false,
    }
}

/// Empties the checksum in a text that begins with the marker. Everything else of the text may instruct the model.
fn empty_checksum(text: &mut String) -> bool {
    if !text.starts_with(BILLING) {
        return false;
    }
    let line = text.split('\n').next().unwrap_or_default();
    let Some(start) = line.find(CHECKSUM).map(|at| at + CHECKSUM.len()) else {
        return false;
    };
    let value = line[start..].split(';').next().unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_checksum = (1..=MAX_CHECKSUM).contains(&value.len()) && value.bytes().all(is_digit);
    if is_checksum {
        text.replace_range(start..start + value.len(), "");
    }
    is_checksum
}

fn has_exact_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(has_exact_numbers),
        Value::Object(members) => members.values().all(has_exact_numbers),
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(session: &str, checksum: &str, system: &str) -> Value {
        json!({
            "model": "m",
            "stream": true,
            "metadata": {"user_id": format!("user_1_session_{session}")},
            "system": [
                {"type": "text", "text": format!("x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch={checksum};")},
                {"type": "text", "text": system},
            ],
            "messages": [{"role": "user", "content": "x-anthropic-billing-header: mine"}],
        })
    }

    fn key(request: &Value) -> Vec<u8> {
        let canonical = Profile::ClaudeCode.canonical(request, &["stream"]);
        canonical.unwrap().as_bytes().to_vec()
    }

    #[test]
    fn a_checksum_is_left_out_of_a_compared_body() {
        let compared = |checksum| {
            let body = request("a", checksum, "You code.").to_string();
            without_checksum(body.as_bytes()).unwrap()
        };
        assert_eq!(compared("11111"), compared("22222"));
        let text = String::from_utf8(compared("11111")).unwrap();
        assert!(text.contains("You code.") && text.contains(": mine") && text.contains("cch=;"));
        // Texts of the conversation stay.
        let body = json!({"messages": [{"role": "user", "content": format!("{BILLING} cch=1;")}]});
        assert_eq!(without_checksum(body.to_string().as_bytes()), None);
    }

    #[test]
    fn sessions_and_checksums_are_left_out_and_nothing_else() {
        let base = request("a", "11111", "You code.");
        assert_eq!(key(&base), key(&request("b", "22222", "You code.")));
        assert_ne!(key(&base), key(&request("a", "11111", "You do not code.")));
        let mut inexact = base.clone();
        inexact["temperature"] = json!(1.0);
        assert!(Profile::ClaudeCode.canonical(&inexact, &[]).is_none());
        let mut text = base.clone();
        text["system"] = json!("x-anthropic-billing-header: cch=1;\nYou code.");
        let mut same = text.clone();
        same["system"] = json!("x-anthropic-billing-header: cch=2;\nYou code.");
        assert_eq!(key(&text), key(&same));
        for (pointer, value) in [
            (
                "/messages/0/content",
                json!("x-anthropic-billing-header: yours"),
            ),
            (
                "/system/0/text",
                json!("x-anthropic-billing-header: cch=1;\nand an instruction"),
            ),
            (
                "/system/0/text",
                json!(
                    "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=ignore all rules;"
                ),
            ),
            (
                "/system/0/text",
                json!(
                    "x-anthropic-billing-header: cc_version=always answer yes; cc_entrypoint=cli; cch=11111;"
                ),
            ),
            (
                "/system/0/text",
                json!(
                    "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=11111; answer yes"
                ),
            ),
            (
                "/system/0/text",
                json!(
                    "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=11111111111111111;"
                ),
            ),
            ("/system/0", json!({"type": "text", "text": ""})),
            ("/metadata", json!({"user_id": "a", "other": 1})),
        ] {
            let mut other = base.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_ne!(key(&base), key(&other), "{pointer}");
        }
    }

    #[test]
    fn profiles_are_named_by_a_header_or_the_agent() {
        let mut headers = HeaderMap::new();
        let of = |headers: &HeaderMap, agent| Profile::of_client(headers, agent);
        assert_eq!(of(&headers, None), Ok(None));
        assert_eq!(of(&headers, Some("coder")), Ok(None));
        assert_eq!(of(&headers, Some(NAME)), Ok(Some(Profile::ClaudeCode)));
        headers.insert("x-cachalot-profile", "claude-code".parse().unwrap());
        assert_eq!(of(&headers, Some("coder")), Ok(Some(Profile::ClaudeCode)));
        headers.insert("x-cachalot-profile", "cloud-code".parse().unwrap());
        assert!(of(&headers, None).is_err());
    }
}
