//! Approval of tool calls by the user.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{Approval, ApprovalRequest, Approver, CancellationToken, ConcernKind};
use cachalot_hooks::input::PermissionMode;
use parking_lot::Mutex;

use super::prompt::{InputLine, Prompt};
use super::show::Show;
use super::words;
use crate::permissions;
use crate::render::style::Style;
use crate::render::visible::visible;

/// Approver for `--yes`: allows every call, except writes of protected files and calls that a deny rule may
/// deny.
pub(super) struct ApproveAll;

#[async_trait]
impl Approver for ApproveAll {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        match (question.concern, question.doubt, question.rule) {
            (_, Some(doubt), Some(rule)) => Approval::No(Some(format!(
                "`--yes` does not let what the rule `{rule}` under permissions.deny may deny: {doubt}"
            ))),
            (Some(concern), ..) if concern.kind == ConcernKind::WritesProtected => {
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

/// Approver that asks the user at the terminal.
pub(super) struct TerminalApprover {
    /// File of the user's own permissions; `None` if there is no place for it.
    pub(super) saved: Option<PathBuf>,
    pub(super) prompt: Arc<Prompt>,
    pub(super) show: Arc<Show>,
    /// Cancellation of the current turn, used when the user answers a question with Ctrl-C.
    pub(super) cancel: Arc<Mutex<CancellationToken>>,
}

impl TerminalApprover {
    fn tell(&self, question: &ApprovalRequest<'_>) {
        let style = Style::of_stderr();
        let label = self.show.label(question.agent, question.call);
        self.prompt.tell(&format!("  {}", style.strong(&label)));
        let arguments = words::arguments(question.call, question.arguments);
        if !arguments.is_empty() {
            self.prompt.tell(arguments.trim_end());
        }
        if let Some(rule) = question.rule {
            let why = match question.doubt {
                None => format!("  asked because of the rule `{rule}`"),
                Some(doubt) => format!("  the rule `{rule}` may deny it: {doubt}"),
            };
            self.prompt.tell(&why);
        }
        if let Some(concern) = question.concern {
            self.prompt
                .tell(&visible(&format!("  asked because it {concern}")));
        }
        if let Some(pattern) = question.pattern {
            let save = match self.is_saved(question) {
                true => "; [s]ave allows it in every chat",
                false => "",
            };
            self.prompt.tell(&format!(
                "  [a]lways allows `{pattern}` until the chat ends{save}"
            ));
        }
    }

    /// Returns true if an approval can be saved. It cannot be saved for a call that a rule asks about: the
    /// rule would ask again in the next chat.
    fn is_saved(&self, question: &ApprovalRequest<'_>) -> bool {
        self.saved.is_some() && question.pattern.is_some() && question.rule.is_none()
    }

    /// Adds the pattern of a question to the user's own permissions.
    fn save(&self, question: &ApprovalRequest<'_>) {
        let (Some(file), Some(pattern)) = (&self.saved, question.pattern) else {
            return;
        };
        let told = match permissions::save(file, pattern) {
            Ok(()) => format!("  saved in {}", file.display()),
            Err(error) => format!("  not saved in {}: {error}", file.display()),
        };
        self.prompt.tell(&told);
    }

    fn interrupt(&self) {
        self.cancel.lock().cancel();
    }
}

#[async_trait]
impl Approver for TerminalApprover {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        self.show.pause();
        self.tell(question);
        loop {
            let asked = match question.pattern {
                Some(_) => "  allow it? [y]es, [a]lways, [n]o, or type what to do instead: ",
                None => "  allow it? [y]es, [n]o, or type what to do instead: ",
            };
            let line = Arc::clone(&self.prompt).answer(asked).await;
            let InputLine::Text(text) = line else {
                // Ctrl-C, or the terminal is closed.
                self.interrupt();
                return Approval::No(None);
            };
            match text.trim() {
                "" => {}
                "y" | "Y" | "yes" | "Yes" => return Approval::Yes,
                "a" | "A" | "always" | "Always" if question.pattern.is_some() => {
                    return Approval::Always;
                }
                "s" | "S" | "save" | "Save" if self.is_saved(question) => {
                    self.save(question);
                    return Approval::Always;
                }
                // Not possible for this question, so it is asked again. As a reason for the agent, these
                // words would mean nothing.
                "a" | "A" | "always" | "Always" | "s" | "S" | "save" | "Save" => {}
                "n" | "N" | "no" | "No" => return Approval::No(None),
                instead => return Approval::No(Some(instead.to_owned())),
            }
        }
    }
}
