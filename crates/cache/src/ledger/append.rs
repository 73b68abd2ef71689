//! Writes calls into the ledger's file.

use std::borrow::Cow;
use std::collections::HashMap;

use cachalot_core::secret::mask_credentials;
use cachalot_core::{Digest, Millis, Spend};
use rusqlite::{Connection, TransactionBehavior, params};

use super::limits::{self, LedgerLimits};
use super::tally::RecentHit;
use super::{CallStatus, HANDLE_LABEL, LedgerRow, LedgerTotals, PendingRow};
use crate::CallKind;

/// Maximum length of an input as it is shown; a longer one is not kept.
const MAX_INPUT_BYTES: usize = 64 << 10;

/// Number of rows after which the thread lets others run: on a busy machine, requests do not wait for a whole batch.
const ROWS_PER_TURN: usize = 8;

/// Name in `counters`: the number of calls that are only in the totals, because their rows were dropped while
/// the file could not be written.
pub(super) const DROPPED: &str = "dropped";

/// Name in `counters`: the largest number of a call when calls were deleted last.
pub(super) const LAST_ID: &str = "last_id";

/// Calls that are written in one transaction.
pub(super) struct Batch<'a> {
    pub(super) rows: &'a [PendingRow],
    /// Totals of calls that have no row in this batch.
    pub(super) sums: &'a HashMap<(CallKind, String), LedgerTotals>,
    /// In the order of arrival.
    pub(super) hits: &'a [RecentHit],
    /// Number of calls in `sums` whose rows were dropped.
    pub(super) dropped: u64,
}

impl Batch<'_> {
    /// The time of the newest call; `None` if the batch has sums only.
    pub(super) fn at(&self) -> Option<Millis> {
        let rows = self.rows.iter().map(|row| row.at);
        rows.chain(self.hits.iter().map(|hit| hit.at)).max()
    }
}

/// Writes a batch in one transaction, and deletes the rows that exceed the limits.
pub(super) fn append(
    connection: &mut Connection,
    run: &str,
    limits: &LedgerLimits,
    batch: &Batch<'_>,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut id = first_id(&transaction)?;
    let mut totals: HashMap<(&str, Cow<'_, str>), LedgerTotals> = HashMap::new();
    let mut hits = batch.hits.iter().peekable();
    for (at, row) in batch.rows.iter().enumerate() {
        if at % ROWS_PER_TURN == ROWS_PER_TURN - 1 {
            std::thread::yield_now();
        }
        // Rows are numbered in the order of insertion, so the hits are merged in by their time.
        while let Some(hit) = hits.next_if(|hit| hit.when < row.when) {
            CallRow::for_hit(hit).insert(&transaction, run, id.take())?;
        }
        CallRow::for_row(row).insert(&transaction, run, id.take())?;
        let name = row.secret_set.redact(&row.name);
        *totals.entry((row.kind.as_str(), name)).or_default() += row_totals(row);
    }
    for hit in hits {
        CallRow::for_hit(hit).insert(&transaction, run, id.take())?;
    }
    for ((kind, name), sum) in batch.sums {
        *totals.entry((kind.as_str(), name.into())).or_default() += *sum;
    }
    for ((kind, name), sum) in &totals {
        add(&transaction, kind, name, sum)?;
    }
    if batch.dropped > 0 {
        count(&transaction, DROPPED, batch.dropped)?;
    }
    limits::enforce(&transaction, limits, batch.at())?;
    transaction.commit()
}

/// Returns the number of the next row if it is not the one that SQLite chooses, because the last rows were deleted.
fn first_id(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let mut statement = connection.prepare_cached(
        "SELECT value + 1 FROM counters
         WHERE name = ?1 AND value > (SELECT ifnull(max(id), 0) FROM calls)",
    )?;
    let mut found = statement.query_map([LAST_ID], |row| row.get(0))?;
    found.next().transpose()
}

/// Adds calls and sums of another ledger, without inputs.
pub(super) fn import(
    connection: &mut Connection,
    calls: &[LedgerRow],
    totals: &[(String, String, LedgerTotals)],
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for call in calls {
        CallRow::for_copy(call).insert(&transaction, &call.run, None)?;
    }
    for (kind, name, sum) in totals {
        add(&transaction, kind, name, sum)?;
    }
    transaction.commit()
}

fn count(connection: &Connection, name: &str, more: u64) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO counters (name, value) VALUES (?1, ?2)
         ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
        params![name, more as i64],
    )?;
    Ok(())
}

