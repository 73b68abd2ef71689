//! Processing of tool results by hooks, before the model receives them.

use cachalot_hooks::Event as When;
use cachalot_hooks::input::{ToolResponse, ToolUse};
use cachalot_model::Block;
use cachalot_tools::{Answer, Answered, Output};

use super::Turn;
use super::phases::Candidate;
use crate::context;
use crate::conversation::Progress;
use crate::event::Event;
use crate::herald::Added;

/// The outcome of hooks for the results of calls.
#[derive(Default)]
pub(super) struct Shown {
    /// For each call, true if its tool is read-only.
    pub(super) read_only: Vec<bool>,
    /// Names of hooks that added something.
    pub(super) added_by: Vec<String>,
    /// The reason of a hook that ends the turn.
    pub(super) denial: Option<String>,
}

impl Turn<'_> {
    /// Passes the results of calls to hooks, one at a time. Results of refused calls are not passed, because
    /// the runtime itself made them.
    pub(super) async fn show(&self, answers: &mut [Answer], calls: Vec<Candidate>) -> Shown {
        let mut shown = Shown::default();
        for (answer, mut call) in answers.iter_mut().zip(calls) {
            let read_only = call.ready().is_some_and(|operation| operation.read_only);
            shown.read_only.push(read_only);
            let mut added = std::mem::take(&mut call.added);
            let before = answer.output.content.clone();
            if answer.how != Answered::Refused {
                self.show_one(answer, &call, &mut added, &mut shown.denial)
                    .await;
            }
            answer
                .output
                .content
                .extend(context::block(&added.paragraphs));
            shown.added_by.extend(added.by);
            let is_changed = answer.output.content != before;
            self.with_progress(|progress| progress.seen(answer, is_changed));
        }
        shown
    }

    async fn show_one(
        &self,
        answer: &mut Answer,
        call: &Candidate,
        added: &mut Added,
        denial: &mut Option<String>,
    ) {
        let herald = &self.desk.herald;
        let wants = |when| herald.wants_of(when, &answer.call.name);
        let is_untold = wants(When::ToolResponseTransform);
        if !is_untold && !wants(When::PostToolUse) {
            return;
        }
        let Some(tool) = call.told() else {
            return;
        };
        if is_untold {
            self.transform_result(answer, &tool).await;
            self.tell_ended(answer);
        }
        let response = response(&answer.output);
        let told = herald.tell_of(When::PostToolUse, &tool, |input| {
            input.tool_response = Some(response);
        });
        let heard = told.await;
        if let Some(text) = &heard.updated_tool_response {
            replace_text(&mut answer.output, text);
        }
        if let Some(why) = heard.denial() {
            denial.get_or_insert_with(|| why.to_owned());
        }
        added.add(heard);
    }

    async fn transform_result(&self, answer: &mut Answer, tool: &ToolUse) {
        let response = response(&answer.output);
        let told = (self.desk.herald).tell_of(When::ToolResponseTransform, tool, |input| {
            input.tool_response = Some(response);
        });
        if let Some(text) = told.await.updated_tool_response {
            replace_text(&mut answer.output, &text);
        }
    }

    fn tell_ended(&self, answer: &Answer) {
        self.shared.house.listener.tell(&Event::ToolEnded {
            agent: &self.agent.name,
            answer,
        });
    }

    /// Passes to hooks the results that arrived before the turn had to end, within the grace period.
    pub(super) async fn show_unseen(&self, progress: &mut Progress) {
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
                let candidate = Candidate::of(self.desk.toolbox.prepare(call));
                let Some(tool) = candidate.told() else {
                    continue;
                };
                let before = answer.output.content.clone();
                self.transform_result(&mut answer, &tool).await;
                self.tell_ended(&answer);
                let is_changed = answer.output.content != before;
                progress.seen(&answer, is_changed);
            }
        };
        let _ = self.halt.with_grace(showing).await;
    }
}

/// A result in the form used in hook events.
fn response(output: &Output) -> ToolResponse {
    let texts = output.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    ToolResponse {
        text: texts.collect(),
        is_error: output.is_error,
    }
}

/// Replaces the first text of a result and removes the others. Other content stays.
fn replace_text(output: &mut Output, text: &str) {
    let is_text = |block: &Block| matches!(block, Block::Text { .. });
    let first = output.content.iter().position(is_text).unwrap_or(0);
    output.content.retain(|block| !is_text(block));
    output.content.insert(first, Block::text(text));
}
