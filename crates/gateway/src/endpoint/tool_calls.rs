//! Calls of the client's tools in a request, and the IDs that pair them with their results.

use std::collections::HashMap;

use cachalot_model::wire::Members;
use cachalot_model::wire::members::CallSide;
use serde_json::Value;

use super::members::client_data;
use super::{Endpoint, Object, judging};
use crate::call_ids::{CallIds, is_plain};

/// What a request has of a call.
#[derive(Default)]
struct Seen {
    calls: usize,
    results: usize,
    /// The number of the first call among all.
    place: usize,
}

impl Endpoint {
    /// Returns the IDs that do nothing but pair one call with its one result, in the order of the calls. An ID that
    /// occurs anywhere else, such as in a text or in arguments, is none: the model may refer to it.
    pub(crate) fn pairing_ids(self, body: &Value) -> Vec<&str> {
        let (Some(members), Some(object)) = (self.members(), body.as_object()) else {
            return Vec::new();
        };
        let mut seen: HashMap<&str, Seen> = HashMap::new();
        let mut place = 0;
        self.visit_objects(members, object, &mut |member, object| {
            if let Some(id) = id_of(&members.calls, member, object) {
                let known = seen.entry(id).or_default();
                known.calls += 1;
                known.place = place;
                place += 1;
            }
            if let Some(id) = id_of(&members.results, member, object) {
                seen.entry(id).or_default().results += 1;
            }
        });
        let is_pair = |seen: &Seen| seen.calls == 1 && seen.results == 1;
        let mut pairs: Vec<(&str, usize)> = seen
            .iter()
            .filter(|(id, seen)| is_plain(id) && is_pair(seen))
            .map(|(id, seen)| (*id, seen.place))
            .collect();
        pairs.sort_unstable_by_key(|(_, place)| *place);
        let ids: Vec<&str> = pairs.into_iter().map(|(id, _)| id).collect();
        let Some(counts) = occurrences(&ids, body) else {
            return Vec::new();
        };
        let pairs = ids.into_iter().zip(counts);
        // The call and the result.
        let pairs = pairs.filter(|(_, count)| *count == 2);
        pairs.map(|(id, _)| id).collect()
    }

    /// Returns the names of the client's tools by the IDs of their calls.
    pub(crate) fn called_tools(self, body: &Value) -> HashMap<&str, &str> {
        let mut tools = HashMap::new();
        if let (Some(members), Some(object)) = (self.members(), body.as_object()) {
            self.visit_objects(members, object, &mut |member, object| {
                let mut sides = members.calls.iter();
                let side = sides.find(|side| side.has(member, object));
                let call = side.and_then(|side| {
                    let id = object.get(&side.id)?.as_str()?;
                    Some((id, object.pointer(side.name.as_ref()?)?.as_str()?))
                });
                tools.extend(call);
            });
        }
        tools
    }

    /// Visits the texts of a body, with the ID of the call in whose result one is. Arguments of calls are left out.
    pub(crate) fn each_text<'a>(
        self,
        body: &'a Value,
        visit: &mut impl FnMut(&'a Value, Option<&'a str>),
    ) {
        let is_skipped = client_data(self);
        let members = body.as_object().into_iter().flatten();
        for (name, value) in members.filter(|(name, value)| !is_skipped(name, value)) {
            self.each_text_in(name, value, None, &is_skipped, visit);
        }
    }

    fn each_text_in<'a>(
        self,
        name: &str,
        value: &'a Value,
        call: Option<&'a str>,
        is_skipped: &impl Fn(&str, &Value) -> bool,
        visit: &mut impl FnMut(&'a Value, Option<&'a str>),
    ) {
        match value {
            Value::String(_) => visit(value, call),
            Value::Array(items) => {
                for item in items {
                    self.each_text_in(name, item, call, is_skipped, visit);
                }
            }
            Value::Object(members) => {
                let call = call.or_else(|| self.answered_call(name, value));
                for (name, member) in members {
                    // A result is data of the client, too.
                    if call.is_some() || !is_skipped(name, member) {
                        self.each_text_in(name, member, call, is_skipped, visit);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the ID of the call whose result an object is. `member` is the name of the member that has it.
    pub(crate) fn answered_call<'a>(self, member: &str, object: &'a Value) -> Option<&'a str> {
        let members = self.members()?;
        id_of(&members.results, &members.declared(member), object)
    }

    /// Visits the objects of the conversation, in order, with the declared names of the members that have them. Data of
    /// the client are left out.
    fn visit_objects<'a>(
        self,
        members: &Members,
        body: &'a Object,
        visit: &mut impl FnMut(&str, &'a Value),
    ) {
        let is_skipped = client_data(self);
        for (name, value) in judging::inputs(members, body) {
            visit_in(members, name, value, &is_skipped, visit);
        }
    }
}

fn visit_in<'a>(
    members: &Members,
    name: &str,
    value: &'a Value,
    is_skipped: &impl Fn(&str, &Value) -> bool,
    visit: &mut impl FnMut(&str, &'a Value),
) {
    match value {
        Value::Array(items) => {
            for item in items {
                visit_in(members, name, item, is_skipped, visit);
            }
        }
        Value::Object(object) => {
            visit(&members.declared(name), value);
            for (name, value) in object {
                if !is_skipped(name, value) {
                    visit_in(members, name, value, is_skipped, visit);
                }
            }
        }
        _ => {}
    }
}

fn id_of<'a>(sides: &[CallSide], member: &str, object: &'a Value) -> Option<&'a str> {
    let side = sides.iter().find(|side| side.has(member, object))?;
    object.get(&side.id)?.as_str()
}

/// Returns how often each of the IDs occurs in the strings of a value, names included; `None` if there are too many to be
/// searched for.
fn occurrences(ids: &[&str], value: &Value) -> Option<Vec<usize>> {
    let mut counts = vec![0; ids.len()];
    count(&mut CallIds::new(ids)?, value, &mut counts).then_some(counts)
}

fn count(search: &mut CallIds, value: &Value, counts: &mut [usize]) -> bool {
    match value {
        Value::String(text) => count_in(search, text, counts),
        Value::Array(items) => items.iter().all(|item| count(search, item, counts)),
        Value::Object(members) => members
            .iter()
            .all(|(name, member)| count_in(search, name, counts) && count(search, member, counts)),
        _ => true,
    }
}

fn count_in(search: &mut CallIds, text: &str, counts: &mut [usize]) -> bool {
    search.each_in(text.as_bytes(), |id| counts[id] += 1)
}
