//! Erasure of the content of calls, and deletion of calls.
//!
//! Erased content is gone from the files, not only from queries: deleted content is overwritten
//! (`secure_delete`), the database is rebuilt without free pages (`VACUUM`), and the write-ahead log is
//! emptied.

use std::path::Path;
use std::time::Duration;

use cachalot_core::Millis;
use cachalot_store::sqlite::{files_of, is_full};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params_from_iter};

use super::LedgerError;
use super::append::LAST_ID;
use crate::{CallKind, Key};
use cachalot_store::glob_matches;

/// Maximum time that an erasure waits for another process that holds the file's lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Name in `counters`: set while deleted content may still be in the files.
const UNCOMPACTED: &str = "uncompacted";

/// Notes the largest number of a call before calls are deleted: numbers are not used again, so that copies of the
/// ledger know which calls they have.
const NOTE_LAST_ID: &str =
    "INSERT INTO counters (name, value) SELECT ?1, ifnull(max(id), 0) FROM calls WHERE true
     ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)";

/// Selects calls in a ledger.
#[derive(Debug, Clone, Copy)]
pub enum LedgerSelection<'a> {
    /// Every call.
    All,
    /// Every call that an entry of the cache could answer: all but the answers of models in conversations.
    Cacheable,
    /// The calls under a key (64 hex digits) or a handle; `*` in a handle matches any text.
    Matching(&'a str),
    /// The calls of these sessions, and of forks that ran on their behalf.
    Sessions(&'a [String]),
    /// The calls of every session.
    AllSessions,
    /// The calls before this time.
    Before(Millis),
}

/// The number of calls that were deleted, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Number of calls.
    pub calls: u64,
    /// Bytes by which the database and its write-ahead log have shrunk; 0 in a dry run.
    pub bytes: u64,
}

/// A condition in SQL, and its parameters.
struct Condition {
    sql: String,
    parameters: Vec<Sql>,
}

/// See [`super::Ledger::erase`].
pub(super) fn erase(
    path: &Path,
    connection: &mut Connection,
    which: LedgerSelection<'_>,
    dry_run: bool,
) -> Result<u64, LedgerError> {
    let erase = |connection: &mut Connection| {
        connection.busy_timeout(LOCK_TIMEOUT)?;
        let Condition { sql, parameters } = which.condition(connection)?;
        let unerased = format!("key <> '' AND ({sql})");
        if dry_run {
            return count_calls(connection, &unerased, &parameters);
        }
        let erase =
            "UPDATE calls SET key = '', handle = NULL, scope = '', run = '', session = NULL,
                reason = NULL, not_stored = NULL, failure = NULL, unpriced = NULL,
                input = NULL, input_digest = NULL";
        change(path, connection, erase, &unerased, &parameters)
    };
    let erased = erase(connection).map_err(|error| LedgerError::new(path, error))?;
    if !dry_run {
        compact(path, connection)?;
    }
    Ok(erased)
}

/// See [`super::Ledger::prune`].
pub(super) fn prune(
    path: &Path,
    connection: &mut Connection,
    which: LedgerSelection<'_>,
    dry_run: bool,
) -> Result<PruneReport, LedgerError> {
    let size = || -> u64 {
        files_of(path)
            .filter_map(|file| std::fs::metadata(file).ok())
            .map(|metadata| metadata.len())
            .sum()
    };
    let prune = |connection: &mut Connection| {
        connection.busy_timeout(LOCK_TIMEOUT)?;
        let Condition { sql, parameters } = which.condition(connection)?;
        if dry_run {
            return count_calls(connection, &sql, &parameters);
        }
        change(path, connection, "DELETE FROM calls", &sql, &parameters)
    };
    let before = size();
    let calls = prune(connection).map_err(|error| LedgerError::new(path, error))?;
    if !dry_run {
        compact(path, connection)?;
    }
    Ok(PruneReport {
        calls,
        bytes: before.saturating_sub(size()),
    })
}

fn count_calls(connection: &Connection, which: &str, parameters: &[Sql]) -> rusqlite::Result<u64> {
    connection.query_row(
        &format!("SELECT count(*) FROM calls WHERE {which}"),
        params_from_iter(parameters),
        |row| {
            row.get::<_, i64>(0)
                .map(|count_calls| count_calls.max(0) as u64)
        },
    )
}

/// Number of calls that are changed at once if the disk is full.
const CALLS_ON_A_FULL_DISK: u32 = 8;

/// Runs a statement that deletes content of calls. A transaction takes space until the log is moved into the database:
/// on a full disk, few calls are changed at once.
fn change(
    path: &Path,
    connection: &mut Connection,
    statement: &str,
    which: &str,
    parameters: &[Sql],
) -> rusqlite::Result<u64> {
    match change_at_once(
        connection,
        &format!("{statement} WHERE {which}"),
        parameters,
    ) {
        Err(error) if is_full(path, &error) => {}
        changed => return changed,
    }
    let part = format!(
        "{statement} WHERE id IN (SELECT id FROM calls WHERE {which} LIMIT {CALLS_ON_A_FULL_DISK})"
    );
    let mut all = 0;
    loop {
        empty_log(connection)?;
        let changed = change_at_once(connection, &part, parameters)?;
        if changed == 0 {
            return Ok(all);
        }
        all += changed;
    }
}

/// Moves the log into the database, and frees its space; true if another process uses it.
fn empty_log(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
}

