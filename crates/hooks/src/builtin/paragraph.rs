//! What builtins add to the newest message: paragraphs that have a bound and are not said twice.

use std::sync::Arc;

use cachalot_model::{Block, Message};

use crate::input::Input;
use crate::output::Output;

/// The text of what was read, if it is UTF-8. What is beyond `most` bytes is left out, which the text
/// then says. To tell whether something is, one byte more than `most` has to have been read.
pub(super) fn capped(read: &[u8], most: usize) -> Option<String> {
    let is_cut = read.len() > most;
    let read = &read[..read.len().min(most)];
    let text = match std::str::from_utf8(read) {
        Ok(text) => text,
        // A character that the bound has cut in two.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&read[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return None,
    };
    Some(if is_cut {
        format!("{text}\n[cut off here: these are the first {most} bytes]")
    } else {
        text.to_owned()
    })
}

/// A text for one line: control characters, which could begin another one, are shown as `�`.
pub(crate) fn in_one_line(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

/// Adds a paragraph, unless the conversation says it already.
pub(super) fn add(paragraph: String, input: &Input) -> Output {
    Output {
        additional_context: is_news(&paragraph, &input.messages).then_some(paragraph),
        ..Output::default()
    }
}

/// Whether the conversation does not say this yet, or has said something else since. Paragraphs with
/// the same first line are about the same thing, and the last of them is the one that holds. Their
/// last line must tell that they end there.
pub(super) fn is_news(paragraph: &str, conversation: &[Arc<Message>]) -> bool {
    let heading = paragraph
        .find('\n')
        .map_or(paragraph, |end| &paragraph[..=end]);
    last_said(heading, conversation).is_none_or(|said| !said.starts_with(paragraph))
}

/// What the conversation said last under a heading, and all that stands behind that in the same text.
pub(crate) fn last_said<'a>(heading: &str, conversation: &'a [Arc<Message>]) -> Option<&'a str> {
    let texts = conversation
        .iter()
        .rev()
        .flat_map(|message| message.content.iter().rev());
    texts
        .filter_map(|block| match block {
            Block::Text { text, .. } => text.rfind(heading).map(|at| &text[at..]),
            _ => None,
        })
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_says_so() {
        assert_eq!(capped(b"abc", 3).as_deref(), Some("abc"));
        let cut = "[cut off here: these are the first 3 bytes]";
        assert_eq!(capped(b"abcd", 3), Some(format!("abc\n{cut}")));
        // The third byte is the first half of a letter.
        assert_eq!(capped("abéd".as_bytes(), 3), Some(format!("ab\n{cut}")));
        assert_eq!(capped(b"a\xffcd", 3), None);
        assert_eq!(capped(b"ab\xc3", 3), None);
    }

    #[test]
    fn the_last_that_was_said_of_a_thing_holds() {
        let said = |texts: &[&str]| -> Vec<Arc<Message>> {
            texts
                .iter()
                .map(|text| Arc::new(Message::user(*text)))
                .collect()
        };
        let (one, other) = ("<a>\n1\n</a>", "<a>\n2\n</a>");
        assert!(is_news(one, &said(&["hello"])));
        assert!(!is_news(
            one,
            &said(&["before <a>\n1\n</a> behind", "hello"])
        ));
        assert!(is_news(one, &said(&[one, other])));
        assert!(is_news("<a>\n12\n</a>", &said(&[one])));
        assert!(is_news(one, &said(&["<a>\n12\n</a>"])));
    }
}
