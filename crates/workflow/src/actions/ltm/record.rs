//! Records of long-term memory in a store.
//!
//! The value of a record is the JSON `{"value": …, "metadata": …}`. Its labels are the key itself, and
//! each scalar of the metadata as its canonical JSON, so that `1`, `1.0`, `"1"` and `true` are four
//! different labels.

use cachalot_core::{Digest, Millis};
use cachalot_store::{Label, Record};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Arguments;

/// The name of the label that holds the record's key.
pub(super) const KEY: &str = "key";

/// Prefix of the label names of metadata fields.
const FIELD: &str = "meta.";

/// The maximum length of a label value in bytes; a longer one is replaced by its digest to keep the index
/// small.
const LONGEST: usize = 512;

/// Placeholder for the time of storing, which the store sets.
const UNSET: Millis = 0;

/// A value and its metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) value: Value,
    pub(super) metadata: Option<Arguments>,
}

impl Remembered {
    /// Returns the record that stores the value under `key`.
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
            updated: UNSET,
        }
    }

    /// Reads the value from a record.
    ///
    /// # Errors
    /// If the record was not made by [`Remembered::record`].
    pub(super) fn read(record: &Record) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&record.value)
    }
}

/// Returns the label name of a metadata field.
pub(super) fn label_name(field: &str) -> String {
    format!("{FIELD}{field}")
}

/// Returns the label value of a scalar; `None` for lists and mappings.
pub(super) fn label_value(field: &Value) -> Option<String> {
    if field.is_array() || field.is_object() {
        return None;
    }
    let text = field.to_string();
    // No scalar begins with an `s`, so a digest never collides with a value.
    Some(if text.len() > LONGEST {
        format!("sha256:{}", Digest::sha256(text.as_bytes()))
    } else {
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn scalars_of_different_types_have_different_labels() {
        let values: std::collections::BTreeSet<_> = [
            json!(1),
            json!(1.0),
            json!("1"),
            json!(true),
            json!("true"),
            json!(null),
            json!("null"),
        ]
        .iter()
        .map(|value| label_value(value).unwrap())
        .collect();
        assert_eq!(values.len(), 7);
        assert_eq!(label_value(&json!([1])), None);
        assert_eq!(label_value(&json!({})), None);
    }

    #[test]
    fn long_scalars_are_told_apart_by_their_digest() {
        let (one, other) = (json!("a".repeat(600)), json!("a".repeat(601)));
        assert_ne!(label_value(&one), label_value(&other));
        assert!(label_value(&one).unwrap().len() < 100);
    }

    #[test]
    fn a_record_is_read_back() {
        let remembered = Remembered {
            value: json!({"n": 9_007_199_254_740_993_u64}),
            metadata: json!({"a": 1, "deep": {"b": 2}}).as_object().cloned(),
        };
        let record = remembered.record("k");
        assert_eq!(Remembered::read(&record).unwrap(), remembered);
        assert_eq!(
            record.labels,
            [Label::new("key", "k"), Label::new("meta.a", "1")]
        );
        let none = Remembered {
            value: json!(null),
            metadata: None,
        };
        assert_eq!(Remembered::read(&none.record("k")).unwrap(), none);
    }
}
