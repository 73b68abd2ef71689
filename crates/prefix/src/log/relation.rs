//! Whether a request was to go on with a conversation, or branches off from it.
//!
//! What was said last was never part of a prefix that had to be kept: other words in its place make
//! a branch. Neither had an answer that was never sent back. What was kept tells: a request that
//! holds on to what stood behind a difference has changed something in the middle.

use super::Logged;
use super::threads::Thread;
use super::turns::Turns;
use crate::diagnosis::{Diagnosis, LikelyCause};
use cachalot_prompt::{Level, Node};

/// Bytes that two messages begin or end with in common, and not by chance: of one of them, a part was
/// changed.
const TELLING: usize = 96;

/// So many messages come at most with an answer and what is said next: a request has so many more than
/// the one before.
const OF_A_TURN: usize = 3;

/// A request, and the conversation that it may belong to.
pub(super) struct Relation<'a> {
    pub(super) thread: &'a Thread,
    pub(super) next: &'a Logged,
    pub(super) turns: &'a Turns,
    /// With how many pieces in common both begin.
    pub(super) same: usize,
}

impl Relation<'_> {
    /// Whether the difference is a break: the request was to go on with the conversation.
    pub(super) fn is_break(&self, diagnosis: &Diagnosis, kin: bool) -> bool {
        match diagnosis.at.as_ref().map(|at| at.level == "messages") {
            None => false,
            Some(true) => self.keeps_what_follows() || self.changes_the_end(diagnosis, kin),
            Some(false) if self.same >= self.frozen() => self.has_newest(),
            Some(false) => kin,
        }
    }

    /// How many pieces stand before the messages.
    fn frozen(&self) -> usize {
        self.next.request.compared.prompt.frozen().len()
    }

    /// Whether what was said last is still said.
    fn has_newest(&self) -> bool {
        let newest = self.thread.prints.last();
        newest.is_none_or(|newest| self.next.request.prints.contains(newest))
    }

    /// Whether messages that stood behind the difference are still there.
    fn keeps_what_follows(&self) -> bool {
        // Siblings may say several things last, and only some of them differ.
        if self.in_newest() && !self.is_answered() {
            return false;
        }
        let at = self.same.saturating_sub(self.frozen());
        let before = self.thread.prints.get(at..).unwrap_or_default();
        let now = self.next.request.prints.get(at..).unwrap_or_default();
        let earlier = &now[..now.len().saturating_sub(1)];
        let goes_on = before.last().is_some_and(|newest| earlier.contains(newest));
        goes_on || before.iter().filter(|print| now.contains(print)).count() > 1
    }

    /// Whether what was said last was changed and then answered, or all is put in other words.
    fn changes_the_end(&self, diagnosis: &Diagnosis, kin: bool) -> bool {
        if self.moves_the_last() {
            return false;
        }
        match diagnosis.cause {
            Some(LikelyCause::Compaction) if !self.in_newest() => true,
            cause => {
                let changed = self.in_newest() && self.is_answered();
                self.is_rewritten() || changed && kin && cause.is_some()
            }
        }
    }

    /// Whether all that is different is an instruction that always stands last. That costs nothing
    /// where the provider caches by itself.
    fn moves_the_last(&self) -> bool {
        let thread = self.thread;
        let last = self.same + 1 == thread.prompt.len() && thread.plan.marks().is_empty();
        last && thread.prints.last() == self.next.request.prints.last()
    }

    /// Whether the difference is in what was said last.
    fn in_newest(&self) -> bool {
        self.same >= self.thread.turns.newest
    }

    /// Whether there is an answer behind the difference.
    fn is_answered(&self) -> bool {
        self.turns.newest > self.same
    }

    /// Whether what was said last was answered in another form.
    pub(super) fn is_rewritten(&self) -> bool {
        let (before, now) = (&self.thread.prints, &self.next.request.prints);
        let a_turn = (before.len()..=before.len() + OF_A_TURN).contains(&now.len());
        if !a_turn || !self.in_newest() || !self.is_answered() {
            return false;
        }
        let piece = |prompt: &cachalot_prompt::Prompt| {
            let mut nodes = prompt.backwards();
            nodes
                .find(|node| node.depth as usize == self.same && node.level == Level::Message)
                .map(|node: &Node| node.bytes.clone())
        };
        let both = piece(&self.thread.prompt).zip(piece(&self.next.request.compared.prompt));
        both.is_some_and(|(before, now)| in_common(&before, &now) >= TELLING)
    }
}

/// How many bytes two texts begin or end with in common, whatever is more.
fn in_common(one: &[u8], other: &[u8]) -> usize {
    let begins = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let ends = one.iter().rev().zip(other.iter().rev());
    begins.max(ends.take_while(|(a, b)| a == b).count())
}
