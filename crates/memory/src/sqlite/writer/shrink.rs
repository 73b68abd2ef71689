//! Giving pages that erasures have left free back to the file system.
//!
//! New files are made for it (`auto_vacuum`): their free pages are moved to the end and cut off, a few at a
//! time, so that other writers wait for milliseconds only. A file that an older version made has to be
//! written anew for that. This is done when little is left in it, as after an erasure of everything, when
//! it takes no longer either; until then its free pages are used for what is stored next.

use rusqlite::Connection;

/// So many free pages are kept for what is stored next: four megabytes.
const KEPT: i64 = 1024;

/// A file with at most so many pages in use is written anew: sixteen megabytes, some tens of milliseconds.
const LITTLE: i64 = 4096;

/// What would be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Rewrite,
    Cut,
}

/// Whether at least a quarter of the file is free, and can be given back.
pub(super) fn is_due(connection: &Connection) -> bool {
    matches!(next(connection), Ok(Some(_)))
}

/// Gives back a part of what is free; whether there was anything to give back, and it went well. A lock
/// of another process is not waited for: the next attempt finds what is left.
pub(super) fn step(connection: &Connection) -> bool {
    let run = || -> rusqlite::Result<bool> {
        connection.busy_timeout(std::time::Duration::ZERO)?;
        match next(connection)? {
            None => return Ok(false),
            Some(Step::Rewrite) => {
                connection.execute_batch("PRAGMA auto_vacuum=INCREMENTAL; VACUUM")?;
            }
            Some(Step::Cut) => {
                let mut cut = connection.prepare("PRAGMA incremental_vacuum(500)")?;
                let mut pages = cut.query([])?;
                while pages.next()?.is_some() {}
            }
        }
        Ok(true)
    };
    run().unwrap_or(false)
}

fn next(connection: &Connection) -> rusqlite::Result<Option<Step>> {
    let number = |pragma: &str| -> rusqlite::Result<i64> {
        let mut statement = connection.prepare_cached(&format!("PRAGMA {pragma}"))?;
        statement.query_row([], |row| row.get(0))
    };
    let (pages, free) = (number("page_count")?, number("freelist_count")?);
    if free < KEPT || free * 4 < pages {
        return Ok(None);
    }
    if pages - free <= LITTLE {
        return Ok(Some(Step::Rewrite));
    }
    let incremental = number("auto_vacuum")? == 2;
    Ok(incremental.then_some(Step::Cut))
}
