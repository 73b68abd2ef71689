//! A tool call on its way through hooks, rules and the user's approval.

use std::collections::BTreeMap;

use cachalot_hooks::input::ToolUse;
use cachalot_hooks::{Decision, Verdict};
use cachalot_operation::{AccessRequest, ResourceAccess};
use cachalot_tools::{
    Origin, PreparedCall, ReadyCall, RefusedCall, ToolCall, ToolContext, ToolOutput, sanitize_name,
};
use serde_json::{Map, Value};

use crate::event::CommandPlace;
use crate::hook_emitter::HookContext;

/// A call that has been judged.
pub(super) struct Candidate {
    pub(super) prepared: PreparedCall,
    pub(super) decided: HookDecisions,
}

impl Candidate {
    /// Creates a candidate that no hook has judged.
    pub(super) fn refused(refused: RefusedCall) -> Self {
        Self {
            prepared: PreparedCall::Refused(refused),
            decided: HookDecisions::default(),
        }
    }
}

/// What hooks have decided about a call so far.
#[derive(Default)]
pub(super) struct HookDecisions {
    /// Paragraphs that hooks add to the result for the model.
    pub(super) added: HookContext,
    /// The strongest decision of hooks so far, with its reason.
    pub(super) decision: Option<(Decision, String)>,
    /// Names and values that hooks supply to the approver.
    pub(super) notes: BTreeMap<String, String>,
    /// The reason of a hook that ends the turn after the call.
    pub(super) ends_turn: Option<String>,
}

impl HookDecisions {
    /// Records the decisions of hooks about a call of `tool`.
    ///
    /// # Errors
    /// The result of a call that must not be made.
    pub(super) fn record(&mut self, tool: &str, verdict: &Verdict) -> Result<(), ToolOutput> {
        // Before a denial returns: the same verdict may deny the call and end the turn.
        if let Some(why) = &verdict.ends_turn {
            self.ends_turn.get_or_insert_with(|| why.clone());
        }
        if let Some(why) = verdict.denial() {
            return Err(ToolOutput::error(format!(
                "The call of `{tool}` is denied by a hook: {why}\nDo not try it again; find another way or tell the user."
            )));
        }
        let strength = |decision: &Option<(Decision, String)>| decision.as_ref().map(|(is, _)| *is);
        if strength(&verdict.decision) > strength(&self.decision) {
            self.decision.clone_from(&verdict.decision);
        }
        self.notes.extend(verdict.metadata.clone());
        Ok(())
    }

    /// True if this is the hooks' decision.
    pub(super) fn is(&self, decision: Decision) -> bool {
        self.decision
            .as_ref()
            .is_some_and(|(is, _)| *is == decision)
    }
}

/// A call in the form used in hook events.
pub(super) fn hook_tool_use(ready: &ReadyCall) -> ToolUse {
    let name = &ready.call.name;
    ToolUse {
        name: name.clone(),
        id: ready.call.id.clone(),
        category: category(&ready.origin).to_owned(),
        mcp: mcp_tool(&ready.origin, name),
        read_only: ready.read_only,
        input: ready.arguments.clone(),
        resource_access: ready.resource_access.clone(),
    }
}

/// A call in the form used in hook events. `None` if the call is invalid and its arguments cannot be parsed.
pub(super) fn hook_tool_use_of(prepared: &PreparedCall) -> Option<ToolUse> {
    match prepared {
        PreparedCall::Ready(ready) => Some(hook_tool_use(ready)),
        PreparedCall::Refused(RefusedCall { call, .. }) => invalid_tool_use(call),
    }
}

fn invalid_tool_use(call: &ToolCall) -> Option<ToolUse> {
    let input: Map<String, Value> = serde_json::from_str(&call.arguments).ok()?;
    Some(ToolUse {
        name: call.name.clone(),
        id: call.id.clone(),
        category: category(&Origin::BuiltIn).to_owned(),
        mcp: None,
        read_only: false,
        input,
        resource_access: ResourceAccess::default(),
    })
}

/// The operation that rules judge. Not known here is whether it runs in a sandbox.
pub(crate) fn access_request(ready: &ReadyCall) -> AccessRequest<'_> {
    AccessRequest {
        tool: &ready.call.name,
        read_only: ready.read_only,
        arguments: &ready.arguments,
        resource_access: &ready.resource_access,
        sandboxed: false,
    }
}

/// Returns the place where the commands of a call run.
pub(super) fn command_place(ready: &ReadyCall, context: &ToolContext) -> Option<CommandPlace> {
    if ready.origin != Origin::BuiltIn || ready.resource_access.commands.is_empty() {
        return None;
    }
    Some(match &context.sandbox {
        Some(sandbox) if sandbox.guards_files() => CommandPlace::Sandbox,
        Some(_) => CommandPlace::LimitedSandbox,
        None => CommandPlace::Outside,
    })
}

fn category(origin: &Origin) -> &'static str {
    match origin {
        Origin::BuiltIn => "builtin",
        Origin::Mcp(_) => "mcp",
    }
}

/// Returns the server of a tool, and the tool's name there as far as its name here reveals it.
fn mcp_tool(origin: &Origin, name: &str) -> Option<(String, String)> {
    let Origin::Mcp(server) = origin else {
        return None;
    };
    let there = name.strip_prefix(&format!("mcp_{}_", sanitize_name(server)));
    Some((server.clone(), there.unwrap_or(name).to_owned()))
}
