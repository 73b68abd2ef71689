//! Whether a call may be made: the rules, what hooks decided, and the user.

use cachalot_hooks::{Decision as Heard, Event as When};

use cachalot_operation::{Decision, Operation};

use cachalot_tools::{Origin, Verdict};

use super::Turn;
use super::phases::Candidate;
use crate::delegate::is_delegation;
use crate::event::{Approval, Concern, ConcernKind, Question};
use crate::protected;
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
        let concern = self.concern(candidate);
        let kind = concern.as_ref().map(|concern| concern.kind);
        let is_harmless = operation.read_only && kind.is_none();
        let operation = Operation {
            read_only: is_harmless || is_delegation(name),
            ..operation
        };
        let rule = match permissions.judge(&operation, workspace) {
            Decision::Deny(rule) => {
                return Err(format!(
                    "The call of `{name}` is denied by the rule `{rule}`. Do not try it again; find another way or tell the user."
                ));
            }
            _ if candidate.is(Heard::Ask) => return Ok(Some(self.rule_of(candidate))),
            Decision::Ask(Some(rule)) => Some(rule),
            _ if kind == Some(ConcernKind::WritesProtected) => None,
            Decision::Allow => return Ok(None),
            Decision::Ask(None) if candidate.is(Heard::Allow) => return Ok(None),
            Decision::Ask(None) => None,
        };
        let always = self.always(name, rule.clone(), concern.as_ref());
        let is_always = self.shared.is_always(&always);
        Ok((!is_always).then_some(rule))
    }

    /// What the call could do for which it is asked about, unless a rule that the user wrote names it.
    fn concern(&self, candidate: &Candidate) -> Option<Concern> {
        let operation = candidate.ready()?;
        let house = &self.shared.house;
        let workspace = &house.tools.workspace;
        if let Some(named) = protected::named(&operation, workspace, &house.protected) {
            let permissions = &self.shared.team.permissions;
            // A rule for the tool that manages skills names what that writes.
            let names = [named.name.as_str(), "skill_manage"];
            let is_named = names
                .iter()
                .take(if operation.tool == "skill_manage" {
                    2
                } else {
                    1
                })
                .any(|name| permissions.allows_by_name(&operation, workspace, name));
            if !is_named {
                return Some(Concern {
                    kind: ConcernKind::WritesProtected,
                    text: format!(
                        "names `{}`, which decides what agents, hooks or git do",
                        named.path
                    ),
                });
            }
        }
        if !operation.touches.sends_data() || self.is_typed(candidate) {
            return None;
        }
        let mut hosts: Vec<String> = operation
            .touches
            .urls
            .iter()
            .filter_map(|url| Some(url::Url::parse(url).ok()?.host_str()?.to_owned()))
            .collect();
        hosts.sort();
        hosts.dedup();
        Some(Concern {
            kind: ConcernKind::SendsData,
            text: match (hosts.as_slice(), &candidate.prepared.verdict) {
                (
                    _,
                    Verdict::Ready {
                        origin: Origin::Mcp(server),
                        ..
                    },
                ) => {
                    format!("sends its arguments to the server `{server}`")
                }
                ([], _) => "sends its arguments to another machine".to_owned(),
                (hosts, _) => format!("can carry data to `{}`", hosts.join("`, `")),
            },
        })
    }

    /// Whether the call sends no more than addresses that the user typed. Tools of servers are sent all
    /// of their arguments.
    fn is_typed(&self, candidate: &Candidate) -> bool {
        let Verdict::Ready {
            origin: Origin::BuiltIn,
            touches,
            ..
        } = &candidate.prepared.verdict
        else {
            return false;
        };
        let mut urls = touches.urls.iter();
        !touches.urls.is_empty() && urls.all(|url| self.shared.typed.holds(url))
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

    /// The permission that an answer "always" gives: for the same rule, or else for the same concern.
    fn always(&self, tool: &str, rule: Option<String>, concern: Option<&Concern>) -> Always {
        Always {
            agent: self.agent.name.clone(),
            tool: tool.to_owned(),
            rule: rule.or_else(|| concern.map(ToString::to_string)),
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
        let concern = self.concern(candidate);
        let question = Question {
            agent: &self.agent.name,
            call,
            arguments: operation.arguments,
            rule: rule.as_deref(),
            why: why
                .filter(|(is, _)| *is == Heard::Ask)
                .map(|(_, why)| why.as_str()),
            concern: concern.as_ref(),
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
                let always = self.always(&call.name, rule, concern.as_ref());
                self.shared.allow_always(always);
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
