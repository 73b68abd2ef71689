//! Whether a call may be made.

use cachalot_tools::{Output, Prepared, Verdict};

use super::Turn;
use crate::delegate::is_delegation;
use crate::event::{Approval, Question};
use crate::permissions::Decision;
use crate::shared::Always;

impl Turn<'_> {
    /// Lets a call be made, or makes a result of why not.
    pub(super) async fn permit(&self, prepared: Prepared) -> Prepared {
        match self.refusal(&prepared).await {
            None => prepared,
            Some(why) => Prepared {
                verdict: Verdict::Refused(Output::error(why)),
                ..prepared
            },
        }
    }

    async fn refusal(&self, prepared: &Prepared) -> Option<String> {
        let Verdict::Ready {
            arguments,
            read_only,
            ..
        } = &prepared.verdict
        else {
            return None;
        };
        let (call, house) = (&prepared.call, &self.shared.house);
        let is_harmless = *read_only || is_delegation(&call.name);
        let permissions = &self.shared.team.permissions;
        let rule = match permissions.judge(
            &call.name,
            is_harmless,
            arguments,
            &house.tools.workspace,
        ) {
            Decision::Allow => return None,
            Decision::Deny(rule) => {
                return Some(format!(
                    "The call of `{}` is denied by the rule `{rule}`. Do not try it again; find another way or tell the user.",
                    call.name
                ));
            }
            Decision::Ask(rule) => rule,
        };
        let always = Always {
            agent: self.agent.name.clone(),
            tool: call.name.clone(),
            rule,
        };
        if self.shared.is_always(&always) {
            return None;
        }
        let question = Question {
            agent: &self.agent.name,
            call,
            arguments,
            rule: always.rule.as_deref(),
        };
        match house.approver.approve(&question).await {
            Approval::Yes => None,
            Approval::Always => {
                self.shared.allow_always(always);
                None
            }
            Approval::No(why) => {
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                Some(format!(
                    "The user did not allow this call of `{}`{why}.",
                    call.name
                ))
            }
        }
    }
}
