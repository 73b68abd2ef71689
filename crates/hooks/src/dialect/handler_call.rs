//! The parts of a hook on which the input and the output of its handler depend.

use crate::Event;

/// A call of a handler, as far as a dialect needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct HandlerCall<'a> {
    /// The event.
    pub event: Event,
    /// The name of the event in the dialect: `PreToolUse`.
    pub event_name: &'a str,
    /// If true, an output that the event ignores is a failure.
    pub strict_output: bool,
    /// True if the runtime does not wait for the handler.
    pub in_background: bool,
}
