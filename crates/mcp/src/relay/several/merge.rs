//! One answer from those of several servers.

use std::collections::HashSet;

use cachalot_core::json::Scanner;
use serde_json::{Map, Value, json};

use crate::Reporter;
use crate::relay::Frame;
use crate::relay::program::CONNECTION_CLOSED;

/// A list that every server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
    Tasks,
}

/// An element of a list.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) server: usize,
    /// The name or URI that the server uses.
    pub(super) name: String,
    /// The one that clients use.
    pub(super) shown: String,
}

/// A merged list.
pub(super) struct Merged {
    pub(super) response: Frame,
    pub(super) entries: Vec<Entry>,
}

impl List {
    pub(super) fn of_method(method: &str) -> Option<Self> {
        let all = [
            Self::Tools,
            Self::Prompts,
            Self::Resources,
            Self::Templates,
            Self::Tasks,
        ];
        all.into_iter().find(|list| list.method() == method)
    }

    /// Returns the lists that name what a request is about.
    pub(super) fn naming(method: &str) -> &'static [Self] {
        match method {
            "tools/call" => &[Self::Tools],
            "prompts/get" => &[Self::Prompts],
            "completion/complete" => &[Self::Prompts, Self::Templates],
            method if method.starts_with("resources/") => &[Self::Resources, Self::Templates],
            _ => &[],
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Tasks => "tasks/list",
        }
    }

    fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Tasks => "tasks",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
            Self::Tasks => "taskId",
        }
    }
}

/// Returns the prefix of the names of a server: its name, with the characters that names of tools may have.
pub(super) fn prefix(server: &str) -> String {
    let legal = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => character,
        _ => '_',
    };
    let mut prefix: String = server.chars().map(legal).collect();
    prefix.push('_');
    prefix
}

