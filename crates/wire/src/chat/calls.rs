//! Assembles tool calls from the pieces that servers send.

use cachalot_core::Digest;
use serde_json::Value;

use crate::extra;
use crate::openai::{Object, text_of};
use crate::{Delta, Extra, Format, ToolUse};

/// The tool calls of an answer that is being streamed.
#[derive(Default)]
pub(super) struct PartialCalls {
    calls: Vec<PartialCall>,
}

#[derive(Default)]
struct PartialCall {
    /// The index that the server sent last.
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    extra: Extra,
    announced: bool,
}

/// A piece of a call.
struct Fragment<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
    fields: &'a Object,
    /// `function`, or `custom`, whose argument is a text.
    kind: &'static str,
    function: Option<&'a Object>,
}

impl PartialCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a piece of a call from a stream. `seed` identifies the answer; the ids of calls without one are
    /// derived from it.
    pub(super) fn fragment(&mut self, fields: &Object, seed: &str) -> Vec<Delta> {
        let fragment = Fragment::read(fields);
        let at = match self.find(&fragment) {
            Some(at) => at,
            None => self.begin(),
        };
        self.extend(at, &fragment, seed)
    }

    /// Adds a whole call.
    pub(super) fn whole(&mut self, fields: &Object, seed: &str) -> Vec<Delta> {
        let at = self.begin();
        self.extend(at, &Fragment::read(fields), seed)
    }

    pub(super) fn into_uses(self, seed: &str) -> Vec<ToolUse> {
        let tool_use = |(at, call): (usize, PartialCall)| ToolUse {
            id: if call.id.is_empty() {
                derived_id(seed, at, &call.name)
            } else {
                call.id
            },
            name: call.name,
            arguments: call.arguments,
            extra: extra::from_wire(Format::Chat, call.extra),
        };
        self.calls.into_iter().enumerate().map(tool_use).collect()
    }

    fn begin(&mut self) -> usize {
        self.calls.push(PartialCall::default());
        self.calls.len() - 1
    }

    /// Returns the call that a piece continues.
    ///
    /// A piece continues the call with its index, else the call with its id, else the newest one. A piece
    /// starts another call if it has another id, or if it has a name and new arguments and the arguments of
    /// the call are complete: some servers send whole calls, all with the index 0, or without index and id.
    fn find(&self, fragment: &Fragment<'_>) -> Option<usize> {
        let last_where =
            |wanted: &dyn Fn(&PartialCall) -> bool| self.calls.iter().rposition(wanted);
        let same_id = |call: &PartialCall| !fragment.id.is_empty() && call.id == fragment.id;
        let at = match fragment.index {
            Some(_) => last_where(&|call| call.index == fragment.index)
                .or_else(|| last_where(&|call| call.index.is_none() && same_id(call))),
            None if fragment.id.is_empty() => self.calls.len().checked_sub(1),
            None => last_where(&same_id),
        }?;
        let call = self.calls.get(at)?;
        let other = !fragment.id.is_empty() && !call.id.is_empty() && call.id != fragment.id;
        let again = !same_id(call)
            && !fragment.name.is_empty()
            && follows_complete(&call.arguments, &fragment.arguments);
        (!other && !again).then_some(at)
    }

    fn extend(&mut self, at: usize, fragment: &Fragment<'_>, seed: &str) -> Vec<Delta> {
        let Some(call) = self.calls.get_mut(at) else {
            return Vec::new();
        };
        call.index = fragment.index.or(call.index);
        if call.id.is_empty() {
            fragment.id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            fragment.name.clone_into(&mut call.name);
        }
        let added = call.take_arguments(&fragment.arguments);
        call.take_extra(fragment);

        let mut deltas = Vec::new();
        let mut text = added;
        if !call.announced && !call.name.is_empty() {
            call.announced = true;
            if call.id.is_empty() {
                call.id = derived_id(seed, at, &call.name);
            }
            deltas.push(Delta::ToolUse {
                index: at,
                id: call.id.clone(),
                name: call.name.clone(),
            });
            // Arguments that arrived before the name were held back.
            text.clone_from(&call.arguments);
        }
        if call.announced && !text.is_empty() {
            deltas.push(Delta::Arguments { index: at, text });
        }
        deltas
    }
}

impl PartialCall {
    /// Adds a piece of the arguments; returns the part that was added.
    ///
    /// A complete object cannot be continued. The same object once more is a repetition; an empty object is
    /// a placeholder for the object that follows.
    fn take_arguments(&mut self, piece: &str) -> String {
        if follows_complete(&self.arguments, piece) {
            if self.arguments == piece {
                return String::new();
            }
            if self.arguments.trim() == "{}" {
                self.arguments.clear();
            }
        }
        self.arguments.push_str(piece);
        piece.to_owned()
    }

    fn take_extra(&mut self, fragment: &Fragment<'_>) {
        let kind = match fragment.kind {
            "custom" => Some("custom"),
            // Some providers mark the calls of their own tools by another type.
            _ => text_of(fragment.fields, "type").filter(|kind| *kind != "function"),
        };
        if let Some(kind) = kind {
            self.extra.insert("type".into(), kind.into());
        }
        for (name, value) in fragment.fields {
            if !matches!(name.as_str(), "index" | "id" | "type") && name != fragment.kind {
                replace(&mut self.extra, name, value);
            }
        }
        let further = fragment.function.into_iter().flatten();
        for (name, value) in further {
            if matches!(name.as_str(), "name" | "arguments" | "input") || value.is_null() {
                continue;
            }
            let inner = self
                .extra
                .entry(fragment.kind)
                .or_insert_with(|| Object::new().into());
            if let Some(inner) = inner.as_object_mut() {
                replace(inner, name, value);
            }
        }
    }
}

fn replace(fields: &mut Object, name: &str, value: &Value) {
    if !value.is_null() {
        fields.insert(name.to_owned(), value.clone());
    }
}

impl<'a> Fragment<'a> {
    fn read(fields: &'a Object) -> Self {
        let inner = |name: &str| fields.get(name).and_then(Value::as_object);
        let custom = inner("custom").filter(|_| inner("function").is_none());
        let (kind, function, written) = match custom {
            Some(custom) => ("custom", Some(custom), "input"),
            None => ("function", inner("function"), "arguments"),
        };
        Self {
            index: fields.get("index").and_then(Value::as_u64),
            id: text_of(fields, "id").unwrap_or_default(),
            name: function
                .and_then(|function| text_of(function, "name"))
                .unwrap_or_default(),
            arguments: match function.and_then(|function| function.get(written)) {
                Some(Value::String(text)) => text.clone(),
                None | Some(Value::Null) => String::new(),
                // Some servers send the arguments as an object instead of its text.
                Some(value) => value.to_string(),
            },
            fields,
            kind,
            function,
        }
    }
}

/// Returns true if `arguments` are a complete object and `piece` begins another one.
fn follows_complete(arguments: &str, piece: &str) -> bool {
    piece.trim_start().starts_with('{')
        && arguments.trim_end().ends_with('}')
        && serde_json::from_str::<Object>(arguments).is_ok()
}

/// Derives an id for a call without one; reading the same answer again yields the same id.
fn derived_id(seed: &str, at: usize, name: &str) -> String {
    let at = at.to_string();
    let digest =
        Digest::sha256_of_parts(&[seed.as_bytes(), at.as_bytes(), name.as_bytes()]).to_hex();
    format!("call_{}", digest.get(..24).unwrap_or_default())
}
