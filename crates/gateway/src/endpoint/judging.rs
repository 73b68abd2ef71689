//! Judgment of a request by the declared table of its format.

use cachalot_model::wire::members::{Effect, TypeFacts};
use cachalot_model::wire::shared_members::normalized;
use cachalot_model::wire::{Members, Operation, SharedMembers};
use serde_json::Value;

use super::members::{client_data, find_in, items_of, urls};
use super::{Endpoint, Object, Setting, is_given};

/// Returns the reason why the answer depends on state at the provider, or makes some: a declared member.
pub(super) fn state(members: &Members, body: &Object) -> Option<String> {
    members.find(body, &mut |place| {
        let is_state = place.facts.is_some_and(|facts| facts.does == Effect::State);
        (is_state && is_given(place.value)).then(|| {
            format!(
                "the request refers to state at the provider (`{}`)",
                place.path()
            )
        })
    })
}

/// Returns the reason why the answer may depend on more than the request: a member that no table declares, such as the
/// search parameters of some providers. Those of the body that are `accepted` are no reason.
pub(super) fn unknown(members: &Members, body: &Object, accepted: &[String]) -> Option<String> {
    if let Some((one, two)) = members.spelled_twice(body) {
        return Some(format!("`{one}` is given as `{two}`, too"));
    }
    members.find(body, &mut |place| {
        let is_accepted =
            || place.parent.is_empty() && accepted.iter().any(|name| name == place.name);
        (place.facts.is_none() && !is_accepted())
            .then(|| format!("`{}` is not known to this version", place.path()))
    })
}

/// Returns the reason why the price of the model may not hold: a value that is not one of the usual ones.
pub(super) fn unusual(members: &Members, body: &Object) -> Option<String> {
    members.find(body, &mut |place| {
        let usual = place.facts?.usual.as_ref()?;
        let is_usual = match place.value {
            Value::Null | Value::Bool(false) => true,
            Value::String(value) => usual.contains(value),
            _ => false,
        };
        (!is_usual).then(|| format!("`{}` may have a price of its own", place.path()))
    })
}

/// The type of an item that stands for one of an earlier answer, which the provider keeps.
pub(super) const REFERENCE: &str = "item_reference";

/// Returns the reason why the provider may do more with an input than read it: an item or a part of a type that no table
/// declares, or of one with which it does more.
pub(super) fn unknown_type(
    endpoint: Endpoint,
    members: &Members,
    body: &Object,
    setting: Setting,
) -> Option<String> {
    let mut items = inputs(members, body).flat_map(|(_, value)| items_of(value));
    let of_items = if members.items.is_empty() {
        None
    } else {
        items.find_map(|item| match kind(item)? {
            Ok(REFERENCE) if setting == Setting::Run => None,
            kind => judged(kind, |kind| members.items.get(kind)),
        })
    };
    of_items.or_else(|| {
        let of_part = |part: &Value| {
            if members.is_by_member {
                part.as_object()?.keys().find_map(|name| {
                    judged(Ok(name.as_str()), |name| {
                        members.parts.get(&*members.declared(name))
                    })
                })
            } else {
                judged(kind(part)?, |kind| members.parts.get(kind))
            }
        };
        let find = |name: &str, value: &Value| {
            let mut lists = members.part_lists.iter();
            let is_list = lists.any(|list| list == name);
            let mut parts = items_of(value).iter().filter(|_| is_list);
            parts.find_map(&of_part)
        };
        find_in(inputs(members, body), &client_data(endpoint), &find)
    })
}

