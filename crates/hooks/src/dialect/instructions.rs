//! `instruction_context`: named instructions that a handler keeps up to date.
//!
//! Sent messages are never changed. An instruction is not repeated while it is unchanged; changes and
//! removals are appended as new paragraphs.

use std::sync::Arc;

use cachalot_model::Message;
use serde_json::Value;

use super::output_object::{OutputObject, text};
use crate::output::Fault;
use crate::paragraph::{last_paragraph, single_line};

/// The paragraph for an instruction that was removed without a text.
const REMOVED: &str = "This does not hold any more.";

/// Returns the new paragraphs, in order.
///
/// # Errors
/// The invalid part of the value.
pub(super) fn read(said: &Value, conversation: &[Arc<Message>]) -> Result<Vec<String>, Fault> {
    let items = said
        .as_array()
        .ok_or_else(|| Fault::new("`instruction_context` is no list"))?;
    let paragraphs = items.iter().map(|item| paragraph(item, conversation));
    paragraphs.filter_map(Result::transpose).collect()
}

/// Returns the new paragraph of an instruction, if there is one.
fn paragraph(item: &Value, conversation: &[Arc<Message>]) -> Result<Option<String>, Fault> {
    if !item.is_object() {
        return Err(Fault::new("an item of `instruction_context` is no object"));
    }
    let item = OutputObject::new(Some(item));
    let words = |key| {
        let words = text(item, key)?.unwrap_or_default();
        Ok::<_, Fault>(words.trim_end().to_owned())
    };
    let names = [words("label")?, words("path")?, words("key")?];
    let name = names.into_iter().find(|name| !name.is_empty());
    let heading = heading(&name.unwrap_or_default());
    let before = last_paragraph(&heading, conversation);
    let is_said =
        |words: &str| before.is_some_and(|said| said.starts_with(&under(&heading, words)));
    let (content, changed) = (words("content")?, words("changed_content")?);
    let removed = words("removed_content")?;
    // The current content is unknown: the earlier paragraph stays valid.
    if is(item, "unavailable")? {
        return Ok(None);
    }
    let news = match (is(item, "removed")?, before) {
        (true, None) => removed,
        (true, Some(_)) if removed.is_empty() => REMOVED.to_owned(),
        (true, Some(_)) => removed,
        (false, Some(_)) if is_said(&content) => String::new(),
        (false, Some(_)) if !changed.is_empty() => changed,
        (false, _) => content,
    };
    let is_news = !news.is_empty() && !is_said(&news);
    Ok(is_news.then(|| under(&heading, &news)))
}

/// The first line of an instruction's paragraph, which identifies it in the conversation.
fn heading(name: &str) -> String {
    match name {
        "" => "<instructions>\n".to_owned(),
        name => format!(
            "<instructions of=\"{}\">\n",
            single_line(name).replace('"', "'")
        ),
    }
}

/// The complete paragraph.
fn under(heading: &str, words: &str) -> String {
    format!("{heading}{words}\n</instructions>")
}

fn is(item: OutputObject<'_>, key: &str) -> Result<bool, Fault> {
    match item.get(key) {
        None => Ok(false),
        Some(Value::Bool(is)) => Ok(*is),
        Some(_) => Err(Fault::new(format!("`{key}` is neither `true` nor `false`"))),
    }
}
