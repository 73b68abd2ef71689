//! Permission of a call: by the rules, the hooks' decisions, and the user.

use cachalot_hooks::{Decision as Heard, Event as When};

use cachalot_operation::permissions::Remembered;
use cachalot_operation::{Decision, Operation, Permissions};
use cachalot_tools::{Origin, Verdict};

use super::Turn;
use super::phases::Candidate;
use crate::delegate::is_delegation;
use crate::event::{Approval, Concern, ConcernKind, Question};
use crate::protected;
use crate::shared::Always;

/// The reason why the user must be asked.
struct Reason {
    /// The rule that requires an approval, or may deny the call.
    rule: Option<String>,
    /// The reason why it is unclear if the rule denies the call.
    doubt: Option<String>,
    /// The possible effect of the call that requires an approval unless a rule names it.
    concern: Option<Concern>,
}

impl Reason {
    fn of(rule: Option<String>, concern: Option<Concern>) -> Self {
        Self {
            rule,
            doubt: None,
            concern,
        }
    }

    /// The scope of an "always" approval: calls for which the same rule, or else the same concern, requires
    /// an approval.
    fn asked_for(&self) -> Option<String> {
        let concern = self.concern.as_ref().map(ToString::to_string);
        self.rule.clone().or(concern)
    }
}

impl Turn<'_> {
    /// Permits a call by the rules and the hooks' decisions. A rule that denies or asks takes precedence over
    /// a hook that allows; a hook that asks takes precedence over a rule that allows.
    ///
    /// # Errors
    /// The reason why the call must not be made.
    pub(super) async fn judge(&self, candidate: &mut Candidate) -> Result<(), String> {
        let Some(asked) = self.question(candidate)? else {
            return Ok(());
        };
        let heard = self.tell_of(When::PermissionRequest, candidate).await;
        let is_allowed = matches!(heard.decision, Some((Heard::Allow, _)));
        candidate.decide(&heard)?;
        if self.rewrite(candidate, &heard) {
            self.guard_anew(candidate).await?;
            // The rewritten call may be denied or invalid.
            self.question(candidate)?;
        }
        match is_allowed || candidate.ready().is_none() {
            true => Ok(()),
            false => self.approve(candidate, asked).await,
        }
    }

    /// Returns the reason why the user must be asked; `None` if that is not necessary.
    ///
    /// # Errors
    /// The reason why the call must not be made.
    fn question(&self, candidate: &Candidate) -> Result<Option<Reason>, String> {
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
        let reason = match permissions.judge(&operation, workspace) {
            Decision::Deny(rule) => {
                return Err(format!(
                    "The call of `{name}` is denied by the rule `{rule}`. Do not try it again; find another way or tell the user."
                ));
            }
            Decision::Unclear { rule, why } => {
                return Ok(Some(Reason {
                    rule: Some(rule),
                    doubt: Some(why),
                    concern,
                }));
            }
            Decision::Ask(rule) if candidate.is(Heard::Ask) => {
                return Ok(Some(Reason::of(rule, concern)));
            }
            Decision::Allow if candidate.is(Heard::Ask) => {
                return Ok(Some(Reason::of(None, concern)));
            }
            Decision::Ask(Some(rule)) => Reason::of(Some(rule), concern),
            _ if kind == Some(ConcernKind::WritesProtected) => Reason::of(None, concern),
            Decision::Allow => return Ok(None),
            Decision::Ask(None) if candidate.is(Heard::Allow) => return Ok(None),
            Decision::Ask(None) => Reason::of(None, concern),
        };
        let agent = &self.agent.name;
        let is_always = self
            .shared
            .is_always(agent, reason.asked_for().as_deref(), &operation);
        Ok((!is_always).then_some(reason))
    }

    /// Returns the effect of the call that requires an approval, unless a rule written by the user names it.
    fn concern(&self, candidate: &Candidate) -> Option<Concern> {
        let operation = candidate.ready()?;
        let house = &self.shared.house;
        let workspace = &house.tools.workspace;
        if let Some(named) = protected::named(&operation, workspace, &house.protected) {
            let permissions = &self.shared.team.permissions;
            // A rule for the tool `skill_manage` covers the files that it writes.
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

    /// True if the call sends only URLs that the user typed. Calls of MCP tools never qualify, because the
    /// server receives all arguments.
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

    /// Requests the user's approval.
    ///
    /// # Errors
    /// The reason why the call must not be made.
    async fn approve(&self, candidate: &Candidate, asked: Reason) -> Result<(), String> {
        let Some(operation) = candidate.ready() else {
            return Ok(());
        };
        let call = &candidate.prepared.call;
        let why = candidate.decision.as_ref();
        let workspace = &self.shared.house.tools.workspace;
        // Approvals for doubtful denials and for hooks that ask cannot be remembered.
        let calls = match asked.doubt.is_none() && !candidate.is(Heard::Ask) {
            true => Permissions::remember(&operation, workspace),
            false => None,
        };
        let question = Question {
            agent: &self.agent.name,
            call,
            arguments: operation.arguments,
            rule: asked.rule.as_deref(),
            doubt: asked.doubt.as_deref(),
            pattern: calls.as_ref().map(Remembered::rule),
            why: why
                .filter(|(is, _)| *is == Heard::Ask)
                .map(|(_, why)| why.as_str()),
            concern: asked.concern.as_ref(),
            notes: &candidate.notes,
        };
        let herald = &self.desk.herald;
        let notice = format!("`{}` wants to call `{}`", self.agent.name, call.name);
        herald
            .notify("info", Some("permission_prompt"), &notice)
            .await;
        herald.tell(When::OnUserInput, |_| {}).await;
        match self.shared.house.approver.approve(&question).await {
            Approval::Yes => Ok(()),
            Approval::Always => {
                if let Some(calls) = calls {
                    self.shared.allow_always(Always {
                        agent: self.agent.name.clone(),
                        rule: asked.asked_for(),
                        calls,
                    });
                }
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
