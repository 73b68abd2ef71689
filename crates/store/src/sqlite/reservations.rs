//! Reservations, within one transaction of the writer.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use crate::request::{MIN_LAPSED_LEASE_AGE, lease_end, matches_all};
use crate::stored_lease::StoredLease;
use crate::text::after_prefix;
use crate::{Label, Lease, Millis, PageRequest, RecordFilter};

use super::labels;
use super::read::number;

/// The reservations in a database, at the time of a transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservations<'c> {
    pub(super) connection: &'c Connection,
    pub(super) now: Millis,
}

/// The value of the column `reserved` for a key. It is empty in the row of the space itself.
fn reservation_key(key: &str) -> String {
    format!(":{key}")
}

impl Reservations<'_> {
    /// Returns the lease on a key, lapsed or not. One that has ended has no row.
    pub(super) fn get(&self, space: &str, key: &str) -> rusqlite::Result<Option<StoredLease>> {
        self.connection
            .prepare_cached("SELECT fence, until FROM spaces WHERE space = ?1 AND reserved = ?2")?
            .query_row([space, &reservation_key(key)], |row| {
                Ok(StoredLease {
                    fence: number(row, 0)?,
                    until: row.get(1)?,
                    is_current: true,
                })
            })
            .optional()
    }

    /// Reserves a key in place of any other reservation of it.
    pub(super) fn insert(
        &self,
        lease: &Lease,
        labels: &[Label],
        hold: Duration,
    ) -> rusqlite::Result<()> {
        // Lapsed reservations of keys that are not requested again would accumulate.
        if lease.fence.is_multiple_of(64) {
            self.connection
                .prepare_cached("DELETE FROM spaces WHERE reserved <> '' AND until <= ?1")?
                .execute([self.now.saturating_sub(MIN_LAPSED_LEASE_AGE)])?;
        }
        self.connection
            .prepare_cached(
                "INSERT OR REPLACE INTO spaces(space, reserved, fence, until, labels, records, bytes) \
                 VALUES (?1, ?2, ?3, ?4, ?5, 0, 0)",
            )?
            .execute(params![
                lease.space,
                reservation_key(&lease.key),
                lease.fence as i64,
                lease_end(self.now, hold),
                labels::encode(labels)
            ])?;
        Ok(())
    }

    /// Extends the lease; false if it is not current.
    pub(super) fn renew(&self, lease: &Lease, hold: Duration) -> rusqlite::Result<bool> {
        // A lapsed lease that was not taken over is still current, so it can be extended, too.
        let renewed = self
            .connection
            .prepare_cached(
                "UPDATE spaces SET until = ?4 WHERE space = ?1 AND reserved = ?2 AND fence = ?3",
            )?
            .execute(params![
                lease.space,
                reservation_key(&lease.key),
                lease.fence as i64,
                lease_end(self.now, hold)
            ])?;
        Ok(renewed == 1)
    }

    /// Ends the lease if it is current.
    pub(super) fn release(&self, lease: &Lease) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM spaces WHERE space = ?1 AND reserved = ?2 AND fence = ?3")?
            .execute(params![
                lease.space,
                reservation_key(&lease.key),
                lease.fence as i64
            ])?;
        Ok(())
    }

    /// Ends any lease on a key.
    pub(super) fn end(&self, space: &str, key: &str) -> rusqlite::Result<()> {
        self.delete(space, &reservation_key(key))
    }

    fn delete(&self, space: &str, reservation_key: &str) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM spaces WHERE space = ?1 AND reserved = ?2")?
            .execute([space, reservation_key])?;
        Ok(())
    }

    /// Erases the reservations that match. They are few, those of runs in progress: the ones in the range of
    /// keys are scanned.
    pub(super) fn revoke(
        &self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> rusqlite::Result<()> {
        let from = reservation_key(filter.prefix);
        let end = after_prefix(&from);
        let after = page.after.map(reservation_key);
        let mut statement = self.connection.prepare_cached(
            "SELECT reserved, labels FROM spaces \
             WHERE space = ?1 AND reserved >= ?2 AND reserved < ?3 AND (?4 IS NULL OR reserved > ?4)",
        )?;
        let mut rows = statement.query(params![space, from, end, after])?;
        // Collected first: the statement must not read a table while its rows are deleted.
        let mut revoked: Vec<String> = Vec::new();
        while let Some(row) = rows.next()? {
            if filter.labels.is_empty()
                || matches_all(filter.labels, &labels::decode(row.get_ref(1)?.as_blob()?)?)
            {
                revoked.push(row.get(0)?);
            }
        }
        for reservation_key in revoked {
            self.delete(space, &reservation_key)?;
        }
        Ok(())
    }
}
