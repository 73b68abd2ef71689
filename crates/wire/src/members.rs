//! Declared tables of the members of requests and answers: one file for each format, beside its module.
//!
//! A table lists what a format has, and judges it: which members change the answer, which name or make state at the
//! provider, which cost money; which types of items, parts and tools the provider only reads. What is in no table is
//! unknown.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use cachalot_core::json::is_empty;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{ApiEndpoint, table};

/// The effect of a member of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It can change the answer.
    Answer,
    /// It names or makes state at the provider: an answer from elsewhere is not the same.
    State,
    /// It changes the price, and not the answer.
    Money,
    /// It changes neither.
    Nothing,
}

/// The part of a member in keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InKey {
    /// Its value.
    #[default]
    Value,
    /// Nothing: it selects the form of the answer only.
    Form,
}

/// A declared member of a request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberFacts {
    /// Its effect.
    pub does: Effect,
    /// Its part in keys.
    #[serde(default)]
    pub key: InKey,
    /// The version of the SDK that added it; `None` for that of the table.
    pub since: Option<String>,
    /// True if it names an object at the provider, which may belong to another client.
    #[serde(default)]
    pub object: bool,
    /// Values for which the published price of the model holds. `None` if it holds for all.
    pub usual: Option<Vec<String>>,
    /// Declared members of its value, or of the objects in its value; if there are any, others are unknown.
    #[serde(default)]
    pub members: BTreeMap<String, MemberFacts>,
    /// True if further members of its value are no reason to refuse it.
    #[serde(default)]
    pub open: bool,
}

/// A declared type of items or parts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeFacts {
    /// Its effect in a request: the provider reads it (`answer`), or does more (`state`).
    pub does: Effect,
    /// The member without which it is only the name of an object at the provider; `any` for any member beside its type,
    /// its ID and its status, `without_id` if it names an object unless it has no ID. `None` if it always names one.
    pub whole: Option<String>,
    /// True if the model alone writes it in an answer.
    #[serde(default)]
    pub by_model: bool,
    /// Values of members, by path, under which the model alone writes it.
    #[serde(default)]
    when: BTreeMap<String, String>,
    /// The version of the SDK that added it; `None` for that of the table.
    pub since: Option<String>,
}

/// The side that runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// The client.
    Client,
    /// The provider.
    Provider,
}

/// A declared type of tools.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolFacts {
    /// The side that runs it.
    pub run_by: Runner,
    /// Values of members, by path, under which the client runs it.
    #[serde(default)]
    when: BTreeMap<String, String>,
    /// True if an answer shows by an item or a block that the tool was used.
    #[serde(default)]
    shown: bool,
    /// The member with a list of tools, which are judged one by one.
    list: Option<String>,
    /// The version of the SDK that added it; `None` for that of the table.
    pub since: Option<String>,
}

/// One side of the calls of the client's tools: how its objects are recognized, and what pairs them with the other side.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallSide {
    /// Members of the object, and their values.
    #[serde(default, rename = "where")]
    conditions: BTreeMap<String, String>,
    /// The declared name of the member whose value the object is, or is in as an item; `None` for any.
    member: Option<String>,
    /// The member with the ID of the call.
    pub id: String,
    /// The JSON Pointer to the name of the tool; `None` if the object does not name it.
    pub name: Option<String>,
}

impl CallSide {
    /// Returns true for an object of this side. `member` is the declared name of the member that has it.
    #[must_use]
    pub fn has(&self, member: &str, object: &Value) -> bool {
        let is_met = |(name, value): (&String, &String)| {
            object.get(name).and_then(Value::as_str) == Some(value.as_str())
        };
        self.member.as_ref().is_none_or(|own| own == member) && self.conditions.iter().all(is_met)
    }
}

/// Rules for the members of an answer beside its message.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Envelope {
    /// The members whose values are searched for the work of a tool; `None` for all. Of others, only the names are.
    pub traced: Option<Vec<String>>,
    /// Members that show the work of a tool.
    pub refused: Vec<String>,
    /// Members that show none.
    pub plain: Vec<String>,
}