/// Runs a statement that deletes content, and records that the files have to be rebuilt.
fn change_at_once(
    connection: &mut Connection,
    statement: &str,
    parameters: &[Sql],
) -> rusqlite::Result<u64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute(NOTE_LAST_ID, [LAST_ID])?;
    let changed = transaction.execute(statement, params_from_iter(parameters))?;
    // In the same transaction: if this process dies before the files are rebuilt, the next erasure does it.
    if changed > 0 {
        transaction.execute(
            "INSERT OR REPLACE INTO counters (name, value) VALUES (?1, 1)",
            [UNCOMPACTED],
        )?;
    }
    transaction.commit()?;
    Ok(changed as u64)
}

/// Removes deleted content from the database and its write-ahead log, if any was deleted since the last time.
fn compact(path: &Path, connection: &Connection) -> Result<(), LedgerError> {
    let compact = || {
        let uncompacted = connection.query_row(
            "SELECT count(*) FROM counters WHERE name = ?1",
            [UNCOMPACTED],
            |row| row.get::<_, i64>(0),
        )?;
        if uncompacted == 0 {
            return Ok(true);
        }
        match connection.execute_batch("VACUUM") {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                return Ok(false);
            }
            // The content is overwritten. The next erasure rebuilds the file.
            Err(error) if is_full(path, &error) => {
                return empty_log(connection).map(|is_empty| !is_empty);
            }
            rebuilt => rebuilt?,
        }
        // The log may still contain what was deleted.
        if empty_log(connection)? {
            return Ok(false);
        }
        // Last: if this process dies before, the next erasure rebuilds the file again.
        connection.execute("DELETE FROM counters WHERE name = ?1", [UNCOMPACTED])?;
        Ok(true)
    };
    match compact() {
        Ok(true) => Ok(()),
        Ok(false) => Err(LedgerError::from_message(format!(
            "{0}: the calls are changed, but another process uses the file, so that what was erased may still be in it or in {0}-wal: run the command again when that process has ended",
            path.display()
        ))),
        Err(error) => Err(LedgerError::new(path, error)),
    }
}

impl LedgerSelection<'_> {
    fn condition(&self, connection: &Connection) -> rusqlite::Result<Condition> {
        let payment = CallKind::Prefix.as_str();
        let of = |sql: &str, parameters: Vec<Sql>| Condition {
            sql: sql.to_owned(),
            parameters,
        };
        Ok(match self {
            Self::All => of("1", Vec::new()),
            Self::Cacheable => of("kind <> ?1", vec![payment.to_owned().into()]),
            Self::Before(time) => of("at < ?1", vec![(*time).into()]),
            Self::Matching(text) if text.parse::<Key>().is_ok() => {
                of("key = ?1", vec![(*text).to_owned().into()])
            }
            Self::Matching(pattern) => {
                let handles = if pattern.contains('*') {
                    let mut handles = query_texts(
                        connection,
                        "SELECT DISTINCT handle FROM calls WHERE handle IS NOT NULL",
                        &[],
                    )?;
                    handles.retain(|handle| glob_matches(pattern, handle));
                    handles
                } else {
                    vec![(*pattern).to_owned()]
                };
                of(
                    "handle IN (SELECT value FROM json_each(?1))",
                    vec![json_list(&handles)],
                )
            }
            Self::Sessions(sessions) => {
                let all = with_forks(connection, sessions)?;
                // Rows of versions that did not record the session of tool calls and turns: those of runs in
                // which a model was paid for one of the sessions.
                of(
                    "session IN (SELECT value FROM json_each(?1))
                     OR (kind = ?2 AND handle IN (SELECT value FROM json_each(?1)))
                     OR (session IS NULL AND kind IN (?3, ?4) AND run IN (
                         SELECT run FROM calls
                         WHERE session IN (SELECT value FROM json_each(?1))))",
                    vec![
                        json_list(&all),
                        payment.to_owned().into(),
                        CallKind::Tool.as_str().to_owned().into(),
                        CallKind::Turn.as_str().to_owned().into(),
                    ],
                )
            }
            Self::AllSessions => of(
                "session IS NOT NULL OR kind IN (?1, ?2, ?3)",
                [CallKind::Prefix, CallKind::Tool, CallKind::Turn]
                    .map(|kind| kind.as_str().to_owned().into())
                    .into(),
            ),
        })
    }
}

/// The sessions, and those of forks that ran on their behalf.
fn with_forks(connection: &Connection, sessions: &[String]) -> rusqlite::Result<Vec<String>> {
    let mut all = sessions.to_vec();
    loop {
        // A fork may have forks of its own.
        let known = all.len();
        let forks = query_texts(
            connection,
            "SELECT DISTINCT handle FROM calls
             WHERE session IN (SELECT value FROM json_each(?1)) AND kind = ?2
             AND handle IS NOT NULL",
            &[json_list(&all), CallKind::Prefix.as_str().to_owned().into()],
        )?;
        for fork in forks {
            if !all.contains(&fork) {
                all.push(fork);
            }
        }
        if all.len() == known {
            return Ok(all);
        }
    }
}

fn query_texts(
    connection: &Connection,
    query: &str,
    parameters: &[Sql],
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(query)?;
    let rows = statement.query_map(params_from_iter(parameters), |row| row.get(0))?;
    rows.collect()
}

/// A list as a parameter for `json_each`.
fn json_list(items: &[String]) -> Sql {
    Sql::Text(serde_json::Value::from(items.to_vec()).to_string())
}
