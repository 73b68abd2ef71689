//! Breaks that were found in a log.

use serde::Serialize;

use crate::diagnosis::Diagnosis;

/// A break, with its place in the log.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LoggedBreak {
    /// The line of the request.
    pub line: u64,
    /// The line of the request that it should have continued.
    pub previous_line: u64,
    /// The session, or the first line of the conversation.
    pub session: String,
    /// The ID of the answer, where the log has it.
    #[serde(skip)]
    pub answer: Option<String>,
    /// The model.
    pub model: String,
    /// The diagnosis.
    pub diagnosis: Diagnosis,
}
