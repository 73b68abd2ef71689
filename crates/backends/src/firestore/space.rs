//! The documents of a space: their paths, leases and counters.

use cachalot_store::implementation::{StoredLease, signed};
use cachalot_store::{Error, Label};
use serde_json::{Value, json};

use super::document::{Document, Fields};
use super::name;
use super::reader::Documents;

/// The paths of a space.
pub(super) struct Space(pub(super) String);

impl Space {
    pub(super) fn record(&self, key: &str) -> String {
        self.at("records", &name::id(key))
    }

    pub(super) fn label(&self, label: &Label, key: &str) -> String {
        self.at("labels", &name::label(&label.name, &label.value, key))
    }

    pub(super) fn counter(&self, counter: &str) -> String {
        self.at("counters", &name::id(counter))
    }

    pub(super) fn lease(&self, key: &str) -> String {
        self.at("leases", &name::id(key))
    }

    fn at(&self, collection: &str, id: &str) -> String {
        format!("{}/{collection}/{id}", self.0)
    }
}

pub(super) fn stored_lease(document: Option<&Document>) -> Result<Option<StoredLease>, Error> {
    let read = |document: &Document| {
        Ok(StoredLease {
            fence: document.count("fence")?,
            until: document.number("until")?,
            is_current: document.is_true("current"),
        })
    };
    document.map(read).transpose()
}

pub(super) fn counter_value(read: &Documents, space: &Space, name: &str) -> Result<u64, Error> {
    let counter = read.get(&space.counter(name));
    counter.map_or(Ok(0), |counter| counter.count("count"))
}

/// Returns the write that ends a lease. Its document remains for some time, so that a write that depends on it fails.
pub(super) fn ended(path: &str) -> Value {
    Fields::default().flag("current", false).change(path)
}

pub(super) fn counter_fields(name: &str, value: u64) -> Fields {
    Fields::default()
        .text("name", name)
        .number("count", signed(value))
}

/// Returns the write that changes the value of a counter by an operation of the server with a count.
pub(super) fn transform(space: &Space, name: &str, operation: &str, count: u64) -> Value {
    let mut write = Fields::default()
        .text("name", name)
        .change(&space.counter(name));
    let count = json!({"integerValue": signed(count).to_string()});
    write["updateTransforms"] = json!([{"fieldPath": "count", operation: count}]);
    write
}
