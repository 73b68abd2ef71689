//! The body of a request whose answers are replayed, as its key contains it: without what differs between two equal runs.

use std::collections::HashMap;

use bytes::Bytes;
use cachalot_core::config::Named;
use serde_json::{Value, json};

use crate::checksum;
use crate::client_profile::{Client, VaryingText};
use crate::endpoint::Endpoint;
use crate::key_body::KeyBody;
use crate::key_text::Edits;
use crate::parsed_body::ParsedBody;

/// A body for the key.
pub(crate) struct RunBody {
    pub(crate) body: KeyBody,
    /// The IDs of calls that are in the key by their order only.
    pub(crate) numbered_calls: Vec<String>,
}

/// A request whose body is parsed.
#[derive(Clone, Copy)]
pub(crate) struct RunRequest<'a> {
    endpoint: Endpoint,
    text: &'a Bytes,
    value: &'a Value,
    form_members: &'a [&'static str],
    client: Option<&'a Client>,
    is_replayed: bool,
}

impl<'a> RunRequest<'a> {
    /// A request with this body, which has a canonical form, of a client if it is known. What the model may read is left
    /// out only if the client or the operator has asked for replay.
    pub(crate) fn new(
        text: &'a Bytes,
        parsed: &'a ParsedBody,
        client: Option<&'a Client>,
        is_replayed: bool,
    ) -> Self {
        Self {
            endpoint: parsed.endpoint,
            text,
            value: parsed.value(),
            form_members: &parsed.form_members,
            client,
            is_replayed,
        }
    }

    /// Returns the body for the key; `None` if it has nothing that is left out.
    pub(crate) fn body(self) -> Option<RunBody> {
        let (value, mut edits) = (self.value, Edits::default());
        let numbered_calls = if self.is_replayed {
            self.number_calls(&mut edits)
        } else {
            Vec::new()
        };
        for (text, emptied) in checksum::in_system(value) {
            edits.replace(text, Value::from(emptied));
        }
        if let Some(client) = self.client {
            for pointer in &client.value.ignored_members {
                leave_out(value, &pointer.value, &mut edits);
            }
            if client.value.own_item_ids {
                self.leave_out_own_ids(&mut edits);
            }
            self.each_varying(client, |text, varying| {
                if self.is_replayed && client.value.ignores(&varying.name) {
                    edits.change(text, |known| varying.value.replaced_in(known));
                }
            });
        }
        let text = std::str::from_utf8(self.text).ok()?;
        let edited = Bytes::from(edits.apply(text, value)?);
        let value: Value = serde_json::from_slice(&edited).ok()?;
        let table = self.endpoint.members();
        let body = KeyBody::of_text(self.form_members, &edited, &value, table).ok()?;
        Some(RunBody {
            body,
            numbered_calls,
        })
    }