/// A row's contribution to the totals.
pub(super) fn row_totals(row: &PendingRow) -> LedgerTotals {
    LedgerTotals {
        hits: u64::from(matches!(row.answered, CallStatus::Hit | CallStatus::Stale)),
        coalesced: u64::from(row.answered == CallStatus::Coalesced),
        misses: u64::from(row.answered == CallStatus::Miss),
        bypasses: u64::from(row.answered == CallStatus::Bypass),
        failures: u64::from(row.failure.is_some()),
        failed: u64::from(row.failed),
        paid: row.paid,
        saved: row.saved,
    }
}

/// Time, tokens, money and unpriced calls of a spend, as the ledger's integers.
struct Charges {
    nanos: i64,
    input: i64,
    output: i64,
    cost: i64,
    unpriced: i64,
}

impl From<&Spend> for Charges {
    fn from(spend: &Spend) -> Self {
        let integer = |number| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            nanos: i64::try_from(spend.time.as_nanos()).unwrap_or(i64::MAX),
            input: integer(spend.input_tokens),
            output: integer(spend.output_tokens),
            cost: integer(spend.cost.picodollars),
            unpriced: integer(spend.cost.unpriced),
        }
    }
}

/// Inserts a row: each column is declared with its value, and the columns of what was paid and saved follow.
/// With `ON CONFLICT (…) ADD`, adds the other columns to those of an existing row with the same values in these.
macro_rules! insert {
    ($connection:expr, $table:ident, [$($conflict:tt)*] { $($columns:tt)* }, $paid:expr, $saved:expr) => {{
        let (paid, saved) = (Charges::from($paid), Charges::from($saved));
        insert!($connection, $table, $($conflict)* {
            $($columns)*
            paid: paid.nanos,
            paid_input: paid.input,
            paid_output: paid.output,
            paid_cost: paid.cost,
            paid_unpriced: paid.unpriced,
            saved: saved.nanos,
            saved_input: saved.input,
            saved_output: saved.output,
            saved_cost: saved.cost,
            saved_unpriced: saved.unpriced,
        })
    }};
    ($connection:expr, $table:ident, { $($column:ident: $value:expr,)* }) => {
        $connection
            .prepare_cached(insert!(@sql $table, $($column)*))?
            .execute(params![$($value),*])
    };
    ($connection:expr, $table:ident, ON CONFLICT ($($key:ident: $of:expr),*) ADD {
        $first:ident: $added:expr, $($column:ident: $value:expr,)*
    }) => {
        $connection
            .prepare_cached(concat!(
                insert!(@sql $table, $($key)* $first $($column)*),
                " ON CONFLICT (kind, name) DO UPDATE SET ",
                insert!(@add $first),
                $(", ", insert!(@add $column)),*
            ))?
            .execute(params![$($of,)* $added, $($value),*])
    };
    (@sql $table:ident, $first:ident $($column:ident)*) => {
        concat!(
            "INSERT INTO ", stringify!($table), " (", stringify!($first),
            $(", ", stringify!($column),)*
            ") VALUES (?", $(insert!(@place $column),)* ")"
        )
    };
    (@place $column:ident) => { ", ?" };
    (@add $column:ident) => {
        concat!(stringify!($column), " = ", stringify!($column), " + excluded.", stringify!($column))
    };
}

/// A row of `calls`, with secrets redacted.
struct CallRow<'a> {
    at: Millis,
    kind: &'a str,
    name: Cow<'a, str>,
    scope: Cow<'a, str>,
    key: String,
    handle: Option<Cow<'a, str>>,
    session: Option<&'a str>,
    answered: CallStatus,
    reason: Option<Cow<'a, str>>,
    not_stored: Option<Cow<'a, str>>,
    failure: Option<Cow<'a, str>>,
    unpriced: Option<Cow<'a, str>>,
    failed: bool,
    input: Option<String>,
    input_digest: Option<String>,
    paid: Spend,
    saved: Spend,
}

