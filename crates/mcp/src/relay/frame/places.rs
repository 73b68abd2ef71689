//! The places of the parts of a message.

use std::ops::Range;

/// The places of parts of a message.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    pub(super) id: Option<Range<usize>>,
    pub(super) params: Option<Range<usize>>,
    pub(super) result: Option<Range<usize>>,
    pub(super) error: Option<Range<usize>>,
    pub(super) progress_token: Option<Range<usize>>,
    pub(super) request_id: Option<Range<usize>>,
    pub(super) subscription_id: Option<Range<usize>>,
    pub(super) protocol_version: Option<Range<usize>>,
}

impl Places {
    /// Returns the places after a change of the message.
    pub(super) fn map(self, each: impl Fn(Range<usize>) -> Range<usize>) -> Self {
        Self {
            id: self.id.map(&each),
            params: self.params.map(&each),
            result: self.result.map(&each),
            error: self.error.map(&each),
            progress_token: self.progress_token.map(&each),
            request_id: self.request_id.map(&each),
            subscription_id: self.subscription_id.map(&each),
            protocol_version: self.protocol_version.map(&each),
        }
    }
}
