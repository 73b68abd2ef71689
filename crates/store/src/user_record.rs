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
#[path = "../tests/unit/user_record.rs"]
mod tests;
