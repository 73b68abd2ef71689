//! Approval of a call: the rules decide if the user must be asked, and the user decides.

use cachalot_hooks::{Decision as HookDecision, Event as When};
use cachalot_operation::permissions::PermissionGrant;
use cachalot_operation::{AccessRequest, PermissionDecision, Permissions};
use cachalot_tools::{Origin, ReadyCall, ToolOutput};

use super::candidate::{self, HookDecisions, command_place};
use super::context::TurnContext;
use super::mode;
use crate::chat_state::ChatPermission;
use crate::definition::{DELEGATION_TOOL, HANDOFF_TOOL};
use crate::event::{Approval, ApprovalRequest, Concern, ConcernKind};
use crate::protected::{self, ProtectedWrite};

/// The reason why the user must be asked.
pub(super) struct Reason {
    /// The rule that requires an approval, or may deny the call.
    rule: Option<String>,
    /// The reason why it is unclear if the rule denies the call.
    doubt: Option<String>,
    /// The possible effect of the call that requires an approval unless a rule names it.
    concern: Option<Concern>,
}

impl Reason {
    fn new(rule: Option<String>, concern: Option<Concern>) -> Self {
        Self {
            rule,
            doubt: None,
            concern,
        }
    }

    /// The scope of an "always" approval: calls for which the same rule, or else the same concern, requires
    /// an approval.
    fn grant_scope(&self) -> Option<String> {
        let concern = self.concern.as_ref().map(ToString::to_string);
        self.rule.clone().or(concern)
    }
}

/// Returns the reason why the user must be asked; `None` if that is not necessary.
///
/// # Errors
/// The result of a call that must not be made.
pub(super) fn approval_reason(
    context: &TurnContext<'_>,
    ready: &ReadyCall,
    decided: &HookDecisions,
) -> Result<Option<Reason>, ToolOutput> {
    let operation = access_request(context, ready);
    let name = operation.tool;
    let mode = context.shared.dependencies.approver.mode();
    // Before the rules: plan mode also refuses a call that a rule allows.
    if let Some(why) = mode::refusal(mode, ready) {
        return Err(ToolOutput::error(why));
    }
    let workspace = &context.shared.dependencies.tools.workspace;
    let permissions = &context.shared.team.permissions;
    let concern = concern(context, ready);
    let kind = concern.as_ref().map(|concern| concern.kind);
    // A tool that reads may still carry data away in its arguments, so that it is not judged as read-only then.
    let is_harmless = operation.read_only && kind.is_none();
    let operation = AccessRequest {
        // A delegation or a handoff only gives a task: the calls of the other agent are approved one by one.
        read_only: is_harmless || [DELEGATION_TOOL, HANDOFF_TOOL].contains(&name),
        ..operation
    };
    let reason = match permissions.judge(&operation, workspace) {
        PermissionDecision::Deny(rule) => {
            return Err(ToolOutput::error(format!(
                "The call of `{name}` is denied by the rule `{rule}`. Do not try it again; find another way or tell the user."
            )));
        }
        PermissionDecision::Unclear { rule, why } => {
            // An earlier approval does not settle this doubt, so that grants are not looked up.
            return Ok(Some(Reason {
                rule: Some(rule),
                doubt: Some(why),
                concern,
            }));
        }
        // A hook that asks means this very call: earlier approvals do not count in these two arms.
        PermissionDecision::Ask(rule) if decided.is(HookDecision::Ask) => {
            return Ok(Some(Reason::new(rule, concern)));
        }
        PermissionDecision::Allow if decided.is(HookDecision::Ask) => {
            return Ok(Some(Reason::new(None, concern)));
        }
        PermissionDecision::Ask(Some(rule)) => Reason::new(Some(rule), concern),
        // Before the arms that allow: neither a general rule nor a hook nor a mode permits a change of protected files
        // without a question. Only a rule that names the file does; it leaves no concern.
        _ if kind == Some(ConcernKind::WritesProtected) => Reason::new(None, concern),
        PermissionDecision::Allow => return Ok(None),
        PermissionDecision::Ask(None) if decided.is(HookDecision::Allow) => return Ok(None),
        PermissionDecision::Ask(None) if concern.is_none() && mode::accepts(mode, ready) => {
            return Ok(None);
        }
        PermissionDecision::Ask(None) => Reason::new(None, concern),
    };
    let agent = &context.agent.name;
    let is_granted = context
        .shared
        .is_granted(agent, reason.grant_scope().as_deref(), &operation);
    Ok((!is_granted).then_some(reason))
}

/// Returns the operation that rules judge.
fn access_request<'a>(context: &TurnContext<'_>, ready: &'a ReadyCall) -> AccessRequest<'a> {
    let sandbox = &context.shared.dependencies.tools.sandbox;
    // A sandbox without rules for single files (Landlock) changes nothing for the judgment: a command in it can write
    // protected files.
    AccessRequest {
        sandboxed: sandbox
            .as_ref()
            .is_some_and(|sandbox| sandbox.guards_files()),
        ..candidate::access_request(ready)
    }
}

