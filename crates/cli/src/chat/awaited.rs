//! Answers that models were asked for and that have not come to their end.

use std::collections::BTreeMap;

/// Who waits for an answer: the turn, or the holder of a fork beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting<'a> {
    Turn,
    Fork(&'a str),
}

/// The answers under way, and how many were cut off.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Whether anything came of the turn's.
    turn: Option<bool>,
    /// The same of forks, by their holders.
    forks: BTreeMap<String, bool>,
    cut_off: u32,
}

impl Awaited {
    /// A model is asked.
    pub(super) fn asked(&mut self, waiting: Waiting<'_>) {
        match waiting {
            Waiting::Turn => self.turn = Some(false),
            Waiting::Fork(holder) => {
                self.forks.insert(holder.to_owned(), false);
            }
        }
    }

    /// Something comes of the answer.
    pub(super) fn heard(&mut self, waiting: Waiting<'_>) {
        let heard = match waiting {
            Waiting::Turn => self.turn.as_mut(),
            Waiting::Fork(holder) => self.forks.get_mut(holder),
        };
        if let Some(heard) = heard {
            *heard = true;
        }
    }

    /// The answer is there.
    pub(super) fn answered(&mut self, waiting: Waiting<'_>) {
        self.take(waiting);
    }

    /// Nobody waits any more. An answer that did not come to its end counts as cut off if anything of
    /// it came, or if it is known to have been under way; how many there were.
    pub(super) fn ended(&mut self, waiting: Waiting<'_>, under_way: bool) -> u32 {
        let heard = self.take(waiting);
        let cut_off = u32::from(heard.is_some_and(|heard| heard || under_way));
        self.cut_off += cut_off;
        cut_off
    }

    /// How many answers were cut off so far.
    pub(super) fn cut_off(&self) -> u32 {
        self.cut_off
    }

    fn take(&mut self, waiting: Waiting<'_>) -> Option<bool> {
        match waiting {
            Waiting::Turn => self.turn.take(),
            Waiting::Fork(holder) => self.forks.remove(holder),
        }
    }
}
