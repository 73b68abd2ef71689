//! Planning of the cache breakpoints in the requests of a conversation.

use cachalot_core::Millis;
use cachalot_model::Model;
use cachalot_prompt::{Note, Occasion, Pauses, Plan, Prompt, Rules, plan};

/// Plans the cache breakpoints of consecutive requests.
pub(super) struct Plans {
    rules: Rules,
    occasion: Occasion,
    /// All notes so far, one of each kind.
    notes: Vec<Note>,
    /// Number of notes that [`Plans::news`] has returned.
    told: usize,
    /// True if the last request was expected to be the last one of the conversation.
    was_last: bool,
}

impl Plans {
    /// Creates a planner for a model and for a conversation that is used on this occasion.
    pub(super) fn new(model: &Model, occasion: Occasion) -> Self {
        Self {
            rules: Rules::for_model(model),
            occasion,
            notes: Vec::new(),
            told: 0,
            was_last: false,
        }
    }

    /// Starts the record of pauses at the last request, which another process sent at `sent`.
    pub(super) fn resume(&mut self, sent: Millis) {
        self.occasion.pauses = Pauses::resumed(sent);
    }

    /// Sets no breakpoints in the next request, because no later request is expected to share its prefix. If
    /// other sessions have sent a prefix of it, the part up to that piece (`sent_by_others`) is still marked.
    pub(super) fn expect_no_other(&mut self, sent_by_others: Option<u32>) {
        self.occasion.is_last = true;
        self.occasion.previous_end = sent_by_others;
    }

    /// True if no request was expected after the last one. This then also holds for a fallback that is called
    /// in its place.
    pub(super) fn expected_no_other(&self) -> bool {
        self.was_last
    }

    /// Returns the plan of the next request.
    pub(super) fn next(&mut self, prompt: &Prompt, now: Millis) -> Plan {
        self.occasion.pauses.count(prompt, now);
        let planned = plan(prompt, &self.rules, &self.occasion);
        self.occasion.previous_end = planned.plan.end();
        // After a second request, a third one may follow.
        self.was_last = std::mem::take(&mut self.occasion.is_last);
        let kind = |note: &Note| std::mem::discriminant(note);
        for note in planned.notes {
            if !self.notes.iter().any(|known| kind(known) == kind(&note)) {
                self.notes.push(note);
            }
        }
        planned.plan
    }

    /// Returns the plan of a request whose breakpoints are not known, as if it were the first one.
    pub(super) fn first(&self, prompt: &Prompt) -> Plan {
        let occasion = Occasion {
            previous_end: None,
            ..self.occasion
        };
        plan(prompt, &self.rules, &occasion).plan
    }

    /// Returns the plan of a request beside the conversation, which ends with a message of its own and is
    /// sent once. If its beginning was sent before, it reads that from the provider's cache.
    pub(super) fn aside(&self, prompt: &Prompt, begins_as_sent: bool) -> Plan {
        let occasion = Occasion {
            previous_end: self.end().filter(|_| begins_as_sent),
            is_last: true,
            ..self.occasion
        };
        plan(prompt, &self.rules, &occasion).plan
    }

    /// The end of the last request; `None` if there was none.
    pub(super) fn end(&self) -> Option<u32> {
        self.occasion.previous_end
    }

    /// Continues from a prefix up to `end` that another conversation has sent.
    pub(super) fn go_on_from(&mut self, end: Option<u32>) {
        self.occasion.previous_end = end;
    }

    /// Returns the notes that were not returned before.
    pub(super) fn news(&mut self) -> &[Note] {
        let told = std::mem::replace(&mut self.told, self.notes.len());
        &self.notes[told..]
    }
}
