//! The contents that a conversation contains in full, so that a short note can replace a repeated one.

use std::collections::{BTreeSet, HashMap};

use cachalot_cache::Key;
use cachalot_core::Digest;
use serde_json::json;

/// The contents delivered to a session, by key, as far as they can be of use.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    given: HashMap<Key, DeliveredResult>,
    /// The key of the result of each call ID. Providers may reuse an ID, which then no longer refers to the
    /// earlier result.
    by_id: HashMap<String, Key>,
}

#[derive(Debug)]
struct DeliveredResult {
    id: String,
    content: Digest,
    /// Set if the last delivery was a marker: there are never two in a row.
    marked: bool,
}

/// Number of remembered deliveries above which those that the model cannot read any more are dropped.
const PRUNE_THRESHOLD: usize = 1_024;

impl Deliveries {
    /// Records that a call with this ID is about to be answered: the ID no longer refers to the result of an
    /// earlier call.
    pub(super) fn forget_id(&mut self, id: &str) {
        if let Some(key) = self.by_id.remove(id) {
            self.given.remove(&key);
        }
    }

    /// Returns the note that replaces a content, if the model can still read it in full in the result of an
    /// earlier call. `note` creates it from the ID of that call. The caller must deliver the note.
    pub(super) fn mark<T>(
        &mut self,
        key: &Key,
        content: Digest,
        verbatim: &BTreeSet<String>,
        note: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let given = self.given.get_mut(key)?;
        let may = !given.marked && given.content == content && verbatim.contains(&given.id);
        let note = may.then(|| note(&given.id)).flatten()?;
        given.marked = true;
        Some(note)
    }

    /// Records that the content was delivered in full to the call with this ID.
    pub(super) fn given(
        &mut self,
        key: Key,
        id: &str,
        content: Digest,
        verbatim: &BTreeSet<String>,
    ) {
        if self.given.len() >= PRUNE_THRESHOLD {
            self.given.retain(|_, given| verbatim.contains(&given.id));
            let given = &self.given;
            self.by_id.retain(|_, key| given.contains_key(key));
        }
        let new = DeliveredResult {
            id: id.to_owned(),
            content,
            marked: false,
        };
        if let Some(old) = self.given.insert(key, new) {
            self.by_id.remove(&old.id);
        }
        self.by_id.insert(id.to_owned(), key);
    }
}

/// Creates the note that replaces a content that the conversation contains already.
pub(super) fn marker(tool: &str, since_call: &str, can_force: bool) -> String {
    let again = if can_force {
        " To get it again in full, call with `force`: true."
    } else {
        ""
    };
    json!({
        "status": "unchanged",
        "tool": tool,
        "since_call": since_call,
        "message": format!(
            "The result is the same as that of your call {since_call}, which you still have above.{again}"
        ),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use cachalot_cache::{Call, CallKind, Scope};
    use cachalot_core::Canonical;

    use super::*;

    fn key(number: u64) -> Key {
        let input = Canonical::value(&json!(number));
        Key::for_call(&Call {
            kind: CallKind::Tool,
            scope: &Scope::Global,
            name: "n",
            input: &input,
        })
    }

    fn mark(
        deliveries: &mut Deliveries,
        key: Key,
        content: Digest,
        verbatim: &BTreeSet<String>,
    ) -> Option<String> {
        deliveries.mark(&key, content, verbatim, |id| Some(id.to_owned()))
    }

    fn ids(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|id| (*id).to_owned()).collect()
    }

    #[test]
    fn marker_is_used_for_readable_results_and_never_twice_in_a_row() {
        let (one, other) = (Digest::sha256(b"one"), Digest::sha256(b"other"));
        let mut deliveries = Deliveries::default();
        let all = ids(&["a", "b", "c"]);
        assert_eq!(mark(&mut deliveries, key(1), one, &all), None);
        deliveries.given(key(1), "a", one, &all);
        assert_eq!(mark(&mut deliveries, key(1), other, &all), None);
        assert_eq!(mark(&mut deliveries, key(1), one, &ids(&["b"])), None);
        assert_eq!(
            mark(&mut deliveries, key(1), one, &all).as_deref(),
            Some("a")
        );
        assert_eq!(mark(&mut deliveries, key(1), one, &all), None);
        deliveries.given(key(1), "b", one, &all);
        assert_eq!(
            mark(&mut deliveries, key(1), one, &all).as_deref(),
            Some("b")
        );
    }

    #[test]
    fn reused_call_id_forgets_earlier_results() {
        let content = Digest::sha256(b"content");
        let mut deliveries = Deliveries::default();
        let all = ids(&["call_0"]);
        deliveries.given(key(1), "call_0", content, &all);
        deliveries.forget_id("call_0");
        assert_eq!(mark(&mut deliveries, key(1), content, &all), None);
        deliveries.given(key(2), "call_0", content, &all);
        assert_eq!(
            mark(&mut deliveries, key(2), content, &all).as_deref(),
            Some("call_0")
        );
        assert_eq!(mark(&mut deliveries, key(1), content, &all), None);
    }

    #[test]
    fn deliveries_are_bounded_by_the_readable_results() {
        let content = Digest::sha256(b"content");
        let mut deliveries = Deliveries::default();
        let last = format!("call {}", 2 * PRUNE_THRESHOLD - 1);
        for number in 0..2 * PRUNE_THRESHOLD {
            let id = format!("call {number}");
            deliveries.given(key(number as u64), &id, content, &ids(&[&id]));
        }
        assert!(
            deliveries.given.len() <= PRUNE_THRESHOLD && deliveries.by_id.len() <= PRUNE_THRESHOLD
        );
        let newest = key(2 * PRUNE_THRESHOLD as u64 - 1);
        assert_eq!(
            mark(&mut deliveries, newest, content, &ids(&[&last])).as_deref(),
            Some(last.as_str())
        );
    }
}
