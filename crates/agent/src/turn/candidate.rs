//! A tool call on its way through hooks, rules and the user's approval.

use std::collections::BTreeMap;

use cachalot_hooks::input::ToolUse;
use cachalot_hooks::{Decision, Verdict};
use cachalot_operation::{AccessRequest, ResourceAccess};
use cachalot_tools::{
    Origin, Preparation, PreparedCall, ToolCall, ToolContext, ToolOutput, sanitize_name,
};
use serde_json::{Map, Value};

use crate::event::CommandPlace;
use crate::hook_emitter::HookContext;

/// A call that is being judged.
pub(super) struct Candidate {
    pub(super) prepared: PreparedCall,
    /// Paragraphs that hooks add to the result for the model.
    pub(super) added: HookContext,
    /// The strongest decision of hooks so far, with its reason.
    pub(super) decision: Option<(Decision, String)>,
    /// Names and values that hooks supply to the approver.
    pub(super) notes: BTreeMap<String, String>,
    /// The reason of a hook that ends the turn after the call.
    pub(super) ends_turn: Option<String>,
}

impl Candidate {
    /// Creates a candidate from a call that was looked up.
    pub(super) fn new(prepared: PreparedCall) -> Self {
        Self {
            prepared,
            added: HookContext::default(),
            decision: None,
            notes: BTreeMap::new(),
            ends_turn: None,
        }
    }

    /// Creates a candidate that is refused.
    pub(super) fn refused(call: ToolCall, why: String) -> Self {
        Self::new(PreparedCall {
            call,
            preparation: Preparation::Refused(ToolOutput::error(why)),
        })
    }

    /// The call in the form used in hook events. `None` if the call is invalid and its arguments cannot be
    /// parsed.
    pub(super) fn hook_tool_use(&self) -> Option<ToolUse> {
        let call = &self.prepared.call;
        let (input, origin, read_only, resource_access) = match &self.prepared.preparation {
            Preparation::Ready {
                arguments,
                origin,
                read_only,
                resource_access,
            } => (
                arguments.clone(),
                origin,
                *read_only,
                resource_access.clone(),
            ),
            Preparation::Refused(_) => {
                let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).ok()?;
                (
                    arguments,
                    &Origin::BuiltIn,
                    false,
                    ResourceAccess::default(),
                )
            }
        };
        Some(ToolUse {
            name: call.name.clone(),
            id: call.id.clone(),
            category: category(origin).to_owned(),
            mcp: mcp_tool(origin, &call.name),
            read_only,
            input,
            resource_access,
        })
    }

    /// The operation that rules judge, if the call can be made. Not known here is whether it runs in a sandbox.
    pub(super) fn ready(&self) -> Option<AccessRequest<'_>> {
        match &self.prepared.preparation {
            Preparation::Ready {
                arguments,
                read_only,
                resource_access,
                ..
            } => Some(AccessRequest {
                tool: &self.prepared.call.name,
                read_only: *read_only,
                arguments,
                resource_access,
                sandboxed: false,
            }),
            Preparation::Refused(_) => None,
        }
    }

    /// Returns the place where the commands of the call run.
    pub(super) fn command_place(&self, context: &ToolContext) -> Option<CommandPlace> {
        match &self.prepared.preparation {
            Preparation::Ready {
                origin: Origin::BuiltIn,
                resource_access,
                ..
            } if !resource_access.commands.is_empty() => Some(match &context.sandbox {
                Some(sandbox) if sandbox.guards_files() => CommandPlace::Sandbox,
                Some(_) => CommandPlace::LimitedSandbox,
                None => CommandPlace::Outside,
            }),
            _ => None,
        }
    }

    /// Records the decisions of hooks.
    ///
    /// # Errors
    /// The result of a call that must not be made.
    pub(super) fn decide(&mut self, verdict: &Verdict) -> Result<(), ToolOutput> {
        if let Some(why) = &verdict.ends_turn {
            self.ends_turn.get_or_insert_with(|| why.clone());
        }
        if let Some(why) = verdict.denial() {
            return Err(ToolOutput::error(format!(
                "The call of `{}` is denied by a hook: {why}\nDo not try it again; find another way or tell the user.",
                self.prepared.call.name
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
