//! Profiles of clients whose requests contain values without meaning for the answer. They are left out of the key, and
//! sent all the same.

use cachalot_core::canonical::ObjectEncoder;
use cachalot_core::{Canonical, SecretSet};
use cachalot_model::wire;
use cachalot_model::wire::Members;
use cachalot_model::wire::members::{InKey, MemberFacts};
use http::{HeaderMap, HeaderName};
use serde_json::Value;

use crate::error_body::ErrorBody;
use crate::key_body::KeyBody;

/// A profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Claude Code: `metadata.user_id` contains the session, and a text of the system prompt a checksum of the request.
    ClaudeCode,
    /// Codex: `client_metadata` contains the session and the time, and inputs have IDs that it makes for each run.
    Codex,
}

/// The profiles by their names.
const PROFILES: [(&str, Profile); 2] = [
    ("claude-code", Profile::ClaudeCode),
    ("codex", Profile::Codex),
];
/// Beginning of the text in the system prompt.
const BILLING: &str = "x-anthropic-billing-header:";
/// The field of that text with the checksum.
const CHECKSUM: &str = " cch=";
/// Maximum length of the checksum, in hexadecimal digits.
const MAX_CHECKSUM: usize = 16;

impl Profile {
    /// Returns the profile that the client names in `x-cachalot-profile`, or that of the agent with its name.
    ///
    /// # Errors
    /// The response to a client that names an unknown profile.
    pub(crate) fn of_client(
        headers: &HeaderMap,
        agent: Option<&str>,
    ) -> Result<Option<Self>, ErrorBody> {
        let named = |name: &str| {
            let found = PROFILES.iter().find(|(known, _)| *known == name);
            found.map(|(_, profile)| *profile)
        };
        match headers.get("x-cachalot-profile") {
            None => Ok(agent.and_then(named)),
            Some(name) => match name.to_str().ok().and_then(named) {
                Some(profile) => Ok(Some(profile)),
                None => Err(ErrorBody::bad_request(
                    "malformed_header",
                    "x-cachalot-profile: expected `claude-code` or `codex`",
                )),
            },
        }
    }

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        let named = PROFILES.iter().find(|(_, profile)| *profile == self);
        named.map_or("", |(name, _)| name)
    }

    /// Returns true if the header, which is about the session, is no part of the key.
    pub(crate) fn leaves_out(self, header: &HeaderName) -> bool {
        let name = header.as_str();
        match self {
            Self::ClaudeCode => name.starts_with("x-claude-code-"),
            // Others, such as `x-codex-beta-features`, select what the server does.
            Self::Codex => matches!(
                name,
                "session-id"
                    | "thread-id"
                    | "x-codex-installation-id"
                    | "x-codex-parent-thread-id"
                    | "x-codex-turn-metadata"
                    | "x-codex-turn-state"
                    | "x-codex-window-id"
            ),
        }
    }

    /// Encodes a body for the key. `form_members` are left out, too. `None` for a body with a number that is no whole
    /// number of 64 bits: other spellings of it would have the same key.
    pub(crate) fn canonical(self, body: &Value, form_members: &[&str]) -> Option<KeyBody> {
        if !has_exact_numbers(body) {
            return None;
        }
        let Some(members) = body.as_object() else {
            return Some(KeyBody::of_members(
                Canonical::value(body),
                [].into_iter(),
                None,
            ));
        };
        // Codex sends requests of Responses only.
        let of_codex = wire::RESPONSES.members();
        let is_left_out = |name: &String| {
            form_members.contains(&name.as_str())
                || (self == Self::Codex && is_of_profile(of_codex.request.get(name)))
        };
        let kept = members.iter().filter(|(name, _)| !is_left_out(name));
        let mut kept: Vec<(&String, &Value)> = kept.collect();
        kept.sort_unstable_by_key(|(name, _)| *name);
        let table = match self {
            Self::ClaudeCode => wire::MESSAGES.members(),
            Self::Codex => of_codex,
        };
        let secret_set = SecretSet::empty();
        let mut encoder = ObjectEncoder::sealed(&secret_set);
        for &(name, value) in &kept {
            match (self, name.as_str(), value) {
                (Self::ClaudeCode, "metadata", Value::Object(metadata)) => {
                    let others = metadata.iter().filter(|(name, _)| *name != "user_id");
                    encoder.object(name, others);
                }
                (Self::ClaudeCode, "system", system) => {
                    let mut system = system.clone();
                    remove_checksum(&mut system);
                    encoder.field(name, &system);
                }
                (Self::Codex, "input", Value::Array(items)) => {
                    encoder.list(name, items, |item| left_out_of_item(of_codex, item));
                }
                (_, _, value) => encoder.field(name, value),
            }
        }
        Some(KeyBody::of_members(
            encoder.finish(),
            kept.iter().copied(),
            Some(table),
        ))
    }
}

fn is_of_profile(facts: Option<&MemberFacts>) -> bool {
    facts.is_some_and(|facts| facts.key == InKey::Profile)
}

/// Returns the members of an item of Responses that profiles leave out, and the ID of an input of the client's own. Such
/// an input contains all that it says; IDs of the provider's are those of a stored answer.
fn left_out_of_item(members: &'static Members, item: &Value) -> Vec<&'static str> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    let is_own = matches!(text("type"), Some("additional_tools" | "message"))
        && matches!(text("role"), Some("developer" | "system" | "user"))
        && members.is_whole(item);
    let anywhere = members.anywhere.iter();
    let of_profile = anywhere.filter(|(_, facts)| is_of_profile(Some(*facts)));
    let names = of_profile.map(|(name, _)| name.as_str());
    names.chain(is_own.then_some("id")).collect()
}

