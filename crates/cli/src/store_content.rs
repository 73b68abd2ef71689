//! The content of a store that outlives its processes.

use cachalot_prompt::{PIECES, SESSIONS};
use cachalot_store::space;

/// The spaces that users own, and the words for one record and for several. Pieces of sessions are before the sessions,
/// which refer to them.
pub(crate) const SPACES: [(&str, &str, &str); 4] = [
    (space::USER, "memory", "memories"),
    (PIECES, "piece of sessions", "pieces of sessions"),
    (SESSIONS, "session", "sessions"),
    (space::CACHE, "entry", "entries"),
];
