//! Members that the gateway adds to the bodies of requests, if its operator wants that: cache markers,
//! `prompt_cache_key`, and `stream_options.include_usage`.
//!
//! Text is only inserted: every byte of the client is sent, in the same order.

use cachalot_core::json;
use cachalot_model::wire;
use serde_json::Value;

use crate::endpoint::{Endpoint, MARKER_NAME, find_member};

/// The name of the member that leads requests to one cache.
pub(crate) const CACHE_KEY: &str = "prompt_cache_key";
/// A marker behind the last member of a block.
const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// The text before and behind a string that becomes a list with one marked block.
const LIST_BEGIN: &str = r#"[{"type":"text","text":"#;
const LIST_END: &str = r#","cache_control":{"type":"ephemeral"}}]"#;

/// Returns a body of Anthropic Messages with two cache markers: at the end of the system text (without one, of the
/// tools), and at the end of the last message that is not the beginning of an answer. `None` if it has markers, or no
/// place for one. `body` is the value of `text`.
pub(crate) fn with_breakpoints(text: &[u8], body: &Value) -> Option<Vec<u8>> {
    let is_marker = |name: &str, _: &Value| (name == MARKER_NAME).then_some(());
    if find_member(body, &|_, _| false, &is_marker).is_some() {
        return None;
    }
    let text = std::str::from_utf8(text).ok()?;
    let system = json::member(text, "system").unwrap_or_default();
    let mut insertions = in_content(text, system);
    if insertions.is_empty() {
        let tools = json::member(text, "tools").unwrap_or_default();
        insertions.extend(in_list(text, tools, is_markable_tool));
    }
    let messages = json::elements(json::member(text, "messages").unwrap_or_default());
    let is_answer = |message: &&&str| json::member(message, "role") == Some("\"assistant\"");
    let last = messages.iter().rev().find(|message| !is_answer(message));
    let content = last.and_then(|message| json::member(message, "content"));
    insertions.extend(in_content(text, content.unwrap_or_default()));
    insertions.sort_by_key(|(at, _)| *at);
    tracing::debug!(
        places = ?insertions.iter().map(|(at, _)| at).collect::<Vec<_>>(),
        bytes = text.len(),
        "cache markers are added"
    );
    (!insertions.is_empty()).then(|| inserted(text.as_bytes(), &insertions))
}