/// Returns the reason why members of the request that select the form of the answer forbid to store it.
pub(super) fn form(
    operation: Operation,
    members: &Members,
    body: &Object,
    setting: Setting,
) -> Option<String> {
    if !matches!(
        body.get("stream"),
        None | Some(Value::Null | Value::Bool(_))
    ) {
        return Some("`stream` is neither true nor false".to_owned());
    }
    match operation {
        Operation::Answer => {}
        Operation::Compact => return Some(
            "a compaction is encrypted: only the provider can read it, and judge whether it is complete"
                .to_owned(),
        ),
        Operation::Embed | Operation::CountTokens => return None,
    }
    let parameters = members.generation(body);
    let has = |name: &str, is_it: fn(&Value) -> bool| {
        parameters.is_some_and(|parameters| members.values(parameters, name).any(is_it))
    };
    let is_several = |count: &Value| count.as_u64() != Some(1);
    let is_zero = |maximum: &Value| maximum.as_f64() == Some(0.0);
    if let Some(name) = members.answers.iter().find(|name| has(name, is_several)) {
        return Some(format!("several answers were asked for (`{name}`)"));
    }
    if let Some(name) = members.max_output.iter().find(|name| has(name, is_zero)) {
        return Some(format!(
            "the request fills the cache of the provider (`{name}: 0`)"
        ));
    }
    let keeps = |name: &&String| match body.get(name.as_str()) {
        Some(Value::Bool(false)) => false,
        // The default of the provider.
        None | Some(Value::Null) => setting == Setting::Anywhere,
        Some(_) => true,
    };
    let name = members.stored_unless_false.as_ref().filter(keeps)?;
    Some(format!(
        "the answer is stored at the provider; `{name}: false` prevents it"
    ))
}

/// Returns the reason why an input can change: it is elsewhere, at a URL or in a file.
pub(super) fn remote(endpoint: Endpoint, members: &Members, body: &Object) -> Option<String> {
    let inputs = inputs(members, body);
    let find = |name: &str, value: &Value| {
        let name = normalized(name);
        let is_remote = match name.as_str() {
            // A source of Anthropic.
            "source" => matches!(
                value.get("type").and_then(Value::as_str),
                Some("url" | "file")
            ),
            // The name of a file of Gemini; a text in this place is the file itself, or its URL.
            "filedata" if value.is_object() => true,
            _ => urls(&name, value).next().is_some(),
        };
        is_remote.then(|| "an input is at a URL or in a file, where it can change".to_owned())
    };
    find_in(inputs, &client_data(endpoint), &find)
}

/// Returns the role of a message with which servers may do more than read it.
pub(super) fn unknown_role<'a>(members: &Members, body: &'a Object) -> Option<&'a str> {
    let known = &SharedMembers::built_in().roles;
    let messages = inputs(members, body).flat_map(|(_, value)| items_of(value));
    let mut roles = messages.filter_map(|message| message.get("role")?.as_str());
    roles.find(|role| !known.iter().any(|known| known == role))
}

/// Returns the members of a body with the conversation.
pub(super) fn inputs<'a>(
    members: &Members,
    body: &'a Object,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    body.iter().filter(|(name, _)| {
        let name = members.declared(name);
        members.inputs.iter().any(|input| *input == *name)
    })
}

/// Returns the type of an item or a part; `None` if it has none, an error if that is no text.
fn kind(value: &Value) -> Option<Result<&str, ()>> {
    let kind = value.get("type").filter(|kind| !kind.is_null())?;
    Some(kind.as_str().ok_or(()))
}