/// Merges lists, in the order of the servers. Elements keep their bytes but for the name.
pub(super) fn list<'a>(
    list: List,
    request: &Frame,
    servers: impl Iterator<Item = (&'a str, Vec<Frame>)>,
    reporter: &dyn Reporter,
) -> Merged {
    let mut elements: Vec<String> = Vec::new();
    let mut entries = Vec::new();
    let mut seen = HashSet::new();
    let mut hints = Hints::default();
    let mut errors = Vec::new();
    let mut is_answered = false;
    for (server, (name, pages)) in servers.enumerate() {
        for page in pages {
            if page.error().is_some() {
                // A server without such a list refuses to list it.
                errors.push(page);
                continue;
            }
            is_answered = true;
            hints.add(&page);
            for element in page
                .result_member(list.member())
                .map_or_else(Vec::new, elements_of)
            {
                let Some((entry, text)) = renamed(list, server, name, element) else {
                    reporter.warning(&format!(
                        "the MCP server `{name}` lists something without a {}; it is left out",
                        list.key()
                    ));
                    continue;
                };
                let is_new = seen.insert(entry.shown.clone());
                // Both tasks are there, and requests for them are refused.
                if is_new || list == List::Tasks {
                    elements.push(text);
                    entries.push(entry);
                } else if list == List::Tools || list == List::Prompts {
                    reporter.warning(&format!(
                        "two of the servers have `{}`; that of `{name}` is left out",
                        entry.shown
                    ));
                }
            }
        }
    }
    let id = request.id().unwrap_or("null");
    let response = match errors.into_iter().next() {
        Some(error) if !is_answered => error.with_ids(Some(id), None),
        _ => {
            let mut members = vec![format!(r#""{}":[{}]"#, list.member(), elements.join(","))];
            members.extend(hints.members());
            Frame::response(id, &format!("{{{}}}", members.join(",")))
        }
    };
    Merged { response, entries }
}

/// Returns the elements of an array, in their spelling.
fn elements_of(array: &str) -> Vec<&str> {
    let mut scanner = Scanner::new(array.as_bytes());
    let mut elements = Vec::new();
    let read = scanner.elements(|scanner| {
        elements.push(std::str::from_utf8(scanner.value()?).unwrap_or_default());
        Ok(())
    });
    // Null in place of a list is an empty one.
    read.map(|()| elements).unwrap_or_default()
}

fn renamed(list: List, server: usize, server_name: &str, element: &str) -> Option<(Entry, String)> {
    // A frame around the element finds the place of a member.
    let wrapped = Frame::response("0", element);
    let name: String = serde_json::from_str(wrapped.result_member(list.key())?).ok()?;
    let shown = match list {
        List::Tools | List::Prompts => format!("{}{name}", prefix(server_name)),
        List::Resources | List::Templates | List::Tasks => name.clone(),
    };
    let text = if shown == name {
        element.to_owned()
    } else {
        let place = wrapped
            .result_place()
            .and_then(|place| wrapped.member_place(place, list.key()))?;
        let new = Value::from(shown.clone()).to_string();
        wrapped
            .clone()
            .replaced(vec![(place, &new)])
            .result()?
            .to_owned()
    };
    let entry = Entry {
        server,
        name,
        shown,
    };
    Some((entry, text))
}

/// Caching hints of several results: the shortest time, and private if one is.
#[derive(Default)]
struct Hints {
    /// Absent on a page: no time at all.
    ttls: Vec<u64>,
    has_ttl: bool,
    is_private: bool,
    has_scope: bool,
    is_typed: bool,
}

impl Hints {
    fn add(&mut self, result: &Frame) {
        let ttl = result.result_member("ttlMs");
        self.has_ttl |= ttl.is_some();
        self.ttls
            .push(ttl.and_then(|ttl| ttl.parse().ok()).unwrap_or(0));
        let scope = result.result_member("cacheScope");
        self.has_scope |= scope.is_some();
        self.is_private |= scope != Some(r#""public""#);
        self.is_typed |= result.result_member("resultType").is_some();
    }

    fn members(&self) -> Vec<String> {
        let mut members = Vec::new();
        if self.is_typed {
            members.push(r#""resultType":"complete""#.to_owned());
        }
        if self.has_ttl {
            let ttl = self.ttls.iter().min().copied().unwrap_or(0);
            members.push(format!(r#""ttlMs":{ttl}"#));
        }
        if self.has_scope {
            let scope = if self.is_private { "private" } else { "public" };
            members.push(format!(r#""cacheScope":"{scope}""#));
        }
        members
    }
}

/// Merges the answers to `initialize` or `server/discover`.
pub(super) fn introductions(
    request: &Frame,
    answers: Vec<(String, Frame)>,
    reporter: &dyn Reporter,
) -> Frame {
    let id = request.id().unwrap_or("null");
    let mut results = Vec::new();
    let mut first_error = None;
    for (name, answer) in answers {
        let result = answer.result().map(serde_json::from_str::<Value>);
        match result {
            Some(Ok(result)) => {
                results.push((name, result, answer));
            }
            _ => {
                let why = answer.error().unwrap_or("no result").to_owned();
                reporter.warning(&format!(
                    "the MCP server `{name}` refuses `{}`: {why}; the other servers work",
                    request.method()
                ));
                first_error.get_or_insert(answer);
            }
        }
    }
    if results.is_empty() {
        let none = Frame::error_response(id, CONNECTION_CLOSED, "no server answered");
        return first_error.map_or(none, |error| error.with_ids(Some(id), None));
    }
    let mut capabilities = Value::Object(Map::new());
    let mut instructions = Vec::new();
    let mut hints = Hints::default();
    for (name, result, answer) in &results {
        join(&mut capabilities, &result["capabilities"]);
        if let Some(text) = result["instructions"]
            .as_str()
            .filter(|text| !text.is_empty())
        {
            instructions.push(format!("{name}: {text}"));
        }
        hints.add(answer);
    }
    let information = json!({"name": "cachalot", "version": env!("CARGO_PKG_VERSION")});
    let mut merged = Map::new();
    merged.insert("capabilities".to_owned(), capabilities);
    if !instructions.is_empty() {
        merged.insert("instructions".to_owned(), instructions.join("\n\n").into());
    }
    if request.method() == "initialize" {
        // Revisions are dates: the oldest is the one that all servers speak.
        let versions = results
            .iter()
            .filter_map(|(_, result, _)| result["protocolVersion"].as_str());
        merged.insert("protocolVersion".to_owned(), versions.min().into());
        merged.insert("serverInfo".to_owned(), information);
    } else {
        let mut versions: Option<Vec<Value>> = None;
        for (_, result, _) in &results {
            let own = result["supportedVersions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            versions = Some(match versions {
                None => own,
                Some(versions) => versions
                    .into_iter()
                    .filter(|version| own.contains(version))
                    .collect(),
            });
        }
        merged.insert(
            "supportedVersions".to_owned(),
            versions.unwrap_or_default().into(),
        );
        merged.insert(
            "_meta".to_owned(),
            json!({"io.modelcontextprotocol/serverInfo": information}),
        );
    }
    let text = Value::Object(merged).to_string();
    let mut members = vec![text[1..text.len() - 1].to_owned()];
    members.extend(hints.members());
    Frame::response(id, &format!("{{{}}}", members.join(",")))
}

/// Adds capabilities: members of objects are joined, and a flag holds if it holds for one server.
fn join(into: &mut Value, other: &Value) {
    match (into, other) {
        (Value::Object(into), Value::Object(other)) => {
            for (name, value) in other {
                match into.get_mut(name) {
                    Some(known) => join(known, value),
                    None => drop(into.insert(name.clone(), value.clone())),
                }
            }
        }
        (Value::Bool(into), Value::Bool(other)) => *into |= other,
        _ => {}
    }
}

/// Merges acknowledgments of subscriptions; `None` if there is none.
pub(super) fn acknowledgments(messages: &[Frame]) -> Option<Frame> {
    let first = messages.first()?;
    let mut notifications = Value::Object(Map::new());
    for message in messages {
        let own = message.param("notifications").unwrap_or("{}");
        let own: Value = serde_json::from_str(own).unwrap_or_default();
        for (name, value) in own.as_object().into_iter().flatten() {
            match (notifications.get_mut(name), value) {
                (Some(Value::Array(known)), Value::Array(more)) => {
                    let new: Vec<_> = more
                        .iter()
                        .filter(|uri| !known.contains(uri))
                        .cloned()
                        .collect();
                    known.extend(new);
                }
                (Some(known), _) => join(known, value),
                (None, _) => notifications[name] = value.clone(),
            }
        }
    }
    let notifications = notifications.to_string();
    let place = first.param_place("notifications");
    Some(match place {
        Some(place) => first.clone().replaced(vec![(place, &notifications)]),
        None => first.clone(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn page(result: &str) -> Vec<Frame> {
        vec![Frame::response("1", result)]
    }

    #[test]
    fn lists_are_merged_with_prefixes_and_the_strictest_hints() {
        let request = Frame::request("7", "tools/list", "{}");
        let a = page(r#"{"tools":[{"x":1.10,"name":"t"}],"ttlMs":50,"cacheScope":"public"}"#);
        let b = page(
            r#"{"tools":[{"name":"t","n":12345678901234567890123}],"ttlMs":20,"cacheScope":"private"}"#,
        );
        let refused = vec![Frame::error_response("1", -32_601, "no")];
        let servers = [("a", a), ("b.c", b), ("d", refused)];
        let merged = list(List::Tools, &request, servers.into_iter(), &());
        assert_eq!(
            merged.response.bytes(),
            r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"x":1.10,"name":"a_t"},{"name":"b_c_t","n":12345678901234567890123}],"ttlMs":20,"cacheScope":"private"}}"#
        );
        let merged = list(
            List::Tools,
            &request,
            [("d", vec![Frame::error_response("1", -32_601, "no")])].into_iter(),
            &(),
        );
        assert_eq!(merged.response.error_code(), Some(-32_601));
    }

    #[test]
    fn introductions_are_merged() {
        let request = Frame::request("7", "initialize", "{}");
        let answer = |name: &str, result: &str| (name.to_owned(), Frame::response("7", result));
        let merged = introductions(
            &request,
            vec![
                answer(
                    "a",
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":false}},"instructions":"x"}"#,
                ),
                answer(
                    "b",
                    r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"prompts":{}},"instructions":"y"}"#,
                ),
                ("c".to_owned(), Frame::error_response("7", -1, "no")),
            ],
            &(),
        );
        let result: Value = serde_json::from_str(merged.result().unwrap()).unwrap();
        assert_eq!(result["protocolVersion"], "2025-06-18");
        assert_eq!(
            result["capabilities"],
            json!({"tools": {"listChanged": true}, "prompts": {}})
        );
        assert_eq!(result["instructions"], "a: x\n\nb: y");
    }
}