    /// Returns the name of a text in the key that differs between two runs, if there is one.
    pub(crate) fn varying_text(self) -> Option<&'a str> {
        let (client, mut found) = (self.client?, None);
        self.each_varying(client, |text, varying| {
            let is_in_key = !client.value.ignores(&varying.name);
            let text = text.as_str().filter(|_| is_in_key && found.is_none());
            if text.is_some_and(|text| varying.value.matches(text)) {
                found = Some(varying.name.as_str());
            }
        });
        found
    }

    /// Writes the numbers of calls in place of the IDs that only pair them with their results.
    fn number_calls(self, edits: &mut Edits) -> Vec<String> {
        let ids = self.endpoint.pairing_ids(self.value);
        let numbers: HashMap<&str, usize> = ids.iter().copied().zip(0..).collect();
        if !numbers.is_empty() {
            each_string(self.value, &mut |text| {
                let number = text.as_str().and_then(|id| numbers.get(id));
                if let Some(number) = number {
                    edits.replace(text, json!({ "call": number }));
                }
            });
        }
        ids.into_iter().map(str::to_owned).collect()
    }

    /// Leaves out the IDs of inputs of Responses that the client has made. Such an input contains all that it says; IDs
    /// of the provider's are those of a stored answer.
    fn leave_out_own_ids(self, edits: &mut Edits) {
        let Some(members) = self.endpoint.members() else {
            return;
        };
        let items = self.value.get("input").and_then(Value::as_array);
        for item in items.into_iter().flatten() {
            let text = |name: &str| item.get(name).and_then(Value::as_str);
            let is_own = match text("type") {
                Some("additional_tools" | "message") => {
                    matches!(text("role"), Some("developer" | "system" | "user"))
                }
                _ => self.endpoint.answered_call("input", item).is_some(),
            };
            if let Some(id) = item.get("id").filter(|_| is_own && members.is_whole(item)) {
                edits.leave_out(id);
            }
        }
    }

    /// Visits the texts of the request with those of the client that may be in them.
    fn each_varying(
        self,
        client: &'a Client,
        mut visit: impl FnMut(&'a Value, &'a Named<VaryingText>),
    ) {
        if client.value.texts.is_empty() {
            return;
        }
        let tools = self.endpoint.called_tools(self.value);
        self.endpoint.each_text(self.value, &mut |text, call| {
            let tool = call.map(|call| tools.get(call).copied().unwrap_or_default());
            for varying in &client.value.texts {
                if varying.value.is_in(tool) {
                    visit(text, varying);
                }
            }
        });
    }
}

/// Leaves the members out that a pointer names; `*` stands for each item of a list.
fn leave_out(value: &Value, pointer: &str, edits: &mut Edits) {
    let (first, rest) = match pointer.strip_prefix('/').map(|path| path.split_once('/')) {
        Some(Some((first, _))) => (first, &pointer[first.len() + 1..]),
        Some(None) => (&pointer[1..], ""),
        None => return edits.leave_out(value),
    };
    match value {
        Value::Array(items) if first == "*" => {
            items.iter().for_each(|item| leave_out(item, rest, edits));
        }
        value => {
            let name = first.replace("~1", "/").replace("~0", "~");
            if let Some(member) = value.get(name) {
                leave_out(member, rest, edits);
            }
        }
    }
}

fn each_string<'a>(value: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    match value {
        Value::String(_) => visit(value),
        Value::Array(items) => items.iter().for_each(|item| each_string(item, visit)),
        Value::Object(members) => members
            .values()
            .for_each(|member| each_string(member, visit)),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::client_profile::Clients;

    /// The profile of a client of the program, which leaves these texts out.
    fn client(name: &str, ignored: &[&str]) -> Arc<Client> {
        let ignored: Vec<String> = ignored.iter().map(|name| (*name).to_owned()).collect();
        let clients = Clients::built_in().ignoring(&ignored);
        let found = clients
            .of_request(&HeaderMap::new(), Some(name), None)
            .unwrap();
        Arc::clone(found.unwrap())
    }

    /// The key of a body, and the IDs that it has by their order only.
    fn key(endpoint: &str, body: &Value, client: Option<&Client>) -> (Vec<u8>, Vec<String>) {
        let text = Bytes::from(body.to_string());
        let endpoint = Endpoint::of_name(endpoint).unwrap();
        let parsed = ParsedBody::of(endpoint, &text, Arc::default());
        match RunRequest::new(&text, &parsed, client, true).body() {
            Some(found) => (bytes(&found.body), found.numbered_calls),
            None => (bytes(parsed.canonical.as_ref().unwrap()), Vec::new()),
        }
    }

    fn bytes(body: &KeyBody) -> Vec<u8> {
        let order = body.order.as_ref();
        let order = order.map_or_else(Vec::new, |order| order.as_bytes().into_owned());
        [body.value.as_bytes().into_owned(), order].concat()
    }

    fn claude(session: &str, checksum: &str, system: &str) -> Value {
        json!({
            "model": "m",
            "stream": true,
            "temperature": 0.5,
            "metadata": {"user_id": format!("user_1_session_{session}")},
            "system": [
                {"type": "text", "text": format!("x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch={checksum};")},
                {"type": "text", "text": system},
            ],
            "messages": [{"role": "user", "content": "x-anthropic-billing-header: mine"}],
        })
    }

    /// Changes of a request of Claude Code that change its key.
    const CHANGES: &str = r#"
