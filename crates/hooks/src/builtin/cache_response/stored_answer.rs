//! The encoding of an answer in a cache entry.

use bytes::Bytes;
use cachalot_cache::{DecodeError, Decoded};
use cachalot_model::OutputFormat;
use serde::{Deserialize, Serialize};

use super::unsuitable::Unsuitable;

/// Version of the layout. Entries of another version are not replayed.
const FORMAT: u32 = 1;

/// An answer and its origin.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredAnswer {
    format: u32,
    pub(super) text: String,
    /// The model that answered: `provider/model`.
    pub(super) model: String,
    /// The agent that answered.
    pub(super) agent: String,
    /// The stop reason.
    pub(super) finish: String,
}

impl StoredAnswer {
    pub(super) fn new(text: String, model: &str, agent: &str) -> Self {
        Self {
            format: FORMAT,
            text,
            model: model.to_owned(),
            agent: agent.to_owned(),
            finish: "stop".to_owned(),
        }
    }

    pub(super) fn encode(&self) -> Result<Bytes, Unsuitable> {
        Ok(serde_json::to_vec(self)?.into())
    }
}

impl Decoded for StoredAnswer {
    fn weight(&self) -> u64 {
        let Self {
            format: _,
            text,
            model,
            agent,
            finish,
        } = self;
        let texts = [text, model, agent, finish].map(String::capacity);
        (size_of::<Self>() + texts.iter().sum::<usize>()) as u64
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<StoredAnswer, DecodeError> {
    let kept: StoredAnswer =
        serde_json::from_slice(bytes).map_err(|error| DecodeError(error.to_string()))?;
    if kept.format == FORMAT {
        Ok(kept)
    } else {
        Err(DecodeError(format!(
            "its format is {}, this version reads {FORMAT}",
            kept.format
        )))
    }
}

/// Returns the reason why a text must not be stored or replayed: it is empty, it is a malformed tool call, or it
/// does not match the output schema.
pub(super) fn check(text: &str, form: Option<&OutputFormat>) -> Result<(), Unsuitable> {
    if text.trim().is_empty() {
        return Err(Unsuitable::Empty);
    }
    if text.contains("<tool_call") {
        return Err(Unsuitable::RawCall);
    }
    form.map_or(Ok(()), |form| matches_schema(text, form))
}

fn matches_schema(text: &str, form: &OutputFormat) -> Result<(), Unsuitable> {
    // Offline: a schema must not refer to other documents.
    let schema = jsonschema::options().offline().build(&form.schema);
    let schema = schema.map_err(|error| Unsuitable::Schema(Box::new(error)))?;
    let answer = serde_json::from_str(text).map_err(|_| Unsuitable::NotJson)?;
    match schema.iter_errors(&answer).next() {
        None => Ok(()),
        Some(wrong) => Err(Unsuitable::OtherForm {
            place: match wrong.instance_path().as_str() {
                "" => "the whole".to_owned(),
                path => path.to_owned(),
            },
            problem: wrong.masked().to_string(),
        }),
    }
}
