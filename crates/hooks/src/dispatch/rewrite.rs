//! Applies rewrites of handlers to the input of later handlers.

use std::sync::Arc;

use cachalot_model::Message;

use crate::input::Input;
use crate::output::Output;

/// Replaces or removes arguments by name; others stay.
pub(super) fn arguments(input: &mut Input, output: &Output) {
    if let Some(tool) = &mut input.tool {
        tool.rewrite(&output.removed_input, output.updated_input.as_ref());
    }
}

/// Replaces the text of the tool result; its error flag stays.
pub(super) fn response(input: &mut Input, text: &str) {
    if let Some(response) = &mut input.tool_response {
        text.clone_into(&mut response.text);
    }
}

/// True if `tail` differs from the unsent messages.
pub(super) fn differ(input: &Input, tail: &[Message]) -> bool {
    let unsent = &input.messages[sent(input)..];
    unsent.len() != tail.len() || unsent.iter().zip(tail).any(|(was, is)| **was != *is)
}

/// Replaces the unsent messages.
pub(super) fn messages(input: &mut Input, tail: &[Message]) {
    input.messages.truncate(sent(input));
    input.messages.extend(tail.iter().cloned().map(Arc::new));
    input.unsent = tail.len();
}

/// The number of sent messages.
fn sent(input: &Input) -> usize {
    input.messages.len().saturating_sub(input.unsent)
}