/// Returns a body of Chat Completions or Responses with a `prompt_cache_key`, which is the digest of the first
/// messages: the instructions, and everything up to the first message of the user. All requests of a conversation have
/// the same one. `None` if the body has one, or does not begin a conversation by itself.
pub(crate) fn with_cache_key(
    text: &[u8],
    body: &Value,
    digest: impl FnOnce(&[&str]) -> String,
) -> Option<Vec<u8>> {
    let members = body.as_object()?;
    let is_set = |name: &str| members.get(name).is_some_and(|value| !value.is_null());
    if members.contains_key(CACHE_KEY) || continues_elsewhere(is_set) {
        return None;
    }
    let text_of_body = std::str::from_utf8(text).ok()?;
    let mut first: Vec<&str> = json::member(text_of_body, "instructions")
        .into_iter()
        .collect();
    let messages = json::member(text_of_body, "messages");
    let messages = messages.or_else(|| json::member(text_of_body, "input"))?;
    if messages.starts_with('[') {
        let messages = json::elements(messages);
        let is_user = |message: &&str| json::member(message, "role") == Some("\"user\"");
        let user = messages.iter().position(is_user)?;
        first.extend(&messages[..=user]);
    } else {
        first.push(messages)
    }
    let begin = text.iter().position(|byte| *byte == b'{')? + 1;
    tracing::debug!(
        messages = first.len(),
        "a prompt_cache_key of the first messages is added"
    );
    let member = format!(r#""{CACHE_KEY}":"{}","#, digest(&first));
    Some(inserted(text, &[(begin, &member)]))
}

/// Returns true if a request of Chat Completions asks for a stream, and does not say whether it wants its usage.
pub(crate) fn leaves_out_usage(body: &Value) -> bool {
    let options = body.get("stream_options");
    let is_unsaid = |options: &Value| match options {
        Value::Null => true,
        Value::Object(options) => options.get("include_usage").is_none_or(Value::is_null),
        _ => false,
    };
    body.get("stream") == Some(&Value::Bool(true)) && options.is_none_or(is_unsaid)
}

/// Returns a body of Chat Completions that asks for the usage of its stream; `None` if it says whether it wants it.
pub(crate) fn with_usage(text: &[u8], body: &Value) -> Option<Vec<u8>> {
    if !leaves_out_usage(body) {
        return None;
    }
    let text_of_body = std::str::from_utf8(text).ok()?;
    let begin = text.iter().position(|byte| *byte == b'{')? + 1;
    let Some(options) = json::member(text_of_body, "stream_options") else {
        let member = r#""stream_options":{"include_usage":true},"#;
        return Some(inserted(text, &[(begin, member)]));
    };
    let replaced = |part: &str, with: &str| {
        let (before, after) = text.split_at_checked(offset(text_of_body, part)?)?;
        Some([before, with.as_bytes(), after.get(part.len()..)?].concat())
    };
    if options == "null" {
        return replaced(options, r#"{"include_usage":true}"#);
    }
    if let Some(unsaid) = json::member(options, "include_usage") {
        return replaced(unsaid, "true");
    }
    let at = offset(text_of_body, options)?;
    if text.get(at) != Some(&b'{') {
        return None;
    }
    let is_empty = options.get(1..)?.trim_start().starts_with('}');
    let member = if is_empty {
        r#""include_usage":true"#
    } else {
        r#""include_usage":true,"#
    };
    Some(inserted(text, &[(at + 1, member)]))
}

/// Returns true if the messages of a request are preceded by others that the provider has stored.
pub(crate) fn continues_elsewhere(is_set: impl Fn(&str) -> bool) -> bool {
    ["previous_response_id", "conversation", "prompt"]
        .iter()
        .any(|name| is_set(name))
}

/// Returns true if the endpoint has requests whose prefixes are cached, and are read here.
pub(crate) fn has_prefix(endpoint: Endpoint) -> bool {
    endpoint.takes(MARKER_NAME) || endpoint.takes(CACHE_KEY)
}

/// Inserts texts at ascending offsets.
fn inserted(text: &[u8], insertions: &[(usize, &str)]) -> Vec<u8> {
    let more: usize = insertions.iter().map(|(_, text)| text.len()).sum();
    let mut out = Vec::with_capacity(text.len() + more);
    let mut from = 0;
    for (at, insertion) in insertions {
        out.extend_from_slice(&text[from..*at]);
        out.extend_from_slice(insertion.as_bytes());
        from = *at;
    }
    out.extend_from_slice(&text[from..]);
    out
}

/// An insertion: its offset in the body, and its text.
type Insertion = (usize, &'static str);

/// Returns the offset of a part of a text.
fn offset(text: &str, part: &str) -> Option<usize> {
    (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)
}

/// Returns the insertions that mark the end of a content or of the system text: a string, or a list of blocks.
fn in_content(text: &str, content: &str) -> Vec<Insertion> {
    let is_visible = |said: String| !said.trim().is_empty();
    match offset(text, content) {
        Some(begin) if serde_json::from_str(content).is_ok_and(is_visible) => {
            vec![(begin, LIST_BEGIN), (begin + content.len(), LIST_END)]
        }
        _ => Vec::from_iter(in_list(text, content, is_markable_block)),
    }
}

/// Returns the insertion into the last object of a list that may have a marker.
fn in_list(text: &str, list: &str, may_be_marked: fn(&Value) -> bool) -> Option<Insertion> {
    let elements = json::elements(list);
    let is_marked = |element: &&&str| {
        element.starts_with('{')
            && serde_json::from_str::<Value>(element).is_ok_and(|value| may_be_marked(&value))
    };
    let last = elements.iter().rev().find(is_marked)?;
    // Before its closing brace.
    Some((offset(text, last)? + last.len() - 1, MARKER))
}

/// Returns true for a block of a usual type that is not an empty text.
fn is_markable_block(block: &Value) -> bool {
    let kind = block.get("type").and_then(Value::as_str);
    let text = block.get("text").and_then(Value::as_str);
    let mut markable = wire::MESSAGES.members().markable.iter();
    markable.any(|listed| kind == Some(listed.as_str()))
        && text.is_none_or(|text| !text.trim().is_empty())
}

/// Returns true for a tool that is not loaded later.
fn is_markable_tool(tool: &Value) -> bool {
    let is_bare = tool.as_object().is_none_or(serde_json::Map::is_empty);
    !is_bare && tool.get("defer_loading") != Some(&Value::Bool(true))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn marked(text: &str) -> Option<String> {
        let body = serde_json::from_str(text).unwrap();
        let marked = with_breakpoints(text.as_bytes(), &body)?;
        Some(String::from_utf8(marked).unwrap())
    }

    fn keyed(text: &str) -> Option<String> {
        let body = serde_json::from_str(text).unwrap();
        let keyed = with_cache_key(text.as_bytes(), &body, |first| first.join("|"))?;
        Some(String::from_utf8(keyed).unwrap())
    }

    #[test]
    fn usage_is_asked_for_if_the_client_does_not_say() {
        let asked = |text: &str| {
            let body = serde_json::from_str(text).unwrap();
            let asked = with_usage(text.as_bytes(), &body)?;
            Some(String::from_utf8(asked).unwrap())
        };
        for (text, expected) in [
            (
                r#" {"stream": true, "messages": []}"#,
                r#" {"stream_options":{"include_usage":true},"stream": true, "messages": []}"#,
            ),
            (
                r#"{"stream":true,"stream_options": { } }"#,
                r#"{"stream":true,"stream_options": {"include_usage":true } }"#,
            ),
            (
                r#"{"stream_options":{"include_obfuscation":false},"stream":true}"#,
                r#"{"stream_options":{"include_usage":true,"include_obfuscation":false},"stream":true}"#,
            ),
            // As clients write what is not set.
            (
                r#"{"stream":true,"stream_options": null}"#,
                r#"{"stream":true,"stream_options": {"include_usage":true}}"#,
            ),
            (
                r#"{"stream_options":{"a":1,"include_usage":null},"stream":true}"#,
                r#"{"stream_options":{"a":1,"include_usage":true},"stream":true}"#,
            ),
        ] {
            assert_eq!(asked(text).as_deref(), Some(expected));
        }
        for text in [
            r#"{"messages": []}"#,
            r#"{"stream": false}"#,
            r#"{"stream": true, "stream_options": {"include_usage": false}}"#,
            r#"{"stream": true, "stream_options": {"include_usage": true}}"#,
            r#"{"stream": true, "stream_options": []}"#,
        ] {
            assert_eq!(asked(text), None, "{text}");
        }
    }

    /// Removes the markers from a value, and the lists that were made for them.
    fn without_markers(value: &mut Value) {
        match value {
            Value::Array(items) => {
                items.iter_mut().for_each(without_markers);
            }
            Value::Object(members) => {
                members.remove(MARKER_NAME);
                members.values_mut().for_each(without_markers);
            }
            _ => {}
        }
    }

    #[test]
    fn ends_of_system_and_last_message_are_marked() {
        let text = r#"{ "model":"m","system" : "Be brief.", "n": 1.0,
            "messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
            {"role":"user","content":[{"type":"text","text":"\u0063"}, {"text":" \n","type":"text"}]}]}"#;
        assert_eq!(
            marked(text).unwrap(),
            r#"{ "model":"m","system" : [{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}], "n": 1.0,
            "messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},
            {"role":"user","content":[{"type":"text","text":"\u0063","cache_control":{"type":"ephemeral"}}, {"text":" \n","type":"text"}]}]}"#
        );
        // Without a system text, the last tool that is part of the prefix.
        let text = r#"{"tools":[{"name":"a"},{"name":"b"},{"name":"c","defer_loading":true}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}"#;
        assert_eq!(
            marked(text).unwrap(),
            r#"{"tools":[{"name":"a"},{"name":"b","cache_control":{"type":"ephemeral"}},{"name":"c","defer_loading":true}],"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":"y"}]}"#
        );
        let text = r#"{"messages":[{"content":[{"type":"tool_result","tool_use_id":"t","content":[]},{"type":"thinking","thinking":"z"}],"role":"user"}]}"#;
        assert_eq!(
            marked(text).unwrap(),
            r#"{"messages":[{"content":[{"type":"tool_result","tool_use_id":"t","content":[],"cache_control":{"type":"ephemeral"}},{"type":"thinking","thinking":"z"}],"role":"user"}]}"#
        );
    }

    #[test]
    fn bodies_with_a_marker_or_without_a_place_are_left_alone() {
        for text in [
            r#"{"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":"a"}]}"#,
            r#"{"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}]}]}"#,
            r#"{"system":"s","tools":[{"name":"a","cache\u005fcontrol":{"type":"ephemeral"}}],"messages":[]}"#,
            r#"{"messages":[{"role":"user","content":" "}]}"#,
            r#"{"messages":[{"role":"user","content":[]}],"tools":[{}],"system":""}"#,
            r#"{"messages":"text","system":7,"tools":{}}"#,
            "[1]",
            "7",
        ] {
            assert_eq!(marked(text), None, "{text}");
        }
    }

    #[test]
    fn key_is_that_of_the_first_messages() {
        let chat = |more: &str| {
            let text = format!(
                r#"{{"model":"m","messages":[{{"role":"system","content":"s"}},{{"role":"user","content":"a"}}{more}]}}"#
            );
            keyed(&text).unwrap()
        };
        let key = |text: &str| text.split(r#","model""#).next().unwrap().to_owned();
        let (first, second) = (chat(""), chat(r#",{"role":"assistant","content":"b"}"#));
        assert!(first.starts_with(r#"{"prompt_cache_key":"{"role":"system""#));
        assert_eq!(key(&first), key(&second));
        let responses = keyed(r#"  { "instructions":"s", "input":"a" }"#).unwrap();
        assert_eq!(
            responses,
            r#"  {"prompt_cache_key":""s"|"a"", "instructions":"s", "input":"a" }"#
        );
        for text in [
            r#"{"prompt_cache_key":null,"messages":[{"role":"user","content":"a"}]}"#,
            r#"{"prompt_cache_key":"k","messages":[{"role":"user","content":"a"}]}"#,
            r#"{"previous_response_id":"r","input":"a"}"#,
            r#"{"conversation":{"id":"c"},"input":"a"}"#,
            r#"{"messages":[{"role":"assistant","content":"a"}]}"#,
            r#"{"messages":[]}"#,
            "{}",
            "[]",
        ] {
            assert_eq!(keyed(text), None, "{text}");
        }
    }

    /// A body with blocks of all kinds.
    fn bodies() -> impl Strategy<Value = Value> {
        let text = "[a \n\"\\\\é]{0,6}";
        let block = prop_oneof![
            text.prop_map(|text| json!({"type": "text", "text": text})),
            text.prop_map(|text| json!({"type": "thinking", "thinking": text})),
            text.prop_map(|text| json!({"type": "tool_result", "content": text})),
            Just(json!({})),
            Just(json!(1.5)),
        ];
        let content = prop_oneof![
            text.prop_map(Value::from),
            prop::collection::vec(block, 0..4).prop_map(Value::from),
            Just(Value::Null),
        ];
        let role = prop_oneof![Just("user"), Just("assistant")];
        let message = (role, content.clone())
            .prop_map(|(role, content)| json!({"role": role, "content": content}));
        let messages = prop::collection::vec(message, 0..4);
        let tools = prop::collection::vec(Just(json!({"name": "t"})), 0..3);
        (content, messages, tools).prop_map(
            |(system, messages, tools)| json!({"system": system, "tools": tools, "messages": messages}),
        )
    }

    /// Writes strings of contents as lists, which mean the same.
    fn as_lists(body: &mut Value) {
        let list = |content: &mut Value| {
            if content.is_string() {
                *content = json!([{"type": "text", "text": content.take()}]);
            }
        };
        list(&mut body["system"]);
        let messages = body["messages"].as_array_mut().unwrap();
        messages
            .iter_mut()
            .for_each(|message| list(&mut message["content"]));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in r#"[\[\]{}:,"\\ a]{0,12}(messages|system|tools|text|type)?["\[\]{}: ,a0]{0,24}"#) {
            let body = serde_json::from_str(&text).unwrap_or_default();
            for changed in [
                with_breakpoints(text.as_bytes(), &body),
                with_cache_key(text.as_bytes(), &body, |_| "k".to_owned()),
            ].into_iter().flatten() {
                let is_read = |text: &[u8]| serde_json::from_slice::<Value>(text).is_ok();
                prop_assert!(is_read(&changed) || !is_read(text.as_bytes()));
            }
        }

        #[test]
        fn nothing_but_markers_is_added(body in bodies(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&body).unwrap() } else { body.to_string() };
            if let Some(marked) = marked(&text) {
                let count = marked.matches(MARKER_NAME).count();
                prop_assert!((1..=2).contains(&count));
                let mut read: Value = serde_json::from_str(&marked).unwrap();
                without_markers(&mut read);
                let mut body = body;
                as_lists(&mut body);
                as_lists(&mut read);
                prop_assert_eq!(read, body);
            }
        }
    }
}
