//! Calls that are not in the file yet.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::append::{Batch, row_totals};
use super::file::File;
use super::tally::{MAX_RECENT_HITS, RecentHit};
use super::{Hits, LedgerError, LedgerTotals, PendingRow};
use crate::CallKind;

/// Maximum number of rows in one transaction.
pub(super) const MAX_ROWS_PER_TRANSACTION: usize = 1_000;

/// Maximum size of the rows that wait for a file that cannot be written, in bytes.
pub(super) const MAX_PENDING_BYTES: usize = 64 << 20;

/// Calls that are not in the file yet. They stay here until the file has taken them; past [`MAX_PENDING_BYTES`] bytes the
/// oldest rows are dropped, and only their totals are kept.
#[derive(Default)]
pub(super) struct Pending {
    rows: VecDeque<PendingRow>,
    /// The approximate size of `rows`, in bytes.
    bytes: usize,
    /// Totals of calls that have no row here.
    sums: HashMap<(CallKind, String), LedgerTotals>,
    /// The most recent hits, at most [`MAX_RECENT_HITS`], in the order of arrival.
    hits: VecDeque<RecentHit>,
    /// Number of rows dropped since the last successful write.
    dropped: u64,
}

impl Pending {
    pub(super) fn push(&mut self, row: PendingRow) {
        self.bytes += row.size();
        self.rows.push_back(row);
    }

    /// Takes the hits counted since the last call.
    pub(super) fn take_hits(&mut self, hits: &Hits) {
        for (kind, name, sum) in hits.take_sums() {
            *self.sums.entry((kind, name)).or_default() += sum;
        }
        self.hits.extend(hits.recent.take());
        let too_many = self.hits.len().saturating_sub(MAX_RECENT_HITS);
        self.hits.drain(..too_many);
    }

    /// Number of calls that have a row here.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.sums.is_empty() && self.hits.is_empty()
    }

    /// Writes everything, in as many transactions as needed. Retries until `deadline` while another process
    /// holds the file's lock.
    ///
    /// # Errors
    /// The first error that ended the writing; rows that are not written stay.
    pub(super) fn write(&mut self, file: &mut File, deadline: Instant) -> Result<(), LedgerError> {
        while !self.is_empty() {
            match self.write_some(file) {
                Ok(()) => {}
                Err(error) if error.is_locked() && Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_some(&mut self, file: &mut File) -> Result<(), LedgerError> {
        let rows = self.rows.len().min(MAX_ROWS_PER_TRANSACTION);
        let is_all = rows == self.rows.len();
        // Hits that came after these rows are written with later ones.
        let until = self.rows.get(rows.wrapping_sub(1)).map(|row| row.when);
        let hits = match until {
            Some(until) if !is_all => self.hits.partition_point(|hit| hit.when < until),
            _ => self.hits.len(),
        };
        file.append(&Batch {
            rows: &self.rows.make_contiguous()[..rows],
            sums: &self.sums,
            hits: &self.hits.make_contiguous()[..hits],
            dropped: self.dropped,
        })?;
        // Removed only after the commit: a failed transaction leaves all of them pending.
        let written = self.rows.drain(..rows);
        self.bytes -= written.map(|row| row.size()).sum::<usize>();
        self.hits.drain(..hits);
        self.sums.clear();
        self.dropped = 0;
        Ok(())
    }

    /// Drops the oldest rows beyond [`MAX_PENDING_BYTES`] bytes; returns their number. Their totals stay.
    pub(super) fn drop_oldest(&mut self) -> u64 {
        let before = self.dropped;
        while self.bytes > MAX_PENDING_BYTES {
            let Some(row) = self.rows.pop_front() else {
                break;
            };
            self.bytes -= row.size();
            let name = row.secret_set.redact(&row.name).into_owned();
            *self.sums.entry((row.kind, name)).or_default() += row_totals(&row);
            self.dropped += 1;
        }
        self.dropped - before
    }
}
