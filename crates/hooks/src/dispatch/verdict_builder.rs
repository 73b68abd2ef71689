//! Combines the outputs of handlers to a verdict.

use std::collections::BTreeMap;

use cachalot_core::text::head;
use cachalot_model::Message;

use super::rewrite;
use crate::contract::{BlockEffect, Contract, FailureEffect, SpecificOutput};
use crate::definition::{HookEntry, OnError};
use crate::input::Input;
use crate::output::{Decision, Fault, Output, append_line};
use crate::verdict::{HandlerReport, Verdict};

/// Maximum characters of a handler's title in a message.
const MAX_TITLE_CHARS: usize = 60;

/// Builds a verdict from reports, which must be added in the order of the configuration.
pub(super) struct VerdictBuilder {
    contract: &'static Contract,
    verdict: Verdict,
}

impl VerdictBuilder {
    /// Creates a tally with capacity for `reports` reports.
    pub(super) fn new(input: &Input, reports: usize) -> Self {
        let verdict = Verdict {
            reports: Vec::with_capacity(reports),
            ..Verdict::default()
        };
        Self {
            contract: input.event.contract(),
            verdict,
        }
    }

    /// Adds a report, and applies its rewrites to the input of later handlers.
    pub(super) fn add(
        &mut self,
        entry: &HookEntry,
        fails_open: bool,
        report: HandlerReport,
        input: &mut Input,
    ) {
        match &report.result {
            Ok(output) => {
                self.apply_common(entry, output);
                self.apply_outputs(output);
                self.rewrite(entry, output, input);
                self.reject(input);
            }
            Err(fault) => self.fail(entry, fails_open, fault),
        }
        self.verdict.reports.push(report);
    }

    /// Sets the environment variables that hooks have set.
    pub(super) fn set(&mut self, environment: BTreeMap<String, String>) {
        self.verdict.environment = environment;
    }

    /// Returns the verdict. A denial discards a synthetic answer.
    pub(super) fn verdict(mut self) -> Verdict {
        if self.verdict.denial().is_some() {
            // An answer in place of the call would hide the denial.
            self.verdict.synthetic = None;
        }
        self.verdict
    }

    /// Handles outputs that all events accept: messages, blocks, costs and decisions.
    fn apply_common(&mut self, entry: &HookEntry, output: &Output) {
        self.verdict.spent += output.spent;
        self.add_message(output.system_message.as_deref());
        if let Some(reason) = &output.block {
            self.block(entry, reason);
        }
        if let Some(reason) = &output.ends_turn {
            self.end_turn(entry, reason);
        }
        if let Some((decision, reason)) = &output.permission {
            let reason = reason.as_deref().unwrap_or_default();
            self.permit(entry, *decision, reason);
        }
    }

    fn block(&mut self, entry: &HookEntry, reason: &str) {
        match self.contract.blocks {
            BlockEffect::Refusal => {
                self.decide(entry, Decision::Deny, reason);
            }
            BlockEffect::Continue if entry.dialect.continues_on_stop_block() => {
                self.continue_turn(entry, reason)
            }
            BlockEffect::Continue | BlockEffect::Nothing => {
                let what = hook_message(entry, "wanted to block", reason);
                let event = self.contract.event;
                self.add_message(Some(&format!(
                    "{what}; nothing can be blocked at `{event}`"
                )));
            }
        }
    }

    fn end_turn(&mut self, entry: &HookEntry, reason: &str) {
        let reason = match reason {
            "" => hook_message(entry, "ends the turn", ""),
            said => said.to_owned(),
        };
        self.verdict.ends_turn.get_or_insert(reason);
    }

    /// Collects all reasons: the model receives every task that is left.
    fn continue_turn(&mut self, entry: &HookEntry, reason: &str) {
        let reason = match reason {
            "" => hook_message(entry, "asks to continue", ""),
            said => said.to_owned(),
        };
        append_line(&mut self.verdict.continue_reason, &reason);
    }

    /// Marks the answer as rejected in the input of later handlers.
    fn reject(&self, input: &mut Input) {
        if let Some(answer) = &mut input.answer {
            answer.rejected.clone_from(&self.verdict.continue_reason);
        }
    }

    /// A decision other than `allow` that has no effect is reported, because its author relies on it.
    fn permit(&mut self, entry: &HookEntry, decision: Decision, reason: &str) {
        if self.contract.honours(SpecificOutput::PermissionDecision) {
            self.decide(entry, decision, reason);
        } else if decision > Decision::Allow {
            let what = hook_message(entry, &format!("returned `{}`", decision.name()), reason);
            let event = self.contract.event;
            self.add_message(Some(&format!("{what}; `{event}` supports no decisions")));
        }
    }

    /// Applies the strongest decision; the first of equal ones. Returns true if this one applies now.
    fn decide(&mut self, entry: &HookEntry, decision: Decision, reason: &str) -> bool {
        let strongest = self
            .verdict
            .decision
            .as_ref()
            .map(|(strongest, _)| *strongest);
        if Some(decision) <= strongest {
            return false;
        }
        let reason = match (reason, decision) {
            ("", Decision::Allow) => hook_message(entry, "allows it", ""),
            ("", Decision::Ask) => hook_message(entry, "wants the user to be asked", ""),
            ("", Decision::Deny) => hook_message(entry, "denies it", ""),
            (said, _) => said.to_owned(),
        };
        self.verdict.decision = Some((decision, reason));
        true
    }

