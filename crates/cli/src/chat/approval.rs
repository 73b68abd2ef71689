//! Approval of tool calls by the user.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::{
    Approval, ApprovalRequest, Approver, CancellationToken, CommandPlace, ConcernKind,
};
use cachalot_hooks::input::PermissionMode;
use parking_lot::Mutex;

use super::edit_diff::edit_diff;
use super::prompt::{PlainPrompt, Prompt};
use super::show::Show;
use super::words;
use crate::permissions;
use crate::render::style::Style;
use crate::render::visible::{on_one_line, visible};
use crate::terminal::{Choice, Console, Input, Question, Reply};

/// Approver for `--yes`: allows every call, except writes of protected files, calls that a deny rule may deny, and
/// commands outside of a sandbox that the user has not permitted.
pub(super) struct ApproveAll {
    /// True for `--sandbox=off`: commands may run outside of a sandbox.
    pub(super) permits_outside: bool,
}

#[async_trait]
impl Approver for ApproveAll {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        let is_unguarded = matches!(
            question.place,
            Some(CommandPlace::Outside | CommandPlace::LimitedSandbox)
        );
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
            (Some(concern), ..) if concern.kind == ConcernKind::LeavesSandbox => {
                Approval::No(Some(concern.remedy(&question.call.name)))
            }
            _ if is_unguarded && !self.permits_outside => {
                Approval::No(Some(
                    "`--yes` runs commands in a sandbox only, and this machine has none, or a limited one (`cachalot doctor` says why); `--sandbox=off` permits them without one, and a rule in permissions.allow those that it matches".to_owned(),
                ))
            }
            _ => Approval::Yes,
        }
    }

    fn mode(&self) -> PermissionMode {
        PermissionMode::BypassPermissions
    }
}

/// Describes the calls that an approval with "always" allows.
fn covered(rule: &str) -> String {
    let rule = on_one_line(rule);
    if rule.contains(':') {
        format!("calls of this agent that `{rule}` matches")
    } else {
        format!("every call of `{rule}` by this agent")
    }
}

/// Approver that asks the user at the terminal.
pub(super) struct TerminalApprover {
    /// File of the user's own permissions; `None` if there is no place for it.
    pub(super) saved: Option<PathBuf>,
    pub(super) prompt: Prompt,
    /// Working directory of the tools.
    pub(super) workspace: PathBuf,
    pub(super) show: Arc<Show>,
    /// Cancellation of the current turn, used when the user answers a question with Esc or Ctrl-C.
    pub(super) cancel: Arc<Mutex<CancellationToken>>,
}

impl TerminalApprover {
    /// Prints the call and the reason why it needs an approval.
    fn tell(&self, question: &ApprovalRequest<'_>) {
        let style = Style::of_stderr();
        let label = self.show.label(question.agent, question.call);
        self.prompt.tell(&format!("  {}", style.strong(&label)));
        let diff = edit_diff(question.call, question.arguments, &self.workspace, style);
        let is_edit = diff.is_some() && question.rule.is_none() && question.concern.is_none();
        let arguments = diff.unwrap_or_else(|| words::arguments(question.call, question.arguments));
        if !arguments.is_empty() {
            self.prompt.tell(arguments.trim_end());
        }
        match question.place {
            Some(CommandPlace::Sandbox) => self.prompt.tell("  in the sandbox"),
            Some(CommandPlace::LimitedSandbox) => self
                .prompt
                .tell("  in a limited sandbox, which does not guard protected and denied files"),
            Some(CommandPlace::Outside) => self.prompt.tell("  without a sandbox"),
            None => {}
        }
        if let Some(rule) = question.rule {
            let why = match question.doubt {
                None => format!("  asked because of the rule `{rule}`"),
                Some(doubt) => format!("  the rule `{rule}` may deny it: {doubt}"),
            };
            self.prompt.tell(&visible(&why));
        }
        if let Some(concern) = question.concern {
            self.prompt
                .tell(&visible(&format!("  asked because it {concern}")));
        }
        if let Some(why) = question.obstacle {
            let why = format!("  no pattern under permissions.allow matches it: {why}");
            self.prompt.tell(&visible(&why));
        }
        if let Some(pattern) = question.pattern {
            let scope = format!("  \"always\" covers {}", covered(pattern));
            self.prompt.tell(&style.dim(&scope));
        }
        if is_edit && matches!(self.prompt, Prompt::Live(_)) {
            let mode = "  Shift-Tab accepts later edits without a question";
            self.prompt.tell(&style.dim(mode));
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

    fn interrupt(&self) -> Approval {
        self.cancel.lock().cancel();
        Approval::No(None)
    }

    /// Asks for one key.
    async fn ask_key(&self, console: &Console, question: &ApprovalRequest<'_>) -> Approval {
        let choice = |key, label: &str, asks| Choice {
            key,
            label: label.to_owned(),
            asks,
        };
        let mut choices = vec![choice('y', "yes, once", None)];
        if question.pattern.is_some() {
            choices.push(choice('a', "always in this chat", None));
        }
        if self.is_saved(question) {
            choices.push(choice('s', "always in every chat", None));
        }
        choices.push(choice('n', "no", None));
        choices.push(choice('r', "no, with a reason", Some("reason: ")));
        let asked = Question {
            text: "allow it?".to_owned(),
            choices,
            is_expected: false,
            answered_by_message: None,
        };
        let (approval, told) = match console.ask(asked).await {
            Reply::Choice('y') => (Approval::Yes, "allowed once"),
            Reply::Choice('a') => (Approval::Always, "allowed until the chat ends"),
            Reply::Choice('s') => {
                self.save(question);
                (Approval::Always, "allowed in every chat")
            }
            Reply::Text(_, reason) if !reason.is_empty() => {
                (Approval::No(Some(reason)), "not allowed, with a reason")
            }
            Reply::Choice(_) | Reply::Text(..) => (Approval::No(None), "not allowed"),
            Reply::Interrupted => return self.interrupt(),
        };
        self.prompt
            .tell(&Style::of_stderr().dim(&format!("  {told}")));
        approval
    }

    /// Asks for a line.
    async fn ask_line(
        &self,
        prompt: &Arc<PlainPrompt>,
        question: &ApprovalRequest<'_>,
    ) -> Approval {
        if question.pattern.is_some() {
            let save = if self.is_saved(question) {
                "; [s]ave allows it in every chat"
            } else {
                ""
            };
            self.prompt
                .tell(&format!("  [a]lways allows it until the chat ends{save}"));
        }
        loop {
            let asked = match question.pattern {
                Some(_) => "  allow it? [y]es, [a]lways, [n]o, or type what to do instead: ",
                None => "  allow it? [y]es, [n]o, or type what to do instead: ",
            };
            let Input::Text { text, .. } = Arc::clone(prompt).answer(asked).await else {
                // The terminal is closed.
                return self.interrupt();
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

#[async_trait]
impl Approver for TerminalApprover {
    async fn approve(&self, question: &ApprovalRequest<'_>) -> Approval {
        self.show.pause();
        self.tell(question);
        match &self.prompt {
            Prompt::Live(console) => self.ask_key(console, question).await,
            Prompt::Plain(prompt) => self.ask_line(prompt, question).await,
        }
    }
}