/// Returns the effect of the call on protected files, unless a rule written by the user names it.
pub(super) fn protected_concern(
    context: &TurnContext<'_>,
    operation: &AccessRequest<'_>,
) -> Option<Concern> {
    let dependencies = &context.shared.dependencies;
    let workspace = &dependencies.tools.workspace;
    if let Some(found) = protected::find_protected(operation, workspace, &dependencies.protected) {
        let permissions = &context.shared.team.permissions;
        let (is_named, text) = match found {
            ProtectedWrite::File { path, name } => {
                // A rule for the tool `skill_manage` covers the files that it writes.
                let names = [name.as_str(), "skill_manage"];
                let count = 1 + usize::from(operation.tool == "skill_manage");
                let is_named = names[..count]
                    .iter()
                    .any(|name| permissions.allows_by_name(operation, workspace, name));
                let text = format!("names `{path}`, which decides what agents, hooks or git do");
                (is_named, text)
            }
            ProtectedWrite::Unclear(why) => (
                permissions.spells_command(operation, workspace),
                format!("may write a file that decides what agents, hooks or git do: {why}"),
            ),
        };
        if !is_named {
            return Some(Concern {
                kind: ConcernKind::WritesProtected,
                text,
            });
        }
    }
    None
}

/// Returns the effect of the call that requires an approval, unless a rule written by the user names it.
fn concern(context: &TurnContext<'_>, ready: &ReadyCall) -> Option<Concern> {
    let operation = access_request(context, ready);
    // A call carries one concern. This one comes first, because a rule that allows the tool in general does not settle
    // it.
    if let Some(concern) = protected_concern(context, &operation) {
        return Some(concern);
    }
    if !operation.resource_access.sends_data() || sends_only_typed_urls(context, ready) {
        return None;
    }
    let mut hosts: Vec<String> = operation
        .resource_access
        .urls
        .iter()
        .filter_map(|url| Some(url::Url::parse(url).ok()?.host_str()?.to_owned()))
        .collect();
    hosts.sort();
    hosts.dedup();
    Some(Concern {
        kind: ConcernKind::SendsData,
        text: match (hosts.as_slice(), &ready.origin) {
            (_, Origin::Mcp(server)) => {
                format!("sends its arguments to the server `{server}`")
            }
            ([], _) => "sends its arguments to another machine".to_owned(),
            (hosts, _) => format!("can carry data to `{}`", hosts.join("`, `")),
        },
    })
}

/// True if the call sends only URLs that the user typed. Only `web_fetch` qualifies: a server of MCP receives
/// all arguments, and an `api` tool of a file sends headers of the file.
fn sends_only_typed_urls(context: &TurnContext<'_>, ready: &ReadyCall) -> bool {
    let urls = &ready.resource_access.urls;
    let is_typed = |url: &String| context.shared.typed_urls.contains(url);
    ready.origin == Origin::BuiltIn
        && ready.call.name == "web_fetch"
        && !urls.is_empty()
        && urls.iter().all(is_typed)
}

/// Puts a question to the approver, after hooks were notified.
pub(super) async fn put(context: &TurnContext<'_>, request: &ApprovalRequest<'_>) -> Approval {
    let hook_emitter = &context.hook_emitter;
    let notice = format!("`{}` wants to call `{}`", request.agent, request.call.name);
    hook_emitter
        .notify("info", Some("permission_prompt"), &notice)
        .await;
    hook_emitter.emit(When::OnUserInput, |_| {}).await;
    context.shared.dependencies.approver.approve(request).await
}

/// Requests the user's approval.
///
/// # Errors
/// The result of a call that must not be made.
pub(super) async fn approve(
    context: &TurnContext<'_>,
    ready: &ReadyCall,
    decided: &HookDecisions,
    reason: Reason,
) -> Result<(), ToolOutput> {
    let operation = access_request(context, ready);
    let call = &ready.call;
    let why = decided.decision.as_ref();
    let workspace = &context.shared.dependencies.tools.workspace;
    // Approvals for doubtful denials and for hooks that ask cannot be remembered.
    let calls = if reason.doubt.is_none() && !decided.is(HookDecision::Ask) {
        Permissions::derive_grant(&operation, workspace)
    } else {
        None
    };
    let permissions = &context.shared.team.permissions;
    let obstacle = if reason.rule.is_none() && reason.concern.is_none() {
        permissions.allow_obstacle(&operation, workspace)
    } else {
        None
    };
    let request = ApprovalRequest {
        agent: &context.agent.name,
        call,
        arguments: operation.arguments,
        rule: reason.rule.as_deref(),
        doubt: reason.doubt.as_deref(),
        pattern: calls.as_ref().map(PermissionGrant::rule),
        why: why
            .filter(|(is, _)| *is == HookDecision::Ask)
            .map(|(_, why)| why.as_str()),
        concern: reason.concern.as_ref(),
        place: command_place(ready, &context.shared.dependencies.tools),
        resource_access: operation.resource_access,
        obstacle: obstacle.as_deref(),
        notes: &decided.notes,
    };
    match put(context, &request).await {
        Approval::Yes => Ok(()),
        Approval::Always => {
            if let Some(calls) = calls {
                context.shared.grant(ChatPermission {
                    agent: context.agent.name.clone(),
                    rule: reason.grant_scope(),
                    calls,
                });
            }
            Ok(())
        }
        Approval::No(why) => {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            Err(ToolOutput::error(format!(
                "The user did not allow this call of `{}`{why}.",
                call.name
            )))
        }
    }
}
