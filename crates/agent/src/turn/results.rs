//! Processing of tool results by hooks, before the model receives them.

use cachalot_hooks::Event as When;
use cachalot_hooks::input::{ToolResponse, ToolUse};
use cachalot_model::Block;
use cachalot_tools::{CallOutcome, PreparedCall, ToolCallResult, ToolOutput, Toolbox};

use super::call_progress::CallProgress;
use super::candidate::{Candidate, hook_tool_use_of};
use super::context::TurnContext;
use crate::conversation::Progress;
use crate::event::Event;
use crate::hook_emitter::HookContext;

/// The outcome of hooks for the results of calls.
#[derive(Default)]
pub(super) struct ResultsOutcome {
    /// For each call, true if its tool is read-only.
    pub(super) read_only: Vec<bool>,
    /// Names of hooks that added something.
    pub(super) added_by: Vec<String>,
    /// The reason of a hook that ends the turn.
    pub(super) denial: Option<String>,
}

/// Passes the results of calls to hooks, one at a time. Results of refused calls are not passed, because
/// the runtime itself made them.
pub(super) async fn run_result_hooks(
    context: &TurnContext<'_>,
    progress: &CallProgress,
    answers: &mut [ToolCallResult],
    calls: Vec<Candidate>,
) -> ResultsOutcome {
    let mut outcome = ResultsOutcome::default();
    for (answer, mut call) in answers.iter_mut().zip(calls) {
        let ready = call.prepared.ready();
        outcome
            .read_only
            .push(ready.is_some_and(|ready| ready.read_only));
        let mut added = std::mem::take(&mut call.decided.added);
        let before = answer.output.content.clone();
        if answer.outcome != CallOutcome::Refused {
            let call = &call.prepared;
            run_hooks_on_result(context, answer, call, &mut added, &mut outcome.denial).await;
        }
        answer
            .output
            .content
            .extend(crate::context::block(&added.paragraphs));
        outcome.added_by.extend(added.by);
        let is_changed = answer.output.content != before;
        progress.with(|progress| progress.record_seen(answer, is_changed));
    }
    outcome
}

async fn run_hooks_on_result(
    context: &TurnContext<'_>,
    answer: &mut ToolCallResult,
    call: &PreparedCall,
    added: &mut HookContext,
    denial: &mut Option<String>,
) {
    let hook_emitter = &context.hook_emitter;
    let wants = |when| hook_emitter.wants_tool(when, &answer.call.name);
    let is_transformed = wants(When::ToolResponseTransform);
    if !is_transformed && !wants(When::PostToolUse) {
        return;
    }
    let Some(tool) = hook_tool_use_of(call) else {
        return;
    };
    if is_transformed {
        transform_result(context, answer, &tool).await;
        report_ended(context, answer);
    }
    // Read after the transform: `post_tool_use` sees the text that the model receives.
    let response = response(&answer.output);
    let emitted = hook_emitter.emit_tool_event(When::PostToolUse, &tool, |input| {
        input.tool_response = Some(response);
    });
    let verdict = emitted.await;
    if let Some(text) = &verdict.updated_tool_response {
        replace_text(&mut answer.output, text);
    }
    if let Some(why) = verdict.denial() {
        denial.get_or_insert_with(|| why.to_owned());
    }
    added.add(verdict);
}

async fn transform_result(context: &TurnContext<'_>, answer: &mut ToolCallResult, tool: &ToolUse) {
    let response = response(&answer.output);
    let emitted =
        context
            .hook_emitter
            .emit_tool_event(When::ToolResponseTransform, tool, |input| {
                input.tool_response = Some(response);
            });
    if let Some(text) = emitted.await.updated_tool_response {
        replace_text(&mut answer.output, &text);
    }
}

fn report_ended(context: &TurnContext<'_>, answer: &ToolCallResult) {
    context.report(&Event::ToolEnded {
        agent: &context.agent.name,
        answer,
    });
}

/// Passes to hooks the results that arrived before the turn had to end, within the grace period.
pub(super) async fn run_hooks_on_unseen(
    context: &TurnContext<'_>,
    toolbox: &dyn Toolbox,
    progress: &mut Progress,
) {
    if progress.unseen.is_empty() {
        return;
    }
    let ended = progress.ended.clone();
    let showing = async {
        for mut answer in ended {
            if !progress.unseen.contains(&answer.call.id) {
                continue;
            }
            let call = answer.call.clone();
            let Some(tool) = hook_tool_use_of(&toolbox.prepare(call)) else {
                continue;
            };
            let before = answer.output.content.clone();
            transform_result(context, &mut answer, &tool).await;
            report_ended(context, &answer);
            let is_changed = answer.output.content != before;
            progress.record_seen(&answer, is_changed);
        }
    };
    let _ = context.cancellation.run_with_grace(showing).await;
}

/// A result in the form used in hook events.
fn response(output: &ToolOutput) -> ToolResponse {
    let texts = output.content.iter().filter_map(Block::as_text);
    ToolResponse {
        text: texts.collect(),
        is_error: output.is_error,
    }
}

/// Replaces the first text of a result and removes the others. Other content stays.
fn replace_text(output: &mut ToolOutput, text: &str) {
    let is_text = |block: &Block| matches!(block, Block::Text { .. });
    let first = output.content.iter().position(is_text).unwrap_or(0);
    output.content.retain(|block| !is_text(block));
    output.content.insert(first, Block::text(text));
}
