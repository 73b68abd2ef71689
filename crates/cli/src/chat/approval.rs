//! Asking the user whether a tool call may be made.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use cachalot_agent::{Approval, Approver, Cancel, Question};

use super::prompt::{Line, Prompt};
use super::show::{Show, told};
use crate::render;

/// Everything that nobody denied is allowed.
pub(crate) struct Everything;

#[async_trait]
impl Approver for Everything {
    async fn approve(&self, _: &Question<'_>) -> Approval {
        Approval::Yes
    }
}

/// The user at the terminal.
pub(crate) struct User {
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) show: Arc<Show>,
    /// The switch of the turn under way: thrown when the user answers a question with Ctrl-C.
    pub(crate) cancel: Arc<Mutex<Cancel>>,
}

#[async_trait]
impl Approver for User {
    async fn approve(&self, question: &Question<'_>) -> Approval {
        self.show.end_line();
        render::err(&format!("  {}", told(question.agent, question.call)));
        let long = serde_json::to_string_pretty(question.arguments).unwrap_or_default();
        if long.contains("\\n") || long.len() > 200 {
            render::err(&long);
        }
        loop {
            let asked = "  allow it? [y]es, [a]lways this tool, [n]o, or say what to do instead: ";
            let line = Arc::clone(&self.prompt).answer(asked).await;
            match line {
                Line::Text(text) => match text.trim() {
                    "y" | "yes" | "Y" => return Approval::Yes,
                    "a" | "always" | "A" => return Approval::Always,
                    "n" | "no" | "N" => return Approval::No(None),
                    "" => {}
                    instead => return Approval::No(Some(instead.to_owned())),
                },
                Line::Interrupted => {
                    self.cancel
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .cancel();
                    return Approval::No(None);
                }
                Line::End => return Approval::No(Some("nobody is there any more".to_owned())),
            }
        }
    }
}
