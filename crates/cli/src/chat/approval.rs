//! Asking the user whether a tool call may be made.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use cachalot_agent::{Approval, Approver, Cancel, ConcernKind, Question};
use cachalot_hooks::input::PermissionMode;

use super::prompt::{Line, Prompt};
use super::show::Show;
use super::words;
use crate::render::style::Style;
use crate::render::visible::visible;

/// Everything that nobody denied is allowed, but for writes of protected files.
pub(super) struct Everything;

#[async_trait]
impl Approver for Everything {
    async fn approve(&self, question: &Question<'_>) -> Approval {
        match question.concern {
            Some(concern) if concern.kind == ConcernKind::WritesProtected => {
                let remedy = concern.remedy(&question.call.name);
                Approval::No(Some(format!(
                    "it {concern}, and `--yes` does not allow that; {remedy}"
                )))
            }
            _ => Approval::Yes,
        }
    }

    fn mode(&self) -> PermissionMode {
        PermissionMode::BypassPermissions
    }
}

/// The user at the terminal.
pub(super) struct User {
    pub(super) prompt: Arc<Prompt>,
    pub(super) show: Arc<Show>,
    /// The switch of the turn under way: thrown when the user answers a question with Ctrl-C.
    pub(super) cancel: Arc<Mutex<Cancel>>,
}

impl User {
    fn tell(&self, question: &Question<'_>) {
        let style = Style::of_stderr();
        let label = self.show.label(question.agent, question.call);
        self.prompt.tell(&format!("  {}", style.strong(&label)));
        let arguments = words::arguments(question.call, question.arguments);
        if !arguments.is_empty() {
            self.prompt.tell(arguments.trim_end());
        }
        if let Some(rule) = question.rule {
            let why = format!("  asked because of the rule `{rule}`");
            self.prompt.tell(&why);
        }
        if let Some(concern) = question.concern {
            self.prompt
                .tell(&visible(&format!("  asked because it {concern}")));
        }
    }

    fn interrupt(&self) {
        self.cancel
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .cancel();
    }
}

#[async_trait]
impl Approver for User {
    async fn approve(&self, question: &Question<'_>) -> Approval {
        self.show.pause();
        self.tell(question);
        loop {
            let asked = "  allow it? [y]es, [a]lways, [n]o, or say what to do instead: ";
            let line = Arc::clone(&self.prompt).answer(asked).await;
            let Line::Text(text) = line else {
                // Ctrl-C, or the terminal is gone.
                self.interrupt();
                return Approval::No(None);
            };
            match text.trim() {
                "" => {}
                "y" | "Y" | "yes" | "Yes" => return Approval::Yes,
                "a" | "A" | "always" | "Always" => return Approval::Always,
                "n" | "N" | "no" | "No" => return Approval::No(None),
                instead => return Approval::No(Some(instead.to_owned())),
            }
        }
    }
}