    fn apply_outputs(&mut self, output: &Output) {
        let (contract, verdict) = (self.contract, &mut self.verdict);
        let context = output.additional_context.iter();
        if contract.honours(SpecificOutput::AdditionalContext) {
            let context = context.filter(|text| !text.is_empty());
            verdict.context.extend(context.cloned());
        }
        if contract.honours(SpecificOutput::Summary) && verdict.summary.is_none() {
            let summary = output.summary.as_ref();
            verdict.summary = summary.filter(|text| !text.is_empty()).cloned();
        }
        if contract.honours(SpecificOutput::SyntheticResponse) && verdict.synthetic.is_none() {
            verdict.synthetic.clone_from(&output.synthetic);
        }
        if contract.honours(SpecificOutput::Metadata) {
            verdict.metadata.extend(output.metadata.clone());
        }
    }

    fn rewrite(&mut self, entry: &HookEntry, output: &Output, input: &mut Input) {
        if self.contract.honours(SpecificOutput::UpdatedInput) {
            rewrite::arguments(input, output);
            self.rewrite_arguments(output);
        }
        if let Some(text) = &output.updated_tool_response
            && self.contract.honours(SpecificOutput::UpdatedToolResponse)
        {
            rewrite::response(input, text);
            self.verdict.updated_tool_response = Some(text.clone());
        }
        if let Some(messages) = &output.updated_messages
            && self.contract.honours(SpecificOutput::UpdatedMessages)
        {
            self.rewrite_messages(entry, messages, input);
        }
    }

    /// A later handler may remove an argument that an earlier one set, and the other way round: the last
    /// one wins.
    fn rewrite_arguments(&mut self, output: &Output) {
        let Verdict {
            removed_input: removed,
            updated_input: updated,
            ..
        } = &mut self.verdict;
        for name in &output.removed_input {
            if let Some(updated) = updated {
                updated.shift_remove(name);
            }
            removed.retain(|other| other != name);
            removed.push(name.clone());
        }
        for (name, value) in output.updated_input.iter().flatten() {
            removed.retain(|other| other != name);
            let updated = updated.get_or_insert_default();
            updated.insert(name.clone(), value.clone());
        }
    }

    /// Sent messages stay unchanged, and at least one message must remain to be sent.
    fn rewrite_messages(&mut self, entry: &HookEntry, tail: &[Message], input: &mut Input) {
        let why = match (input.unsent, tail) {
            (0, _) => "all of them were sent",
            (_, []) => "nothing would be left to be sent",
            _ if !rewrite::differ(input, tail) => return,
            _ => {
                rewrite::messages(input, tail);
                self.verdict.updated_messages = Some(tail.to_vec());
                return;
            }
        };
        self.add_message(Some(&hook_message(
            entry,
            "rewrote messages, which is not honoured",
            why,
        )));
    }

    /// Handles a failure. A canceled handler at the end of a turn denies nothing and is not reported.
    fn fail(&mut self, entry: &HookEntry, fails_open: bool, fault: &Fault) {
        self.verdict.spent += fault.spent;
        if fault.is_cancelled {
            return;
        }
        let what = hook_message(entry, "failed", &fault.message);
        // A failure that becomes the reason of a denial is not reported twice.
        let is_said = denies(self.contract, entry, fails_open, fault)
            && self.decide(entry, Decision::Deny, &what);
        if !is_said && entry.definition.on_error != Some(OnError::Ignore) {
            self.add_message(Some(&what));
        }
    }

    /// Adds a message for the user.
    pub(super) fn add_message(&mut self, message: Option<&str>) {
        let message = message.filter(|text| !text.is_empty());
        self.verdict.messages.extend(message.map(str::to_owned));
    }
}

/// True if a failure denies. A guard that fails has not approved the operation. Scripts of other
/// runtimes are written on the assumption that a failure does not deny, except that an output of which a
/// part is missing may be a denial. `on_error: block` always denies.
fn denies(contract: &Contract, entry: &HookEntry, fails_open: bool, fault: &Fault) -> bool {
    match (contract.failure, entry.definition.on_error) {
        (_, Some(OnError::Block)) => true,
        (FailureEffect::Denial, _) => fault.may_deny || !entry.dialect.fails_open(),
        (FailureEffect::DenialByDefault, None) => fault.may_deny || !fails_open,
        (FailureEffect::DenialByDefault, Some(OnError::Warn | OnError::Ignore))
        | (FailureEffect::Warning, _) => false,
    }
}

/// Formats a message: the hook, its action and the reason.
fn hook_message(entry: &HookEntry, did: &str, why: &str) -> String {
    let title = entry.definition.title();
    let shown = head(title.lines().next().unwrap_or_default(), MAX_TITLE_CHARS);
    let more = if shown.len() < title.len() { "…" } else { "" };
    let colon = if why.is_empty() { "" } else { ": " };
    format!("hook `{shown}{more}` ({}) {did}{colon}{why}", entry.source)
}
