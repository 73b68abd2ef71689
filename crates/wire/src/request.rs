//! Whole requests without a stored conversation.

use std::borrow::Cow;

use bytes::Bytes;

use crate::error::Error;
use crate::{Message, Parameters, Pieces, ToolDefinition, Wire};

/// A whole request, for callers without a stored conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// Tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// System text.
    pub system: Option<String>,
    /// Messages.
    pub messages: Vec<Message>,
    /// Parameters.
    pub parameters: Parameters,
}

impl Request {
    /// Renders the body in a format.
    ///
    /// # Errors
    /// The format cannot represent a part of the request.
    pub fn body(&self, wire: &dyn Wire, stream: bool) -> Result<Bytes, Error> {
        let mut pieces = Pieces {
            tools: self.tools.iter().map(|tool| wire.tool(tool)).collect(),
            system: self.system.iter().map(|text| wire.system(text)).collect(),
            messages: Vec::with_capacity(self.messages.len()),
        };
        let mut messages = Cow::Borrowed(&self.messages);
        if wire.needs_notes() {
            wire.prepare(&[], messages.to_mut());
        }
        for message in &*messages {
            pieces.messages.extend(wire.message(message)?);
        }
        let after_tools = wire.after_tools(&self.parameters).unwrap_or_default();
        let tail = wire.tail(&self.parameters, stream);
        Ok(pieces.body_with(wire, &after_tools, &tail))
    }
}
