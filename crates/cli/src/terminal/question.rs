//! Question that is answered with one key.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::cells;
use crate::render::style::Style;

/// The time without a key after which a key can answer a question.
pub(super) const QUIET: Duration = Duration::from_millis(700);
/// The time in which a further key turns an answer into text: the user has begun to type.
pub(super) const SECOND_THOUGHT: Duration = Duration::from_millis(300);

/// A question that is answered with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// The question, such as `allow it?`; empty if the only choice asks for a text.
    pub(crate) text: String,
    pub(crate) choices: Vec<Choice>,
    /// True if the user expects the question, so that the next keys are the answer.
    pub(crate) is_expected: bool,
    /// The answer that a message gives in place of a key; `None` if the question stays open.
    pub(crate) answered_by_message: Option<char>,
}

impl Question {
    /// Returns the keys that answer: `y, n or r`.
    pub(super) fn keys(&self) -> String {
        let keys: Vec<String> = self
            .choices
            .iter()
            .map(|choice| choice.key.into())
            .collect();
        match keys.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }

    /// Returns true if a typed text is meant as an answer: a key, or the first word of a choice.
    pub(super) fn is_answer(&self, text: &str) -> bool {
        let text = text.trim_end_matches(['.', '!']);
        let is_key =
            |choice: &Choice| text.eq_ignore_ascii_case(choice.key.encode_utf8(&mut [0; 4]));
        let is_word = |choice: &Choice| {
            let mut words = choice
                .label
                .split(|character: char| !character.is_alphanumeric());
            words
                .next()
                .is_some_and(|word| text.eq_ignore_ascii_case(word))
        };
        let mut choices = self.choices.iter();
        text.eq_ignore_ascii_case("ok") || choices.any(|choice| is_key(choice) || is_word(choice))
    }
}

/// A possible answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) key: char,
    pub(crate) label: String,
    /// Label of the input line for a text that belongs to the answer; `None` if there is no text.
    pub(crate) asks: Option<&'static str>,
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Choice(char),
    /// A choice with its text.
    Text(char, String),
    /// Esc, Ctrl-C or Ctrl-D.
    Interrupted,
}

/// Question that is open.
pub(super) struct OpenQuestion {
    pub(super) id: u64,
    pub(super) question: Question,
    pub(super) reply: oneshot::Sender<Reply>,
    shown: Instant,
    /// Set when Tab has led the keys to the question.
    pub(super) is_focused: bool,
    /// The choice whose text is being typed, and the input line from before.
    pub(super) asks: Option<(Choice, String)>,
    /// An answer that a further key still turns into text.
    pub(super) pending: Option<(Choice, Instant)>,
}

impl OpenQuestion {
    pub(super) fn new(
        id: u64,
        question: Question,
        reply: oneshot::Sender<Reply>,
        now: Instant,
    ) -> Self {
        Self {
            id,
            question,
            reply,
            shown: now,
            is_focused: false,
            asks: None,
            pending: None,
        }
    }

    /// Returns the only choice, if the question just asks for a text.
    pub(super) fn only_text(&self) -> Option<Choice> {
        match self.question.choices.as_slice() {
            [only] if self.question.text.is_empty() => Some(only.clone()),
            _ => None,
        }
    }

    /// Returns true if a key can be an answer. What is typed for the input line must never be one.
    pub(super) fn may_answer(
        &self,
        now: Instant,
        last_key: Option<Instant>,
        is_input_empty: bool,
    ) -> bool {
        if self.asks.is_some() {
            return false;
        }
        let since = last_key.map_or(self.shown, |key| key.max(self.shown));
        let is_quiet = now.duration_since(since) >= QUIET;
        self.is_focused || (is_input_empty && is_quiet)
    }

    /// Returns the rows of the question. Choices are not broken if they fit into a row of `room` cells.
    pub(super) fn rows(&self, may_answer: bool, room: usize, style: Style) -> Vec<String> {
        if let Some(Choice {
            asks: Some(label), ..
        }) = self.only_text()
        {
            return match self.asks {
                Some(_) => Vec::new(),
                None => vec![
                    style.strong(label.trim_end()),
                    style.dim("  Tab leads to the answer"),
                ],
            };
        }
        let text = style.strong(&self.question.text);
        if self.asks.is_some() {
            return vec![format!("  {text}")];
        }
        let is_open = may_answer || self.pending.is_some();
        let mut rows = vec![format!("  {text}")];
        for choice in &self.question.choices {
            let shown = format!("[{}] {}", choice.key, choice.label);
            let cells = cells::width(&shown);
            let shown = if is_open { shown } else { style.dim(&shown) };
            match rows.last_mut() {
                Some(row) if cells::width(row) + 2 + cells <= room => {
                    row.push_str("  ");
                    row.push_str(&shown);
                }
                _ => rows.push(format!("    {shown}")),
            }
        }
        if !is_open {
            rows.push(style.dim("  Tab, then one of the keys, answers"));
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_answers_are_recognized() {
        let choice = |key, label: &str| Choice {
            key,
            label: label.to_owned(),
            asks: None,
        };
        let question = Question {
            text: "allow it?".to_owned(),
            choices: vec![
                choice('y', "yes, once"),
                choice('a', "always"),
                choice('n', "no"),
            ],
            is_expected: false,
            answered_by_message: None,
        };
        assert_eq!(question.keys(), "y, a or n");
        for answer in ["yes", "Y", "YES!", "ok", "always", "no."] {
            assert!(question.is_answer(answer), "{answer}");
        }
        for message in [
            "yes, but look first",
            "nothing",
            "once",
            "",
            "yess",
            "okay then",
        ] {
            assert!(!question.is_answer(message), "{message}");
        }
    }
}
