//! Model answers that are in progress.

use std::collections::BTreeMap;

/// The party that waits for a model answer: the turn, or the holder of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiter<'a> {
    Turn,
    Fork(&'a str),
}

/// Model answers in progress, and the number of answers that were cut off.
#[derive(Debug, Default)]
pub(super) struct PendingAnswers {
    /// The turn's answer: true once part of it has arrived.
    turn: Option<bool>,
    /// The same for forks, by holder.
    forks: BTreeMap<String, bool>,
    cut_off: u32,
}

impl PendingAnswers {
    /// Records a request to a model.
    pub(super) fn asked(&mut self, waiting: Waiter<'_>) {
        match waiting {
            Waiter::Turn => self.turn = Some(false),
            Waiter::Fork(holder) => {
                self.forks.insert(holder.to_owned(), false);
            }
        }
    }

    /// Records that part of the answer has arrived.
    pub(super) fn heard(&mut self, waiting: Waiter<'_>) {
        let heard = match waiting {
            Waiter::Turn => self.turn.as_mut(),
            Waiter::Fork(holder) => self.forks.get_mut(holder),
        };
        if let Some(heard) = heard {
            *heard = true;
        }
    }

    /// Records that the answer is complete.
    pub(super) fn answered(&mut self, waiting: Waiter<'_>) {
        self.take(waiting);
    }

    /// Stops waiting and returns the number of answers that were cut off. An incomplete answer counts as cut
    /// off if part of it has arrived, or if `under_way` is true.
    pub(super) fn ended(&mut self, waiting: Waiter<'_>, under_way: bool) -> u32 {
        let heard = self.take(waiting);
        let cut_off = u32::from(heard.is_some_and(|heard| heard || under_way));
        self.cut_off += cut_off;
        cut_off
    }

    /// Returns the number of answers that were cut off so far.
    pub(super) fn cut_off(&self) -> u32 {
        self.cut_off
    }

    fn take(&mut self, waiting: Waiter<'_>) -> Option<bool> {
        match waiting {
            Waiter::Turn => self.turn.take(),
            Waiter::Fork(holder) => self.forks.remove(holder),
        }
    }
}
