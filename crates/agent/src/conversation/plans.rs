//! Where the requests of a conversation are marked, for the provider to keep what stands before.

use cachalot_core::Millis;
use cachalot_model::Model;
use cachalot_prompt::{Note, Occasion, Pauses, Plan, Prompt, Rules, plan};

/// Plans the markers of one request after the other.
pub(super) struct Plans {
    rules: Rules,
    occasion: Occasion,
    /// What was noted so far, each kind once.
    notes: Vec<Note>,
    /// How many of them were told.
    told: usize,
    /// Whether no other request was expected behind the last one.
    was_last: bool,
}

impl Plans {
    /// For a model, and for a conversation whose requests are sent for this.
    pub(super) fn new(model: &Model, occasion: Occasion) -> Self {
        Self {
            rules: Rules::for_model(model),
            occasion,
            notes: Vec::new(),
            told: 0,
            was_last: false,
        }
    }

    /// Begins the pauses with the last request, which another process sent at this time.
    pub(super) fn resume(&mut self, sent: Millis) {
        self.occasion.pauses = Pauses::resumed(sent);
    }

    /// Sets no markers in the next request, because none is expected to begin like it; but for the parts
    /// up to the piece that other sessions have sent, if they have.
    pub(super) fn expect_no_other(&mut self, sent_by_others: Option<u32>) {
        self.occasion.is_last = true;
        self.occasion.previous_end = sent_by_others;
    }

    /// Returns true if no other request was expected behind the last one, nor is by a fallback that is
    /// asked in its place.
    pub(super) fn expected_no_other(&self) -> bool {
        self.was_last
    }

    /// Of the next request.
    pub(super) fn next(&mut self, prompt: &Prompt, now: Millis) -> Plan {
        self.occasion.pauses.count(prompt, now);
        let planned = plan(prompt, &self.rules, &self.occasion);
        self.occasion.previous_end = planned.plan.end();
        // If there is a second one, there may be a third.
        self.was_last = std::mem::take(&mut self.occasion.is_last);
        let kind = |note: &Note| std::mem::discriminant(note);
        for note in planned.notes {
            if !self.notes.iter().any(|known| kind(known) == kind(&note)) {
                self.notes.push(note);
            }
        }
        planned.plan
    }

    /// Of a request of which it is not known how it was marked, as if it had been the first.
    pub(super) fn first(&self, prompt: &Prompt) -> Plan {
        let occasion = Occasion {
            previous_end: None,
            ..self.occasion
        };
        plan(prompt, &self.rules, &occasion).plan
    }

    /// Of a request beside the conversation, which ends with a message of its own and is sent once. It
    /// reads what was sent, if it begins as that did.
    pub(super) fn aside(&self, prompt: &Prompt, begins_as_sent: bool) -> Plan {
        let occasion = Occasion {
            previous_end: self.end().filter(|_| begins_as_sent),
            is_last: true,
            ..self.occasion
        };
        plan(prompt, &self.rules, &occasion).plan
    }

    /// Where the last request ended, if there was one.
    pub(super) fn end(&self) -> Option<u32> {
        self.occasion.previous_end
    }

    /// Another conversation has sent the same up to there.
    pub(super) fn go_on_from(&mut self, end: Option<u32>) {
        self.occasion.previous_end = end;
    }

    /// What is worth knowing, and was not told before.
    pub(super) fn news(&mut self) -> &[Note] {
        let told = std::mem::replace(&mut self.told, self.notes.len());
        &self.notes[told..]
    }
}
