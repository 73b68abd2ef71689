//! The format of records of long-term memory ([`space::USER`](crate::space::USER)): the workflow's `ltm`
//! actions and the tool `memory` read and write the same ones.
//!
//! The value of a record is the JSON `{"value": …, "metadata": …}`. Its labels are the key itself, and each
//! scalar of the metadata as its canonical JSON, so that `1`, `1.0`, `"1"` and `true` are four different
//! labels.

use cachalot_core::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Label, LabelMatch, Record};

/// The name of the label that holds the record's key.
const KEY_LABEL: &str = "key";

/// Prefix of the label names of metadata fields.
const METADATA_PREFIX: &str = "meta.";

/// Maximum length of a label value in bytes; a longer one is replaced by its digest, to keep the index small.
const MAX_LABEL_BYTES: usize = 512;

/// A value with its metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserRecord {
    /// The value.
    pub value: Value,
    /// The metadata; scalar fields can be searched by.
    pub metadata: Option<Map<String, Value>>,
}

impl UserRecord {
    /// Returns the record to store under `key`.
    #[must_use]
    pub fn to_record(&self, key: &str) -> Record {
        let mut labels = vec![Label::new(KEY_LABEL, key)];
        let fields = self.metadata.iter().flatten();
        labels.extend(fields.filter_map(|(name, value)| metadata_label(name, value)));
        let text =
            serde_json::json!({ "value": self.value, "metadata": self.metadata }).to_string();
        Record {
            key: key.to_owned(),
            value: text.into(),
            labels,
            expires: None,
            revision: 0,
            updated: 0,
        }
    }

    /// Decodes a stored record.
    ///
    /// # Errors
    /// If the record has another format.
    pub fn read(record: &Record) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(&record.value)
    }
}

/// The criterion that only the record with exactly this key meets; a prefix also matches longer keys.
#[must_use]
pub fn has_key(key: &str) -> LabelMatch<'_> {
    LabelMatch::Is {
        name: KEY_LABEL,
        value: key,
    }
}

/// Returns the label of a metadata field; `None` for arrays and objects, which cannot be searched by.
#[must_use]
pub fn metadata_label(name: &str, value: &Value) -> Option<Label> {
    if value.is_array() || value.is_object() {
        return None;
    }
    let mut text = value.to_string();
    // Unambiguous, because no scalar begins with an `s`.
    if text.len() > MAX_LABEL_BYTES {
        text = format!("sha256:{}", Digest::sha256(text.as_bytes()));
    }
    Some(Label::new(format!("{METADATA_PREFIX}{name}"), text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The exact bytes and labels of stored records.
    #[test]
    fn record_has_stable_bytes_and_round_trips() {
        let remembered = UserRecord {
            value: json!({ "n": 9_007_199_254_740_993_u64 }),
            metadata: json!({ "a": 1, "b": "x", "deep": { "c": 2 } })
                .as_object()
                .cloned(),
        };
        let record = remembered.to_record("k");
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
        assert_eq!(UserRecord::read(&record).unwrap(), remembered);
        let bare = UserRecord {
            value: json!(null),
            metadata: None,
        };
        let record = bare.to_record("k");
        assert_eq!(&record.value[..], br#"{"value":null,"metadata":null}"#);
        assert_eq!(UserRecord::read(&record).unwrap(), bare);
    }

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
        .map(|value| metadata_label("a", value).unwrap())
        .collect();
        assert_eq!(values.len(), 7);
        assert_eq!(metadata_label("a", &json!([1])), None);
        assert_eq!(metadata_label("a", &json!({})), None);
    }

    #[test]
    fn labels_of_long_scalars_differ_by_digest() {
        let (one, other) = (json!("a".repeat(600)), json!("a".repeat(601)));
        assert_ne!(metadata_label("a", &one), metadata_label("a", &other));
        assert!(metadata_label("a", &one).unwrap().value.len() < 100);
    }
}
