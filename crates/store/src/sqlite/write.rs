//! Writes, within one transaction of the writer.

use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::request::{reaches_reservations, weight};
use crate::slots::slot;
use crate::{
    GetOrReserve, GetOrReserveResult, Label, Lease, Millis, PageRequest, PutAllResult,
    PutCondition, PutResult, Record, RecordFilter, RecordPage, counter, request, space as names,
};

use super::labels;
use super::read::{self, number};
use super::select;

/// The changes of one transaction. Changes of spaces are collected and written once, by [`WriteTransaction::finish`].
#[derive(Debug)]
pub(super) struct WriteTransaction<'c> {
    connection: &'c Connection,
    pub(super) now: Millis,
    spaces: Vec<Space>,
    slots: Vec<usize>,
}

/// The changes of a space.
#[derive(Debug)]
pub(super) struct Space {
    name: String,
    records: i64,
    bytes: i64,
    /// The last fence, if one was assigned in this transaction.
    pub(super) fence: Option<i64>,
}

/// The existing record under the key of a record to be stored.
struct Previous {
    id: i64,
    revision: u64,
    labels: Vec<Label>,
    size: usize,
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

    pub(super) fn prepare(&self, text: &str) -> rusqlite::Result<CachedStatement<'c>> {
        self.connection.prepare_cached(text)
    }

    pub(super) fn space(&mut self, name: &str) -> &mut Space {
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
        if let Some(lease) = lease
            && !self.holds(lease)?
        {
            return Ok(PutResult::LeaseLost);
        }
        for (counter, (name, value)) in counters.iter().enumerate() {
            if read::counter(self.connection, space, name)? != *value {
                return Ok(PutResult::CounterChanged { counter });
            }
        }
        if let Some(lease) = lease {
            self.release(lease)?;
        }
        let previous = self.previous(space, &record.key)?;
        let revision = self.replace(space, record, previous)?;
        Ok(PutResult::Stored { revision })
    }

    /// Stores records of any spaces, whose labels are distinct, if the condition holds.
    pub(super) fn put_all(
        &mut self,
        condition: &PutCondition<'_>,
        records: &[(String, Record)],
    ) -> rusqlite::Result<PutAllResult> {
        let reserved = self.time_reserved(condition.space, condition.key)?;
        if let Some(left) = reserved.filter(|left| !left.is_zero()) {
            return Ok(PutAllResult::Busy { left });
        }
        if !self.is_as_expected(condition)? {
            return Ok(PutAllResult::Changed);
        }
        if reserved.is_some() {
            self.end_reservation(condition.space, condition.key)?;
        }
        for (space, record) in records {
            let previous = self.previous(space, &record.key)?;
            if let Some(previous) = &previous
                && self.is_identical(previous, record)?
            {
                continue;
            }
            self.replace(space, record, previous)?;
        }
        Ok(PutAllResult::Stored)
    }

    fn is_as_expected(&self, condition: &PutCondition<'_>) -> rusqlite::Result<bool> {
        let mut statement =
            self.prepare("SELECT value FROM records WHERE space = ?1 AND key = ?2")?;
        let mut rows = statement.query([condition.space, condition.key])?;
        let found = match rows.next()? {
            Some(row) => Some(row.get_ref(0)?.as_blob()?),
            None => None,
        };
        Ok(found == condition.value.as_deref())
    }

    fn is_identical(&self, previous: &Previous, record: &Record) -> rusqlite::Result<bool> {
        if previous.size != record.value.len() || previous.labels != record.labels {
            return Ok(false);
        }
        self.prepare("SELECT 1 FROM records WHERE id = ?1 AND expires IS ?2 AND value = ?3")?
            .exists(params![previous.id, record.expires, &record.value[..]])
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
            self.prepare("DELETE FROM records WHERE id = ?1")?
                .execute([previous.id])?;
            if space == names::USER {
                self.unindex_text(previous.id)?;
            }
            let size = weight(&record.key, previous.size, &previous.labels);
            let entry = self.space(space);
            entry.records -= 1;
            entry.bytes -= size as i64;
        }
        self.prepare(
            "INSERT INTO records(space, key, revision, updated, used, expires, labels, value) \
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

    fn previous(&self, space: &str, key: &str) -> rusqlite::Result<Option<Previous>> {
        self.prepare(
            "SELECT id, revision, labels, length(value) FROM records WHERE space = ?1 AND key = ?2",
        )?
        .query_row([space, key], |row| {
            Ok(Previous {
                id: row.get(0)?,
                revision: number(row, 1)?,
                labels: labels::decode(row.get_ref(2)?.as_blob()?)?,
                size: number(row, 3)? as usize,
            })
        })
        .optional()
    }

    /// Replaces the value of a record that is unchanged since it was read; returns its new revision.
    pub(super) fn amend(&mut self, space: &str, record: &Record) -> rusqlite::Result<Option<u64>> {
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
        if reaches_reservations(filter) {
            let now = self.now;
            self.count(space, counter::ERASED, |before| {
                request::next_erasure(before, now)
            })?;
            self.revoke(space, filter, page)?;
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
        let mut statement = self
            .prepare("UPDATE records SET used = ?3 WHERE space = ?1 AND key = ?2 AND used < ?3")?;
        for (key, at) in used {
            statement.execute(params![space, key, at])?;
        }
        Ok(())
    }
}
