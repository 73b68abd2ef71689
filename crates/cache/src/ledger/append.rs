//! Writes calls into the ledger's file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use cachalot_core::secret::{mask_credentials, redact_value};
use cachalot_core::{Millis, Spend};
use rusqlite::{Connection, TransactionBehavior, params};
use serde_json::Value;

use super::limits::{self, LedgerLimits};
use super::tally::RecentHit;
use super::{CallStatus, HANDLE_LABEL, LedgerTotals, PendingRow};
use crate::CallKind;

/// Maximum length of a text in an input; a longer one is cut, with its digest so that differences still show.
const MAX_TEXT_BYTES: usize = 2_000;
/// Maximum length of an input; a longer one is not kept.
const MAX_INPUT_BYTES: usize = 64 << 10;

/// Name in `counters`: the number of calls that are only in the totals, because their rows were dropped while
/// the file could not be written.
pub(super) const DROPPED: &str = "dropped";

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
    let mut totals: HashMap<(&str, Cow<'_, str>), LedgerTotals> = HashMap::new();
    let mut hits = batch.hits.iter().peekable();
    for row in batch.rows {
        while let Some(hit) = hits.next_if(|hit| hit.when < row.when) {
            insert_hit(&transaction, run, hit)?;
        }
        insert(&transaction, run, row)?;
        let name = row.secret_set.redact(&row.name);
        *totals.entry((row.kind.as_str(), name)).or_default() += row_totals(row);
    }
    for hit in hits {
        insert_hit(&transaction, run, hit)?;
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
        coalesced: u64::from(row.answered == CallStatus::Coalesced),
        misses: u64::from(row.answered == CallStatus::Miss),
        bypasses: u64::from(row.answered == CallStatus::Bypass),
        failures: u64::from(row.failure.is_some()),
        failed: u64::from(row.failed),
        paid: row.paid,
        saved: row.saved,
        ..LedgerTotals::default()
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// The values of [`CHARGES`].
fn charges(paid: &Spend, saved: &Spend) -> [i64; 8] {
    let of = |spend: &Spend| {
        [
            spend.input_tokens,
            spend.output_tokens,
            spend.cost.picodollars,
            spend.cost.unpriced,
        ]
        .map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    };
    let ([a, b, c, d], [e, f, g, h]) = (of(paid), of(saved));
    [a, b, c, d, e, f, g, h]
}

const INSERT: &str = "INSERT INTO calls
    (at, run, kind, name, scope, key, handle, answered, reason, not_stored, failure, paid, saved, input, input_digest,
     paid_input, paid_output, paid_cost, paid_unpriced, saved_input, saved_output, saved_cost, saved_unpriced,
     session, failed)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,
            ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)";

fn insert(connection: &Connection, run: &str, row: &PendingRow) -> rusqlite::Result<()> {
    let shown = |text: &Option<String>| {
        text.as_ref()
            .map(|text| mask_credentials(&row.secret_set.redact(text)).into_owned())
    };
    let mut input = row.input.readable();
    redact_value(&mut input, &row.secret_set);
    shorten(&mut input);
    let input = Some(input.to_string()).filter(|input| input.len() <= MAX_INPUT_BYTES);
    let charges = charges(&row.paid, &row.saved);
    connection.prepare_cached(INSERT)?.execute(params![
        row.at,
        run,
        row.kind.as_str(),
        row.secret_set.redact(&row.name),
        row.secret_set.redact(&row.scope),
        row.key.to_string(),
        shown(&row.handle),
        row.answered.as_str(),
        shown(&row.reason),
        shown(&row.not_stored),
        shown(&row.failure),
        nanos(row.paid.time),
        nanos(row.saved.time),
        input,
        row.input.digest().to_hex(),
        charges[0],
        charges[1],
        charges[2],
        charges[3],
        charges[4],
        charges[5],
        charges[6],
        charges[7],
        row.session.as_deref(),
        row.failed,
    ])?;
    Ok(())
}

fn insert_hit(connection: &Connection, run: &str, hit: &RecentHit) -> rusqlite::Result<()> {
    let head = &hit.head;
    let handle = hit.labels.iter().find(|label| label.name == HANDLE_LABEL);
    let answered = if hit.coalesced {
        CallStatus::Coalesced
    } else {
        CallStatus::Hit
    };
    let charges = charges(&Spend::default(), &head.spent);
    connection.prepare_cached(INSERT)?.execute(params![
        hit.at,
        run,
        head.kind.as_str(),
        head.name,
        head.scope,
        head.key.to_hex(),
        handle.map(|label| &label.value),
        answered.as_str(),
        None::<String>,
        None::<String>,
        None::<String>,
        0,
        nanos(head.spent.time),
        None::<String>,
        None::<String>,
        charges[0],
        charges[1],
        charges[2],
        charges[3],
        charges[4],
        charges[5],
        charges[6],
        charges[7],
        hit.session.as_deref(),
        false,
    ])?;
    Ok(())
}

fn add(
    connection: &Connection,
    kind: &str,
    name: &str,
    sum: &LedgerTotals,
) -> rusqlite::Result<()> {
    let charges = charges(&sum.paid, &sum.saved);
    connection
        .prepare_cached(
            "INSERT INTO totals (kind, name, hits, coalesced, misses, bypasses, failures, paid, saved,
                paid_input, paid_output, paid_cost, paid_unpriced,
                saved_input, saved_output, saved_cost, saved_unpriced, failed)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)
             ON CONFLICT (kind, name) DO UPDATE SET
                hits = hits + excluded.hits, coalesced = coalesced + excluded.coalesced,
                misses = misses + excluded.misses, bypasses = bypasses + excluded.bypasses,
                failures = failures + excluded.failures,
                paid = paid + excluded.paid, saved = saved + excluded.saved,
                paid_input = paid_input + excluded.paid_input,
                paid_output = paid_output + excluded.paid_output,
                paid_cost = paid_cost + excluded.paid_cost,
                paid_unpriced = paid_unpriced + excluded.paid_unpriced,
                saved_input = saved_input + excluded.saved_input,
                saved_output = saved_output + excluded.saved_output,
                saved_cost = saved_cost + excluded.saved_cost,
                saved_unpriced = saved_unpriced + excluded.saved_unpriced,
                failed = failed + excluded.failed",
        )?
        .execute(params![
            kind,
            name,
            sum.hits as i64,
            sum.coalesced as i64,
            sum.misses as i64,
            sum.bypasses as i64,
            sum.failures as i64,
            nanos(sum.paid.time),
            nanos(sum.saved.time),
            charges[0],
            charges[1],
            charges[2],
            charges[3],
            charges[4],
            charges[5],
            charges[6],
            charges[7],
            sum.failed as i64,
        ])?;
    Ok(())
}

/// Cuts long texts and appends the digest of the whole text, so that different texts stay different.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_TEXT_BYTES => {
            let digest = cachalot_core::Digest::sha256(text.as_bytes()).to_hex();
            let cut = (0..=200)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            *text = format!(
                "{}… ({} bytes, sha256 {})",
                &text[..cut],
                text.len(),
                &digest[..16]
            );
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}
