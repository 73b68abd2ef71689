//! Distinguishes requests that break the prefix of a conversation from requests that fork it.
//!
//! The newest message was never part of a prefix that had to be kept: another message in its place is a fork.
//! The same holds for an answer that was never sent back. The pieces that were kept decide: a request that
//! still contains what followed the difference has changed something in the middle.

use super::LoggedRequest;
use super::thread::Thread;
use super::turns::Turns;
use crate::diagnosis::{Diagnosis, LikelyCause};
use cachalot_prompt::{Level, Node};

/// Minimum bytes that two messages begin or end with in common if one is an edited version of the other; less
/// occurs by chance.
const MIN_COMMON_BYTES: usize = 96;

/// Maximum number of messages by which a request exceeds the one before it: an answer and the next user
/// messages.
const MAX_TURN_MESSAGES: usize = 3;

/// A request, and the conversation to which it may belong.
pub(super) struct Relation<'a> {
    pub(super) thread: &'a Thread,
    pub(super) next: &'a LoggedRequest,
    pub(super) turns: &'a Turns,
    /// Number of pieces in the common prefix.
    pub(super) same: usize,
}

impl Relation<'_> {
    /// True if the difference is a break: the request was to continue the conversation.
    pub(super) fn is_break(&self, diagnosis: &Diagnosis, is_related: bool) -> bool {
        match diagnosis.at.as_ref().map(|at| at.level == "messages") {
            None => false,
            Some(true) => self.keeps_what_follows() || self.changes_the_end(diagnosis, is_related),
            Some(false) if self.same >= self.frozen() => self.has_newest(),
            Some(false) => is_related,
        }
    }

    /// Number of pieces before the messages.
    fn frozen(&self) -> usize {
        self.next.request.compared.prompt.frozen().len()
    }

    /// True if the request contains the newest message of the conversation.
    fn has_newest(&self) -> bool {
        let newest = self.thread.fingerprints.last();
        newest.is_none_or(|newest| self.next.request.fingerprints.contains(newest))
    }

    /// True if the request contains messages that followed the difference.
    fn keeps_what_follows(&self) -> bool {
        // Sibling requests may end with several messages, of which only some differ.
        if self.in_newest() && !self.is_answered() {
            return false;
        }
        let at = self.same.saturating_sub(self.frozen());
        let before = self.thread.fingerprints.get(at..).unwrap_or_default();
        let now = self.next.request.fingerprints.get(at..).unwrap_or_default();
        let earlier = &now[..now.len().saturating_sub(1)];
        let is_continuation = before.last().is_some_and(|newest| earlier.contains(newest));
        is_continuation || before.iter().filter(|print| now.contains(print)).count() > 1
    }

    /// True if the newest message was changed and then answered, or rewritten.
    fn changes_the_end(&self, diagnosis: &Diagnosis, is_related: bool) -> bool {
        if self.moves_the_last() {
            return false;
        }
        match diagnosis.cause {
            Some(LikelyCause::Compaction) if !self.in_newest() => true,
            cause => {
                let changed = self.in_newest() && self.is_answered();
                self.is_rewritten() || changed && is_related && cause.is_some()
            }
        }
    }

    /// True if the only difference is an instruction that always comes last. That costs nothing where the
    /// provider caches without markers.
    fn moves_the_last(&self) -> bool {
        let thread = self.thread;
        let last = self.same + 1 == thread.prompt.len() && thread.plan.marks().is_empty();
        last && thread.fingerprints.last() == self.next.request.fingerprints.last()
    }

    /// True if the difference is in the newest messages.
    fn in_newest(&self) -> bool {
        self.same >= self.thread.turns.newest
    }

    /// True if an answer follows the difference.
    fn is_answered(&self) -> bool {
        self.turns.newest > self.same
    }

    /// True if the newest message was edited and then answered.
    pub(super) fn is_rewritten(&self) -> bool {
        let (before, now) = (&self.thread.fingerprints, &self.next.request.fingerprints);
        let a_turn = (before.len()..=before.len() + MAX_TURN_MESSAGES).contains(&now.len());
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
        both.is_some_and(|(before, now)| in_common(&before, &now) >= MIN_COMMON_BYTES)
    }
}

/// Bytes that two texts begin or end with in common, the larger of both.
fn in_common(one: &[u8], other: &[u8]) -> usize {
    let begins = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let ends = one.iter().rev().zip(other.iter().rev());
    begins.max(ends.take_while(|(a, b)| a == b).count())
}
