//! Invariants of request bodies, checked on their bytes only.

use std::collections::BTreeMap;

use cachalot_simulator::ReceivedRequest;
use serde_json::Value;

const MARKERS: [&str; 4] = [
    r#","cache_control":{"type":"ephemeral"}"#,
    r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#,
    r#","prompt_cache_breakpoint":{"mode":"explicit"}"#,
    r#","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}"#,
];

fn unmarked(text: &str) -> String {
    let texts = MARKERS.iter();
    texts.fold(text.to_owned(), |text, marker| text.replace(marker, ""))
}

/// Calls have results and results calls, user and model take turns, no message is empty; and each
/// request of a session begins with what the one before it was, up to the end of its messages.
///
/// # Panics
/// If not.
pub fn check(requests: &[ReceivedRequest]) {
    let mut last = BTreeMap::new();
    // A request for embeddings is no part of a conversation.
    let is_turn = |request: &&ReceivedRequest| !request.path.ends_with("/embeddings");
    for (number, request) in requests.iter().filter(is_turn).enumerate() {
        let text = std::str::from_utf8(&request.body).unwrap();
        let place = format!("request {number} to {}", request.path);
        check_one(&request.path, text, &mut last, &place);
    }
}

/// The newest requests, up to the end of their messages, by what tells sessions apart. Sessions with the
/// same routing key share an entry.
type Last = BTreeMap<String, Vec<Held>>;

/// A request of a session, up to the end of its messages, and the first message.
struct Held {
    first: String,
    text: String,
}

fn check_one(path: &str, text: &str, last: &mut Last, place: &str) {
    let body: Value = serde_json::from_str(text).unwrap();
    let turns = turns(&body);
    check_turns(&turns, place);
    if path.ends_with("/messages") {
        let roles: Vec<_> = list(&body).iter().map(|message| &message["role"]).collect();
        assert!(
            roles.windows(2).all(|two| two[0] != two[1]),
            "{place}: {roles:?}"
        );
    }
    let mut unmarked = unmarked(text);
    unmarked.truncate(end_of_messages(&unmarked));
    let session = session(path, &body, &turns);
    let held = last.entry(session).or_default();
    let continued = (0..held.len())
        .filter(|at| unmarked.starts_with(&held[*at].text))
        .max_by_key(|at| held[*at].text.len());
    let first = format!("{:?}", turns.first());
    // A session may begin with an answer that no model gave.
    let is_new = turns.len() == 1 || held.iter().all(|held| held.first != first);
    let begins = held.is_empty() || (body.get("prompt_cache_key").is_some() && is_new);
    // Sessions that begin with the same message have an entry each.
    match continued.filter(|_| turns.len() > 1 || !begins) {
        Some(at) => {
            let more = &unmarked[held[at].text.len()..];
            assert!(
                more.is_empty() || more.starts_with(','),
                "{place}: a message grew"
            );
            held[at].text = unmarked;
        }
        None if begins => held.push(Held {
            first,
            text: unmarked,
        }),
        None => {
            let before: Vec<&str> = held.iter().map(|held| held.text.as_str()).collect();
            panic!(
                "{place} does not begin with one before it\nbefore: {before:#?}\nnow:    {unmarked}"
            )
        }
    }
}

/// The number of different tools and system texts of one session.
pub fn frozen_parts(requests: &[ReceivedRequest]) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    for request in requests {
        let body = request.json();
        let system = match body.get("system") {
            Some(system) => without_markers(system),
            None => list(&body)[0].clone(),
        };
        let part = serde_json::json!([without_markers(&body["tools"]), system]);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}

fn without_markers(value: &Value) -> Value {
    serde_json::from_str(&unmarked(&value.to_string())).unwrap()
}

/// Which session a request belongs to: its provider's routing key, or what was said first; and the
/// model, since another one begins anew.
fn session(path: &str, body: &Value, turns: &[Turn]) -> String {
    let name = match body.get("prompt_cache_key") {
        Some(key) => key.to_string(),
        None => format!("{:?}{}", turns.first(), without_markers(&body["system"])),
    };
    format!("{path} {} {name}", body["model"])
}

/// The position of the `]` that ends the array of messages.
fn end_of_messages(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    let mut key_start = 0;
    let mut is_messages = false;
    for (at, byte) in bytes.iter().enumerate() {
        if in_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    in_text = false;
                    if depth == 1 && bytes.get(at + 1) == Some(&b':') {
                        is_messages = ["messages", "input"].contains(&&text[key_start..at]);
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => (in_text, key_start) = (true, at + 1),
            b'{' | b'[' => depth += 1,
            b'}' => depth -= 1,
            b']' => {
                depth -= 1;
                if depth == 1 && is_messages {
                    return at;
                }
            }
            _ => {}
        }
    }
    panic!("no messages in {text}")
}

/// One message, or item.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    User(String),
    Model { text: String, calls: Vec<String> },
    Results(Vec<(String, String)>),
}

/// The messages of a request, whatever its format; results that follow each other are one turn, and so
/// are items of one answer.
pub fn turns(body: &Value) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for message in list(body) {
        for turn in read(message) {
            match (turns.last_mut(), turn) {
                (Some(Turn::Results(known)), Turn::Results(more)) => known.extend(more),
                (
                    Some(Turn::Model { text, calls }),
                    Turn::Model {
                        text: more,
                        calls: further,
                    },
                ) if body.get("input").is_some() => {
                    text.push_str(&more);
                    calls.extend(further);
                }
                (_, turn) => turns.push(turn),
            }
        }
    }
    turns
}

