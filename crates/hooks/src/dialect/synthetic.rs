//! Parses synthetic answers.

use std::time::Duration;

use cachalot_core::{Cost, Spend};
use serde_json::Value;

use super::output_object::{OutputObject, metadata};
use crate::output::{Fault, Synthetic};

/// Parses `{content, provenance, metadata, saved}`, a text, or an answer in the format of the Gemini
/// API.
///
/// # Errors
/// The invalid part of the value.
pub(super) fn read(value: &Value) -> Result<Synthetic, Fault> {
    if let Some(text) = value.as_str() {
        return answering(text.to_owned(), OutputObject::new(None));
    }
    if !value.is_object() {
        return Err(Fault::new(
            "`synthetic_response` is neither text nor an object",
        ));
    }
    let said = OutputObject::new(Some(value));
    let content = match (
        said.get("content"),
        said.get("candidates"),
        said.get("text"),
    ) {
        (Some(content), _, _) => content.as_str().map(str::to_owned),
        (None, Some(candidates), _) => Some(candidate_text(candidates)),
        (None, None, text) => text.and_then(Value::as_str).map(str::to_owned),
    };
    let content =
        content.ok_or_else(|| Fault::new("`synthetic_response` has no text in `content`"))?;
    answering(content, said)
}

fn answering(content: String, said: OutputObject<'_>) -> Result<Synthetic, Fault> {
    if content.is_empty() {
        return Err(Fault::new("`synthetic_response` is empty"));
    }
    let provenance = match said.get("provenance") {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(Fault::new("`provenance` is no text")),
    };
    Ok(Synthetic {
        content,
        provenance,
        metadata: metadata(said.get("metadata"))?,
        saved: saved(said.get("saved"))?,
    })
}

/// The concatenated texts of the first candidate.
fn candidate_text(candidates: &Value) -> String {
    let parts = candidates[0]["content"]["parts"].as_array();
    let text = |part: &Value| {
        let text = part.as_str().or(part["text"].as_str());
        text.unwrap_or_default().to_owned()
    };
    parts.into_iter().flatten().map(text).collect()
}

/// Parses `{calls, seconds, input_tokens, output_tokens, cost}`, with the cost in dollars.
fn saved(value: Option<&Value>) -> Result<Spend, Fault> {
    let Some(value) = value else {
        return Ok(Spend::default());
    };
    if !value.is_object() {
        return Err(Fault::new("`saved` is no object"));
    }
    let said = OutputObject::new(Some(value));
    let number = |key: &str| match said.get(key) {
        None => Ok(None),
        Some(value) => match value.as_f64().filter(|number| *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(Fault::new(format!("`saved.{key}` is no number from 0 on"))),
        },
    };
    let whole = |key: &str| Ok::<u64, Fault>(number(key)?.unwrap_or_default() as u64);
    Ok(Spend {
        calls: whole("calls")?,
        time: Duration::try_from_secs_f64(number("seconds")?.unwrap_or_default())
            .unwrap_or(Duration::MAX),
        input_tokens: whole("input_tokens")?,
        output_tokens: whole("output_tokens")?,
        cost: Cost::from_picodollars((number("cost")?.unwrap_or_default() * 1e12) as u64),
    })
}
