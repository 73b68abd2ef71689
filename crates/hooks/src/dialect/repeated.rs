//! JSON documents with repeated object keys.
//!
//! JSON parsers differ in the value that they choose. A decision must not depend on that, so the other
//! values are kept as well.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A JSON document. The last value of a repeated key is used, as in most runtimes.
pub(super) struct Document {
    pub(super) value: Value,
    /// The overridden values, each in a document of its own: for `{"a": {"b": 1, "b": 2}}`, this is
    /// `{"a": {"b": 1}}`. Values within lists are not recorded.
    pub(super) overridden: Vec<Value>,
    /// A repeated key.
    pub(super) repeated: Option<String>,
}

impl Document {
    fn new(value: impl Into<Value>) -> Self {
        Self {
            value: value.into(),
            overridden: Vec::new(),
            repeated: None,
        }
    }
}

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Document, E> {
        Ok(Document::new(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Document, E> {
        Ok(Document::new(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Document, E> {
        Ok(Document::new(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Document, E> {
        Ok(Document::new(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Document, E> {
        Ok(Document::new(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Document, E> {
        Ok(Document::new(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Document, A::Error> {
        let mut list = Vec::new();
        let mut repeated = None;
        while let Some(item) = items.next_element::<Document>()? {
            repeated = repeated.or(item.repeated);
            list.push(item.value);
        }
        Ok(Document {
            repeated,
            ..Document::new(list)
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Document, A::Error> {
        let mut map = Map::new();
        let (mut overridden, mut repeated) = (Vec::new(), None);
        while let Some((key, member)) = members.next_entry::<String, Document>()? {
            let alone = |value| Value::Object(Map::from_iter([(key.clone(), value)]));
            overridden.extend(member.overridden.into_iter().map(alone));
            repeated = repeated.or(member.repeated);
            if let Some(earlier) = map.insert(key.clone(), member.value) {
                overridden.push(Value::Object(Map::from_iter([(key.clone(), earlier)])));
                repeated = repeated.or(Some(key));
            }
        }
        Ok(Document {
            value: Value::Object(map),
            overridden,
            repeated,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/dialect/repeated.rs"]
mod tests;
