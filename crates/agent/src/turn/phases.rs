//! The phases before a call is made: its arguments are rewritten, guarded, and judged by hooks and rules.

use std::collections::BTreeMap;

use cachalot_hooks::input::ToolUse;
use cachalot_hooks::{Decision, Event as When, Verdict as HookVerdict};
use cachalot_operation::{AccessRequest, ResourceAccess};
use cachalot_tools::{Origin, Preparation, PreparedCall, ToolCall, ToolOutput};
use serde_json::{Map, Value};

use super::Turn;
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

    /// The operation that rules judge, if the call can be made.
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
            }),
            Preparation::Refused(_) => None,
        }
    }

    /// Records the decisions of hooks.
    ///
    /// # Errors
    /// The reason why the call must not be made.
    pub(super) fn decide(&mut self, verdict: &HookVerdict) -> Result<(), String> {
        if let Some(why) = &verdict.ends_turn {
            self.ends_turn.get_or_insert_with(|| why.clone());
        }
        if let Some(why) = verdict.denial() {
            return Err(format!(
                "The call of `{}` is denied by a hook: {why}\nDo not try it again; find another way or tell the user.",
                self.prepared.call.name
            ));
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
    let fits = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    let plain: String = server
        .chars()
        .map(|sign| if fits(sign) { sign } else { '_' })
        .collect();
    let there = name.strip_prefix(&format!("mcp_{plain}_"));
    Some((server.clone(), there.unwrap_or(name).to_owned()))
}

impl Turn<'_> {
    /// Permits a call, or builds an error result with the reason. Calls that the gate denies reach no hook,
    /// rule or approver. Hooks can rewrite the arguments of other calls, but not the name of the tool.
    pub(super) async fn permit(&self, call: ToolCall) -> Candidate {
        if let Some(denial) = self.shared.dependencies.tools.denial(&call.name) {
            return Candidate::new(PreparedCall {
                call,
                preparation: Preparation::Refused(denial),
            });
        }
        let mut candidate = Candidate::new(self.session.toolbox.prepare(call));
        if let Err(why) = self.phases(&mut candidate).await {
            candidate.prepared.preparation = Preparation::Refused(ToolOutput::error(why));
        }
        candidate
    }

    /// Runs the phases of a call.
    ///
    /// # Errors
    /// The reason why the call must not be made.
    async fn phases(&self, candidate: &mut Candidate) -> Result<(), String> {
        self.transform(candidate).await?;
        self.guard(candidate).await?;
        self.before_use(candidate).await?;
        self.judge(candidate).await
    }

    /// Lets hooks rewrite the arguments, including invalid ones.
    async fn transform(&self, candidate: &mut Candidate) -> Result<(), String> {
        let verdict = self
            .emit_tool_event(When::ToolInputTransform, candidate)
            .await;
        candidate.decide(&verdict)?;
        self.rewrite(candidate, &verdict);
        Ok(())
    }

    /// Lets guard hooks check the current arguments.
    pub(super) async fn guard(&self, candidate: &mut Candidate) -> Result<(), String> {
        if candidate.ready().is_none() {
            return Ok(());
        }
        let verdict = self.emit_tool_event(When::ToolGuard, candidate).await;
        // A guard's "allow" has no effect: later phases still decide.
        let verdict = HookVerdict {
            decision: verdict.decision.filter(|(is, _)| *is != Decision::Allow),
            ..verdict
        };
        candidate.decide(&verdict)
    }

    async fn before_use(&self, candidate: &mut Candidate) -> Result<(), String> {
        if candidate.ready().is_none() {
            return Ok(());
        }
        let verdict = self.emit_tool_event(When::PreToolUse, candidate).await;
        candidate.decide(&verdict)?;
        let is_rewritten = self.rewrite(candidate, &verdict);
        candidate.added.add(verdict);
        match is_rewritten {
            true => self.guard_anew(candidate).await,
            false => Ok(()),
        }
    }

    /// Lets hooks check rewritten arguments, including hooks that guard in `pre_tool_use`, as in other
    /// runtimes. Further rewrites are ignored, which guarantees termination.
    pub(super) async fn guard_anew(&self, candidate: &mut Candidate) -> Result<(), String> {
        self.guard(candidate).await?;
        if candidate.ready().is_none() {
            return Ok(());
        }
        let verdict = self.emit_tool_event(When::PreToolUse, candidate).await;
        candidate.decide(&verdict)
    }

    /// Emits an event about a call.
    pub(super) async fn emit_tool_event(&self, when: When, candidate: &Candidate) -> HookVerdict {
        let hook_emitter = &self.session.hook_emitter;
        if !hook_emitter.wants_tool(when, &candidate.prepared.call.name) {
            return HookVerdict::default();
        }
        match candidate.hook_tool_use() {
            Some(tool) => hook_emitter.emit_tool_event(when, &tool, |_| {}).await,
            None => HookVerdict::default(),
        }
    }

    /// Rewrites the arguments as hooks request, and validates them again. Returns true if they changed.
    pub(super) fn rewrite(&self, candidate: &mut Candidate, verdict: &HookVerdict) -> bool {
        let Some(mut tool) = candidate.hook_tool_use() else {
            return false;
        };
        if !verdict.rewrite(&mut tool) {
            return false;
        }
        let call = ToolCall {
            arguments: Value::Object(tool.input).to_string(),
            ..candidate.prepared.call.clone()
        };
        candidate.prepared = self.session.toolbox.prepare(call);
        if let Preparation::Refused(output) = &mut candidate.prepared.preparation {
            let note = "(The arguments were rewritten by a hook before they were checked.)";
            output.content.push(cachalot_model::Block::text(note));
        }
        true
    }
}
