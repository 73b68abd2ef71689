//! Paragraphs that hooks add to the newest message: bounded in size and without repetition.

use std::sync::Arc;

use cachalot_model::{Block, Message};

use crate::input::Input;
use crate::output::Output;

/// Returns at most `maximum` bytes of `read` as text, or `None` if it is not UTF-8. A notice is appended if
/// something was cut off. To detect that, the caller has to read one byte more than `maximum`.
pub(crate) fn truncate(read: &[u8], maximum: usize) -> Option<String> {
    let is_cut = read.len() > maximum;
    let read = &read[..read.len().min(maximum)];
    let text = match std::str::from_utf8(read) {
        Ok(text) => text,
        // The limit splits a character.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&read[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return None,
    };
    Some(if is_cut {
        format!("{text}\n[cut off here: these are the first {maximum} bytes]")
    } else {
        text.to_owned()
    })
}

/// Replaces control characters, which could start a new line, by `�`.
pub(crate) fn single_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Adds a paragraph, unless it is the latest version in the conversation.
pub(crate) fn add(paragraph: String, input: &Input) -> Output {
    Output {
        additional_context: is_new(&paragraph, &input.messages).then_some(paragraph),
        ..Output::default()
    }
}

/// True unless the latest paragraph with the same first line in the conversation has the same text.
/// Paragraphs with the same first line describe the same subject, and the last one is current. The last
/// line of a paragraph must mark its end.
pub(crate) fn is_new(paragraph: &str, conversation: &[Arc<Message>]) -> bool {
    let heading = paragraph
        .find('\n')
        .map_or(paragraph, |end| &paragraph[..=end]);
    last_paragraph(heading, conversation).is_none_or(|said| !said.starts_with(paragraph))
}

/// Returns the last occurrence of a heading in the conversation, up to the end of its text block.
pub(crate) fn last_paragraph<'a>(
    heading: &str,
    conversation: &'a [Arc<Message>],
) -> Option<&'a str> {
    let texts = conversation
        .iter()
        .rev()
        .flat_map(|message| message.content.iter().rev());
    texts
        .filter_map(Block::as_text)
        .find_map(|text| text.rfind(heading).map(|at| &text[at..]))
}

#[cfg(test)]
#[path = "../tests/unit/paragraph.rs"]
mod tests;