/// Returns the reason why an input of a type may be more than read.
fn judged<'t>(
    kind: Result<&str, ()>,
    facts: impl FnOnce(&str) -> Option<&'t TypeFacts>,
) -> Option<String> {
    let Ok(kind) = kind else {
        return Some("the type of an input is no text".to_owned());
    };
    match facts(kind).map(|facts| facts.does) {
        None => Some(format!("the input `{kind}` is not known to this version")),
        Some(Effect::State) => Some(format!(
            "the provider may do more with `{kind}` than read it"
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeMap;

    use cachalot_model::wire::members::MemberFacts;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::answer_form::form_members;
    use crate::endpoint::Cacheability;

    fn endpoints() -> [Endpoint; 8] {
        [
            Endpoint::chat(),
            Endpoint::responses(),
            Endpoint::messages(),
            Endpoint::gemini(),
            Endpoint::interactions(),
            Endpoint::embeddings(),
            Endpoint::count_tokens(),
            Endpoint::input_tokens(),
        ]
    }

    /// A request whose answer may be stored.
    fn storable(endpoint: Endpoint) -> Value {
        let messages =
            |kind: &str| json!([{"role": "user", "content": [{"type": kind, "text": "x"}]}]);
        match endpoint.name() {
            "chat" => json!({"model": "m", "seed": 1, "messages": messages("text")}),
            "responses" => json!({"model": "m", "store": false, "input": messages("input_text")}),
            "input_tokens" => json!({"model": "m", "input": messages("input_text")}),
            "gemini" => json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}]}),
            "interactions" => json!({"model": "m", "store": false, "input": [
                {"type": "user_input", "content": [{"type": "text", "text": "x"}]}]}),
            "embeddings" => json!({"model": "m", "input": "x"}),
            _ => json!({"model": "m", "max_tokens": 1, "messages": messages("text")}),
        }
    }

    /// Paths of declared members, as JSON Pointers, by their rows.
    fn declared<'t>(
        parent: &str,
        rows: &'t BTreeMap<String, MemberFacts>,
        found: &mut Vec<(String, &'t MemberFacts)>,
    ) {
        for (name, facts) in rows {
            let path = format!("{parent}/{name}");
            declared(&path, &facts.members, found);
            found.push((path, facts));
        }
    }

    /// Sets the member at a path; its parents become objects, unless they are lists of them.
    fn set(body: &mut Value, path: &str, value: &Value) {
        let mut names = path.trim_start_matches('/').split('/').peekable();
        let mut at = body;
        while let Some(name) = names.next() {
            if at.is_array() {
                at = &mut at[0];
            }
            if !at.is_object() {
                *at = json!({});
            }
            at = &mut at[name];
            if names.peek().is_none() {
                *at = value.clone();
                return;
            }
        }
    }

    /// Requests with something unknown of this name, in all places but at their top.
    fn with_unknown(endpoint: Endpoint, name: &str, value: &Value) -> Vec<Value> {
        let members = endpoint.members().unwrap();
        let mut paths = Vec::new();
        declared("", &members.request, &mut paths);
        let is_closed = |facts: &MemberFacts| !facts.members.is_empty() && !facts.open;
        let closed = paths.into_iter().filter(|(_, facts)| is_closed(facts));
        let mut found: Vec<Value> = closed
            .map(|(path, _)| {
                let mut body = storable(endpoint);
                set(&mut body, &format!("{path}/{name}"), value);
                body
            })
            .collect();
        let typed = json!({"type": name, "text": "x", "content": "x"});
        let mut add = |pointer: &str, item: Value| {
            let mut body = storable(endpoint);
            if let Some(items) = body.pointer_mut(pointer).and_then(Value::as_array_mut) {
                items.push(item);
                found.push(body);
            }
        };
        match endpoint.name() {
            "gemini" => add("/contents/0/parts", json!({name: value})),
            "responses" | "input_tokens" | "interactions" => {
                add("/input/0/content", typed.clone());
                add("/input", typed);
            }
            "embeddings" => {}
            _ => add("/messages/0/content", typed),
        }
        if members.request.contains_key("tools") {
            let mut body = storable(endpoint);
            body["tools"] = match endpoint.name() {
                "gemini" => json!([{name: value}]),
                _ => json!([{"type": name, "name": "f"}]),
            };
            found.push(body);
        }
        found
    }

    /// Values that set a member.
    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!(true)),
            Just(json!("x")),
            Just(json!("")),
            Just(json!(0)),
            Just(json!([])),
            Just(json!({})),
            Just(json!({"x": "y"})),
            "[a-z0-9]{1,12}".prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
        ]
    }

    #[test]
    fn requests_without_further_members_may_be_stored() {
        for endpoint in endpoints() {
            let judged = endpoint.judged(&storable(endpoint), &[]);
            assert!(
                !matches!(judged, Cacheability::Never(_)),
                "{endpoint:?} {judged:?}"
            );
        }
    }

    #[test]
    fn requests_of_coding_agents_may_be_stored_and_have_known_prices() {
        for (endpoint, text) in [
            (
                Endpoint::responses(),
                include_str!("../../tests/data/codex-request.json"),
            ),
            (
                Endpoint::messages(),
                include_str!("../../tests/data/claude-request.json"),
            ),
        ] {
            let body: Value = serde_json::from_str(text).unwrap();
            assert_eq!(endpoint.judged(&body, &[]), Cacheability::Sampled);
            assert_eq!(endpoint.object_reference(&body, Setting::Anywhere), None);
            assert_eq!(endpoint.extra_charge(&body), None);
        }
    }

    /// Requests with a member: `s` if the answer may be stored, `o` if no object is named, `p` if the price is the usual
    /// one, else `-`; the endpoint, the member and its value.
    const MEMBERS: &str = r#"
