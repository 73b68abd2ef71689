//! The repetition of calls whose connection has ended: a server or a machine in between closes connections that are idle,
//! and all of them when it starts again.

use std::time::Duration;

use cachalot_store::implementation::sort_and_deduplicate;
use cachalot_store::{
    Error, Label, PutAllResult, PutCondition, PutResult, Record, Stale, Store, space,
};

use crate::random::random;

/// The pauses before a connection is opened again that a write needs: a server or a pooler that starts again is back soon.
pub(crate) const REOPEN_PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// Maximum number of times that a call finds a connection ended before it sends anything.
const MAX_UNSENT: u32 = 2;

/// The progress of a call that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The connection ended before the call was sent: the server has not executed it.
    Unsent,
    /// The connection ended later: the server may have executed the call.
    Lost,
    /// The server has refused the call, or does not answer.
    Answered,
}

/// The attempts of one call.
#[derive(Debug, Default)]
pub(crate) struct Repetition {
    unsent: u32,
    lost: Option<Error>,
}

impl Repetition {
    /// Returns if the call is to be repeated on another connection, and the error if not. A call that the server may
    /// have executed is repeated once, and only if executing it twice has the effect of executing it once.
    pub(crate) fn after(
        &mut self,
        error: Error,
        progress: Progress,
        is_repeatable: bool,
    ) -> Result<(), Error> {
        match progress {
            Progress::Unsent if self.unsent < MAX_UNSENT => self.unsent += 1,
            Progress::Lost if is_repeatable && self.lost.is_none() => self.lost = Some(error),
            Progress::Unsent | Progress::Lost | Progress::Answered => return Err(error),
        }
        Ok(())
    }

    /// Returns the error of an attempt that the server may have executed.
    pub(crate) fn lost(self) -> Option<Error> {
        self.lost
    }
}

/// True if calls whose results depend on what they change may be executed twice in a space. The counters of the cache are
/// epochs, which only have to change; and of an erase of its entries, only the effect matters, not what it has found.
/// Elsewhere, sums of money are counted once, and callers rely on what an erase returns.
pub(crate) fn are_effects_enough(of: &str) -> bool {
    of == space::CACHE
}

/// Returns the labels of a reservation, with one that no other has: a call that is executed twice finds its own.
pub(crate) fn with_owner(labels: &[Label]) -> Vec<Label> {
    let owner = Label::new("lease:owner", format!("{:016x}", random()));
    labels.iter().cloned().chain([owner]).collect()
}

/// Returns the result of a put, executed a second time, whose lease is not current any more: the first time, it may have
/// been stored, which has ended the lease.
pub(crate) async fn result_of_first_put(
    store: &dyn Store,
    space: &str,
    stored: &Record,
) -> Result<PutResult, Error> {
    let found = store.get(space, &stored.key, &[]).settle().await?.record;
    Ok(match found.filter(|found| is_same(found, stored)) {
        Some(Record { revision, .. }) => PutResult::Stored { revision },
        None => PutResult::LeaseLost,
    })
}

/// Returns the result of storing several records, as the function of a server gives it: -1 if they are stored, -2 if the
/// condition is not met, or the milliseconds for which another caller has the lease, which `unsigned` reads. `lost`: the
/// error of a first time.
pub(crate) fn put_all_result(
    code: i64,
    lost: Option<Error>,
    unsigned: fn(i64) -> Result<u64, Error>,
) -> Result<PutAllResult, Error> {
    match (code, lost) {
        (-1, _) => Ok(PutAllResult::Stored),
        // The first time, it may have been stored: another caller may have changed or reserved the key since.
        (_, Some(lost)) => Err(lost),
        (-2, None) => Ok(PutAllResult::Changed),
        (left, None) => Ok(PutAllResult::Busy {
            left: Duration::from_millis(unsigned(left)?),
        }),
    }
}

/// Returns the revision that does not answer a lookup, as the functions of servers take it: 0 for none, -1 for any.
pub(crate) fn stale_revision(stale: Stale) -> i64 {
    match stale {
        Stale::None => 0,
        Stale::Revision(revision) => i64::try_from(revision).unwrap_or(0),
        Stale::Any => -1,
    }
}

/// True if a record that was found is one that was to be stored, apart from its revision.
fn is_same(found: &Record, stored: &Record) -> bool {
    let Record {
        key,
        value,
        labels,
        expires,
        revision: _,
        updated: _,
    } = found;
    (key, value, expires) == (&stored.key, &stored.value, &stored.expires)
        && sort_and_deduplicate(labels.clone()) == sort_and_deduplicate(stored.labels.clone())
}

/// True if the condition is not met any more once the records are stored.
pub(crate) fn replaces_its_condition(
    condition: &PutCondition<'_>,
    records: &[(&str, Record)],
) -> bool {
    records.iter().any(|(space, record)| {
        (*space, &*record.key) == (condition.space, condition.key)
            && condition.value.as_ref() != Some(&record.value)
    })
}

#[cfg(test)]
#[path = "../tests/unit/repetition.rs"]
mod tests;
