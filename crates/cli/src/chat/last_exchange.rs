//! End of a conversation that is resumed.

use cachalot_model::{Block, Message, Role};

use super::attachments::attachment;
use super::mode::without_announcement;
use crate::render::long_text::{self, first_lines};

/// The last message of the user, and the answer to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LastExchange {
    pub(super) question: Option<String>,
    pub(super) answer: Option<String>,
}

impl LastExchange {
    /// Finds the last exchange. Long messages are shortened.
    pub(super) fn find<'a>(messages: impl DoubleEndedIterator<Item = &'a Message>) -> Self {
        let mut found = Self::default();
        for message in messages.rev() {
            match (message.role, text(message)) {
                (Role::User, Some(text)) => {
                    found.question = Some(excerpt(without_announcement(&text)));
                    return found;
                }
                (Role::Assistant, Some(text)) if found.answer.is_none() => {
                    found.answer = Some(excerpt(&text));
                }
                _ => {}
            }
        }
        found
    }
}

fn text(message: &Message) -> Option<String> {
    let texts = message.content.iter().filter_map(Block::as_text);
    let texts: Vec<&str> = texts.filter(|text| attachment(text).is_none()).collect();
    Some(texts.join("\n").trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the first lines of a text.
fn excerpt(text: &str) -> String {
    first_lines(
        text.lines().map(str::to_owned),
        long_text::EARLIER_MESSAGE,
        "",
    )
    .join("\n")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn last_question_and_the_text_of_its_answer_are_found() {
        let said = |role, text: &str| Message::new(role, vec![Block::text(text)]);
        let messages = [
            said(Role::User, "one"),
            said(Role::Assistant, "first"),
            said(Role::User, "two"),
            said(Role::Assistant, "I look."),
            Message::new(Role::User, Vec::new()),
            said(Role::Assistant, &"line\n".repeat(25)),
        ];
        let found = LastExchange::find(messages.iter());
        assert_eq!(found.question.as_deref(), Some("two"));
        let answer = found.answer.unwrap();
        assert!(answer.ends_with("line\n… 5 more lines"), "{answer}");
        let unanswered = LastExchange::find(messages[..3].iter());
        assert_eq!(unanswered.answer, None);
        assert_eq!(LastExchange::find([].iter()), LastExchange::default());
    }
}
