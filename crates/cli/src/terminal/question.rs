//! Question that is answered with one key.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;

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

    /// Returns the rows of the question.
    pub(super) fn rows(&self, may_answer: bool, style: Style) -> Vec<String> {
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
        let choices = self.question.choices.iter();
        let choices: Vec<String> = choices
            .map(|choice| format!("[{}] {}", choice.key, choice.label))
            .collect();
        let choices = choices.join("  ");
        if may_answer || self.pending.is_some() {
            vec![format!("  {text}  {choices}")]
        } else {
            vec![
                format!("  {text}  {}", style.dim(&choices)),
                style.dim("  Tab, then one of the keys, answers"),
            ]
        }
    }
}
