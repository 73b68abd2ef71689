//! Documents, their fields, and writes, as JSON of the API.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use cachalot_store::implementation::{label_texts, labels_from_json, labels_to_json};
use cachalot_store::{Error, ErrorKind, Label, Millis, Record};
use serde_json::{Map, Value, json};

/// Maximum size of what JSON adds to labels, in bytes.
const LARGEST_LABELS_OVERHEAD: usize = 12 << 10;

/// Maximum size of records that are stored in one step, in bytes. A request has at most 10 MiB.
const LARGEST_SUM: usize = 15 << 19;

/// A document that was read.
#[derive(Debug, Clone)]
pub(super) struct Document {
    /// Its path in the database.
    pub(super) path: String,
    /// The time of its last change, which is a condition of writes.
    pub(super) updated: String,
    fields: Value,
}

impl Document {
    /// Reads a document of an answer.
    pub(super) fn read(mut document: Value) -> Result<Self, Error> {
        let mut text = |name: &str| match document[name].take() {
            Value::String(text) => Ok(text),
            _ => Err(damaged(name)),
        };
        Ok(Self {
            path: text("name")?,
            updated: text("updateTime")?,
            fields: document["fields"].take(),
        })
    }

    /// Returns a field as the API has it.
    pub(super) fn field(&self, name: &str) -> Value {
        self.fields[name].clone()
    }

    pub(super) fn text(&self, name: &str) -> Result<&str, Error> {
        let field = self.fields[name]["stringValue"].as_str();
        field.ok_or_else(|| damaged(name))
    }

    pub(super) fn number(&self, name: &str) -> Result<i64, Error> {
        self.optional_number(name)?.ok_or_else(|| damaged(name))
    }

    pub(super) fn count(&self, name: &str) -> Result<u64, Error> {
        u64::try_from(self.number(name)?).map_err(|_| damaged(name))
    }

    /// Returns a number, or `None` for null.
    pub(super) fn optional_number(&self, name: &str) -> Result<Option<i64>, Error> {
        let field = &self.fields[name];
        if field.get("nullValue").is_some() {
            return Ok(None);
        }
        let number = integer(field).ok_or_else(|| damaged(name))?;
        Ok(Some(number))
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        self.fields[name]["booleanValue"] == true
    }

    fn bytes(&self, name: &str) -> Result<Bytes, Error> {
        // Empty bytes may have no text at all.
        let field = self.fields[name]["bytesValue"].as_str().unwrap_or_default();
        let bytes = BASE64_STANDARD.decode(field).map_err(|_| damaged(name))?;
        Ok(bytes.into())
    }

    pub(super) fn labels(&self) -> Result<Vec<Label>, Error> {
        labels_from_json(self.text("labels")?)
    }

    /// Returns the record of the document; without its value, if that was not read.
    pub(super) fn record(&self) -> Result<Record, Error> {
        Ok(Record {
            key: self.text("key")?.to_owned(),
            value: self.bytes("value")?,
            labels: self.labels()?,
            expires: self.optional_number("expires")?,
            revision: self.count("revision")?,
            updated: self.number("updated")?,
        })
    }
}

/// Reads a number of the API.
pub(super) fn integer(field: &Value) -> Option<i64> {
    field["integerValue"].as_str()?.parse().ok()
}

pub(super) fn damaged(what: &str) -> Error {
    let message = format!("a document of the store is damaged: `{what}`");
    Error::new(ErrorKind::Corrupt, message)
}

/// Fails if labels need much more space than their bytes.
pub(super) fn check_labels(record: &Record) -> Result<(), Error> {
    let bytes: usize = label_texts(&record.labels).map(str::len).sum();
    let overhead = labels_to_json(&record.labels).len().saturating_sub(bytes);
    if overhead <= LARGEST_LABELS_OVERHEAD {
        return Ok(());
    }
    let message = format!(
        "the record `{:.80}` has too many labels for one document ({})",
        record.key,
        record.labels.len()
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}

/// Fails if records are too large for one request, in which their bytes need a third more space.
pub(super) fn check_sum<'r>(records: impl Iterator<Item = &'r Record>) -> Result<(), Error> {
    let size = |record: &Record| {
        let labels = label_texts(&record.labels).map(str::len).sum::<usize>();
        let paths = record.labels.len() * (record.key.len() + 200);
        record.value.len() + 2 * labels + paths + 1000
    };
    let sum: usize = records.map(size).sum();
    if sum <= LARGEST_SUM {
        return Ok(());
    }
    let message = format!(
        "records of {sum} bytes cannot be stored in one step; this store accepts about {LARGEST_SUM}"
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}

/// Returns a text with the order of numbers.
pub(super) fn ordered(number: i64) -> String {
    format!("{:016x}", number.cast_unsigned() ^ (1 << 63))
}

/// Returns the field by which the uses of records are ordered; `order` is that of their writes.
pub(super) fn use_order(used: Millis, order: i64) -> String {
    ordered(used) + &ordered(order)
}

/// Returns the field by which the expiry of records is ordered.
pub(super) fn expiry_order(expires: Option<Millis>, order: i64) -> String {
    // `~` comes after all digits.
    expires.map_or_else(|| "~".to_owned(), ordered) + &ordered(order)
}

/// The fields of a document that is written.
#[derive(Debug, Default)]
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn text(self, name: &str, value: &str) -> Self {
        self.with(name, json!({"stringValue": value}))
    }

    pub(super) fn number(self, name: &str, value: i64) -> Self {
        self.with(name, json!({"integerValue": value.to_string()}))
    }

    pub(super) fn optional_number(self, name: &str, value: Option<i64>) -> Self {
        match value {
            Some(value) => self.number(name, value),
            None => self.with(name, json!({"nullValue": null})),
        }
    }

    pub(super) fn bytes(self, name: &str, value: &[u8]) -> Self {
        self.with(name, json!({"bytesValue": BASE64_STANDARD.encode(value)}))
    }

    pub(super) fn flag(self, name: &str, value: bool) -> Self {
        self.with(name, json!({"booleanValue": value}))
    }

    fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    /// Returns the write that replaces a document.
    pub(super) fn replace(self, path: &str) -> Value {
        json!({"update": {"name": path, "fields": self.0}})
    }

    /// Returns the write that changes these fields of a document and no others.
    pub(super) fn change(self, path: &str) -> Value {
        let names: Vec<_> = self.0.keys().cloned().collect();
        let mut write = self.replace(path);
        write["updateMask"] = json!({"fieldPaths": names});
        write
    }
}

/// Returns the write that deletes a document.
pub(super) fn delete(path: &str) -> Value {
    json!({"delete": path})
}

/// Makes a write depend on the state that was read: the document, or none.
pub(super) fn unless_changed(mut write: Value, read: Option<&Document>) -> Value {
    write["currentDocument"] = match read {
        Some(document) => json!({"updateTime": document.updated}),
        None => json!({"exists": false}),
    };
    write
}
