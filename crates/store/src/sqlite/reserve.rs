//! Reservations, within one transaction of the writer.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use crate::request::{MIN_LAPSED_LEASE_AGE, lease_end, matches_all, time_left};
use crate::text::after_prefix;
use crate::{Label, Lease, Millis, PageRequest, RecordFilter, ReserveResult};

use super::labels;
use super::read::number;
use super::write::WriteTransaction;

/// The value of the column `reserved` for a key. It is empty in the row of the space itself.
fn reservation_key(key: &str) -> String {
    format!(":{key}")
}

impl WriteTransaction<'_> {
    /// Reserves a key, unless another caller holds it.
    pub(super) fn reserve(
        &mut self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> rusqlite::Result<ReserveResult> {
        let (now, reservation_key) = (self.now, reservation_key(key));
        if let Some((fence, until)) = self.reservation(space, &reservation_key)?
            && until > now
        {
            return Ok(ReserveResult::Busy {
                fence,
                left: time_left(until, now),
            });
        }
        let fence = self.next_fence(space)?;
        // Lapsed reservations of keys that are not requested again would accumulate.
        if fence % 64 == 0 {
            self.prepare("DELETE FROM spaces WHERE reserved <> '' AND until <= ?1")?
                .execute([now.saturating_sub(MIN_LAPSED_LEASE_AGE)])?;
        }
        self.prepare("INSERT OR REPLACE INTO spaces(space, reserved, fence, until, labels, records, bytes) VALUES (?1, ?2, ?3, ?4, ?5, 0, 0)")?
            .execute(params![space, reservation_key, fence, lease_end(now, hold), labels::encode(labels)])?;
        Ok(ReserveResult::Held(Lease {
            space: space.to_owned(),
            key: key.to_owned(),
            fence: fence as u64,
        }))
    }

    /// Returns the fence and the end of a reservation, lapsed or not.
    fn reservation(
        &self,
        space: &str,
        reservation_key: &str,
    ) -> rusqlite::Result<Option<(u64, Millis)>> {
        self.prepare("SELECT fence, until FROM spaces WHERE space = ?1 AND reserved = ?2")?
            .query_row([space, reservation_key], |row| {
                Ok((number(row, 0)?, row.get(1)?))
            })
            .optional()
    }

    /// Returns the time until the lease on a key lapses, zero for a lapsed one; `None` if there is none.
    pub(super) fn time_reserved(
        &self,
        space: &str,
        key: &str,
    ) -> rusqlite::Result<Option<Duration>> {
        let reserved = self.reservation(space, &reservation_key(key))?;
        Ok(reserved.map(|(_, until)| time_left(until, self.now)))
    }

    /// Ends any lease on a key.
    pub(super) fn end_reservation(&self, space: &str, key: &str) -> rusqlite::Result<()> {
        self.prepare("DELETE FROM spaces WHERE space = ?1 AND reserved = ?2")?
            .execute([space, &reservation_key(key)])?;
        Ok(())
    }

    /// Returns the next fence. Fences increase per space and are never reused: they outlive the reservations.
    fn next_fence(&mut self, space: &str) -> rusqlite::Result<i64> {
        let last = match self.space(space).fence {
            Some(fence) => fence,
            None => self
                .prepare("SELECT fence FROM spaces WHERE space = ?1 AND reserved = ''")?
                .query_row([space], |row| row.get(0))
                .optional()?
                .unwrap_or(0),
        };
        self.space(space).fence = Some(last + 1);
        Ok(last + 1)
    }

    pub(super) fn renew(&mut self, lease: &Lease, hold: Duration) -> rusqlite::Result<bool> {
        let renewed = self
            .prepare(
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
    pub(super) fn release(&mut self, lease: &Lease) -> rusqlite::Result<()> {
        self.prepare("DELETE FROM spaces WHERE space = ?1 AND reserved = ?2 AND fence = ?3")?
            .execute(params![
                lease.space,
                reservation_key(&lease.key),
                lease.fence as i64
            ])?;
        Ok(())
    }

    /// True if the lease is current: its row exists, lapsed or not.
    pub(super) fn holds(&self, lease: &Lease) -> rusqlite::Result<bool> {
        self.prepare("SELECT 1 FROM spaces WHERE space = ?1 AND reserved = ?2 AND fence = ?3")?
            .exists(params![
                lease.space,
                reservation_key(&lease.key),
                lease.fence as i64
            ])
    }

    /// Erases the reservations that match. They are few, those of runs in progress: the ones in the range of
    /// keys are scanned.
    pub(super) fn revoke(
        &mut self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> rusqlite::Result<()> {
        let from = reservation_key(filter.prefix);
        let end = after_prefix(&from);
        let after = page.after.map(reservation_key);
        let mut statement = self.prepare(
            "SELECT reserved, labels FROM spaces \
             WHERE space = ?1 AND reserved >= ?2 AND reserved < ?3 AND (?4 IS NULL OR reserved > ?4)",
        )?;
        let mut rows = statement.query(params![space, from, end, after])?;
        let mut revoked: Vec<String> = Vec::new();
        while let Some(row) = rows.next()? {
            if filter.labels.is_empty()
                || matches_all(filter.labels, &labels::decode(row.get_ref(1)?.as_blob()?)?)
            {
                revoked.push(row.get(0)?);
            }
        }
        for reservation_key in revoked {
            self.prepare("DELETE FROM spaces WHERE space = ?1 AND reserved = ?2")?
                .execute([space, &reservation_key])?;
        }
        Ok(())
    }
}