sop responses prompt_cache_options {"mode": "explicit", "ttl": "12h"}
sop gemini contents {"role": "user", "parts": {"text": "x"}}
-op gemini contents {"role": "user", "parts": {"brandNew": 1}}
-op gemini contents {"role": "user", "parts": {"toolCall": {}}}
-op responses prompt_cache_options {"prewarm": true}
sop responses prompt_cache_options {"prewarm": false}
--p responses prompt_cache_options {"comparison_response_id": "resp_1"}
so- responses context_management [{"type": "compaction", "compact_threshold": 1}]
sop responses access_programs {"cyber": "standard"}
sop responses image {"context_compression": "auto"}
-op responses background_options {"completion_window": "2h"}
--p responses background_options {"continuation_id": "c"}
sop responses moderation {"policy": {"input": "block"}}
sop responses reasoning {"effort": "low", "context": "all_turns", "mode": "standard"}
so- responses reasoning {"mode": "pro"}
-o- responses multi_agent {}
sop responses input [{"type": "compaction", "encrypted_content": "e"}]
--p responses input [{"type": "compaction", "id": "cmp_1"}]
-o- responses input [{"type": "compaction_trigger"}]
-o- responses input [{"type": "web_search_call", "action": {"query": "x"}}]
--- responses input [{"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}]
--- messages thread {"type": "create"}
--p messages diagnostics {"previous_message_id": "msg_1"}
-op messages diagnostics {"previous_message_id": null}
so- messages compaction {"type": "summarize"}
so- messages fallbacks "default"
--- messages fallback_credit_token "t"
so- messages billing_policy {"bill_to": "self"}
-o- messages safeguards {}
so- messages speed "fast"
so- messages inference_geo "us"
sop messages inference_geo "global"
-op messages max_tokens 0
sop gemini serviceTier "flex"
so- gemini service_tier "priority"
-op gemini store true
sop gemini store false
--p gemini continuationToken "t"
--p gemini continuation_token "t"
so- gemini generationConfig {"imageConfig": {"imageSize": "1K"}}
sop gemini generation_config {"top_k": 5, "thinkingConfig": {}}
-o- gemini generationConfig {"topk": 5}
sop interactions generation_config {"thinking_level": "low", "max_output_tokens": 5}
-op interactions generation_config {"max_output_tokens": 0}
-o- interactions generation_config {"topK": 5}
so- interactions generation_config {"speech_config": [{"voice": "v"}]}
so- interactions response_modalities ["audio"]
so- interactions service_tier "priority"
-op interactions store true
-o- interactions background true
sop interactions background false
--p interactions previous_interaction_id "v1_1"
-o- interactions tools [{"type": "google_search"}]
-o- interactions tools [{"type": "mcp_server", "url": "https://a.example"}]
sop interactions tools [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
sop interactions input "https://a.example"
sop interactions input [{"type": "text", "text": "x"}, {"type": "image", "data": "AA==", "mime_type": "image/png"}]
-o- interactions input {"type": "image", "uri": "https://a.example/b.png"}
--p interactions input [{"role": "user", "content": "x"}]
-o- interactions input [{"type": "user_input", "content": [{"type": "image", "uri": "https://a.example/b.png"}]}]
-o- interactions input [{"type": "function_result", "call_id": "c", "result": [{"type": "image", "uri": "https://a.example/b.png"}]}]
-o- interactions input [{"type": "function_result", "call_id": "c", "result": [{"type": "brand_new"}]}]
sop interactions input [{"type": "function_result", "call_id": "c", "result": {"uri": "https://a.example", "type": "brand_new"}}]
sop interactions input [{"type": "function_result", "call_id": "c", "result": "x"}]
sop interactions generation_config {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["f"]}}}
"#;

    #[test]
    fn members_of_today_are_judged_by_what_they_do() {
        for line in MEMBERS.trim().lines() {
            let mut columns = line.splitn(4, ' ');
            let mut column = || columns.next().unwrap();
            let (expected, endpoint) = (column(), Endpoint::of_name(column()).unwrap());
            let mut body = storable(endpoint);
            let member = format!("/{}", column());
            set(&mut body, &member, &serde_json::from_str(column()).unwrap());
            let judged = endpoint.judged(&body, &[]);
            let is_stored = !matches!(judged, Cacheability::Never(_) | Cacheability::InRun(_));
            let has_no_object = endpoint
                .object_reference(&body, Setting::Anywhere)
                .is_none();
            let is_usual = endpoint.extra_charge(&body).is_none();
            let mark = |is_set, mark| if is_set { mark } else { '-' };
            let marks = [
                mark(is_stored, 's'),
                mark(has_no_object, 'o'),
                mark(is_usual, 'p'),
            ];
            assert_eq!(String::from_iter(marks), expected, "{line}");
        }
    }

    #[test]
    fn messages_within_a_conversation_change_its_tools_and_effort() {
        let system = |blocks: Value| {
            let mut body = storable(Endpoint::messages());
            let message = json!({"role": "system", "content": blocks, "clear_at": "next_user_message",
                "output_config": {"effort": "low"}});
            body["messages"].as_array_mut().unwrap().push(message);
            body
        };
        let added = json!([{"type": "tool_addition", "tool": {"type": "tool_definition",
            "definition": {"name": "f", "input_schema": {"type": "object"}}}}]);
        let removed =
            json!([{"type": "tool_removal", "tool": {"type": "tool_reference", "tool_name": "f"}}]);
        for blocks in [added, removed, json!("text")] {
            let body = system(blocks);
            let judged = Endpoint::messages().judged(&body, &[]);
            assert_eq!(judged, Cacheability::Sampled, "{body}");
            assert_eq!(Endpoint::messages().extra_charge(&body), None, "{body}");
        }
    }

    #[test]
    fn tools_of_the_client_are_known() {
        let of = |tool: Value| {
            let mut body = storable(Endpoint::responses());
            body["tools"] = json!([tool]);
            !matches!(
                Endpoint::responses().judged(&body, &[]),
                Cacheability::Never(_)
            )
        };
        let shell = |environment: Value| json!({"type": "shell", "environment": environment});
        let custom = json!({"type": "custom", "name": "exec"});
        for (tool, is_known) in [
            (shell(json!({"type": "local"})), true),
            (shell(json!({"type": "container_auto"})), false),
            (shell(Value::Null), false),
            (json!({"type": "local_shell"}), true),
            (json!({"type": "computer"}), true),
            (json!({"type": "apply_patch"}), true),
            (json!({"type": "tool_search", "execution": "client"}), true),
            (json!({"type": "tool_search", "execution": "server"}), false),
            (
                json!({"type": "namespace", "name": "n", "tools": [custom]}),
                true,
            ),
            (
                json!({"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}),
                false,
            ),
        ] {
            assert_eq!(of(tool.clone()), is_known, "{tool}");
        }
        let mut body = storable(Endpoint::messages());
        body["tools"] = json!([{"type": "browser_toolset_20260801"}]);
        let judged = Endpoint::messages().judged(&body, &[]);
        assert_eq!(judged, Cacheability::Sampled);
    }

    #[test]
    fn members_that_select_the_form_are_no_part_of_keys() {
        let both = ["stream", "stream_options"];
        for (endpoint, options, expected) in [
            (Endpoint::chat(), json!(null), &both[..]),
            (Endpoint::chat(), json!({"include_usage": true}), &both[..]),
            (
                Endpoint::chat(),
                json!({"include_usage": "yes"}),
                &both[..1],
            ),
            (Endpoint::chat(), json!({"further": 1}), &both[..1]),
            (Endpoint::responses(), json!(null), &both[..1]),
            (Endpoint::messages(), json!(null), &both[..1]),
            (Endpoint::gemini(), json!(null), &both[..0]),
            (Endpoint::interactions(), json!(null), &both[..1]),
            (Endpoint::embeddings(), json!(null), &both[..0]),
            (Endpoint::count_tokens(), json!(null), &both[..0]),
            (Endpoint::input_tokens(), json!(null), &both[..0]),
        ] {
            let body = json!({"stream": true, "stream_options": options});
            assert_eq!(
                form_members(endpoint, &body),
                expected,
                "{endpoint:?} {body}"
            );
        }
    }

    #[test]
    fn models_that_search_are_the_same_in_all_formats() {
        for (endpoint, is_stored) in [
            (Endpoint::chat(), false),
            (Endpoint::responses(), false),
            (Endpoint::messages(), false),
            // Neither vectors nor counts of tokens need a search.
            (Endpoint::embeddings(), true),
            (Endpoint::count_tokens(), true),
            (Endpoint::input_tokens(), true),
        ] {
            let mut body = storable(endpoint);
            body["model"] = json!("o4-mini-deep-research");
            let is_judged_so = !matches!(endpoint.judged(&body, &[]), Cacheability::Never(_));
            assert_eq!(is_judged_so, is_stored, "{endpoint:?}");
            assert_eq!(
                endpoint.extra_charge(&body).is_none(),
                is_stored,
                "{endpoint:?}"
            );
        }
    }

    /// Inputs: `n` for one with which an answer is never stored, else `s`; the endpoint and the input.
    const INPUTS: &str = r#"
n chat [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}]}]
n chat [{"role": "user", "content": [{"type": "file", "file": {"filename": "d.pdf", "file_data": "https://a.example/d.pdf"}}]}]
n chat [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "https://a.example/x.mp3", "format": "mp3"}}]}]
n chat [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "ms://f1"}}]}]
n chat [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ht\ntps://a.example/b.png"}}]}]
n chat [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "\u0001https://a.example/b.png"}}]}]
s chat [{"role": "user", "content": [{"type": "file", "file": {"filename": "https://a.example", "file_data": "data:text/plain;base64,AA=="}}]}]
n chat [{"role": "cache", "content": "tag=kb"}, {"role": "user", "content": "x"}]
n chat [{"role": "system", "content": "fileid://file-1"}, {"role": "user", "content": "x"}]
s chat [{"role": "user", "content": "https://a.example"}]
s chat [{"role": "user", "content": [{"type": "text", "text": "https://a.example"}]}]
n responses {"type": "compaction_trigger"}
n responses [{"role": "user", "content": [{"type": "input_file", "file_data": "https://a.example/d.pdf"}]}]
s responses [{"type": "function_call_output", "call_id": "c", "output": "https://a.example"}]
n embeddings [{"pdf": "https://a.example/d.pdf"}]
s embeddings ["https://a.example"]
s embeddings [{"text": "https://a.example"}]
s chat [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:text/plain;base64,AA=="}}]}]
n messages [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "//a.example"}}]}]
n messages [{"role": "user", "content": [{"type": "document", "source": {"type": "file"}}]}]
s messages [{"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "https://a.example"}}]}]
s messages [{"role": "user", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"url": "https://a.example"}}]}]
s responses [{"type": "function_call", "call_id": "c", "name": "f", "arguments": {"url": "https://a.example"}}]
n gemini [{"parts": [{"file_data": {"mimeType": "image/png"}}]}]
s gemini [{"parts": [{"functionCall": {"name": "f", "args": {"uri": "https://a.example"}}}]}]
"#;

    #[test]
    fn inputs_elsewhere_are_found_but_not_in_data_of_the_client() {
        for line in INPUTS.trim().lines() {
            let (mark, rest) = line.split_once(' ').unwrap();
            let (name, input) = rest.split_once(' ').unwrap();
            let endpoint = Endpoint::of_name(name).unwrap();
            let mut body = storable(endpoint);
            let member = endpoint.members().unwrap().inputs[0].as_str();
            body[member] = serde_json::from_str(input).unwrap();
            let judged = endpoint.judged(&body, &[]);
            let is_never = matches!(judged, Cacheability::Never(_));
            assert_eq!(is_never, mark == "n", "{line} {judged:?}");
        }
    }

    /// The members of the body that are state are named for users.
    #[test]
    fn state_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md");
        let text = std::fs::read_to_string(path).unwrap();
        for endpoint in endpoints() {
            let mut paths = Vec::new();
            declared("", &endpoint.members().unwrap().request, &mut paths);
            for (path, facts) in paths {
                let name = path.trim_start_matches('/').replace('/', ".");
                let is_named = text.contains(&format!("`{name}`"));
                assert!(
                    facts.does != Effect::State || is_named,
                    "{endpoint:?} {name}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn a_request_with_a_member_that_is_state_is_never_stored(value in value(), at in any::<prop::sample::Index>()) {
            for endpoint in endpoints() {
                let mut paths = Vec::new();
                declared("", &endpoint.members().unwrap().request, &mut paths);
                paths.retain(|(_, facts)| facts.does == Effect::State);
                if paths.is_empty() {
                    continue;
                }
                let (path, _) = at.get(paths.as_slice());
                let mut body = storable(endpoint);
                set(&mut body, path, &value);
                let name = path.rsplit('/').next().unwrap().to_owned();
                let judged = endpoint.judged(&body, &[name]);
                prop_assert!(matches!(judged, Cacheability::Never(_)), "{:?} {}", endpoint, body);
            }
        }

        #[test]
        fn a_request_with_something_unknown_is_never_stored(name in "zz_[a-z]{1,8}", value in value()) {
            for endpoint in endpoints() {
                let accepted = [name.clone()];
                let mut top = storable(endpoint);
                top[&name] = value.clone();
                let judged = endpoint.judged(&top, &[]);
                prop_assert!(matches!(judged, Cacheability::Never(_)), "{:?} {}", endpoint, top);
                prop_assert!(endpoint.extra_charge(&top).is_some());
                let judged = endpoint.judged(&top, &accepted);
                prop_assert!(!matches!(judged, Cacheability::Never(_)), "{:?} {}", endpoint, top);
                for body in with_unknown(endpoint, &name, &value) {
                    let judged = endpoint.judged(&body, &accepted);
                    prop_assert!(matches!(judged, Cacheability::Never(_)), "{:?} {}", endpoint, body);
                }
            }
        }
    }
}