fn list(body: &Value) -> &[Value] {
    let list = body.get("messages").or_else(|| body.get("input"));
    list.and_then(Value::as_array).unwrap()
}

fn read(message: &Value) -> Vec<Turn> {
    let role = message["role"].as_str().unwrap_or_default();
    let kind = message["type"].as_str().unwrap_or_default();
    match (role, kind) {
        ("system" | "developer", _) | (_, "configuration_update") => vec![],
        ("tool", _) => {
            let id = owned(&message["tool_call_id"]);
            vec![Turn::Results(vec![(id, text(&message["content"]))])]
        }
        (_, "function_call_output") => {
            vec![Turn::Results(vec![(
                owned(&message["call_id"]),
                text(&message["output"]),
            )])]
        }
        (_, "function_call") => vec![Turn::Model {
            text: String::new(),
            calls: vec![owned(&message["call_id"])],
        }],
        (_, "reasoning" | "compaction") => vec![Turn::Model {
            text: String::new(),
            calls: vec![],
        }],
        ("assistant", _) => vec![Turn::Model {
            text: text(&message["content"]),
            calls: calls(message),
        }],
        ("user", _) => user(message),
        other => panic!("no turn: {other:?} {message}"),
    }
}

/// Results stand first, and what is said beside them behind.
fn user(message: &Value) -> Vec<Turn> {
    let parts = message["content"].as_array().cloned().unwrap_or_default();
    let results: Vec<(String, String)> = parts
        .iter()
        .filter(|part| part["type"] == "tool_result")
        .map(|part| (owned(&part["tool_use_id"]), text(&part["content"])))
        .collect();
    let said = text(&message["content"]);
    match (results.is_empty(), said.is_empty()) {
        (false, true) => vec![Turn::Results(results)],
        (false, false) => vec![Turn::Results(results), Turn::User(said)],
        (true, _) => vec![Turn::User(said)],
    }
}

fn calls(message: &Value) -> Vec<String> {
    let chat = message["tool_calls"].as_array().into_iter().flatten();
    let blocks = message["content"].as_array().into_iter().flatten();
    chat.chain(blocks.filter(|block| block["type"] == "tool_use"))
        .map(|call| owned(&call["id"]))
        .collect()
}

fn owned(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn check_turns(turns: &[Turn], place: &str) {
    let mut open: Vec<&String> = Vec::new();
    let mut seen: Vec<&String> = Vec::new();
    for (at, turn) in turns.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &turns[before]);
        let place = format!("{place}, turn {at}");
        match turn {
            Turn::User(text) => {
                assert!(!text.trim().is_empty(), "{place} is empty");
                assert!(open.is_empty(), "{place}: calls without results: {open:?}");
                // Behind results, in the same message.
                assert!(
                    !matches!(before, Some(Turn::User(_))),
                    "{place}: the user speaks twice: {before:?} {turn:?}"
                );
            }
            Turn::Model { text, calls } => {
                assert!(
                    !text.trim().is_empty() || !calls.is_empty(),
                    "{place} is empty"
                );
                assert!(open.is_empty(), "{place}: calls without results: {open:?}");
                assert!(
                    matches!(before, Some(Turn::User(_) | Turn::Results(_))),
                    "{place}: the model speaks out of turn, behind {before:?}"
                );
                for call in calls {
                    assert!(!seen.contains(&call), "{place}: a second call {call}");
                    seen.push(call);
                    open.push(call);
                }
            }
            Turn::Results(results) => {
                let ids: Vec<&String> = results.iter().map(|(id, _)| id).collect();
                assert_eq!(ids, open, "{place}: results and calls differ");
                for (id, text) in results {
                    assert!(
                        !text.trim().is_empty(),
                        "{place}: the result of {id} is empty"
                    );
                }
                open.clear();
            }
        }
    }
    assert!(open.is_empty(), "{place}: calls without results: {open:?}");
    assert!(
        matches!(turns.last(), Some(Turn::User(_) | Turn::Results(_))),
        "{place}: nothing is asked"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "does not begin with")]
    fn check_fails_on_a_changed_message() {
        check_texts(&[
            r#"{"messages":[{"role":"user","content":"a"}],"model":"m","prompt_cache_key":"k"}"#,
            r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"x"},{"role":"user","content":"b"}],"model":"m","prompt_cache_key":"k"}"#,
            r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"y"},{"role":"user","content":"b"}],"model":"m","prompt_cache_key":"k"}"#,
        ]);
    }

    #[test]
    #[should_panic(expected = "does not begin with")]
    fn check_fails_on_a_changed_tool() {
        check_texts(&[
            r#"{"tools":[{"name":"a"}],"messages":[{"role":"user","content":"a"}],"model":"m","prompt_cache_key":"k"}"#,
            r#"{"tools":[{"name":"b"}],"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"x"},{"role":"user","content":"c"}],"model":"m","prompt_cache_key":"k"}"#,
        ]);
    }

    #[test]
    #[should_panic(expected = "results and calls differ")]
    fn check_fails_on_a_result_without_a_call() {
        check_texts(&[
            r#"{"messages":[{"role":"user","content":"a"},{"role":"tool","tool_call_id":"x","content":"b"}],"model":"m"}"#,
        ]);
    }

    #[test]
    #[should_panic(expected = "the user speaks twice")]
    fn check_fails_on_consecutive_messages_of_one_role() {
        check_texts(&[
            r#"{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"model":"m"}"#,
        ]);
    }

    fn check_texts(texts: &[&str]) {
        let mut last = BTreeMap::new();
        for text in texts {
            check_one("/v1", text, &mut last, "a request");
        }
    }
}
