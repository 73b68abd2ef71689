//! The checksum that Claude Code puts into the first text of the system prompt: Anthropic takes it out of what the
//! model reads, and of cached prefixes.

use serde_json::Value;

use crate::pieces::PieceBody;

/// Beginning of the text in the system prompt.
const BILLING: &str = "x-anthropic-billing-header:";
/// The field of that text with the checksum.
const CHECKSUM: &str = " cch=";
/// Maximum length of the checksum, in hexadecimal digits.
const MAX_CHECKSUM: usize = 16;

/// Returns true if a body may have the checksum.
pub(crate) fn may_have(body: &PieceBody) -> bool {
    let contains = |text: &str| body.contains("system", text.as_bytes());
    contains(BILLING) && contains(CHECKSUM)
}

/// Returns a body without the checksum in its system text; `None` if it has none.
pub(crate) fn without_checksum(body: &[u8]) -> Option<Vec<u8>> {
    memchr::memmem::find(body, BILLING.as_bytes())?;
    let mut body: Value = serde_json::from_slice(body).ok()?;
    let system = body.get_mut("system")?;
    let mut is_found = false;
    let texts: Vec<&mut Value> = match system {
        Value::Array(blocks) => blocks
            .iter_mut()
            .filter_map(|block| block.get_mut("text"))
            .collect(),
        system => vec![system],
    };
    for text in texts {
        if let Some(emptied) = text.as_str().and_then(emptied) {
            *text = Value::from(emptied);
            is_found = true;
        }
    }
    is_found.then(|| body.to_string().into_bytes())
}

/// Returns the texts of a system prompt that have a checksum, and what they are without it.
pub(crate) fn in_system(body: &Value) -> impl Iterator<Item = (&Value, String)> {
    let system = body.get("system").into_iter();
    let texts = system.flat_map(|system| match system {
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block.get("text"))
            .collect(),
        system => vec![system],
    });
    texts.filter_map(|text| Some((text, emptied(text.as_str()?)?)))
}

/// Returns a text that begins with the marker without its checksum. Everything else of it may instruct the model.
fn emptied(text: &str) -> Option<String> {
    if !text.starts_with(BILLING) {
        return None;
    }
    let line = text.split('\n').next().unwrap_or_default();
    let start = line.find(CHECKSUM).map(|at| at + CHECKSUM.len())?;
    let value = line[start..].split(';').next().unwrap_or_default();
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_checksum = (1..=MAX_CHECKSUM).contains(&value.len()) && value.bytes().all(is_digit);
    is_checksum.then(|| [&text[..start], &text[start + value.len()..]].concat())
}