impl<'a> CallRow<'a> {
    fn for_row(row: &'a PendingRow) -> Self {
        let shown = |text: &'a Option<String>| {
            let text = text.as_deref()?;
            Some(match row.secret_set.redact(text) {
                Cow::Borrowed(text) => mask_credentials(text),
                Cow::Owned(text) => mask_credentials(&text).into_owned().into(),
            })
        };
        Self {
            at: row.at,
            kind: row.kind.as_str(),
            name: row.secret_set.redact(&row.name),
            scope: row.secret_set.redact(&row.scope),
            key: row.key.to_string(),
            handle: shown(&row.handle),
            session: row.session.as_deref(),
            answered: row.answered,
            reason: shown(&row.reason),
            not_stored: shown(&row.not_stored),
            failure: shown(&row.failure),
            unpriced: shown(&row.unpriced),
            failed: row.failed,
            input: row.input.shown(&row.secret_set, MAX_INPUT_BYTES),
            input_digest: Some(input_digest(row).to_hex()),
            paid: row.paid,
            saved: row.saved,
        }
    }

    fn for_hit(hit: &'a RecentHit) -> Self {
        let head = &hit.head;
        let handle = hit.labels.iter().find(|label| label.name == HANDLE_LABEL);
        Self {
            at: hit.at,
            kind: head.kind.as_str(),
            name: head.name.as_str().into(),
            scope: head.scope.as_str().into(),
            key: head.key.to_hex(),
            handle: handle.map(|label| label.value.as_str().into()),
            session: hit.session.as_deref(),
            answered: hit.answered,
            reason: None,
            not_stored: None,
            failure: None,
            unpriced: None,
            failed: false,
            input: None,
            input_digest: None,
            paid: Spend::default(),
            saved: head.spent,
        }
    }

    fn for_copy(row: &'a LedgerRow) -> Self {
        let copied = |text: &'a Option<String>| text.as_deref().map(Cow::Borrowed);
        Self {
            at: row.at,
            kind: &row.kind,
            name: row.name.as_str().into(),
            scope: row.scope.as_str().into(),
            key: row.key.clone(),
            handle: copied(&row.handle),
            session: row.session.as_deref(),
            answered: row.answered,
            reason: copied(&row.reason),
            not_stored: copied(&row.not_stored),
            failure: copied(&row.failure),
            unpriced: copied(&row.unpriced),
            failed: row.failed,
            input: None,
            input_digest: None,
            paid: row.paid,
            saved: row.saved,
        }
    }

    /// Inserts the row; without a number, it gets the next one.
    fn insert(self, connection: &Connection, run: &str, id: Option<i64>) -> rusqlite::Result<()> {
        insert!(connection, calls, [] {
            id: id,
            at: self.at,
            run: run,
            kind: self.kind,
            name: self.name,
            scope: self.scope,
            key: self.key,
            handle: self.handle,
            session: self.session,
            answered: self.answered.as_str(),
            reason: self.reason,
            not_stored: self.not_stored,
            failure: self.failure,
            unpriced: self.unpriced,
            failed: self.failed,
            input: self.input,
            input_digest: self.input_digest,
        }, &self.paid, &self.saved)?;
        Ok(())
    }
}

fn add(
    connection: &Connection,
    kind: &str,
    name: &str,
    sum: &LedgerTotals,
) -> rusqlite::Result<()> {
    insert!(connection, totals, [ON CONFLICT (kind: kind, name: name) ADD] {
        hits: sum.hits as i64,
        coalesced: sum.coalesced as i64,
        misses: sum.misses as i64,
        bypasses: sum.bypasses as i64,
        failures: sum.failures as i64,
        failed: sum.failed as i64,
    }, &sum.paid, &sum.saved)?;
    Ok(())
}

/// Returns a digest that is the same for equal inputs of calls with the same name and scope. A long input is not digested
/// again: its key is such a digest.
fn input_digest(row: &PendingRow) -> Digest {
    if row.input.len() <= MAX_INPUT_BYTES {
        row.input.digest()
    } else {
        Digest::sha256_of_parts(&[b"cachalot input 1", row.key.digest().as_bytes()])
    }
}
