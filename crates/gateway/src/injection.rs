//! Members that the gateway adds to the bodies of requests, if its operator wants that: cache markers, and
//! `prompt_cache_key`.
//!
//! Text is only inserted: every byte of the client is sent, in the same order.

use cachalot_core::json::{self, JsonResult, OBJECT, Scanner};
use serde_json::Value;

use crate::endpoint::{Endpoint, any_member};

/// The name of a cache marker.
const MARKER_NAME: &str = "cache_control";
/// A marker behind the last member of a block.
const MARKER: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// The text before and behind a string that becomes a list with one marked block.
const LIST_BEGIN: &str = r#"[{"type":"text","text":"#;
const LIST_END: &str = r#","cache_control":{"type":"ephemeral"}}]"#;

/// Types of blocks that may be marked.
const MARKABLE: [&str; 6] = [
    "document",
    "image",
    "search_result",
    "text",
    "tool_result",
    "tool_use",
];

/// Returns a body of Anthropic Messages with two cache markers: at the end of the system text (without one, of the
/// tools), and at the end of the last message that is not the beginning of an answer. `None` if it has markers, or no
/// place for one. `body` is the value of `text`.
pub(crate) fn with_breakpoints(text: &[u8], body: &Value) -> Option<Vec<u8>> {
    if any_member(body, &[], &|name, _| name == MARKER_NAME) {
        return None;
    }
    let Places {
        tools,
        system,
        message,
    } = Places::read(text).ok()?;
    let places = [system.or(tools), message].into_iter().flatten();
    let mut insertions: Vec<(usize, &str)> = places.flat_map(Place::insertions).collect();
    insertions.sort_by_key(|(at, _)| *at);
    (!insertions.is_empty()).then(|| inserted(text, &insertions))
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
    if members.contains_key("prompt_cache_key") || continues_elsewhere(is_set) {
        return None;
    }
    let text_of_body = std::str::from_utf8(text).ok()?;
    let mut first: Vec<&str> = json::member(text_of_body, "instructions")
        .into_iter()
        .collect();
    let messages = json::member(text_of_body, "messages");
    let messages = messages.or_else(|| json::member(text_of_body, "input"))?;
    match messages.starts_with('[') {
        true => {
            let messages = json::elements(messages);
            let is_user = |message: &&str| json::member(message, "role") == Some("\"user\"");
            let user = messages.iter().position(is_user)?;
            first.extend(&messages[..=user]);
        }
        false => first.push(messages),
    }
    let begin = text.iter().position(|byte| *byte == b'{')? + 1;
    let member = format!(r#""prompt_cache_key":"{}","#, digest(&first));
    Some(inserted(text, &[(begin, &member)]))
}

/// Returns true if the messages of a request are preceded by others that the provider has stored.
pub(crate) fn continues_elsewhere(is_set: impl Fn(&str) -> bool) -> bool {
    ["previous_response_id", "conversation", "prompt"]
        .iter()
        .any(|name| is_set(name))
}

/// Returns true if the endpoint has requests whose prefixes are cached, and are read here.
pub(crate) fn has_prefix(endpoint: Endpoint) -> bool {
    matches!(
        endpoint,
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages
    )
}

/// Inserts texts at ascending offsets.
fn inserted(text: &[u8], insertions: &[(usize, &str)]) -> Vec<u8> {
    let more: usize = insertions.iter().map(|(_, it)| it.len()).sum();
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

/// A place for a marker, by offsets in the body.
#[derive(Clone, Copy)]
enum Place {
    /// The closing brace of a block.
    Block(usize),
    /// A string that becomes a list: its quotes.
    Text(usize, usize),
}

impl Place {
    fn insertions(self) -> Vec<(usize, &'static str)> {
        match self {
            Self::Block(end) => vec![(end, MARKER)],
            Self::Text(begin, end) => vec![(begin, LIST_BEGIN), (end, LIST_END)],
        }
    }
}

/// The places in a body.
#[derive(Default)]
struct Places {
    tools: Option<Place>,
    system: Option<Place>,
    message: Option<Place>,
}

impl Places {
    fn read(text: &[u8]) -> JsonResult<Self> {
        let mut found = Self::default();
        let mut scanner = Scanner::new(text);
        members(&mut scanner, |name, scanner| {
            match name {
                b"tools" => found.tools = in_list(scanner, tool)?,
                b"system" => found.system = in_content(scanner)?,
                b"messages" if scanner.peek() == Some(b'[') => scanner.elements(|scanner| {
                    if let Some(place) = in_message(scanner)? {
                        found.message = place;
                    }
                    Ok(())
                })?,
                _ => drop(scanner.value()?),
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// Reads the members of an object, with decoded keys.
fn members<'a>(
    scanner: &mut Scanner<'a>,
    mut each: impl FnMut(&[u8], &mut Scanner<'a>) -> JsonResult<()>,
) -> JsonResult<()> {
    let mut unescaped = Vec::new();
    let mut more = scanner.open(&OBJECT)?;
    while more {
        let name = scanner.key(&mut unescaped)?;
        each(name, scanner)?;
        more = scanner.more(&OBJECT)?;
    }
    Ok(())
}

/// Reads a message; returns its place, or `None` for one that is the beginning of an answer.
fn in_message(scanner: &mut Scanner<'_>) -> JsonResult<Option<Option<Place>>> {
    let (mut place, mut is_answer) = (None, false);
    if scanner.peek() != Some(b'{') {
        scanner.value()?;
        return Ok(Some(None));
    }
    members(scanner, |name, scanner| {
        match name {
            b"content" => place = in_content(scanner)?,
            b"role" => is_answer = scanner.value()? == b"\"assistant\"",
            _ => drop(scanner.value()?),
        }
        Ok(())
    })?;
    Ok((!is_answer).then_some(place))
}

/// Reads a content or the system text: a string, or a list of blocks.
fn in_content(scanner: &mut Scanner<'_>) -> JsonResult<Option<Place>> {
    if scanner.peek() != Some(b'"') {
        return in_list(scanner, block);
    }
    let begin = scanner.at();
    let is_blank = is_blank(scanner)?;
    Ok((!is_blank).then(|| Place::Text(begin, scanner.at())))
}

/// Reads a list; returns the place in its last element that has one.
fn in_list<'a>(
    scanner: &mut Scanner<'a>,
    element: impl Fn(&mut Scanner<'a>) -> JsonResult<Option<Place>>,
) -> JsonResult<Option<Place>> {
    let mut last = None;
    if scanner.peek() != Some(b'[') {
        scanner.value()?;
        return Ok(None);
    }
    scanner.elements(|scanner| {
        if scanner.peek() == Some(b'{') {
            last = element(scanner)?.or(last);
        } else {
            scanner.value()?;
        }
        Ok(())
    })?;
    Ok(last)
}

/// Reads a block of a content: a marker may be set if it is of a usual type and not an empty text.
fn block(scanner: &mut Scanner<'_>) -> JsonResult<Option<Place>> {
    let (mut is_markable, mut is_empty) = (false, false);
    members(scanner, |name, scanner| {
        match (name, scanner.peek()) {
            (b"type", Some(b'"')) => {
                let kind = scanner.string()?;
                is_markable = MARKABLE.iter().any(|it| it.as_bytes() == kind);
            }
            (b"text", Some(b'"')) => is_empty = is_blank(scanner)?,
            _ => drop(scanner.value()?),
        }
        Ok(())
    })?;
    Ok((is_markable && !is_empty).then(|| Place::Block(scanner.at() - 1)))
}

/// Reads a tool: a marker may be set unless it is loaded later.
fn tool(scanner: &mut Scanner<'_>) -> JsonResult<Option<Place>> {
    let (mut is_deferred, mut is_bare) = (false, true);
    members(scanner, |name, scanner| {
        is_bare = false;
        is_deferred |= scanner.value()? == b"true" && name == b"defer_loading";
        Ok(())
    })?;
    Ok((!is_deferred && !is_bare).then(|| Place::Block(scanner.at() - 1)))
}

/// Reads a string; returns true if it has no visible sign.
fn is_blank(scanner: &mut Scanner<'_>) -> JsonResult<bool> {
    let mut unescaped = Vec::new();
    let text = scanner.text(&mut unescaped)?;
    Ok(std::str::from_utf8(text).is_ok_and(|text| text.trim().is_empty()))
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
            let text = match pretty {
                true => serde_json::to_string_pretty(&body).unwrap(),
                false => body.to_string(),
            };
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
