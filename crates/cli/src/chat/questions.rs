//! Questions of agents to the user at the terminal (`user_prompt`).

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{
    AnswerField, AnswerKind, CancellationToken, UserAnswer, UserPrompter, UserQuestion,
    choice_label,
};
use parking_lot::Mutex;
use serde_json::Map;

use super::prompt::{AskedBy, Prompt};
use super::show::Show;
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};

/// The answer that refuses a question.
const DECLINE: &str = "/decline";

/// The answer that withdraws a question.
const CANCEL: &str = "/cancel";

/// Asks at the terminal, field by field.
pub(super) struct TerminalPrompter {
    pub(super) prompt: Prompt,
    pub(super) show: Arc<Show>,
    /// Cancellation of the current turn, used when the user answers a question with Ctrl-C.
    pub(super) cancel: Arc<Mutex<CancellationToken>>,
}

#[async_trait]
impl UserPrompter for TerminalPrompter {
    async fn ask(&self, question: &UserQuestion<'_>) -> UserAnswer {
        self.show.pause();
        let title = on_one_line(question.title.unwrap_or("Question"));
        let title = Style::of_stderr().strong(&title);
        self.prompt.tell(&format!("  {title}"));
        self.prompt.tell(&indented(question.message));
        let mut content = Map::new();
        for field in question.fields {
            self.tell_field(field, question.fields.len() == 1);
            loop {
                let asked = "  answer (/decline refuses): ";
                let Some(text) = self.prompt.ask(asked, AskedBy::Agent).await else {
                    // Ctrl-C, or the terminal is closed.
                    self.cancel.lock().cancel();
                    return UserAnswer::Cancel(None);
                };
                match text.trim() {
                    DECLINE => return UserAnswer::Decline,
                    CANCEL => return UserAnswer::Cancel(None),
                    text => match field.parse(text) {
                        Ok(value) => {
                            content.extend(value.map(|value| (field.name.clone(), value)));
                            break;
                        }
                        Err(why) => self.prompt.tell(&visible(&format!("  {why}"))),
                    },
                }
            }
        }
        UserAnswer::Accept(content)
    }
}

impl TerminalPrompter {
    /// Prints the name of a field, unless the question has no other, and the accepted answers.
    fn tell_field(&self, field: &AnswerField, is_only: bool) {
        let name = field.title.as_deref().unwrap_or(&field.name);
        let mut notes = Vec::new();
        if let AnswerKind::Choice(values) = &field.kind {
            for (at, value) in values.iter().enumerate() {
                let label = match field.choice_titles.get(at) {
                    Some(title) => format!("{title} ({})", choice_label(value)),
                    None => choice_label(value),
                };
                notes.push(format!("    {}. {}", at + 1, on_one_line(&label)));
            }
        }
        let mut hints: Vec<String> = field.kind.hint().into_iter().collect();
        match &field.default {
            Some(default) => hints.push(format!("empty for `{}`", choice_label(default))),
            None if !field.required => hints.push("may be left empty".to_owned()),
            None => {}
        }
        let hints = if hints.is_empty() {
            String::new()
        } else {
            format!(" ({})", hints.join("; "))
        };
        let description = match &field.description {
            Some(description) => format!(": {description}"),
            None => String::new(),
        };
        if !is_only || field.title.is_some() || !hints.is_empty() || field.description.is_some() {
            let line = on_one_line(&format!("{name}{hints}{description}"));
            self.prompt.tell(&format!("  {line}"));
        }
        for note in notes {
            self.prompt.tell(&note);
        }
    }
}

/// The text with two blanks before each line, safe for a terminal.
fn indented(text: &str) -> String {
    let text = visible(text.trim_end());
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
