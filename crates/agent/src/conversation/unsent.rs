//! The number of messages at the end of a session that were not sent yet; hooks may rewrite them.
//!
//! The newest message is held until hooks have seen it. Then it becomes part of the session and is sent. A
//! turn that ends earlier leaves messages in the session that were neither seen by a hook nor sent. A session
//! note holds the number of such messages at the end. Hooks see them with the next request, while sent
//! messages never change.

use serde_json::{Map, Value};

/// The session note that holds the number of unsent messages at the end.
const UNSENT_NOTE: &str = "unsent";

/// Notes that all messages were sent.
pub(super) fn all_sent(notes: &mut Map<String, Value>) {
    notes.shift_remove(UNSENT_NOTE);
}

/// Notes that the last `messages` messages were not sent.
pub(super) fn not_sent(notes: &mut Map<String, Value>, messages: usize) {
    match messages {
        0 => all_sent(notes),
        messages => {
            notes.insert(UNSENT_NOTE.to_owned(), Value::from(messages));
        }
    }
}

/// The noted number of unsent messages at the end.
pub(super) fn unsent(notes: &Map<String, Value>) -> usize {
    let noted = notes.get(UNSENT_NOTE).and_then(Value::as_u64);
    usize::try_from(noted.unwrap_or(0)).unwrap_or(0)
}