/// The table of a format.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Members {
    /// The version of the SDK in which rows without one are.
    pub since: String,
    /// True if servers accept each name in snake case, too.
    pub is_camel_case: bool,
    /// The endpoints whose requests have these members; none if requests of other clients are not read.
    pub endpoints: Vec<ApiEndpoint>,
    /// The JSON Pointer to the reason for the end of a whole answer, a text. Without one, none is stored.
    pub end: String,
    /// Members of the body.
    pub request: BTreeMap<String, MemberFacts>,
    /// Members of items and parts, at any depth.
    pub anywhere: BTreeMap<String, MemberFacts>,
    /// Members with data of the client, whose names mean nothing to the provider.
    pub client_data: Vec<String>,
    /// Members of the body with the conversation.
    pub inputs: Vec<String>,
    /// Types of items of the conversation.
    pub items: BTreeMap<String, TypeFacts>,
    /// Members with a list of parts.
    pub part_lists: Vec<String>,
    /// True if parts and tools have no type: their members say what they are.
    pub is_by_member: bool,
    /// Types of parts.
    pub parts: BTreeMap<String, TypeFacts>,
    /// Types of tools, or their beginnings before a `*`.
    pub tools: BTreeMap<String, ToolFacts>,
    /// Objects of the conversation that are calls of the client's tools.
    pub calls: Vec<CallSide>,
    /// Objects of the conversation that are results of such calls.
    pub results: Vec<CallSide>,
    /// Members of a message that the model alone writes.
    pub message: Vec<String>,
    /// Types of citations that point into the request.
    pub citations: Vec<String>,
    /// Types of parts that may carry a cache marker.
    pub markable: Vec<String>,
    /// Members of the chunk of a stream that has its usage and nothing else.
    pub usage_chunk: Vec<String>,
    /// The member with the parameters of the generation; `None` if they are members of the body.
    pub generation: Option<String>,
    /// The parameter with the number of answers; `None` if there is always one.
    pub answers: Option<String>,
    /// Parameters with the maximum number of output tokens of an answer.
    pub max_output: Vec<String>,
    /// The member that must be false, or the provider stores the answer; `None` if it stores none by itself.
    pub stored_unless_false: Option<String>,
    /// Rules for the members of an answer beside its message.
    pub envelope: Envelope,
}

/// A member of a body: a declared one, or one where all are declared.
pub struct Place<'a> {
    /// The path of the object that contains it, with a dot at its end; empty for the body.
    pub parent: &'a str,
    /// Its name, as in the body.
    pub name: &'a str,
    /// Its row; `None` if it is unknown.
    pub facts: Option<&'a MemberFacts>,
    /// Its value.
    pub value: &'a Value,
}

impl Place<'_> {
    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}{}", self.parent, self.name)
    }
}

impl Members {
    /// Reads a table of the program.
    pub(crate) fn built_in(file: &str, text: &str) -> Self {
        table::built_in(file, text)
    }

