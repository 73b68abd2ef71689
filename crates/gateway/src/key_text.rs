//! A JSON text with edits, for the key of a request: numbers keep their spellings.

use std::collections::HashMap;

use cachalot_core::json::numbers;
use serde_json::{Map, Value};

/// What is written in place of values of one tree, which are known by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Edits(HashMap<*const Value, Edit>);

#[derive(Debug)]
enum Edit {
    /// Nothing: the member is left out.
    LeaveOut,
    Replace(Value),
}

impl Edits {
    /// Leaves a member out. An item of a list becomes null, so that the others keep their places.
    pub(crate) fn leave_out(&mut self, value: &Value) {
        self.0.insert(value, Edit::LeaveOut);
    }

    /// Replaces a value.
    pub(crate) fn replace(&mut self, value: &Value, by: Value) {
        self.0.insert(value, Edit::Replace(by));
    }

    /// Changes a text further, if `change` does.
    pub(crate) fn change(&mut self, value: &Value, change: impl FnOnce(&str) -> Option<String>) {
        let known = match self.of(value) {
            Some(Edit::Replace(known)) => known,
            Some(Edit::LeaveOut) => return,
            None => value,
        };
        if let Some(changed) = known.as_str().and_then(change) {
            self.replace(value, Value::from(changed));
        }
    }

    /// Returns the text with the edits; `None` if there are none. `value` is the tree of the text, which has no
    /// repeated names.
    pub(crate) fn apply(&self, text: &str, value: &Value) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let mut writer = Writer {
            out: String::with_capacity(text.len()),
            numbers: numbers(text).map(|range| &text[range]),
            edits: self,
        };
        writer.write(value)?;
        Some(writer.out)
    }

    fn of(&self, value: &Value) -> Option<&Edit> {
        self.0.get(&std::ptr::from_ref(value))
    }
}

struct Writer<'e, N> {
    out: String,
    /// The numbers of the text, in its order, which is that of the tree.
    numbers: N,
    edits: &'e Edits,
}

impl<'t, N: Iterator<Item = &'t str>> Writer<'_, N> {
    /// Writes a value; `None` if the text has fewer numbers than the tree.
    fn write(&mut self, value: &Value) -> Option<()> {
        match (self.edits.of(value), value) {
            (Some(edit), _) => {
                self.out += &match edit {
                    Edit::LeaveOut => Value::Null.to_string(),
                    Edit::Replace(other) => other.to_string(),
                };
                self.skip(value)?;
            }
            (None, Value::Number(_)) => self.out += self.numbers.next()?,
            (None, Value::Array(items)) => {
                self.out.push('[');
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        self.out.push(',');
                    }
                    self.write(item)?;
                }
                self.out.push(']');
            }
            (None, Value::Object(members)) => self.write_members(members)?,
            // Strings, too: their spellings have no meaning in keys.
            (None, plain) => self.out += &plain.to_string(),
        }
        Some(())
    }

    fn write_members(&mut self, members: &Map<String, Value>) -> Option<()> {
        self.out.push('{');
        let mut is_first = true;
        for (name, member) in members {
            if matches!(self.edits.of(member), Some(Edit::LeaveOut)) {
                self.skip(member)?;
                continue;
            }
            if !is_first {
                self.out.push(',');
            }
            is_first = false;
            self.out += &Value::from(name.as_str()).to_string();
            self.out.push(':');
            self.write(member)?;
        }
        self.out.push('}');
        Some(())
    }

    /// Passes over the numbers of a value that is not written.
    fn skip(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Number(_) => self.numbers.next().map(|_| ()),
            Value::Array(items) => items.iter().try_for_each(|item| self.skip(item)),
            Value::Object(members) => members.values().try_for_each(|member| self.skip(member)),
            _ => Some(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::Canonical;
    use proptest::prelude::*;

    use super::*;

    fn without(text: &str, pointers: &[&str]) -> Option<String> {
        let value: Value = serde_json::from_str(text).unwrap();
        let mut edits = Edits::default();
        let found = pointers.iter().filter_map(|pointer| value.pointer(pointer));
        found.for_each(|found| edits.leave_out(found));
        edits.apply(text, &value)
    }

    #[test]
    fn numbers_keep_their_spellings_around_edits() {
        let text = r#"{"a": 1.0, "b": [2e0, {"c": 3.50}], "d": [1.10, -0.0, "4.0"], "e": 123456789012345678901}"#;
        assert_eq!(
            without(text, &["/b"]).unwrap(),
            r#"{"a":1.0,"d":[1.10,-0.0,"4.0"],"e":123456789012345678901}"#
        );
        assert_eq!(
            without(text, &["/b/1/c", "/a", "/d/0"]).unwrap(),
            r#"{"b":[2e0,{}],"d":[null,-0.0,"4.0"],"e":123456789012345678901}"#
        );
        assert_eq!(without(text, &["/f"]), None);
        let value: Value = serde_json::from_str(text).unwrap();
        let mut edits = Edits::default();
        edits.replace(&value["b"][1], Value::from("x\n"));
        assert_eq!(
            edits.apply(text, &value).unwrap(),
            r#"{"a":1.0,"b":[2e0,"x\n"],"d":[1.10,-0.0,"4.0"],"e":123456789012345678901}"#
        );
    }

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>()
                .prop_filter("finite", |number| number.is_finite())
                .prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]{1,2}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The key of an edited text is that of the text without the member.
        #[test]
        fn an_edit_changes_nothing_else(value in json_value(), other in json_value()) {
            let with = serde_json::json!({"kept": value, "left": other, "last": value}).to_string();
            let expected = serde_json::json!({"kept": value, "last": value}).to_string();
            let found = without(&with, &["/left"]).unwrap();
            let key = |text: &str| Canonical::json(text.as_bytes()).unwrap().as_bytes().to_vec();
            prop_assert_eq!(key(&found), key(&expected));
        }
    }
}