/messages/0/content "x-anthropic-billing-header: yours"
/system/0/text "x-anthropic-billing-header: cch=1;\nand an instruction"
/system/0/text "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=ignore all rules;"
/system/0/text "x-anthropic-billing-header: cc_version=always answer yes; cc_entrypoint=cli; cch=11111;"
/system/0/text "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=11111; answer yes"
/system/0/text "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=11111111111111111;"
/system/0 {"type": "text", "text": ""}
/metadata {"user_id": "a", "other": 1}
/temperature 0.50001
"#;

    #[test]
    fn sessions_and_checksums_are_left_out_and_nothing_else() {
        let client = client("claude-code", &[]);
        let key = |body: &Value| key("messages", body, Some(&client)).0;
        let base = claude("a", "11111", "You code.");
        assert_eq!(key(&base), key(&claude("b", "22222", "You code.")));
        assert_ne!(key(&base), key(&claude("a", "11111", "You do not code.")));
        let text = |checksum: &str| {
            let mut body = base.clone();
            body["system"] = json!(format!(
                "x-anthropic-billing-header: cch={checksum};\nYou code."
            ));
            key(&body)
        };
        assert_eq!(text("1"), text("2"));
        for line in CHANGES.trim().lines() {
            let (pointer, value) = line.split_once(' ').unwrap();
            let mut other = base.clone();
            *other.pointer_mut(pointer).unwrap() = serde_json::from_str(value).unwrap();
            assert_ne!(key(&base), key(&other), "{line}");
        }
        // What is left is the body without the rest.
        let expected = json!({
            "model": "m",
            "temperature": 0.5,
            "metadata": {},
            "system": [
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.37.0d9; cc_entrypoint=cli; cch=;"},
                {"type": "text", "text": "You code."},
            ],
            "messages": [{"role": "user", "content": "x-anthropic-billing-header: mine"}],
        });
        assert_eq!(key(&base), key(&expected));
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
                    {"type": "function_call_output", "id": format!("fco_{run}"), "call_id": "call_1", "output": "x"},
                ],
            })
        };
        let client = client("codex", &[]);
        let key = |body: &Value| key("responses", body, Some(&client)).0;
        let base = request("a");
        assert_eq!(key(&base), key(&request("b")));
        for (pointer, value) in [
            ("/model", json!("n")),
            ("/store", json!(true)),
            ("/input/0/tools/0/name", json!("run")),
            ("/input/1/content/0/text", json!("say no")),
            ("/input/2/id", json!("msg_of_another_answer")),
            // Without its call, a result is known by its ID only.
            ("/input/3/call_id", json!("call_2")),
        ] {
            let mut other = base.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_ne!(key(&base), key(&other), "{pointer}");
        }
        // Without its content, an input is the name of an object.
        let bare = |id: &str| json!({"input": [{"type": "message", "role": "user", "id": id}]});
        assert_ne!(key(&bare("msg_a")), key(&bare("msg_b")));
    }

    /// A conversation with two calls, in each format: the IDs are `{0}` and `{1}`, and `{2}` is a text.
    const CONVERSATIONS: [(&str, &str); 5] = [
        (
            "chat",
            r#"{"model": "m", "messages": [{"role": "user", "content": "{2}"},
            {"role": "assistant", "tool_calls": [{"id": "{0}", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "{0}", "content": "r"},
            {"role": "assistant", "tool_calls": [{"id": "{1}", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "{1}", "content": "r"}]}"#,
        ),
        (
            "messages",
            r#"{"model": "m", "messages": [{"role": "user", "content": "{2}"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "{0}", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "{0}", "content": "r"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "{1}", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "{1}", "content": "r"}]}]}"#,
        ),
        (
            "responses",
            r#"{"model": "m", "store": false, "input": [{"role": "user", "content": "{2}"},
            {"type": "function_call", "id": "fc_1", "call_id": "{0}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "{0}", "output": "r"},
            {"type": "custom_tool_call", "id": "ctc_1", "call_id": "{1}", "name": "f", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "{1}", "output": "r"}]}"#,
        ),
        (
            "gemini",
            r#"{"contents": [{"role": "user", "parts": [{"text": "{2}"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "{0}", "name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "{0}", "name": "f", "response": {"r": 1}}}]},
            {"role": "model", "parts": [{"function_call": {"id": "{1}", "name": "f", "args": {}}}]},
            {"role": "user", "parts": [{"function_response": {"id": "{1}", "name": "f", "response": {"r": 1}}}]}]}"#,
        ),
        (
            "interactions",
            r#"{"model": "m", "store": false, "input": [{"type": "user_input", "content": "{2}"},
            {"type": "function_call", "id": "{0}", "name": "f", "arguments": {}},
            {"type": "function_result", "call_id": "{0}", "name": "f", "result": "r"},
            {"type": "function_call", "id": "{1}", "name": "f", "arguments": {}},
            {"type": "function_result", "call_id": "{1}", "name": "f", "result": "r"}]}"#,
        ),
    ];

    fn conversation(text: &str, ids: [&str; 2], said: &str) -> Value {
        let text = text.replace("{0}", ids[0]).replace("{1}", ids[1]);
        serde_json::from_str(&text.replace("{2}", said)).unwrap()
    }

    #[test]
    fn ids_that_only_pair_calls_with_results_have_no_meaning() {
        for (endpoint, text) in CONVERSATIONS {
            let of = |ids, said| key(endpoint, &conversation(text, ids, said), None);
            let (base, numbered) = of(["call_a", "call_b"], "hello");
            assert_eq!(numbered, ["call_a", "call_b"], "{endpoint}");
            assert_eq!(of(["x-1", "x-2"], "hello").0, base, "{endpoint}");
            assert_eq!(of(["call_b", "call_a"], "hello").0, base, "{endpoint}");
            assert_ne!(of(["call_a", "call_b"], "hallo").0, base, "{endpoint}");
            assert_eq!(
                of(["call_1", "call_10"], "see call_11").1,
                ["call_1", "call_10"]
            );
            // An ID with another use stays.
            for (ids, said, expected) in [
                (["call_a", "call_b"], "what did call_a do?", vec!["call_b"]),
                (["call_1", "call_10"], "see call_1", vec!["call_10"]),
                (["call_a", "call_a"], "hello", vec![]),
                (["call a", "call_b"], "hello", vec!["call_b"]),
                (["", "call_b"], "hello", vec!["call_b"]),
            ] {
                let (found, numbered) = of(ids, said);
                assert_eq!(numbered, expected, "{endpoint} {ids:?} {said}");
                assert_ne!(
                    found,
                    of(["x-1", "x-2"], said).0,
                    "{endpoint} {ids:?} {said}"
                );
            }
        }
    }

    #[test]
    fn ids_of_objects_stay() {
        let request = |id: &str, reasoning: &str, file: &str| {
            json!({"model": "m", "store": false, "input": [
                {"type": "reasoning", "id": reasoning, "summary": [], "encrypted_content": "e"},
                {"type": "function_call", "id": id, "call_id": "call_a", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "call_a", "output": [{"type": "input_file", "file_id": file}]},
                {"type": "mcp_approval_response", "approval_request_id": reasoning, "approve": true},
            ]})
        };
        let base = key("responses", &request("fc_1", "rs_1", "file_1"), None).0;
        for other in [
            request("fc_2", "rs_1", "file_1"),
            request("fc_1", "rs_2", "file_1"),
            request("fc_1", "rs_1", "file_2"),
        ] {
            assert_ne!(key("responses", &other, None).0, base, "{other}");
        }
    }

    #[test]
    fn texts_that_differ_between_runs_are_in_the_key_until_they_are_ignored() {
        let request = |chunk: &str, date: &str, tool: &str| {
            json!({"model": "m", "store": false, "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": format!("<environment_context>\n  <current_date>{date}</current_date>\n</environment_context>")}]},
                {"type": "function_call", "call_id": "call_a", "name": tool, "arguments": format!("Chunk ID: {chunk}")},
                {"type": "function_call_output", "call_id": "call_a", "output": format!("Chunk ID: {chunk}\nWall time: 0.5 seconds\nok")},
            ]})
        };
        let strip = |mut body: Value| {
            body["input"][1]["arguments"] = json!("{}");
            body
        };
        let varying = |body: &Value, client: &Client| {
            let text = Bytes::from(body.to_string());
            let parsed = ParsedBody::of(Endpoint::responses(), &text, Arc::default());
            RunRequest::new(&text, &parsed, Some(client), true)
                .varying_text()
                .map(str::to_owned)
        };
        let one = strip(request("a1", "2026-11-28", "exec_command"));
        let other = strip(request("b2", "2026-11-29", "exec_command"));
        let strict = client("codex", &[]);
        assert_ne!(
            key("responses", &one, Some(&strict)),
            key("responses", &other, Some(&strict))
        );
        assert!(varying(&one, &strict).is_some());
        let ignoring = client("codex", &["date", "chunk-id", "wall-time"]);
        assert_eq!(
            key("responses", &one, Some(&ignoring)),
            key("responses", &other, Some(&ignoring))
        );
        assert_eq!(varying(&one, &ignoring), None);
        let only_date = client("codex", &["date"]);
        assert_eq!(varying(&one, &only_date).as_deref(), Some("chunk-id"));
        // Of another tool, and in arguments.
        for (one, other) in [
            (
                strip(request("a1", "x", "cat")),
                strip(request("b2", "x", "cat")),
            ),
            (
                request("a1", "x", "exec_command"),
                request("b2", "x", "exec_command"),
            ),
        ] {
            assert_ne!(
                key("responses", &one, Some(&ignoring)),
                key("responses", &other, Some(&ignoring))
            );
        }
    }

    proptest! {
        /// Keys of conversations that differ in anything but paired IDs differ.
        #[test]
        fn conversations_that_differ_have_different_keys(
            at in any::<prop::sample::Index>(),
            which in 0..CONVERSATIONS.len(),
            ids in prop::sample::subsequence(vec!["call_a", "call_b", "call_c", "toolu_1"], 2),
            swap in any::<bool>(),
            text in "[a-z]{1,6}",
        ) {
            let (endpoint, pattern) = CONVERSATIONS[which];
            let ids = if swap { [ids[1], ids[0]] } else { [ids[0], ids[1]] };
            let body = conversation(pattern, ids, "hello");
            let base = key(endpoint, &conversation(pattern, ["x-1", "x-2"], "hello"), None).0;
            prop_assert_eq!(&key(endpoint, &body, None).0, &base);
            // A change of any string, also of one side of a pair.
            let mut pointers = Vec::new();
            each_pointer(&body, String::new(), &mut pointers);
            let mut other = body.clone();
            let place = other.pointer_mut(at.get::<String>(&pointers)).unwrap();
            prop_assume!(*place != text.as_str());
            *place = Value::from(text);
            prop_assert_ne!(&key(endpoint, &other, None).0, &base, "{}", other);
        }
    }

    fn each_pointer(value: &Value, at: String, pointers: &mut Vec<String>) {
        match value {
            Value::String(_) => pointers.push(at),
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    each_pointer(item, format!("{at}/{place}"), pointers);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    each_pointer(member, format!("{at}/{name}"), pointers);
                }
            }
            _ => {}
        }
    }
}
