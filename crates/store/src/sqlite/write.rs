//! Writes, within one transaction of the writer.

use std::time::Duration;

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::request::{has_equal_labels, reaches_reservations, weight};
use crate::slots::slot;
use crate::stored_lease::refusal;
use crate::{
    GetOrReserve, GetOrReserveResult, Label, Lease, Millis, PageRequest, PutAllResult,
    PutCondition, PutResult, Record, RecordFilter, RecordPage, ReserveResult, counter, request,
    space as names,
};

use super::labels;
use super::read::{self, number};
use super::reservations::Reservations;
use super::select;

/// The changes of one transaction. Changes of spaces are collected and written once, by [`WriteTransaction::finish`].
#[derive(Debug)]
pub(super) struct WriteTransaction<'c> {
    connection: &'c Connection,
    now: Millis,
    spaces: Vec<Space>,
    slots: Vec<usize>,
}

/// The changes of a space.
#[derive(Debug)]
struct Space {
    name: String,
    records: i64,
    bytes: i64,
    /// The last fence, if one was assigned in this transaction.
    fence: Option<i64>,
}

/// The existing record under the key of a record to be stored.
struct Previous {
    id: i64,
    revision: u64,
    labels: Vec<Label>,
    size: usize,
    expires: Option<Millis>,
    /// True if it has the value that was asked for.
    has_value: bool,
}

impl<'c> WriteTransaction<'c> {
    /// Creates the changes of a transaction that has begun.
    pub(super) fn new(connection: &'c Connection, now: Millis) -> Self {
        Self {
            connection,
            now,
            spaces: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// Writes the collected changes, and returns the slots of the stamps that have to change.
    pub(super) fn finish(self) -> rusqlite::Result<Vec<usize>> {
        const ADD: &str = "INSERT INTO spaces(space, reserved, fence, until, labels, records, bytes) \
                           VALUES (?1, '', ifnull(?4, 0), 0, x'', ?2, ?3) \
                           ON CONFLICT(space, reserved) DO UPDATE SET fence = ifnull(?4, fence), \
                           records = records + excluded.records, bytes = bytes + excluded.bytes";
        for space in &self.spaces {
            if space.records != 0 || space.bytes != 0 || space.fence.is_some() {
                self.prepare(ADD)?.execute(params![
                    space.name,
                    space.records,
                    space.bytes,
                    space.fence
                ])?;
            }
        }
        Ok(self.slots)
    }

    fn prepare(&self, text: &str) -> rusqlite::Result<CachedStatement<'c>> {
        self.connection.prepare_cached(text)
    }

    fn space(&mut self, name: &str) -> &mut Space {
        let index = self
            .spaces
            .iter()
            .position(|space| space.name == name)
            .unwrap_or_else(|| {
                self.spaces.push(Space {
                    name: name.to_owned(),
                    records: 0,
                    bytes: 0,
                    fence: None,
                });
                self.spaces.len() - 1
            });
        &mut self.spaces[index]
    }

    pub(super) fn reservations(&self) -> Reservations<'c> {
        Reservations {
            connection: self.connection,
            now: self.now,
        }
    }

    fn changed(&mut self, space: &str, name: &str) {
        self.slots.push(slot(space, name));
    }

    /// Stores a record whose labels are distinct.
    pub(super) fn put(
        &mut self,
        space: &str,
        record: &Record,
        lease: Option<&Lease>,
        counters: &[(String, u64)],
    ) -> rusqlite::Result<PutResult> {
        let stored = |lease: &Lease| self.reservations().get(&lease.space, &lease.key);
        let count = |name: &str| read::counter(self.connection, space, name);
        if let Some(refused) = refusal(lease, counters, stored, count)? {
            return Ok(refused);
        }
        // In the transaction that stores the record: after a crash, either the lease or the record is there.
        if let Some(lease) = lease {
            self.reservations().release(lease)?;
        }
        let previous = self.previous(space, &record.key, None)?;
        let revision = self.replace(space, record, previous)?;
        Ok(PutResult::Stored { revision })
    }

