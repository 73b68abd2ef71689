//! Gemini's `generateContent`: <https://ai.google.dev/api/generate-content>.
//!
//! The path, not the body, contains the model. Function declarations have their schemas as JSON Schema
//! (`parametersJsonSchema`). A thought signature belongs to the part with which it arrived: such a part is
//! never merged with another one and is sent back unchanged
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>).

mod answer;
mod request;
mod stream;
mod tail;

use bytes::Bytes;

use super::{Rendered, Wire};
use crate::error::Error;
use crate::{Format, Message, Parameters};

pub(super) use answer::{reply, usage};
pub(super) use request::tool;
pub(super) use stream::GeminiStreamReader;

/// Gemini's `generateContent`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gemini {
    /// True if the model rejects a function call of the current turn without a thought signature. Calls of
    /// other models then get the placeholder signature.
    wants_signatures: bool,
}

/// Returns the implementation for a model: Gemini 3 and later check the thought signatures of function
/// calls.
pub(crate) fn for_model(model: &str) -> &'static Gemini {
    let name = model.rsplit('/').next().unwrap_or(model);
    let earlier = ["gemini-1", "gemini-2"];
    match name.starts_with("gemini-") && !earlier.iter().any(|family| name.starts_with(family)) {
        true => &Gemini {
            wants_signatures: true,
        },
        false => &Gemini {
            wants_signatures: false,
        },
    }
}

impl Wire for Gemini {
    fn format(&self) -> Format {
        Format::Gemini
    }

    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    /// Returns at most one piece; none if the message has no content that can be sent.
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        let piece = request::message(message, self.wants_signatures)?;
        Ok(piece.into_iter().collect())
    }

    /// Equal for streams and whole answers: the path makes the choice.
    fn tail(&self, parameters: &Parameters, _stream: bool) -> Bytes {
        tail::tail(parameters)
    }
}
