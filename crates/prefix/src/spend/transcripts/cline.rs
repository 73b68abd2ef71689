//! Sessions of Cline's command line: `sessions/*/*.messages.json`, and a description of the session beside it.
//!
//! The input of an answer includes what was read from and written to the provider's cache, for a time that is not
//! recorded.

use std::sync::Arc;

use cachalot_model::Usage;
use serde::Deserialize;

use crate::spend::SpendReader;
use crate::spend::answer::{Client, PaidAnswer, inclusive_usage};
use crate::timestamp;

/// The members of both documents.
#[derive(Deserialize)]
struct Document {
    #[serde(rename = "sessionId")]
    session: Option<String>,
    messages: Option<Vec<Message>>,
    /// The session, in its description.
    session_id: Option<String>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: Option<String>,
    ts: Option<f64>,
    model_info: Option<ModelInfo>,
    metrics: Option<Metrics>,
}

#[derive(Deserialize)]
struct ModelInfo {
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metrics {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl Metrics {
    fn usage(&self) -> Usage {
        inclusive_usage(
            self.input_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            self.output_tokens,
        )
    }
}

/// Reads a document, and returns its session; `None` if it is malformed.
pub(super) fn document(text: &[u8], reader: &mut SpendReader) -> Option<Arc<str>> {
    let document: Document = serde_json::from_slice(text).ok()?;
    let Document {
        session,
        messages,
        session_id,
        cwd,
    } = document;
    if let (Some(session), Some(cwd)) = (&session_id, &cwd) {
        let (session, cwd) = (reader.name(session), reader.name(cwd));
        reader.cline_directories.insert(session, cwd);
    }
    let session = session.or(session_id);
    let session = reader.name(session.as_deref().unwrap_or_default());
    for (place, message) in messages.iter().flatten().enumerate() {
        let Some(metrics) = &message.metrics else {
            continue;
        };
        let usage = metrics.usage();
        if usage == Usage::default() {
            continue;
        }
        let model = message.model_info.as_ref();
        let model = model.and_then(|model| model.id.as_deref());
        let model = reader.name(model.unwrap_or_default());
        let at = message.ts.and_then(timestamp::from_number);
        let session = Arc::clone(&session);
        // Without an ID, its place in the session distinguishes an answer from others.
        let place = message.id.is_none().then(|| (session.clone(), place));
        let key = ("cline", &message.id, message.ts.map(f64::to_bits), place);
        reader.entry(key, || PaidAnswer {
            session,
            ..PaidAnswer::new(Client::Cline, model, at, usage)
        });
    }
    Some(session)
}