    /// Stores records of any spaces, whose labels are distinct, if the condition holds.
    pub(super) fn put_all(
        &mut self,
        condition: &PutCondition<'_>,
        records: &[(String, Record)],
    ) -> rusqlite::Result<PutAllResult> {
        let (space, key) = (condition.space, condition.key);
        let reserved = self.reservations().get(space, key)?;
        if let Some(left) = reserved.and_then(|reserved| reserved.left(self.now)) {
            return Ok(PutAllResult::Busy { left });
        }
        let expected = condition.value.as_deref();
        let found = self.previous(space, key, expected)?;
        if found.is_some() != expected.is_some()
            || found.as_ref().is_some_and(|found| !found.has_value)
        {
            return Ok(PutAllResult::Changed);
        }
        // A lapsed lease still permits its holder to store, so it is ended.
        if reserved.is_some() {
            self.reservations().end(space, key)?;
        }
        let mut found = Some(found);
        for (of, record) in records {
            // The record of the condition was read already.
            let previous = match found.take_if(|_| of == space && record.key == key) {
                Some(found) => found.map(|found| Previous {
                    has_value: expected == Some(&record.value[..]),
                    ..found
                }),
                None => self.previous(of, &record.key, Some(&record.value))?,
            };
            // An identical record is not written: its revision and its stamp stay, so that copies of it remain valid.
            let is_identical = previous.as_ref().is_some_and(|previous| {
                previous.has_value
                    && previous.expires == record.expires
                    && has_equal_labels(&previous.labels, &record.labels)
            });
            if !is_identical {
                self.replace(of, record, previous)?;
            }
        }
        Ok(PutAllResult::Stored)
    }

