//! Whether a call may be made: the rules, what hooks decided, and the user.

use cachalot_hooks::{Decision as Heard, Event as When};

use cachalot_operation::{Decision, Operation};

use super::Turn;
use super::phases::Candidate;
use crate::delegate::is_delegation;
use crate::event::{Approval, Question};
use crate::shared::Always;

impl Turn<'_> {
    /// Lets a call be made, by the rules and what hooks decided. A rule that denies or asks beats a
    /// hook that allows; a hook that asks beats a rule that allows.
    ///
    /// # Errors
    /// Why the call must not be made.
    pub(super) async fn judge(&self, candidate: &mut Candidate) -> Result<(), String> {
        let Some(rule) = self.question(candidate)? else {
            return Ok(());
        };
        let heard = self.tell_of(When::PermissionRequest, candidate).await;
        let is_allowed = matches!(heard.decision, Some((Heard::Allow, _)));
        candidate.decide(&heard)?;
        if self.rewrite(candidate, &heard) {
            self.guard_anew(candidate).await?;
            // What it is now may be denied, or wrong.
            self.question(candidate)?;
        }
        match is_allowed || candidate.ready().is_none() {
            true => Ok(()),
            false => self.approve(candidate, rule).await,
        }
    }

    /// The rule for which the user has to be asked, if the user has to be.
    ///
    /// # Errors
    /// Why the call must not be made.
    fn question(&self, candidate: &Candidate) -> Result<Option<Option<String>>, String> {
        let Some(operation) = candidate.ready() else {
            return Ok(None);
        };
        let name = operation.tool;
        let workspace = &self.shared.house.tools.workspace;
        let permissions = &self.shared.team.permissions;
        let operation = Operation {
            read_only: operation.read_only || is_delegation(name),
            ..operation
        };
        let rule = match permissions.judge(&operation, workspace) {
            Decision::Deny(rule) => {
                return Err(format!(
                    "The call of `{name}` is denied by the rule `{rule}`. Do not try it again; find another way or tell the user."
                ));
            }
            _ if candidate.is(Heard::Ask) => return Ok(Some(self.rule_of(candidate))),
            Decision::Allow => return Ok(None),
            Decision::Ask(None) if candidate.is(Heard::Allow) => return Ok(None),
            Decision::Ask(rule) => rule,
        };
        let is_always = self.shared.is_always(&self.always(name, rule.clone()));
        Ok((!is_always).then_some(rule))
    }

    /// The rule that speaks of a call that a hook wants asked about.
    fn rule_of(&self, candidate: &Candidate) -> Option<String> {
        let operation = candidate.ready()?;
        let workspace = &self.shared.house.tools.workspace;
        let permissions = &self.shared.team.permissions;
        match permissions.judge(&operation, workspace) {
            Decision::Ask(rule) => rule,
            Decision::Allow | Decision::Deny(_) => None,
        }
    }

    fn always(&self, tool: &str, rule: Option<String>) -> Always {
        Always {
            agent: self.agent.name.clone(),
            tool: tool.to_owned(),
            rule,
        }
    }

    /// Asks the user.
    ///
    /// # Errors
    /// Why the call must not be made.
    async fn approve(&self, candidate: &Candidate, rule: Option<String>) -> Result<(), String> {
        let Some(operation) = candidate.ready() else {
            return Ok(());
        };
        let call = &candidate.prepared.call;
        let why = candidate.decision.as_ref();
        let question = Question {
            agent: &self.agent.name,
            call,
            arguments: operation.arguments,
            rule: rule.as_deref(),
            why: why
                .filter(|(is, _)| *is == Heard::Ask)
                .map(|(_, why)| why.as_str()),
            notes: &candidate.notes,
        };
        let herald = &self.desk.herald;
        let asked = format!("`{}` wants to call `{}`", self.agent.name, call.name);
        herald
            .notify("info", Some("permission_prompt"), &asked)
            .await;
        herald.tell(When::OnUserInput, |_| {}).await;
        match self.shared.house.approver.approve(&question).await {
            Approval::Yes => Ok(()),
            Approval::Always => {
                self.shared.allow_always(self.always(&call.name, rule));
                Ok(())
            }
            Approval::No(why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Err(format!(
                    "The user did not allow this call of `{}`{why}.",
                    call.name
                ))
            }
        }
    }
}
