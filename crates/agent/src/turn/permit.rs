//! Permission of a call: hooks rewrite and guard it, and hooks, rules and the user judge it.

use cachalot_hooks::input::ToolUse;
use cachalot_hooks::{Decision, Event as When, Verdict};
use cachalot_model::Block;
use cachalot_tools::{PreparedCall, ReadyCall, RefusedCall, ToolCall, ToolOutput, Toolbox};

use super::approval::{approval_reason, approve};
use super::candidate::{Candidate, HookDecisions, command_place, hook_tool_use, hook_tool_use_of};
use super::context::TurnContext;
use crate::event::CommandPlace;

/// Permits a call, or builds an error result with the reason. Calls that the gate denies reach no hook,
/// rule or approver. Hooks can rewrite the arguments of other calls, but not the name of the tool.
pub(super) async fn permit(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    call: ToolCall,
) -> Candidate {
    let dependencies = &context.shared.dependencies;
    if let Some(output) = dependencies.tools.denial(&call.name) {
        return Candidate::refused(RefusedCall { call, output });
    }
    let prepared = toolbox.prepare(call);
    let mut decided = HookDecisions::default();
    // Arguments are rewritten before anything judges them: guards, rules and the user see those that run.
    let prepared = match transform(context, toolbox, prepared, &mut decided).await {
        PreparedCall::Ready(mut ready) => {
            match judge(context, toolbox, &mut ready, &mut decided).await {
                Ok(()) => PreparedCall::Ready(ready),
                Err(output) => PreparedCall::Refused(RefusedCall {
                    call: ready.call,
                    output,
                }),
            }
        }
        refused @ PreparedCall::Refused(_) => refused,
    };
    if let PreparedCall::Ready(ready) = &prepared
        && command_place(ready, &dependencies.tools) == Some(CommandPlace::Sandbox)
    {
        dependencies.approver.before_commands().await;
    }
    Candidate { prepared, decided }
}

/// Lets hooks rewrite the arguments, including invalid ones.
async fn transform(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    prepared: PreparedCall,
    decided: &mut HookDecisions,
) -> PreparedCall {
    let call = prepared.call();
    let when = When::ToolInputTransform;
    if !context.hook_emitter.wants_tool(when, &call.name) {
        return prepared;
    }
    let Some(tool) = hook_tool_use_of(&prepared) else {
        return prepared;
    };
    let verdict = emit(context, when, &tool).await;
    match decided.record(&call.name, &verdict) {
        Ok(()) => rewritten(toolbox, call, tool, &verdict).unwrap_or(prepared),
        Err(output) => PreparedCall::Refused(RefusedCall {
            call: call.clone(),
            output,
        }),
    }
}

/// Runs the phases that decide about a valid call.
///
/// # Errors
/// The result of a call that must not be made.
async fn judge(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    ready: &mut ReadyCall,
    decided: &mut HookDecisions,
) -> Result<(), ToolOutput> {
    guard(context, ready, decided).await?;
    before_use(context, toolbox, ready, decided).await?;
    by_rules(context, toolbox, ready, decided).await
}

/// Lets guard hooks check the current arguments.
async fn guard(
    context: &TurnContext<'_>,
    ready: &ReadyCall,
    decided: &mut HookDecisions,
) -> Result<(), ToolOutput> {
    let verdict = emit_about(context, When::ToolGuard, ready).await;
    // A guard's "allow" has no effect: later phases still decide.
    let verdict = Verdict {
        decision: verdict.decision.filter(|(is, _)| *is != Decision::Allow),
        ..verdict
    };
    decided.record(&ready.call.name, &verdict)
}

async fn before_use(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    ready: &mut ReadyCall,
    decided: &mut HookDecisions,
) -> Result<(), ToolOutput> {
    let verdict = emit_about(context, When::PreToolUse, ready).await;
    decided.record(&ready.call.name, &verdict)?;
    let is_rewritten = rewrite(toolbox, ready, &verdict);
    // Before the error of the rewrite is returned: a refused call shows the model what the hooks added, too.
    decided.added.add(verdict);
    if is_rewritten? {
        check_again(context, ready, decided).await
    } else {
        Ok(())
    }
}

/// Lets hooks check rewritten arguments, including hooks that guard in `pre_tool_use`, as in other
/// runtimes. Further rewrites are ignored, which guarantees termination.
async fn check_again(
    context: &TurnContext<'_>,
    ready: &ReadyCall,
    decided: &mut HookDecisions,
) -> Result<(), ToolOutput> {
    guard(context, ready, decided).await?;
    let verdict = emit_about(context, When::PreToolUse, ready).await;
    decided.record(&ready.call.name, &verdict)
}

/// Permits a call by the rules and the hooks' decisions. A rule that denies or asks takes precedence over
/// a hook that allows; a hook that asks takes precedence over a rule that allows.
///
/// # Errors
/// The result of a call that must not be made.
async fn by_rules(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    ready: &mut ReadyCall,
    decided: &mut HookDecisions,
) -> Result<(), ToolOutput> {
    let Some(mut reason) = approval_reason(context, ready, decided)? else {
        return Ok(());
    };
    let verdict = emit_about(context, When::PermissionRequest, ready).await;
    let is_allowed = matches!(verdict.decision, Some((Decision::Allow, _)));
    decided.record(&ready.call.name, &verdict)?;
    if rewrite(toolbox, ready, &verdict)? {
        check_again(context, ready, decided).await?;
        // A rule may deny the rewritten call, and the user has to be told what this one does.
        if let Some(of_rewritten) = approval_reason(context, ready, decided)? {
            reason = of_rewritten;
        }
    }
    if is_allowed {
        Ok(())
    } else {
        approve(context, ready, decided, reason).await
    }
}

/// Emits an event about a call.
async fn emit_about(context: &TurnContext<'_>, when: When, ready: &ReadyCall) -> Verdict {
    if context.hook_emitter.wants_tool(when, &ready.call.name) {
        emit(context, when, &hook_tool_use(ready)).await
    } else {
        Verdict::default()
    }
}

async fn emit(context: &TurnContext<'_>, when: When, tool: &ToolUse) -> Verdict {
    let hook_emitter = &context.hook_emitter;
    hook_emitter.emit_tool_event(when, tool, |_| {}).await
}

/// Rewrites the arguments of a valid call as hooks request. Returns true if they changed.
///
/// # Errors
/// The result of the call if the new arguments are invalid.
fn rewrite(
    toolbox: &dyn Toolbox,
    ready: &mut ReadyCall,
    verdict: &Verdict,
) -> Result<bool, ToolOutput> {
    let tool = hook_tool_use(ready);
    match rewritten(toolbox, &ready.call, tool, verdict) {
        None => Ok(false),
        Some(PreparedCall::Ready(rewritten)) => {
            *ready = rewritten;
            Ok(true)
        }
        Some(PreparedCall::Refused(refused)) => {
            ready.call = refused.call;
            Err(refused.output)
        }
    }
}

/// Returns the call with its arguments as hooks request them, checked again. `None` if they do not change.
fn rewritten(
    toolbox: &dyn Toolbox,
    call: &ToolCall,
    mut tool: ToolUse,
    verdict: &Verdict,
) -> Option<PreparedCall> {
    if !verdict.rewrite(&mut tool) {
        return None;
    }
    let mut prepared = toolbox.prepare_rewritten(call, tool.input);
    if let PreparedCall::Refused(refused) = &mut prepared {
        let note = "(The arguments were rewritten by a hook before they were checked.)";
        refused.output.content.push(Block::text(note));
    }
    Some(prepared)
}