    /// Stores a record in place of the previous one; returns its revision.
    fn replace(
        &mut self,
        space: &str,
        record: &Record,
        previous: Option<Previous>,
    ) -> rusqlite::Result<u64> {
        let revision = previous.as_ref().map_or(0, |previous| previous.revision) + 1;
        self.update_labels(
            space,
            &record.key,
            previous.as_ref().map_or(&[], |previous| &previous.labels),
            &record.labels,
        )?;
        if let Some(previous) = &previous {
            // The statement below gives the row another ID, under which the text is indexed again.
            if space == names::USER {
                self.unindex_text(previous.id)?;
            }
            let size = weight(&record.key, previous.size, &previous.labels);
            let entry = self.space(space);
            entry.records -= 1;
            entry.bytes -= size as i64;
        }
        self.prepare(
            "INSERT OR REPLACE INTO records(space, key, revision, updated, used, expires, labels, value) \
             VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            space,
            record.key,
            revision as i64,
            self.now,
            record.expires,
            labels::encode(&record.labels),
            &record.value[..]
        ])?;
        if space == names::USER {
            self.index_text(self.connection.last_insert_rowid(), record)?;
        }
        let size = weight(&record.key, record.value.len(), &record.labels);
        let entry = self.space(space);
        entry.records += 1;
        entry.bytes += size as i64;
        self.changed(space, &record.key);
        Ok(revision)
    }

    /// Looks for the record under a key, and compares its value with `value` if it has the same size.
    fn previous(
        &self,
        space: &str,
        key: &str,
        value: Option<&[u8]>,
    ) -> rusqlite::Result<Option<Previous>> {
        self.prepare(
            "SELECT id, revision, labels, length(value), expires, \
             CASE WHEN length(value) = length(?3) THEN value = ?3 ELSE 0 END \
             FROM records WHERE space = ?1 AND key = ?2",
        )?
        .query_row(params![space, key, value], |row| {
            Ok(Previous {
                id: row.get(0)?,
                revision: number(row, 1)?,
                labels: labels::decode(row.get_ref(2)?.as_blob()?)?,
                size: number(row, 3)? as usize,
                expires: row.get(4)?,
                has_value: row.get(5)?,
            })
        })
        .optional()
    }

    /// Replaces the value of a record that is unchanged since it was read; returns its new revision.
    pub(super) fn amend(&mut self, space: &str, record: &Record) -> rusqlite::Result<Option<u64>> {
        // A record that was erased and stored again begins with revision 1, so the time is compared, too.
        let read = self
            .prepare(
                "SELECT id, length(value) FROM records \
                 WHERE space = ?1 AND key = ?2 AND revision = ?3 AND updated = ?4",
            )?
            .query_row(
                params![space, record.key, record.revision as i64, record.updated],
                |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)),
            )
            .optional()?;
        let Some((id, size)) = read else {
            return Ok(None);
        };
        self.prepare("UPDATE records SET value = ?2, revision = revision + 1 WHERE id = ?1")?
            .execute(params![id, &record.value[..]])?;
        self.space(space).bytes += record.value.len() as i64 - size;
        self.changed(space, &record.key);
        Ok(Some(record.revision + 1))
    }

    /// Replaces the labels by which a key is found.
    fn update_labels(
        &self,
        space: &str,
        key: &str,
        before: &[Label],
        after: &[Label],
    ) -> rusqlite::Result<()> {
        for label in before.iter().filter(|label| !after.contains(label)) {
            self.prepare(
                "DELETE FROM labels WHERE space = ?1 AND name = ?2 AND value = ?3 AND key = ?4",
            )?
            .execute([space, &label.name, &label.value, key])?;
        }
        for label in after.iter().filter(|label| !before.contains(label)) {
            self.prepare(
                "INSERT OR IGNORE INTO labels(space, name, value, key) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute([space, &label.name, &label.value, key])?;
        }
        Ok(())
    }

    fn index_text(&self, id: i64, record: &Record) -> rusqlite::Result<()> {
        let labels: Vec<&str> = record
            .labels
            .iter()
            .map(|label| label.value.as_str())
            .collect();
        // A value that is not UTF-8 text is found by its key and labels only.
        let value = std::str::from_utf8(&record.value).unwrap_or_default();
        self.prepare("INSERT INTO texts(rowid, key, value, labels) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![id, record.key, value, labels.join("\n")])?;
        Ok(())
    }

    fn unindex_text(&self, id: i64) -> rusqlite::Result<()> {
        self.prepare("DELETE FROM texts WHERE rowid = ?1")?
            .execute([id])?;
        Ok(())
    }

    /// Erases one page of records, and the reservations that match.
    pub(super) fn erase(
        &mut self,
        space: &str,
        filter: &RecordFilter<'_>,
        page: &PageRequest<'_>,
    ) -> rusqlite::Result<RecordPage> {
        let mut batch = RecordPage::default();
        for matched in select::find_rows(self.connection, space, filter, page)? {
            let id = matched.id;
            let read::RecordRow { mut record, size } =
                read::read_matched_row(self.connection, matched, true, page.values)?;
            self.update_labels(space, &record.key, &record.labels, &[])?;
            self.prepare("DELETE FROM records WHERE id = ?1")?
                .execute([id])?;
            if space == names::USER {
                self.unindex_text(id)?;
            }
            let weight = weight(&record.key, size as usize, &record.labels);
            let entry = self.space(space);
            entry.records -= 1;
            entry.bytes -= weight as i64;
            self.changed(space, &record.key);
            if !page.labels {
                record.labels.clear();
            }
            batch.records.push(record);
            batch.sizes.push(size);
        }
        // In the same transaction: a run that began before the erase finds the counter changed, or its lease gone, when
        // it stores.
        if reaches_reservations(filter) {
            let now = self.now;
            self.count(space, counter::ERASED, |before| {
                request::next_erasure(before, now)
            })?;
            self.reservations().revoke(space, filter, page)?;
        }
        batch.next = request::next_cursor(&batch.records, filter, page);
        Ok(batch)
    }

    /// Reads, and reserves if the record does not answer.
    pub(super) fn get_or_reserve(
        &mut self,
        space: &str,
        key: &str,
        request: &GetOrReserve<'_>,
    ) -> rusqlite::Result<GetOrReserveResult> {
        let got = read::get(
            self.connection,
            space,
            key,
            request.counters,
            self.now,
            i64::MAX,
        )?;
        let read::InlineGet::GetResult(found) = got else {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        };
        let reserved = if request.stale.is_answered_by(&found) {
            None
        } else {
            Some(self.reserve(space, key, request.labels, request.hold)?)
        };
        Ok(GetOrReserveResult { found, reserved })
    }

    /// Reserves a key, unless another caller holds it.
    pub(super) fn reserve(
        &mut self,
        space: &str,
        key: &str,
        labels: &[Label],
        hold: Duration,
    ) -> rusqlite::Result<ReserveResult> {
        let reserved = self.reservations().get(space, key)?;
        if let Some(busy) = reserved.and_then(|reserved| reserved.busy(self.now)) {
            return Ok(busy);
        }
        let lease = Lease {
            space: space.to_owned(),
            key: key.to_owned(),
            fence: self.next_fence(space)? as u64,
        };
        self.reservations().insert(&lease, labels, hold)?;
        Ok(ReserveResult::Held(lease))
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

    /// Replaces the value of a counter; returns the new one.
    pub(super) fn count(
        &mut self,
        space: &str,
        name: &str,
        change: impl FnOnce(u64) -> u64,
    ) -> rusqlite::Result<u64> {
        self.changed(space, name);
        let before = read::counter(self.connection, space, name)?;
        let value = change(before).min(request::MAX_COUNTER);
        self.prepare("INSERT OR REPLACE INTO counters(space, name, value) VALUES (?1, ?2, ?3)")?
            .execute(params![space, name, value as i64])?;
        Ok(value)
    }

    pub(super) fn touch(&mut self, space: &str, used: &[(String, Millis)]) -> rusqlite::Result<()> {
        // The time of use is not part of an answer, so no stamp changes. Uses by several processes arrive in any order.
        let mut statement = self
            .prepare("UPDATE records SET used = ?3 WHERE space = ?1 AND key = ?2 AND used < ?3")?;
        for (key, at) in used {
            statement.execute(params![space, key, at])?;
        }
        Ok(())
    }
}
