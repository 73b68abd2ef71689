//! The memory of a run: values by namespace and key, lost when the run ends.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_core::{Clock, Millis};
use parking_lot::Mutex;
use serde_json::Value;

/// The memory of one run. Branches of the run share it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SessionMemory {
    entries: Arc<Mutex<HashMap<(String, String), StoredValue>>>,
}

#[derive(Debug)]
struct StoredValue {
    value: Value,
    /// The time from which the entry is expired.
    expires: Option<Millis>,
}

impl SessionMemory {
    /// Stores a value in place of the earlier one. `ttl_ms` is its time to live in milliseconds.
    pub(crate) fn store(
        &self,
        namespace: &str,
        key: &str,
        value: Value,
        ttl_ms: Option<Millis>,
        clock: &dyn Clock,
    ) {
        let expires = ttl_ms.map(|ttl| clock.now().saturating_add(ttl));
        let mut entries = self.entries.lock();
        entries.insert(
            (namespace.to_owned(), key.to_owned()),
            StoredValue { value, expires },
        );
    }

    /// Returns the stored value. Erases it if it has expired.
    pub(crate) fn retrieve(&self, namespace: &str, key: &str, clock: &dyn Clock) -> Option<Value> {
        let at = (namespace.to_owned(), key.to_owned());
        let mut entries = self.entries.lock();
        let entry = entries.get(&at)?;
        if entry.expires.is_some_and(|expires| clock.now() >= expires) {
            entries.remove(&at);
            return None;
        }
        Some(entry.value.clone())
    }
}
