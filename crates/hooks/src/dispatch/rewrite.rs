//! What handlers rewrite: those that come later are told of it.

use std::sync::Arc;

use cachalot_model::Message;

use crate::input::Input;
use crate::output::Output;

/// Arguments in place of those of the same name, or none; others stay.
pub(super) fn arguments(input: &mut Input, output: &Output) {
    if let Some(tool) = &mut input.tool {
        tool.rewrite(&output.removed_input, output.updated_input.as_ref());
    }
}

/// A result in place of the tool's. Whether the tool failed stays as it was.
pub(super) fn response(input: &mut Input, text: &str) {
    if let Some(response) = &mut input.tool_response {
        text.clone_into(&mut response.text);
    }
}

/// Whether these are not the messages that were not sent yet.
pub(super) fn differ(input: &Input, tail: &[Message]) -> bool {
    let unsent = &input.messages[sent(input)..];
    unsent.len() != tail.len() || unsent.iter().zip(tail).any(|(was, is)| **was != *is)
}

/// These take the place of the messages that were not sent yet.
pub(super) fn messages(input: &mut Input, tail: &[Message]) {
    input.messages.truncate(sent(input));
    input.messages.extend(tail.iter().cloned().map(Arc::new));
    input.unsent = tail.len();
}

/// How many messages were sent.
fn sent(input: &Input) -> usize {
    input.messages.len().saturating_sub(input.unsent)
}
