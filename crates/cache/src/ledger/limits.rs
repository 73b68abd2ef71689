//! Limits on the number of calls that a ledger keeps as rows.

use std::time::Duration;

use cachalot_core::Millis;
use rusqlite::{Connection, params};

/// Limits of a ledger's rows. Totals are kept forever.
///
/// Payments are limited by age and size, and rows that paid nothing by their number, so that no number of
/// hits displaces a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerLimits {
    /// Maximum age of a row, relative to the newest call; `None` for no limit.
    pub age: Option<Duration>,
    /// Maximum number of bytes of data in the file; the oldest rows are deleted first.
    pub bytes: u64,
    /// Maximum number of hits that are kept as rows, and likewise, each counted separately, of coalesced,
    /// refused and failed calls that cost nothing.
    pub unpaid: u64,
}

impl Default for LedgerLimits {
    /// Any age, 256 MiB, 1,000 hits.
    fn default() -> Self {
        Self {
            age: None,
            bytes: 256 << 20,
            unpaid: 1_000,
        }
    }
}

/// The values of `answered` and `failed` of calls that paid nothing.
const UNPAID: [(&str, bool); 5] = [
    ("hit", false),
    ("coalesced", false),
    ("refused", false),
    ("miss", true),
    ("bypass", true),
];

/// Number of rows that are deleted at a time while the file has too many bytes.
const ROWS_PER_DELETE: u32 = 64;

/// Deletes the rows that exceed the limits. `now` is the time of the newest call.
pub(super) fn enforce(
    connection: &Connection,
    limits: &LedgerLimits,
    now: Option<Millis>,
) -> rusqlite::Result<()> {
    let unpaid = i64::try_from(limits.unpaid).unwrap_or(i64::MAX);
    let mut keep_newest = connection.prepare_cached(
        "DELETE FROM calls WHERE answered = ?1 AND failed = ?2 AND id <= (
             SELECT id FROM calls WHERE answered = ?1 AND failed = ?2
             ORDER BY id DESC LIMIT 1 OFFSET ?3)",
    )?;
    for (answered, failed) in UNPAID {
        keep_newest.execute(params![answered, failed, unpaid])?;
    }
    if let (Some(age), Some(now)) = (limits.age, now) {
        let age = Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX);
        connection
            .prepare_cached("DELETE FROM calls WHERE at < ?1")?
            .execute([now.saturating_sub(age)])?;
    }
    let mut delete_oldest = connection.prepare_cached(
        "DELETE FROM calls WHERE id IN (SELECT id FROM calls ORDER BY id LIMIT ?1)",
    )?;
    // Free pages stay in the file for new rows, so only pages in use count.
    while bytes_of_data(connection)? > limits.bytes {
        if delete_oldest.execute([ROWS_PER_DELETE])? == 0 {
            break;
        }
    }
    Ok(())
}

/// Bytes of the file's pages that are in use.
fn bytes_of_data(connection: &Connection) -> rusqlite::Result<u64> {
    connection
        .prepare_cached(
            "SELECT (page_count - freelist_count) * page_size
             FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()",
        )?
        .query_row([], |row| row.get::<_, i64>(0))
        .map(|bytes| bytes.max(0) as u64)
}
