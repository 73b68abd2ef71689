//! Permission of a call: hooks rewrite and guard it, and hooks, rules and the user judge it.

use cachalot_hooks::{Decision, Event as When, Verdict};
use cachalot_model::Block;
use cachalot_tools::{Preparation, PreparedCall, ToolCall, ToolOutput, Toolbox};
use serde_json::Value;

use super::approval::{approval_reason, approve};
use super::candidate::Candidate;
use super::context::TurnContext;
use crate::event::CommandPlace;

/// Permits a call, or builds an error result with the reason. Calls that the gate denies reach no hook,
/// rule or approver. Hooks can rewrite the arguments of other calls, but not the name of the tool.
pub(super) async fn permit(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    call: ToolCall,
) -> Candidate {
    if let Some(denial) = context.shared.dependencies.tools.denial(&call.name) {
        return Candidate::new(PreparedCall {
            call,
            preparation: Preparation::Refused(denial),
        });
    }
    let mut candidate = Candidate::new(toolbox.prepare(call));
    let dependencies = &context.shared.dependencies;
    match run_phases(context, toolbox, &mut candidate).await {
        Err(refusal) => candidate.prepared.preparation = Preparation::Refused(refusal),
        Ok(()) if candidate.command_place(&dependencies.tools) == Some(CommandPlace::Sandbox) => {
            dependencies.approver.before_commands().await;
        }
        Ok(()) => {}
    }
    candidate
}

/// Runs the phases of a call.
///
/// # Errors
/// The result of a call that must not be made.
async fn run_phases(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    candidate: &mut Candidate,
) -> Result<(), ToolOutput> {
    transform(context, toolbox, candidate).await?;
    guard(context, candidate).await?;
    before_use(context, toolbox, candidate).await?;
    judge(context, toolbox, candidate).await
}

/// Lets hooks rewrite the arguments, including invalid ones.
async fn transform(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    candidate: &mut Candidate,
) -> Result<(), ToolOutput> {
    let verdict = emit_tool_event(context, When::ToolInputTransform, candidate).await;
    candidate.decide(&verdict)?;
    rewrite(toolbox, candidate, &verdict);
    Ok(())
}

/// Lets guard hooks check the current arguments.
async fn guard(context: &TurnContext<'_>, candidate: &mut Candidate) -> Result<(), ToolOutput> {
    if candidate.ready().is_none() {
        return Ok(());
    }
    let verdict = emit_tool_event(context, When::ToolGuard, candidate).await;
    // A guard's "allow" has no effect: later phases still decide.
    let verdict = Verdict {
        decision: verdict.decision.filter(|(is, _)| *is != Decision::Allow),
        ..verdict
    };
    candidate.decide(&verdict)
}

async fn before_use(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    candidate: &mut Candidate,
) -> Result<(), ToolOutput> {
    if candidate.ready().is_none() {
        return Ok(());
    }
    let verdict = emit_tool_event(context, When::PreToolUse, candidate).await;
    candidate.decide(&verdict)?;
    let is_rewritten = rewrite(toolbox, candidate, &verdict);
    candidate.added.add(verdict);
    if is_rewritten {
        check_gate_again(context, candidate).await
    } else {
        Ok(())
    }
}

/// Lets hooks check rewritten arguments, including hooks that guard in `pre_tool_use`, as in other
/// runtimes. Further rewrites are ignored, which guarantees termination.
async fn check_gate_again(
    context: &TurnContext<'_>,
    candidate: &mut Candidate,
) -> Result<(), ToolOutput> {
    guard(context, candidate).await?;
    if candidate.ready().is_none() {
        return Ok(());
    }
    let verdict = emit_tool_event(context, When::PreToolUse, candidate).await;
    candidate.decide(&verdict)
}

/// Emits an event about a call.
async fn emit_tool_event(context: &TurnContext<'_>, when: When, candidate: &Candidate) -> Verdict {
    let hook_emitter = &context.hook_emitter;
    if !hook_emitter.wants_tool(when, &candidate.prepared.call.name) {
        return Verdict::default();
    }
    match candidate.hook_tool_use() {
        Some(tool) => hook_emitter.emit_tool_event(when, &tool, |_| {}).await,
        None => Verdict::default(),
    }
}

/// Rewrites the arguments as hooks request, and validates them again. Returns true if they changed.
fn rewrite(toolbox: &dyn Toolbox, candidate: &mut Candidate, verdict: &Verdict) -> bool {
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
    candidate.prepared = toolbox.prepare(call);
    if let Preparation::Refused(output) = &mut candidate.prepared.preparation {
        let note = "(The arguments were rewritten by a hook before they were checked.)";
        output.content.push(Block::text(note));
    }
    true
}

/// Permits a call by the rules and the hooks' decisions. A rule that denies or asks takes precedence over
/// a hook that allows; a hook that asks takes precedence over a rule that allows.
///
/// # Errors
/// The result of a call that must not be made.
async fn judge(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    candidate: &mut Candidate,
) -> Result<(), ToolOutput> {
    let Some(reason) = approval_reason(context, candidate)? else {
        return Ok(());
    };
    let verdict = emit_tool_event(context, When::PermissionRequest, candidate).await;
    let is_allowed = matches!(verdict.decision, Some((Decision::Allow, _)));
    candidate.decide(&verdict)?;
    if rewrite(toolbox, candidate, &verdict) {
        check_gate_again(context, candidate).await?;
        // The rewritten call may be denied or invalid.
        approval_reason(context, candidate)?;
    }
    if is_allowed || candidate.ready().is_none() {
        Ok(())
    } else {
        approve(context, candidate, reason).await
    }
}
