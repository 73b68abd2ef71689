//! The format of long-term memory in a store: the same records and labels as those of the workflow's `ltm`
//! actions, so that both see each other's records.
//!
//! The value of a record is the JSON `{"value": …, "metadata": …}`. Labels are the key itself, and each
//! scalar of the metadata as its canonical JSON, so that `1`, `1.0`, `"1"` and `true` are four different
//! values.

use cachalot_core::{Digest, Millis};
use cachalot_store::{Label, Record};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use cachalot_operation::Arguments;

/// The label with the record's key.
pub(super) const KEY: &str = "key";

/// Prefix of the names of labels of metadata fields.
const METADATA_PREFIX: &str = "meta.";

/// Maximum length of a label value; a longer one is replaced by its digest, to keep the index small.
const MAX_LABEL_BYTES: usize = 512;

/// The time of writing, which the store sets.
const UNSET_TIME: Millis = 0;

/// A value with its metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct MemoryValue {
    pub(super) value: Value,
    pub(super) metadata: Option<Arguments>,
}

impl MemoryValue {
    /// Creates the record with the key `key`.
    pub(super) fn record(&self, key: &str) -> Record {
        let mut labels = vec![Label::new(KEY, key)];
        for (name, field) in self.metadata.iter().flatten() {
            if let Some(value) = label_value(field) {
                labels.push(Label::new(label_name(name), value));
            }
        }
        let text =
            serde_json::json!({ "value": self.value, "metadata": self.metadata }).to_string();
        Record {
            key: key.to_owned(),
            value: text.into(),
            labels,
            expires: None,
            revision: 0,
            updated: UNSET_TIME,
        }
    }

    /// Decodes a record.
    ///
    /// # Errors
    /// If the record has another format.
    pub(super) fn read(record: &Record) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&record.value)
    }
}

/// The name of the label of a metadata field.
pub(super) fn label_name(field: &str) -> String {
    format!("{METADATA_PREFIX}{field}")
}

/// The label value of a scalar; `None` for arrays and objects.
pub(super) fn label_value(field: &Value) -> Option<String> {
    if field.is_array() || field.is_object() {
        return None;
    }
    let text = field.to_string();
    // Unambiguous, because no scalar begins with an `s`.
    Some(if text.len() > MAX_LABEL_BYTES {
        format!("sha256:{}", Digest::sha256(text.as_bytes()))
    } else {
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The exact bytes and labels that `ltm.store` writes.
    #[test]
    fn records_are_those_of_the_workflow() {
        let remembered = MemoryValue {
            value: json!({ "n": 9_007_199_254_740_993_u64 }),
            metadata: json!({ "a": 1, "b": "x", "deep": { "c": 2 } })
                .as_object()
                .cloned(),
        };
        let record = remembered.record("k");
        assert_eq!(
            &record.value[..],
            br#"{"value":{"n":9007199254740993},"metadata":{"a":1,"b":"x","deep":{"c":2}}}"#
        );
        assert_eq!(
            record.labels,
            [
                Label::new("key", "k"),
                Label::new("meta.a", "1"),
                Label::new("meta.b", "\"x\"")
            ]
        );
        assert_eq!(MemoryValue::read(&record).unwrap(), remembered);
        let bare = MemoryValue {
            value: json!("v"),
            metadata: None,
        };
        assert_eq!(
            &bare.record("k").value[..],
            br#"{"value":"v","metadata":null}"#
        );
    }

    #[test]
    fn long_scalars_are_told_apart_by_their_digest() {
        let (one, other) = (json!("a".repeat(600)), json!("a".repeat(601)));
        assert_ne!(label_value(&one), label_value(&other));
        assert!(label_value(&one).unwrap().len() < 100);
    }
}
