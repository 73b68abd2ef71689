//! The read-only agent for which a session's agent works, in a note of the session, so that its restriction also
//! applies in other processes and in forks.

use std::sync::Arc;

use cachalot_prompt::SessionHead;
use serde_json::Value;

/// The session note that holds the name of the read-only agent.
const READ_ONLY_NOTE: &str = "read_only_agent";

/// Notes the read-only agent, or that there is none. The definition of a read-only agent restricts the agent itself.
pub(super) fn note(head: &mut SessionHead, read_only_agent: Option<&str>) {
    match read_only_agent.filter(|name| *name != head.agent) {
        Some(name) => {
            head.notes
                .insert(READ_ONLY_NOTE.to_owned(), Value::from(name));
        }
        None => {
            head.notes.shift_remove(READ_ONLY_NOTE);
        }
    }
}

/// The noted read-only agent.
pub(crate) fn restricted_by(head: &SessionHead) -> Option<Arc<str>> {
    let noted = head.notes.get(READ_ONLY_NOTE)?;
    noted.as_str().map(Arc::from)
}
