//! Planning of the cache breakpoints in the requests of a conversation.

use std::time::Duration;

use cachalot_core::Millis;
use cachalot_model::{Model, Usage};
use cachalot_prompt::{
    Note, Pauses, Plan, PlanContext, PrefixLifetime, Prompt, Rules, Session, plan,
};

use crate::definition::AgentDefinition;
use crate::dependencies::Dependencies;

/// Plans the cache breakpoints of consecutive requests.
pub(super) struct BreakpointPlanner {
    rules: Rules,
    plan_context: PlanContext,
    /// All notes so far, one of each kind.
    notes: Vec<Note>,
    /// Number of notes that [`BreakpointPlanner::new_notes`] has returned.
    returned_notes: usize,
    /// True if the last request was expected to be the last one of the conversation.
    was_last: bool,
}

impl BreakpointPlanner {
    /// Creates a planner for a model and for a conversation that is used on this occasion.
    pub(super) fn new(model: &Model, plan_context: PlanContext) -> Self {
        Self {
            rules: Rules::for_model(model),
            plan_context,
            notes: Vec::new(),
            returned_notes: 0,
            was_last: false,
        }
    }

    /// Starts the record of pauses at the last request, which another process sent at `sent`.
    pub(super) fn resume(&mut self, sent: Millis) {
        self.plan_context.pauses = Pauses::resumed(sent);
    }

    /// Sets no breakpoints in the next request, because no later request is expected to share its prefix. If
    /// other sessions have sent a prefix of it, the part up to that piece (`sent_by_others`) is still marked.
    pub(super) fn expect_last_request(&mut self, sent_by_others: Option<u32>) {
        self.plan_context.is_last = true;
        self.plan_context.previous_end = sent_by_others;
    }

    /// True if no request was expected after the last one. This then also holds for a fallback that is called
    /// in its place.
    pub(super) fn was_last_request(&self) -> bool {
        self.was_last
    }

    /// Returns the plan of the next request.
    pub(super) fn next(&mut self, prompt: &Prompt, now: Millis) -> Plan {
        self.plan_context.pauses.count(prompt, now);
        let planned = plan(prompt, &self.rules, &self.plan_context);
        self.plan_context.previous_end = planned.plan.end();
        // After a second request, a third one may follow.
        self.was_last = std::mem::take(&mut self.plan_context.is_last);
        let kind = |note: &Note| std::mem::discriminant(note);
        for note in planned.notes {
            if !self.notes.iter().any(|known| kind(known) == kind(&note)) {
                self.notes.push(note);
            }
        }
        planned.plan
    }

    /// Returns the plan that [`BreakpointPlanner::next`] would return. Nothing is recorded.
    pub(super) fn preview(&self, prompt: &Prompt, now: Millis) -> Plan {
        let mut plan_context = self.plan_context;
        plan_context.pauses.count(prompt, now);
        plan(prompt, &self.rules, &plan_context).plan
    }

    /// Returns the plan of the last request of a session whose breakpoints are not known. `usage` is that of all its
    /// requests: they are assumed to have requested the longest lifetime for which the provider has written.
    pub(super) fn last_sent(&self, prompt: &Prompt, usage: &Usage) -> Plan {
        let plan_context = PlanContext {
            previous_end: None,
            pauses: Pauses::assumed(usage),
            ..self.plan_context
        };
        plan(prompt, &self.rules, &plan_context).plan
    }

    /// Returns the plan of a request whose breakpoints are not known, as if it were the first one.
    pub(super) fn first(&self, prompt: &Prompt) -> Plan {
        let plan_context = PlanContext {
            previous_end: None,
            ..self.plan_context
        };
        plan(prompt, &self.rules, &plan_context).plan
    }

    /// Returns the plan of a request beside the conversation, which ends with a message of its own and is
    /// sent once. If its beginning was sent before, it reads that from the provider's cache.
    pub(super) fn plan_one_off(&self, prompt: &Prompt, begins_as_sent: bool) -> Plan {
        let plan_context = PlanContext {
            previous_end: self.end().filter(|_| begins_as_sent),
            is_last: true,
            ..self.plan_context
        };
        plan(prompt, &self.rules, &plan_context).plan
    }

    /// The end of the last request; `None` if there was none.
    pub(super) fn end(&self) -> Option<u32> {
        self.plan_context.previous_end
    }

    /// Continues from a prefix up to `end` that another conversation has sent.
    pub(super) fn continue_from(&mut self, end: Option<u32>) {
        self.plan_context.previous_end = end;
    }

    /// Returns the shortest lifetime beyond the provider's shortest one that covers a pause, if it has one.
    pub(super) fn lifetime_for(&self, pause: Duration) -> Option<PrefixLifetime> {
        self.rules.lifetime_for(pause)
    }

    /// Returns the notes that were not returned before.
    pub(super) fn new_notes(&mut self) -> &[Note] {
        let returned_notes = std::mem::replace(&mut self.returned_notes, self.notes.len());
        &self.notes[returned_notes..]
    }
}

/// The occasion on which a session plans its cache breakpoints.
pub(super) fn plan_context(
    dependencies: &Dependencies,
    agent: &AgentDefinition,
    session: &Session,
) -> PlanContext {
    PlanContext {
        // A delegating agent does not pause between requests as a human does.
        human_paced: dependencies.human_paced && session.head.parent.is_none(),
        keep: agent.prefix.keep,
        ..PlanContext::default()
    }
}