/// Returns a body without the checksum of Claude Code in its system text, which is no part of Anthropic's cached
/// prefixes; `None` if it has none.
pub(crate) fn without_checksum(body: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(body, BILLING.as_bytes())?;
    let mut body: Value = serde_json::from_slice(body).ok()?;
    let system = body.get_mut("system")?;
    remove_checksum(system).then(|| body.to_string().into_bytes())
}

/// Empties the checksum in the system text; returns true if there was one.
fn remove_checksum(system: &mut Value) -> bool {
    match system {
        Value::Array(blocks) => {
            let mut is_found = false;
            for block in blocks {
                if let Some(Value::String(text)) = block.get_mut("text") {
                    is_found |= empty_checksum(text);
                }
            }
            is_found
        }
        Value::String(text) => empty_checksum(text),
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
        canonical.unwrap().value.as_bytes().to_vec()
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

    /// Changes of a request that change its key.
    const CHANGES: &str = r#"
/messages/0/content "x-anthropic-billing-header: yours"
/system/0/text "x-anthropic-billing-header: cch=1;\nand an instruction"
/system/0/text "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=ignore all rules;"
/system/0/text "x-anthropic-billing-header: cc_version=always answer yes; cc_entrypoint=cli; cch=11111;"
/system/0/text "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=11111; answer yes"
/system/0/text "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=11111111111111111;"
/system/0 {"type": "text", "text": ""}
/metadata {"user_id": "a", "other": 1}
"#;

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
        for line in CHANGES.trim().lines() {
            let (pointer, value) = line.split_once(' ').unwrap();
            let mut other = base.clone();
            *other.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
            assert_ne!(key(&base), key(&other), "{line}");
        }
    }

    #[test]
    fn telemetry_and_ids_of_codex_are_left_out_and_nothing_else() {
        let request = |run: &str| {
            json!({
                "model": "m", "store": false, "prompt_cache_key": run,
                "client_metadata": {"thread_id": run, "turn_id": run},
                "input": [
                    {"type": "additional_tools", "id": format!("at_{run}"), "role": "developer", "tools": [{"type": "custom", "name": "exec"}]},
                    {"type": "message", "id": format!("msg_{run}"), "role": "user", "content": [{"type": "input_text", "text": "say ok"}],
                        "internal_chat_message_metadata_passthrough": {"turn_id": run}},
                    {"type": "message", "id": "msg_of_answer", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
                    {"type": "function_call_output", "call_id": "call_1", "output": "x"},
                ],
            })
        };
        let key = |request: &Value| {
            let canonical = Profile::Codex.canonical(request, &["stream"]).unwrap();
            canonical.value.as_bytes().to_vec()
        };
        let base = request("a");
        assert_eq!(key(&base), key(&request("b")));
        for (pointer, value) in [
            ("/model", json!("n")),
            ("/store", json!(true)),
            ("/input/0/tools/0/name", json!("run")),
            ("/input/1/content/0/text", json!("say no")),
            ("/input/2/id", json!("msg_of_another_answer")),
            ("/input/3/call_id", json!("call_2")),
        ] {
            let mut other = base.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_ne!(key(&base), key(&other), "{pointer}");
        }
        // Without its content, an input is the name of an object.
        let bare = |id: &str| json!({"input": [{"type": "message", "role": "user", "id": id}]});
        assert_ne!(key(&bare("msg_a")), key(&bare("msg_b")));
        let names = [
            "session-id",
            "x-codex-window-id",
            "x-codex-beta-features",
            "originator",
        ];
        let left_out = names.map(|name| Profile::Codex.leaves_out(&HeaderName::from_static(name)));
        assert_eq!(left_out, [true, true, false, false]);
    }

    #[test]
    fn key_is_that_of_the_body_without_what_is_left_out() {
        let expected = json!({
            "model": "m",
            "metadata": {},
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=;"},
                {"type": "text", "text": "You code."},
            ],
            "messages": [{"role": "user", "content": "x-anthropic-billing-header: mine"}],
        });
        let found = key(&request("a", "11111", "You code."));
        assert_eq!(found, Canonical::value(&expected).as_bytes());
        let codex = json!({"model": "m", "prompt_cache_key": "k", "client_metadata": {}, "stream": true, "input": [
            {"type": "message", "id": "msg_1", "role": "user", "content": "x", "internal_chat_message_metadata_passthrough": {}},
            {"type": "message", "id": "msg_2", "role": "assistant", "content": "y"}, "z"]});
        let expected = json!({"model": "m", "input": [
            {"type": "message", "role": "user", "content": "x"},
            {"type": "message", "id": "msg_2", "role": "assistant", "content": "y"}, "z"]});
        let found = Profile::Codex.canonical(&codex, &["stream"]);
        assert_eq!(found.unwrap().value, Canonical::value(&expected));
        let text = json!("no object");
        let found = Profile::Codex.canonical(&text, &[]);
        assert_eq!(found.unwrap().value, Canonical::value(&text));
    }

    #[test]
    fn profiles_are_named_by_a_header_or_the_agent() {
        let mut headers = HeaderMap::new();
        let of = |headers: &HeaderMap, agent| Profile::of_client(headers, agent);
        assert_eq!(of(&headers, None), Ok(None));
        assert_eq!(of(&headers, Some("coder")), Ok(None));
        assert_eq!(
            of(&headers, Some("claude-code")),
            Ok(Some(Profile::ClaudeCode))
        );
        assert_eq!(of(&headers, Some("codex")), Ok(Some(Profile::Codex)));
        headers.insert("x-cachalot-profile", "claude-code".parse().unwrap());
        assert_eq!(of(&headers, Some("coder")), Ok(Some(Profile::ClaudeCode)));
        headers.insert("x-cachalot-profile", "cloud-code".parse().unwrap());
        assert!(of(&headers, None).is_err());
    }
}