    /// Returns a table without rows: everything is unknown.
    pub(crate) fn none() -> &'static Self {
        static NONE: LazyLock<Members> = LazyLock::new(Members::default);
        &NONE
    }

    /// Returns true if the body has a declared member of this name.
    #[must_use]
    pub fn declares(&self, name: &str) -> bool {
        self.request.contains_key(name)
    }

    /// Returns the names of the members that select the form of the answer only.
    pub fn form_members(&self) -> impl Iterator<Item = &str> {
        let rows = self.request.iter();
        let of_form = rows.filter(|(_, facts)| facts.key == InKey::Form);
        of_form.map(|(name, _)| name.as_str())
    }

    /// Returns the values of a declared member in an object, in all its spellings.
    pub fn values<'a>(
        &self,
        object: &'a Map<String, Value>,
        name: &str,
    ) -> impl Iterator<Item = &'a Value> {
        let members = object.iter();
        let of_name = members.filter(move |(given, _)| *self.declared(given) == *name);
        of_name.map(|(_, value)| value)
    }

    /// Returns the parameters of the generation in a body.
    #[must_use]
    pub fn generation<'a>(&self, body: &'a Map<String, Value>) -> Option<&'a Map<String, Value>> {
        match &self.generation {
            None => Some(body),
            Some(name) => self.values(body, name).next()?.as_object(),
        }
    }

    /// Returns the row of a member of the body.
    #[must_use]
    pub fn of_request(&self, name: &str) -> Option<&MemberFacts> {
        self.request.get(&*self.declared(name))
    }

    /// Returns the declared name for a name in a body.
    #[must_use]
    pub fn declared<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let camel = camel(name).filter(|_| self.is_camel_case);
        camel.map_or(Cow::Borrowed(name), Cow::Owned)
    }

    /// Returns two names of one member that an object has: only the provider knows which one counts.
    #[must_use]
    pub fn spelled_twice<'a>(&self, object: &'a Map<String, Value>) -> Option<(&'a str, String)> {
        if !self.is_camel_case {
            return None;
        }
        object.keys().find_map(|name| {
            let other = camel(name)?;
            object
                .contains_key(&other)
                .then_some((name.as_str(), other))
        })
    }

    /// Returns what `find` finds first among the members of a body that are declared, and those in objects whose
    /// members are all declared.
    pub fn find<T>(
        &self,
        body: &Map<String, Value>,
        find: &mut impl FnMut(&Place<'_>) -> Option<T>,
    ) -> Option<T> {
        self.find_in(&self.request, false, "", body, find)
    }

    fn find_in<T, F: FnMut(&Place<'_>) -> Option<T>>(
        &self,
        declared: &BTreeMap<String, MemberFacts>,
        is_open: bool,
        parent: &str,
        object: &Map<String, Value>,
        find: &mut F,
    ) -> Option<T> {
        for (name, value) in object {
            let facts = declared.get(&*self.declared(name));
            if facts.is_none() && is_open {
                continue;
            }
            let place = Place {
                parent,
                name,
                facts,
                value,
            };
            if let Some(found) = find(&place) {
                return Some(found);
            }
            let Some(facts) = facts.filter(|facts| !facts.members.is_empty()) else {
                continue;
            };
            let values = match value {
                Value::Array(items) => items.as_slice(),
                other => std::slice::from_ref(other),
            };
            let path = format!("{parent}{name}.");
            for object in values.iter().filter_map(Value::as_object) {
                let found = self.find_in(&facts.members, facts.open, &path, object, find);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Returns true for a tool that the client runs. Tools in its list are not judged.
    #[must_use]
    pub fn is_run_by_client(&self, tool: &Value) -> bool {
        let Some(members) = tool.as_object() else {
            return false;
        };
        if self.is_by_member {
            let is_of_client = |name: &String| {
                let facts = self.tools.get(&*self.declared(name));
                facts.is_some_and(|facts| facts.is_run_by_client(tool))
            };
            return members.keys().all(is_of_client);
        }
        let kind = match members.get("type") {
            None | Some(Value::Null) => "",
            Some(Value::String(kind)) => kind,
            Some(_) => return false,
        };
        let facts = self.tool(kind);
        facts.is_some_and(|facts| facts.is_run_by_client(tool))
    }

    /// Returns true for a tool of the provider of which an answer shows whether it was used.
    #[must_use]
    pub fn is_shown_if_used(&self, tool: &Value) -> bool {
        let kind = tool.get("type").and_then(Value::as_str);
        let facts = kind.and_then(|kind| self.tool(kind));
        facts.is_some_and(|facts| facts.run_by == Runner::Provider && facts.shown)
    }

    /// Returns the row of a type of tools.
    #[must_use]
    pub fn tool(&self, kind: &str) -> Option<&ToolFacts> {
        let is_beginning = |pattern: &str| {
            let beginning = pattern.strip_suffix('*');
            beginning.is_some_and(|beginning| kind.starts_with(beginning))
        };
        self.tools.get(kind).or_else(|| {
            let mut rows = self.tools.iter();
            rows.find_map(|(pattern, facts)| is_beginning(pattern).then_some(facts))
        })
    }

    /// Returns true for a member that does nothing, such as labels: no model sees it.
    #[must_use]
    pub fn does_nothing(&self, name: &str) -> bool {
        let facts = self.request.get(name).or_else(|| self.anywhere.get(name));
        facts.is_some_and(|facts| facts.does == Effect::Nothing)
    }

    /// Returns true for an item with more than its name at the provider. An item without a type is a message.
    #[must_use]
    pub fn is_whole(&self, item: &Value) -> bool {
        let kind = match item.get("type") {
            None | Some(Value::Null) => "message",
            Some(kind) => kind.as_str().unwrap_or_default(),
        };
        let is_given = |name: &str| item.get(name).is_some_and(|value| !value.is_null());
        let facts = self.items.get(kind);
        match facts.and_then(|facts| facts.whole.as_deref()) {
            None => false,
            Some("any") => {
                let mut names = item.as_object().into_iter().flat_map(Map::keys);
                names.any(|name| !matches!(&**name, "type" | "id" | "status") && is_given(name))
            }
            Some("without_id") => !is_given("id"),
            Some(member) => {
                let content = item.get(member);
                let is_text_or_list =
                    |value: &&Value| value.is_string() || value.is_array() || value.is_object();
                // An empty one is as good as none: the provider may take the name.
                content
                    .filter(is_text_or_list)
                    .is_some_and(|value| !is_given("id") || !is_empty(value))
            }
        }
    }

    /// Returns true for an item of an answer that the model alone has written.
    #[must_use]
    pub fn is_by_model(&self, item: &Value) -> bool {
        let kind = item.get("type").and_then(Value::as_str);
        let facts = kind.and_then(|kind| self.items.get(kind));
        facts.is_some_and(|facts| facts.by_model && meets(item, &facts.when))
    }
}

impl ToolFacts {
    fn is_run_by_client(&self, tool: &Value) -> bool {
        let list = self.list.as_ref();
        self.run_by == Runner::Client
            && meets(tool, &self.when)
            && list.is_none_or(|list| tool.get(list).is_some_and(Value::is_array))
    }
}

/// Returns true if all members have the given values. Names in a path are separated by dots.
fn meets(value: &Value, conditions: &BTreeMap<String, String>) -> bool {
    conditions.iter().all(|(path, wanted)| {
        let mut names = path.split('.');
        let found = names.try_fold(value, |value, name| value.get(name));
        found.and_then(Value::as_str) == Some(wanted.as_str())
    })
}

/// Returns the name in camel case of a name in snake case; `None` for any other name.
fn camel(name: &str) -> Option<String> {
    let is_snake = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
    let words: Vec<&str> = name.split('_').collect();
    if words.len() < 2 || !name.bytes().all(is_snake) || words.iter().any(|word| word.is_empty()) {
        return None;
    }
    let mut camel = String::with_capacity(name.len());
    for (at, word) in words.into_iter().enumerate() {
        match at {
            0 => camel.push_str(word),
            _ => {
                let (first, rest) = word.split_at(1);
                camel.push_str(&first.to_ascii_uppercase());
                camel.push_str(rest);
            }
        }
    }
    Some(camel)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_in_snake_case_are_those_in_camel_case() {
        for (name, expected) in [
            ("cached_content", Some("cachedContent")),
            ("top_k", Some("topK")),
            ("cachedContent", None),
            ("cached__content", None),
            ("_x", None),
            ("Cached_content", None),
            ("tools", None),
        ] {
            assert_eq!(camel(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn members_are_found_where_all_are_declared() {
        let text = "
request:
  a: {does: answer}
  closed: {does: nothing, members: {b: {does: state}}}
  open: {does: answer, open: true, members: {c: {does: state}}}
";
        let members: Members = table::read("members.yaml", text).unwrap();
        let found = |body: Value| {
            let mut found = Vec::new();
            members.find(body.as_object().unwrap(), &mut |place| {
                let does = place.facts.map(|facts| facts.does);
                found.push((place.path(), does));
                None::<()>
            });
            found
        };
        let name = |name: &str| name.to_owned();
        assert_eq!(
            found(
                json!({"a": {"z": 1}, "closed": [{"b": 1, "x": 1}], "open": {"c": 1, "x": 1}, "y": 1})
            ),
            [
                (name("a"), Some(Effect::Answer)),
                (name("closed"), Some(Effect::Nothing)),
                (name("closed.b"), Some(Effect::State)),
                (name("closed.x"), None),
                (name("open"), Some(Effect::Answer)),
                (name("open.c"), Some(Effect::State)),
                (name("y"), None),
            ]
        );
    }
}
